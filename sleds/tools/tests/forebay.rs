//! Tests of `sleds show` on files above Forebay: its own filesystem, and a volume beneath another filesystem.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

#[path = "support/mod.rs"]
mod support;

use support::{cache_only, scratch, settle, skip};

const MIB: u64 = 1 << 20;

/// A directory for Forebay's volumes, which are removed at the end of their test.
struct VolumeSandbox {
    dir: tempfile::TempDir,
    program: PathBuf,
    /// Commands to run at the end, last first.
    undo: Vec<Vec<String>>,
}

impl VolumeSandbox {
    /// Makes the directory. Returns `None` and reports a skip if volumes are not possible.
    fn new(test: &str) -> Option<VolumeSandbox> {
        if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
            skip(test, "not root, or no /dev/fuse");
            return None;
        }
        let program = Path::new(env!("CARGO_BIN_EXE_sleds")).with_file_name("forebay");
        if !program.exists() {
            skip(test, "the program forebay is not built");
            return None;
        }
        let world = VolumeSandbox {
            dir: scratch(),
            program,
            undo: Vec::new(),
        };
        fs::create_dir(world.path("mnt")).expect("made");
        Some(world)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn image(&self, name: &str, len: u64) {
        let file = File::create(self.path(name)).expect("made");
        file.set_len(len).expect("its length");
    }

    fn command(&self, program: &Path, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(self.dir.path());
        for (name, dir) in [
            ("FOREBAY_RUNTIME_DIR", "run"),
            ("FOREBAY_CONFIG_DIR", "config"),
            ("FOREBAY_STATE_DIR", "state"),
            ("FOREBAY_DEV_DIR", "dev"),
        ] {
            command.env(name, self.path(dir));
        }
        command.env("SLEDS_TABLE", self.path("table.toml"));
        command
    }

    fn run(&self, program: &str, args: &[&str]) -> Output {
        let program = match program {
            "forebay" => &self.program,
            "sleds" => Path::new(env!("CARGO_BIN_EXE_sleds")),
            other => Path::new(other),
        };
        let done = self.command(program, args).output();
        done.unwrap_or_else(|error| panic!("{program:?}: {error}"))
    }

    fn ok(&self, program: &str, args: &[&str]) -> String {
        let done = self.run(program, args);
        assert!(done.status.success(), "{program} {args:?}: {done:?}");
        String::from_utf8(done.stdout).expect("text")
    }

    /// Runs a command at the end of the test.
    fn until_the_end(&mut self, args: [&str; 2]) {
        self.undo.push(args.map(str::to_owned).to_vec());
    }

    /// Returns the output of `sleds show` for a file.
    fn shown(&self, file: &str) -> Value {
        let shown = self.ok("sleds", &["show", "--json", file]);
        serde_json::from_str(&shown).expect("one line of JSON")
    }
}

impl Drop for VolumeSandbox {
    fn drop(&mut self) {
        while let Some(args) = self.undo.pop() {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            let (program, args) = match args[0] {
                "umount" => ("umount", &args[1..]),
                _ => ("forebay", &args[..]),
            };
            let _ = self.run(program, args);
        }
    }
}

/// Returns first byte, end, and level of each part.
fn levels(shown: &Value) -> Vec<(u64, u64, String)> {
    let sleds = shown["sleds"].as_array().expect("parts").iter();
    let number = |sled: &Value, key: &str| sled[key].as_u64().expect("a number");
    let part = |sled: &Value| {
        let (offset, length) = (number(sled, "offset"), number(sled, "length"));
        let level = sled["level"].as_str().expect("a name").to_owned();
        (offset, offset + length, level)
    };
    sleds.map(part).collect()
}

/// Returns the number of bytes of a range that come from a level.
fn bytes(shown: &Value, level: &str, (from, to): (u64, u64)) -> u64 {
    let parts = levels(shown).into_iter().filter(|part| part.2 == level);
    parts
        .map(|part| part.1.min(to).saturating_sub(part.0.max(from)))
        .sum()
}

fn write(path: &Path, at: u64, len: u64, byte: u8) {
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .expect("opened");
    file.write_all_at(&vec![byte; len as usize], at)
        .expect("written");
    file.sync_all().expect("durable");
}

