//! Manual pages that describe no command: forebay.toml(5) and mount.forebay(8).

use std::path::Path;
use std::{fs, io};

use forebay_command_pages::roff::{Roff, bold, roman};
use forebay_command_pages::{see_also, verbatim};
use forebay_volume::{OptionRow, ServedAs, boot_keys, kind_specs, mount_keys, service_options};

/// Name and version, for the foot of a page.
pub(super) const SOURCE: &str = concat!("Forebay ", env!("CARGO_PKG_VERSION"));

const EXAMPLE: &str = "\
name = \"archive\"
kind = \"cache\"
data = \"/dev/disk/by-id/ata-EXAMPLE-part1\"
log = \"/dev/disk/by-id/nvme-EXAMPLE-part4\"

via = \"auto\"
ack = \"device\"
patience = \"60s\"";

const FSTAB: &str = "\
files  /srv/files  forebay  nofail,noatime  0  0

# mount -t forebay files /srv/files
# mount -t forebay /dev/sdb1 /srv/files -o ro
# umount /srv/files";

/// Writes the pages to a directory.
pub(super) fn write(dir: &Path) -> io::Result<()> {
    fs::write(dir.join("forebay.toml.5"), configuration().to_roff())?;
    fs::write(dir.join("mount.forebay.8"), helper().to_roff())
}

fn begin(title: &str, section: &str, name: &str, about: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("TH", [title, section, "", SOURCE, "Forebay"]);
    roff.control("SH", ["NAME"]);
    roff.text([roman(format!("{name} - {about}"))]);
    roff
}

fn paragraphs(roff: &mut Roff, title: &str, texts: &[&str]) {
    roff.control("SH", [title]);
    for (n, text) in texts.iter().enumerate() {
        if n > 0 {
            roff.control("PP", []);
        }
        roff.text([roman(*text)]);
    }
}

/// Adds an entry: a term, and a text about it.
fn entry(roff: &mut Roff, term: &str, value: &str, text: &str) {
    roff.control("TP", []);
    roff.text([bold(term), roman(value)]);
    roff.text([roman(text)]);
}

fn keys<'a>(roff: &mut Roff, title: &str, rows: impl IntoIterator<Item = &'a OptionRow>) {
    let mut rows = rows.into_iter().peekable();
    if rows.peek().is_none() {
        return;
    }
    roff.control("SH", [title.to_uppercase().as_str()]);
    for row in rows {
        let value = format!(" = \"{}\"", row.spec.value_name);
        let text = format!("{} Default: {}.", row.help(), row.default);
        entry(roff, row.spec.key, &value, &text);
    }
}

fn configuration() -> Roff {
    let mut roff = begin(
        "FOREBAY.TOML",
        "5",
        "forebay.toml",
        "configuration of a Forebay volume",
    );
    paragraphs(
        &mut roff,
        "DESCRIPTION",
        &[
            "forebay create writes a configuration file for each volume: /etc/forebay/NAME.toml as root, else \
             $XDG_CONFIG_HOME/forebay/NAME.toml. $FOREBAY_CONFIG_DIR moves the directory. forebay attach NAME and \
             forebay mount NAME read the file, and an administrator may edit it. Options of the command line override \
             its keys. Changes apply at the next attach or mount.",
            "The format is TOML, but each value is text in quotation marks. A volume can also be attached without the \
             file, by its device: forebay attach --log PATH or --data PATH.",
        ],
    );
    roff.control("SH", ["KEYS OF ALL VOLUMES"]);
    entry(&mut roff, "name", " = \"NAME\"", "Name of the volume.");
    let kinds: Vec<&str> = kind_specs().map(|kind| kind.name).collect();
    let kinds = format!("Kind of the volume: {}.", kinds.join(", "));
    entry(&mut roff, "kind", " = \"KIND\"", &kinds);
    for kind in kind_specs() {
        roff.control(
            "SH",
            [format!("DEVICES OF A {}", kind.title.to_uppercase()).as_str()],
        );
        for role in kind.roles {
            entry(&mut roff, role.name, " = \"PATH\"", role.create_help);
        }
    }
    for kind in kind_specs() {
        keys(
            &mut roff,
            &format!("Keys of a {}", kind.title),
            kind.options,
        );
    }
    let blocks = service_options(ServedAs::BlockDevice).iter();
    keys(
        &mut roff,
        "Keys of the daemon of a block device",
        blocks.chain(boot_keys()),
    );
    let files = service_options(ServedAs::Files).iter().chain(mount_keys());
    keys(&mut roff, "Keys of the daemon of a filesystem", files);
    verbatim(&mut roff, "EXAMPLE", &lines(EXAMPLE));
    see_also(
        &mut roff,
        [
            "forebay(1)",
            "forebay-create(1)",
            "forebay-attach(1)",
            "forebay-mount(1)",
        ],
    );
    roff
}

fn helper() -> Roff {
    let mut roff = begin(
        "MOUNT.FOREBAY",
        "8",
        "mount.forebay",
        "mount a Forebay filesystem",
    );
    roff.control("SH", ["SYNOPSIS"]);
    roff.text([
        bold("mount.forebay"),
        roman(" NAME|PATH DIR [-fv] [-o OPTION,...]"),
    ]);
    paragraphs(
        &mut roff,
        "DESCRIPTION",
        &[
            "mount(8) calls this program for filesystems of the type forebay, also for lines in fstab(5). It does what \
             forebay mount does: it recovers the filesystem if necessary, and starts a daemon that serves it. The \
             first argument is the name of the filesystem, or the path of its device if it contains a slash.",
            "umount(8) returns when the directory is free. Just after that, the daemon makes the remaining data \
             durable. forebay umount and the next mount wait for this. Forebay has no fsck, so the last field of a \
             line in fstab is 0.",
        ],
    );
    roff.control("SH", ["OPTIONS"]);
    entry(
        &mut roff,
        "-f",
        "",
        "Check the arguments, and mount nothing.",
    );
    entry(&mut roff, "-v", "", "Print the directory after the mount.");
    entry(
        &mut roff,
        "-o",
        " OPTION,...",
        "Mount options: ro, rw, nosuid, nodev, noexec, noatime, relatime, strictatime, nodiratime, sync, dirsync, \
         parallel_direct, allow_other, private, and the options of forebay-mount(1) as KEY=VALUE. Options of fstab \
         alone (defaults, nofail, _netdev, x-...) are ignored.",
    );
    verbatim(&mut roff, "EXAMPLES", &lines(FSTAB));
    paragraphs(
        &mut roff,
        "EXIT STATUS",
        &["0 if the filesystem is mounted. Another value is that of forebay-mount(1)."],
    );
    verbatim(
        &mut roff,
        "FILES",
        &lines("/sbin/mount.forebay, /sbin/mount.fuse.forebay\n    links to the program forebay"),
    );
    see_also(
        &mut roff,
        [
            "forebay-mount(1)",
            "forebay-umount(1)",
            "forebay.toml(5)",
            "mount(8)",
            "fstab(5)",
        ],
    );
    roff
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}
