//! The command line. Help, man pages and completions all come from here.

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand};
use clap_complete::Shell;
use forebay_scratch::{DfsArgs, PaperDcdArgs, TryArgs};
use forebay_stack::{
    Acknowledge, Bypass, Discard, Http, Kind, Listen, Memory, Metrics, Name, Placing, SpareShare,
    Spec, Via,
};
use forebay_units::{ByteLen, TimeSpan};

mod mounting;

pub(crate) use mounting::{MountArgs, UmountArgs};

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed for a reason that is none of the others
  2  wrong usage: options, sizes, names, a description with mistakes
  3  not found, or not attached
  4  refused: in use, or going on could lose or mix up data
  5  a device or the system failed
  (`forebay check` has its own: see its help)

Environment:
  FOREBAY_CONFIG_DIR   descriptions of volumes (default: /etc/forebay as root, else
                       $XDG_CONFIG_HOME/forebay)
  FOREBAY_RUNTIME_DIR  sockets, locks and logs of attached volumes (default: /run/forebay as root,
                       else $XDG_RUNTIME_DIR/forebay)
  FOREBAY_STATE_DIR    notes of logs that failed and must not be attached again (default:
                       /var/lib/forebay as root, else $XDG_STATE_HOME/forebay or
                       ~/.local/state/forebay)
  FOREBAY_DEV_DIR      links to the block devices of attached volumes (default: /dev/forebay)
  RUST_LOG             what to log, for example forebay=debug";