#[test]
fn a_filesystem_reports_ranges_in_memory_on_its_device_and_unmapped() {
    let test = "a_filesystem_reports_ranges_in_memory_on_its_device_and_unmapped";
    let Some(mut world) = VolumeSandbox::new(test) else {
        return;
    };
    world.image("disk.img", 64 * MIB);
    let args = ["create", "--fs", "--data", "disk.img", "--name", "f"];
    world.ok("forebay", &args);
    world.ok("forebay", &["mount", "f", "mnt"]);
    world.until_the_end(["umount", "mnt"]);
    let (large, small, late) = (
        world.path("mnt/large"),
        world.path("mnt/small"),
        world.path("mnt/late"),
    );
    write(&large, 0, 8 * MIB, b'\n');
    File::options()
        .write(true)
        .open(&large)
        .and_then(|file| file.set_len(12 * MIB))
        .expect("longer");
    write(&late, 0, 64 << 10, 2);
    write(&small, 0, 6, 3);
    for file in [&small, &late] {
        cache_only(file, &[]);
    }
    cache_only(&large, &[(MIB, MIB)]);

    let shown = world.shown("mnt/small");
    assert_eq!(levels(&shown), [(0, 6, "f/memory".to_owned())], "{shown}");
    let [latency, bandwidth] = ["latency_s", "bandwidth_Bps"]
        .map(|key| shown["sleds"][0][key]["median"].as_f64().expect("a number"));
    let memory = sleds::DeviceTable::default().memory;
    // The values include a round trip, and an additional copy.
    assert!(latency > memory.latency_s.median && bandwidth < memory.bandwidth_Bps.median);
    assert_eq!(shown["cached"], 0);

    let shown = world.shown("mnt/late");
    let gathered = bytes(&shown, "f/memory", (0, MIB));
    assert!(gathered > 0, "{shown}");

    // All segments except the last are full and durable.
    let shown = world.shown("mnt/large");
    assert_eq!(bytes(&shown, "memory", (MIB, 2 * MIB)), MIB, "{shown}");
    assert_eq!(bytes(&shown, "memory", (8 * MIB, 12 * MIB)), 4 * MIB);
    let elsewhere = bytes(&shown, "memory", (0, 8 * MIB)) - MIB;
    let gathered = bytes(&shown, "f/memory", (0, 8 * MIB));
    assert!(elsewhere == 0 && gathered < 2 * MIB, "{shown}");
    let first = levels(&shown)[0].clone();
    // The disk below, or unknown, if the kind of the disk is unknown.
    assert!(!["memory", "f/memory"].contains(&&*first.2), "{first:?}");
    assert_eq!((first.0, first.1), (0, MIB));
    // Reading in best order works as well.
    let counted = world.ok("sleds", &["wc", "-l", "--plan", "best", "mnt/large"]);
    assert_eq!(counted, format!("{} mnt/large\n", 8 * MIB));
}

#[test]
fn a_volume_below_ext4_reports_ranges_in_memory_in_its_log_and_on_the_data_device() {
    let test = "a_volume_below_ext4_reports_ranges_in_memory_in_its_log_and_on_the_data_device";
    let Some(mut world) = VolumeSandbox::new(test) else {
        return;
    };
    if Command::new("mkfs.ext4").arg("-V").output().is_err() {
        return skip(test, "there is no mkfs.ext4");
    }
    world.image("data.img", 96 * MIB);
    world.image("log.img", 64 * MIB);
    let args = [
        "create", "--name", "v", "--data", "data.img", "--log", "log.img",
    ];
    world.ok("forebay", &args);
    let attached = world.run("forebay", &["attach", "v", "--via", "loop"]);
    if !attached.status.success() {
        return skip(test, "there are no loop devices here");
    }
    world.until_the_end(["detach", "v"]);
    let device = String::from_utf8(attached.stdout).expect("text");
    world.ok("mkfs.ext4", &["-q", "-O", "^has_journal", device.trim()]);
    world.ok("mount", &[device.trim(), "mnt"]);
    world.until_the_end(["umount", "mnt"]);
    let file = world.path("mnt/file");
    write(&file, 0, 4 * MIB, 1);
    settle(&world.path("mnt"));
    world.ok("forebay", &["drain", "v"]);
    write(&file, MIB, MIB, 2);
    cache_only(&file, &[(3 * MIB, MIB)]);

    let shown = world.shown("mnt/file");
    let of = |level| bytes(&shown, level, (0, 4 * MIB));
    assert_eq!(of("memory"), MIB, "{shown}");
    assert_eq!(of("v/log") + of("v/memory"), MIB, "{shown}");
    let changed = (MIB, 2 * MIB);
    let of = |level| bytes(&shown, level, changed);
    assert_eq!(of("v/log") + of("v/memory"), MIB, "{shown}");

    // A hanging daemon does not block the query.
    let status = world.ok("forebay", &["status", "v", "--json"]);
    let status: Value = serde_json::from_str(&status).expect("JSON");
    let pid = status["pid"].as_i64().expect("a number");
    let pid = rustix::process::Pid::from_raw(pid as i32).expect("a process");
    let signal = |signal| rustix::process::kill_process(pid, signal).expect("sent");
    signal(rustix::process::Signal::STOP);
    let hung = world.run("sleds", &["show", "--json", "mnt/file"]);
    signal(rustix::process::Signal::CONT);
    let hung: Value = serde_json::from_slice(&hung.stdout).expect("one line of JSON");
    let none = bytes(&hung, "v/log", changed) + bytes(&hung, "v/memory", changed);
    assert_eq!((bytes(&hung, "memory", (3 * MIB, 4 * MIB)), none), (MIB, 0));

    world.ok("forebay", &["drain", "v"]);
    let home = world.shown("mnt/file");
    for level in ["v/log", "v/memory"] {
        assert_eq!(bytes(&home, level, (0, 4 * MIB)), 0, "{home}");
    }
    // The block device itself is covered as well, and each of its sectors once.
    let whole = levels(&world.shown(device.trim()));
    let edges = whole.iter().map(|part| (part.0, part.1));
    let end = edges.fold(0, |end, part| {
        assert_eq!(part.0, end);
        part.1
    });
    assert_eq!(end, 96 * MIB);
}
