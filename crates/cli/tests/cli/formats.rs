//! Volumes written by earlier versions of the formats: each is attached, and has its data.
//!
//! `tests/images/VERSION` has the devices of one volume of each kind as a killed daemon of that version left them, with
//! flushed data that only recovery finds. A new version of a format gets a new directory, and the former directories
//! stay as long as their formats are promised:
//! `FOREBAY_WRITE_IMAGES=VERSION cargo test -p forebay-cli --test cli formats` writes them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::files;
use crate::system::{installed, root, try_unmount};
use crate::world::{CliSandbox, MIB, skip};

const IMAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/images");

/// A volume whose devices are kept.
struct KeptVolume {
    /// Name of its images.
    name: &'static str,
    /// Kind in the configuration file.
    kind: &'static str,
    /// The devices, as options: `--data data.img`.
    devices: &'static [(&'static str, &'static str)],
    create: &'static [&'static str],
    /// The flushed writes: address, value of each byte, length.
    writes: &'static [(u64, u8, usize)],
}

const VOLUMES: [KeptVolume; 4] = [
    KeptVolume {
        name: "cache",
        kind: "cache",
        devices: &[("--log", "log.img"), ("--data", "data.img")],
        create: &[],
        writes: &[
            (0, 0x11, 16384),
            (4096, 0x22, 4096),
            (20 * MIB + 512, 0x33, 512),
            (60 * MIB, 0x44, 65536),
        ],
    },
    KeptVolume {
        name: "volume",
        kind: "vsl",
        devices: &[("--data", "data.img")],
        create: &[
            "--volume",
            "vsl",
            "--segment",
            "128KiB",
            "--placement",
            "lfs",
        ],
        writes: &[
            (0, 0x11, 16384),
            (4096, 0x22, 4096),
            (8 * MIB + 512, 0x33, 512),
            (16 * MIB, 0x44, 65536),
        ],
    },
    KeptVolume {
        name: "volume-in-place",
        kind: "vsl",
        devices: &[("--data", "data.img")],
        create: &[
            "--volume",
            "vsl",
            "--segment",
            "128KiB",
            "--placement",
            "hylog",
        ],
        writes: &[(0, 0x11, 65536), (8192, 0x22, 8192), (8 * MIB, 0x33, 16384)],
    },
    KeptVolume {
        name: "span",
        kind: "span",
        devices: &[("--data", "data.img"), ("--second", "second.img")],
        create: &["--volume", "span"],
        writes: &[(0, 0x11, 4096), (39 * MIB - 4096, 0x22, 8192)],
    },
];

/// Lengths of the devices.
fn length(file: &str) -> u64 {
    match file {
        "data.img" => 64 * MIB,
        _ => 40 * MIB,
    }
}

impl KeptVolume {
    /// Returns the options that name the devices.
    fn options(&self) -> Vec<&'static str> {
        let pairs = self.devices.iter();
        pairs.flat_map(|(option, file)| [*option, *file]).collect()
    }

    /// Creates the volume, writes its data, and leaves it as a killed daemon does.
    fn write(&self) -> CliSandbox {
        let world = CliSandbox::new();
        for (_, file) in self.devices {
            world.image(file, length(file));
        }
        let create = ["create", "--name", "v"];
        world.ok(&[&create[..], &self.options(), self.create].concat());
        world.attach();
        {
            let mut client = world.client();
            for (at, byte, len) in self.writes {
                client.write(*at, &vec![*byte; *len]).unwrap();
            }
            client.flush().unwrap();
        }
        world.kill("v");
        world
    }

    /// Returns the bytes of a written range, after all writes.
    fn expected(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        for (written, byte, count) in self.writes {
            for place in *written..*written + *count as u64 {
                if (at..at + len as u64).contains(&place) {
                    bytes[(place - at) as usize] = *byte;
                }
            }
        }
        bytes
    }

    /// Attaches the volume, and checks its data.
    fn verify(&self, world: &CliSandbox) {
        let mut configuration = format!("name = \"v\"\nkind = \"{}\"\n", self.kind);
        for (option, file) in self.devices {
            let (key, path) = (option.trim_start_matches('-'), world.path(file));
            configuration.push_str(&format!("{key} = \"{}\"\n", path.display()));
        }
        fs::create_dir_all(world.path("etc")).unwrap();
        fs::write(world.path("etc/v.toml"), configuration).unwrap();
        world.attach();
        {
            let mut client = world.client();
            for (at, _, len) in self.writes {
                let read = client.read(*at, *len as u32).unwrap();
                assert!(read == self.expected(*at, *len), "{} at {at}", self.name);
            }
        }
        world.detach();
        let checked = world.ok(&["check", "v"]);
        assert!(!checked.contains("DAMAGED"), "{checked}");
        assert!(checked.contains("format version "), "{checked}");
    }
}