/// What stands below the help of the whole program.
fn after_help() -> String {
    let models: Vec<&str> = forebay_model::disk::names().map(|(name, _)| name).collect();
    format!(
        "\
Devices (PATH):
  PATH                   a block device or a regular file
  PATH@OFFSET+LENGTH     a part of it, for example disk.img@64MiB+1GiB
  model:MODEL:PATH       (also with a part) what is at PATH, with the timing of an old disk:
                         {}
    MODEL may be followed by ,cache=off|read|on|own (the drive's own cache; off)
                             ,queue=fcfs|elevator|sptf (the order in which it works; fcfs)
                             ,phase=0.25 (where in its turn it begins; 0)

{EXIT_CODES}",
        models.join(", ")
    )
}

const CHECK_HELP: &str = "\
A log that failed and was given up is never applied. If data was lost with it, since it could not be
read then, check says how much of that can be read now, and --salvage brings it to the data device.
Nobody knows what else was written to those sectors since, by using the data device alone, or in a
session that ended in a crash: salvage REPLACES IT with what was lost. So have the data device
unmounted and not attached, look at what `check` says first, and check the filesystem afterwards.

Exit codes, with --salvage: 0, nothing is lost any more; 2, some of it still is; 3, refused
Exit codes:
  0  clean: everything is on the data device
  1  dirty: attaching will recover what the log holds
  2  damaged: something that was flushed cannot be read
  3  not a Forebay log, or unusable: missing, not permitted, in use, failing";

/// A write cache for block devices: small writes are gathered, appended to a log device in large
/// pieces, and moved to their place on the data device when there is time. Also log-structured volumes, and a filesystem on
/// one.
#[derive(Parser, Debug)]
#[command(name = "forebay", version, after_help = after_help(), max_term_width = 100)]
pub(crate) struct Cli {
    /// Log more (again: even more). RUST_LOG overrides it.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Show what Forebay does, end to end, on scratch images.
    ///
    /// Makes images that behave like old disks, runs a filesystem on one alone, on one with the log in
    /// front of the data (a logical DCD) and on two (a physical DCD), kills the daemon in the middle
    /// of writing, recovers, checks everything, and prints a table. Takes about three minutes.
    /// Without root it does the same at block level over NBD.
    Try(TryArgs),
    /// Measure what is gained, on this machine.
    Bench(BenchArgs),
    /// Make a volume of a data device and a log device, or a log-structured one of a data device alone.
    ///
    /// Of a write cache, formats the log device only; nothing is written to the data device. A
    /// log-structured volume (--volume vsl) overwrites its data device. Writes the volume's
    /// description, which `attach` reads and an administrator may edit.
    Create(CreateArgs),
    /// Recover a volume if need be, and serve it.
    ///
    /// Prints the block device, /dev/forebay/NAME, or the NBD URI with --via none.
    Attach(AttachArgs),
    /// Mount a filesystem that was made with `create --fs`, recovering it if need be.
    ///
    /// Prints where. Without root it needs fusermount3. As /sbin/mount.forebay, `mount -t forebay` and fstab use it.
    Mount(MountArgs),
    /// Unmount a filesystem, and wait until all of it is durable.
    Umount(UmountArgs),
    /// List the volumes that are attached or described.
    List(JsonArgs),
    /// Say how attached volumes are doing.
    Status(StatusArgs),
    /// Move everything to the data device; the volume stays attached.
    Drain(DrainArgs),
    /// Give up data that cannot be read from the log any more.
    ///
    /// What cannot be read from a log device that fails is not lost: it is tried again for as long as it
    /// takes. This says that it will not come back. It is read once more, and what cannot be read then is
    /// LOST: its sectors give errors until they are written again. With a log that failed altogether it
    /// also says that the log device will not be attached again. Without --lose-unreadable it only says
    /// what would be lost.
    GiveUp(GiveUpArgs),
    /// Take the length that the devices have now: they became longer, by `lvextend` or `truncate`.
    ///
    /// A cached volume becomes as long as its data device, at once if it is attached (and else by its next attach,
    /// without this command). The block device of an attached volume gets the new length while it is in use; have the
    /// filesystem on it take it then (`resize2fs`, `xfs_growfs`). NBD clients see it at their next connection. No volume
    /// becomes shorter.
    Resize(ResizeArgs),
    /// Say how a log-structured volume or a filesystem places data, and what another placement would cost; or change it.
    ///
    /// While it is attached, a volume learns which pages are written how often, and what its cleaner costs. With `--placement auto`,
    /// as it is made without --placement, it changes its placement where another is expected to cost less. Data that is there
    /// already stays where it is until it is overwritten or cleaned.
    Tune(TuneArgs),
    /// Move everything to the data device, then stop serving the volume.
    ///
    /// Refuses while the block device is mounted or open, or NBD clients are connected. With --hand-over
    /// only the daemon stops: a ublk or nbd device stays, mounted as it may be, and whoever uses it waits until
    /// `attach` takes it up again, by another version of this program for example.
    Detach(DetachArgs),
    /// Say what recovery would find in a log. Changes nothing, unless told to salvage.
    #[command(after_help = CHECK_HELP)]
    Check(CheckArgs),
    /// Print every structure of a log.
    Dump(DumpArgs),
    /// Drain a volume that is not attached, then erase its log and its description.
    ///
    /// What a log-structured volume holds is nowhere else: removing it loses that, and needs --force. So does removing
    /// what can no longer be drained: with its data device gone, what the log holds is lost; with its own device gone or
    /// wiped, only the description is removed.
    Remove(RemoveArgs),
    /// Print completions for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the manual page, or write the pages of all commands to a directory.
    Man {
        /// Write forebay.1, forebay-create.1 and so on into this directory.
        #[arg(long, value_name = "DIR")]
        out: Option<std::path::PathBuf>,
    },
    /// Print whose block device DEVICE is, for the rule of udev in packaging/udev.
    #[command(hide = true)]
    Udev {
        /// The device as the kernel names it: loop0.
        device: PathBuf,
    },
}

#[derive(Args, Debug)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) what: Bench,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Bench {
    /// Repeat the experiments of the paper that the write cache is from.
    ///
    /// Nightingale, Hu and Yang, USENIX 1999, section 4: users who untar, copy and remove, the bandwidth
    /// of requests of each size, the maximum possible speedup and the share of it that is reached,
    /// response times; and what sizes, orders of destaging and idle thresholds make of it. Writes
    /// report.md and its figures, the paper's values beside ours. Most of it runs on a virtual clock.
    /// As root, users also work on real filesystems on emulated disks, which takes some ten minutes, or three
    /// with --quick; all else takes one.
    PaperDcd(PaperDcdArgs),
    /// Measure the filesystem beside others on the same disk.
    ///
    /// Random 4 KiB direct reads and writes by 1 to 64 threads, beside ext4, xfs, btrfs and f2fs as far as they are to be
    /// had, the disk itself and a FUSE file that only copies memory; many small files, beside bindfs and fuse2fs, too; the
    /// applications of the paper that the filesystem is from (Josephson, Bongo, Flynn and Li, FAST 2010), the paper's values
    /// beside ours; and databases: MariaDB under sysbench, if both are installed, with and without writing its pages twice,
    /// and commits of SQLite in each of its modes, if this program was built with it (cargo run --release --features
    /// sqlite). Writes report.md and its figures. Needs root, and 25 GiB free (29 with f2fs); takes some thirty-five minutes,
    /// or three and 7 GiB (8) with --quick.
    Dfs(DfsArgs),
}

#[derive(Args, Debug)]
pub(crate) struct CreateArgs {
    /// The data device: a block device, a regular file, or a part (PATH@OFFSET+LENGTH); behind
    /// model:MODEL: as slow as that disk.
    #[arg(long, value_name = "PATH")]
    pub(crate) data: Spec,
    /// The log device, which is overwritten. With --volume vsl: of a write cache in front of the volume.
    /// Without, and where the data device holds a vsl volume, the cache is in front of that, which stays as it is.
    #[arg(long, value_name = "PATH")]
    pub(crate) log: Option<Spec>,
    /// What kind of volume: cache (a write cache: the log in front of the data device), vsl (a
    /// log-structured volume on the data device, which is overwritten; with --log, a write cache in front of it) or fs
    /// (a filesystem on the data device, which is overwritten).
    #[arg(long, value_name = "KIND", default_value = "cache")]
    pub(crate) volume: Kind,
    /// Make a filesystem: the same as --volume fs.
    #[arg(long, conflicts_with = "volume")]
    pub(crate) fs: bool,
    /// Of a filesystem: up to which size files share a part of the space; a larger one gets a part of its own, which it is
    /// copied to when it grows. A power of two from 4KiB to 1MiB [default: 32KiB].
    #[arg(long, value_name = "SIZE")]
    pub(crate) small_file: Option<ByteLen>,
    /// Of a filesystem: the largest that a file may become, a power of two from 512MiB to 512TiB. The larger, the fewer
    /// files there may be [default: 16TiB, and 134 million files].
    #[arg(long, value_name = "SIZE")]
    pub(crate) largest_file: Option<ByteLen>,
    /// The length of a vsl volume, which may be more than there is room for: room is taken where data
    /// is written, and given back by discards [default: what there is room for].
    #[arg(long, value_name = "SIZE")]
    pub(crate) size: Option<ByteLen>,
    /// How a vsl volume places data: lfs, wolf, hylog, sepbit, hylog+sepbit or overwrite; auto: as is
    /// expected to cost least on the device, which is measured [default: auto].
    #[arg(long, value_name = "HOW")]
    pub(crate) placement: Option<Placing>,
    /// The page by which hylog and wolf go: a power of two from 4KiB to 64KiB [default: 8KiB].
    #[arg(long, value_name = "SIZE")]
    pub(crate) page: Option<ByteLen>,
    /// The share of a vsl volume's segments that is kept free of data: 1/N or a percentage, as with attach; noted in the description.
    #[arg(long, value_name = "SHARE")]
    pub(crate) spare: Option<SpareShare>,
    /// The volume's name (default: made from the data device's).
    #[arg(long)]
    pub(crate) name: Option<Name>,
    /// The size of a segment of the log, or of a vsl volume: a power of two from 128KiB to 64MiB [default: 1MiB, more on a vsl volume of
    /// more than 256GiB].
    #[arg(long, value_name = "SIZE")]
    pub(crate) segment: Option<ByteLen>,
    /// Create the log as a file of this size, if there is none.
    #[arg(long, value_name = "SIZE")]
    pub(crate) log_size: Option<ByteLen>,
    /// Whether a vsl volume discards what is free, as with attach; noted in the description.
    #[arg(long, value_name = "on|off")]
    pub(crate) discard: Option<Discard>,
    /// Leave a log file sparse. Quicker now; slower, and able to run out of room, later.
    #[arg(long)]
    pub(crate) sparse: bool,
    /// Overwrite what the log device (of a vsl volume: the data device) holds, and an existing
    /// description.
    #[arg(long)]
    pub(crate) force: bool,
}