fn xz(args: &[&str], from: &Path, to: &Path) {
    let output = Command::new("xz").args(args).arg(from).output().unwrap();
    assert!(output.status.success(), "{}", from.display());
    fs::write(to, output.stdout).unwrap();
}

/// Returns the path of a kept device.
fn kept(version: &Path, name: &str, file: &str) -> PathBuf {
    version.join(format!("{name}.{file}.xz"))
}

/// Returns the directories of all promised versions. If the environment asks for it, writes that of the present version
/// first.
fn versions(test: &str) -> Vec<PathBuf> {
    if !installed(test, &["xz"]) {
        return Vec::new();
    }
    let found = fs::read_dir(IMAGES).unwrap();
    let mut found: Vec<PathBuf> = found.map(|entry| entry.unwrap().path()).collect();
    found.sort();
    assert!(!found.is_empty());
    found
}

fn keep(version: &Path, name: &str, world: &CliSandbox, file: &str) {
    fs::create_dir_all(version).unwrap();
    let to = kept(version, name, file);
    xz(&["-9e", "-c"], &world.path(file), &to);
}

fn version_to_write() -> Option<PathBuf> {
    let version = std::env::var("FOREBAY_WRITE_IMAGES").ok()?;
    Some(Path::new(IMAGES).join(version))
}

#[test]
fn volumes_of_each_promised_version_have_their_data() {
    if let Some(version) = version_to_write() {
        for volume in &VOLUMES {
            let world = volume.write();
            for (_, file) in volume.devices {
                keep(&version, volume.name, &world, file);
            }
        }
    }
    for version in versions("volumes of each version") {
        for volume in &VOLUMES {
            let world = CliSandbox::new();
            for (_, file) in volume.devices {
                let from = kept(&version, volume.name, file);
                xz(&["-d", "-c"], &from, &world.path(file));
            }
            volume.verify(&world);
        }
    }
}

const TEXT: &[u8] = b"written before the kill\n";

#[test]
fn filesystems_of_each_promised_version_have_their_files() {
    let test = "filesystems_of_each_promised_version_have_their_files";
    if !root() || !Path::new("/dev/fuse").exists() {
        return skip(test, "not root, or no FUSE");
    }
    if let Some(version) = version_to_write() {
        let world = files::world(test).unwrap();
        world.ok(&["mount", "f", "mnt"]);
        let dir = world.path("mnt");
        fs::create_dir(dir.join("a")).unwrap();
        fs::write(dir.join("a/large"), vec![7; 100_000]).unwrap();
        fs::write(dir.join("a/small"), TEXT).unwrap();
        std::os::unix::fs::symlink("a/small", dir.join("link")).unwrap();
        fs::hard_link(dir.join("a/small"), dir.join("second")).unwrap();
        // The kernel does not pass syncfs() to this kind of filesystem.
        for path in ["a/large", "a/small", "a", "."] {
            fs::File::open(dir.join(path)).unwrap().sync_all().unwrap();
        }
        world.kill("f");
        try_unmount(&[dir.to_str().unwrap()]).unwrap();
        keep(&version, "files", &world, "disk.img");
    }
    for version in versions(test) {
        let world = CliSandbox::new();
        fs::create_dir(world.path("mnt")).unwrap();
        xz(
            &["-d", "-c"],
            &kept(&version, "files", "disk.img"),
            &world.path("disk.img"),
        );
        world.ok(&["mount", "./disk.img", "mnt"]);
        let dir = world.path("mnt");
        assert_eq!(fs::read(dir.join("a/large")).unwrap(), vec![7; 100_000]);
        assert_eq!(fs::read(dir.join("link")).unwrap(), TEXT);
        assert_eq!(fs::read(dir.join("second")).unwrap(), TEXT);
        fs::write(dir.join("new"), TEXT).unwrap();
        world.unmount("mnt");
        let checked = world.ok(&["check", "--data", "disk.img"]);
        assert!(checked.contains("clean"), "{checked}");
    }
}