/// How to serve a volume; each overrides the same key of its description.
#[derive(Args, Debug, Default)]
pub(crate) struct ServeArgs {
    /// What makes a block device of it: auto, ublk, nbd, loop, or none (NBD clients only).
    #[arg(long, value_name = "HOW")]
    pub(crate) via: Option<Via>,
    /// Where NBD clients may connect, besides the socket in the runtime directory: unix:PATH or
    /// tcp:ADDRESS:PORT. There is no authentication on TCP.
    #[arg(long, value_name = "WHERE")]
    pub(crate) listen: Option<Listen>,
    /// When a write is acknowledged: flush (at once; a flush makes it durable), handover (when the log
    /// device has it, so that it outlives the daemon; a flush makes it durable) or write (when it is
    /// durable) [default: handover for a ublk or nbd device, which another daemon can take up;
    /// else flush]. With flush such a device ends with its daemon.
    #[arg(long, value_name = "WHEN")]
    pub(crate) durability: Option<Acknowledge>,
    /// How long data that nobody flushed may wait for the log [default: 500ms where log and data are on
    /// one disk, else 50ms].
    #[arg(long, value_name = "TIME")]
    pub(crate) max_delay: Option<TimeSpan>,
    /// How long requests wait for a device that fails before they fail too [default: 60s]. It is tried
    /// again for as long as it takes, whatever this is.
    #[arg(long, value_name = "TIME")]
    pub(crate) patience: Option<TimeSpan>,
    /// Writes of this size and more go to the data device directly, or off [default: 64KiB where
    /// log and data are parts of one device, else off].
    #[arg(long, value_name = "SIZE")]
    pub(crate) bypass: Option<Bypass>,
    /// How much memory the map of what is in the log may take; then writes wait as for room in the log
    /// [default: 1GiB, enough for 200 GiB in pieces of 4 KiB or 25 GiB in pieces of 512 bytes].
    #[arg(long, value_name = "SIZE")]
    pub(crate) map_memory: Option<ByteLen>,
    /// Whether a vsl volume discards segments before it uses them again: on or off [default: on for a block
    /// device that can discard; off for files, whose room would have to be found again].
    #[arg(long, value_name = "on|off")]
    pub(crate) discard: Option<Discard>,
    /// The share of a vsl volume's segments that is kept free of data: 1/N or a percentage. The more, the less is written to clean
    /// segments of a full volume [default: 1/16, and at the least 1/128, or 1/32 of small volumes; where the
    /// placement writes in place 1/512, and 1/1024].
    #[arg(long, value_name = "SHARE")]
    pub(crate) spare: Option<SpareShare>,
    /// How much memory the data of requests may take up, over all clients and the block device: 64MiB
    /// or more [default: 256MiB].
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<Memory>,
    /// Give out Prometheus metrics over HTTP at ADDRESS:PORT.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) metrics: Option<Metrics>,
    /// Give out a page that shows how the volume is doing, and the metrics, over HTTP: at PORT of this
    /// machine, which nobody else reaches, or at ADDRESS:PORT, without any authentication. Port 0
    /// takes a free one, which `status` says.
    #[arg(long, value_name = "[ADDRESS:]PORT")]
    pub(crate) http: Option<Http>,
}

/// What to put up with when attaching.
#[derive(Args, Debug, Default, Clone, Copy)]
pub(crate) struct AcceptArgs {
    /// Attach although flushed data is missing from the log. The volume is then as it was before what
    /// is missing: what came after that is lost, too.
    #[arg(long)]
    pub(crate) accept_loss: bool,
    /// Attach although the data device is not as the log knows it. Applying the log to another or
    /// changed device can destroy what is on it.
    #[arg(long)]
    pub(crate) accept_changed: bool,
}

/// Which volume: by the name of its description, or by its log.
#[derive(Args, Debug, Default)]
#[group(required = true, multiple = true)]
pub(crate) struct TargetArgs {
    /// The volume's name.
    #[arg(group = "target")]
    pub(crate) name: Option<Name>,
    /// Its log device, where there is no description.
    #[arg(long, value_name = "PATH", conflicts_with = "name")]
    pub(crate) log: Option<Spec>,
    /// With --log: the data device, if it is not where the log remembers it. Alone: the device of a
    /// log-structured volume.
    #[arg(long, value_name = "PATH", conflicts_with = "name")]
    pub(crate) data: Option<Spec>,
}

#[derive(Args, Debug)]
pub(crate) struct AttachArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    pub(crate) serve: ServeArgs,
    #[command(flatten)]
    pub(crate) accept: AcceptArgs,
    /// Do not go into the background (for systemd: Type=notify).
    #[arg(long)]
    pub(crate) foreground: bool,
    /// The daemon that `attach` starts: in its own session, tells its parent when it is ready.
    #[arg(long, hide = true, requires = "foreground")]
    pub(crate) daemon: bool,
}

#[derive(Args, Debug)]
pub(crate) struct JsonArgs {
    /// Print JSON; docs/status.md describes it.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct StatusArgs {
    /// The volume (default: all that are attached).
    pub(crate) name: Option<Name>,
    /// Print JSON, one object a volume; docs/status.md describes it.
    #[arg(long)]
    pub(crate) json: bool,
    /// Show it on the whole screen as it changes, with the last minutes; q ends it. Not on a terminal:
    /// print it again each second, until interrupted.
    #[arg(long)]
    pub(crate) watch: bool,
}

#[derive(Args, Debug)]
pub(crate) struct DrainArgs {
    /// The volume.
    pub(crate) name: Name,
    /// Give up after this time; what is done by then stays done.
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<TimeSpan>,
}

#[derive(Args, Debug)]
pub(crate) struct GiveUpArgs {
    /// The volume.
    pub(crate) name: Name,
    /// Do it: what cannot be read is lost from then on.
    #[arg(long)]
    pub(crate) lose_unreadable: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ResizeArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Of a log-structured volume: its new length, which may be more than there is room for. Without it, the volume gets the
    /// length that one made on such a device has, if it is shorter.
    #[arg(long, value_name = "SIZE")]
    pub(crate) size: Option<ByteLen>,
}

#[derive(Args, Debug)]
pub(crate) struct TuneArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// From now on: lfs, wolf, hylog, sepbit, hylog+sepbit or overwrite; auto: as the volume finds best, beginning with what it has.
    #[arg(long, value_name = "HOW")]
    pub(crate) placement: Option<Placing>,
    /// Say it as JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct DetachArgs {
    /// The volume.
    pub(crate) name: Name,
    /// Leave what is not on the data device in the log. The data device alone is then not the
    /// volume: do not mount it.
    #[arg(long)]
    pub(crate) keep_dirty: bool,
    /// Leave the block device (--via ublk or nbd) to the next `attach`: it may be in use, and waits for that.
    /// What is dirty stays in the log.
    #[arg(long, conflicts_with = "keep_dirty")]
    pub(crate) hand_over: bool,
}

#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Of a log that was given up: bring what was lost with it, and can be read now, to the data device.
    /// Replaces what was written there since; see below.
    #[arg(long)]
    pub(crate) salvage: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct DumpArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Print JSON, one object a line.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct RemoveArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    #[command(flatten)]
    pub(crate) accept: AcceptArgs,
    /// Lose what a log-structured volume holds, or a log that cannot be drained; or remove the description of a volume
    /// whose devices are gone.
    #[arg(long)]
    pub(crate) force: bool,
}
