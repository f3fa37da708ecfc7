//! Tests of the tools on filesystems of other machines: each is made in a file and mounted for the test.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

#[path = "support/mod.rs"]
mod support;

use support::{cache_only, scratch, settle, skip};

/// The minimum size of btrfs is 109 MiB, that of xfs is 300 MiB.
const IMAGE_BYTES: u64 = 320 << 20;
const FILE_BYTES: u64 = 4 << 20;
const LINE: &str = "a line of a file on another filesystem\n";

/// A mount that is removed at the end of its test.
struct FilesystemMount(PathBuf);

impl Drop for FilesystemMount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

fn runs(command: &mut Command) -> bool {
    command.output().is_ok_and(|done| done.status.success())
}

/// Mounts a filesystem of this kind in `dir` over a loop device. Returns `None` and reports a skip if that is not
/// possible here.
fn mounted(test: &str, kind: &str, dir: &Path) -> Option<FilesystemMount> {
    if !rustix::process::geteuid().is_root() {
        skip(test, "only root may mount");
        return None;
    }
    let (image, point) = (dir.join("image"), dir.join("point"));
    let file = File::create(&image).expect("an image");
    file.set_len(IMAGE_BYTES).expect("its length");
    fs::create_dir(&point).expect("a mount point");
    if !runs(Command::new(format!("mkfs.{kind}")).arg("-q").arg(&image)) {
        skip(test, &format!("there is no mkfs.{kind}"));
        return None;
    }
    let mut mount = Command::new("mount");
    if !runs(
        mount
            .args(["-t", kind, "-o", "loop"])
            .arg(&image)
            .arg(&point),
    ) {
        skip(test, &format!("{kind} cannot be mounted here"));
        return None;
    }
    Some(FilesystemMount(point))
}

fn sleds(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sleds"));
    command.args(args).current_dir(dir);
    let command = command.env("SLEDS_TABLE", dir.join("table.toml"));
    let done = command.output().expect("sleds to run");
    assert!(done.status.success(), "{args:?}: {done:?}");
    done
}

/// Returns the output of `sleds show` for a file whose second MiB is cached.
fn shown(at: &Path) -> Value {
    let path = at.join("file");
    let text = LINE.repeat(FILE_BYTES as usize / LINE.len() + 1);
    fs::write(&path, &text.as_bytes()[..FILE_BYTES as usize]).expect("a file");
    settle(at);
    cache_only(&path, &[(1 << 20, 1 << 20)]);
    let shown = sleds(at, &["show", "--json", "file"]);
    serde_json::from_slice(&shown.stdout).expect("one line of JSON")
}

/// Checks the levels of the file's parts, and that all orders of reading give equal results.
fn check(at: &Path, value: &Value) {
    assert_eq!(value["length"], FILE_BYTES);
    assert_eq!(
        value["source"], "default",
        "the disk below is found: {value}"
    );
    let device = value["device"].as_str().expect("a name");
    let sleds_of: Vec<_> = value["sleds"].as_array().expect("SLEDs").iter().collect();
    let of_memory = sleds_of.iter().filter(|sled| sled["level"] == "memory");
    let of_memory: Vec<_> = of_memory
        .map(|sled| (sled["offset"].as_u64(), sled["length"].as_u64()))
        .collect();
    assert_eq!(of_memory, [(Some(1 << 20), Some(1 << 20))], "{value}");
    let other = |sled: &&&Value| sled["level"] != "memory";
    assert!(
        sleds_of
            .iter()
            .filter(other)
            .all(|sled| sled["level"] == device)
    );
    for plan in ["linear", "best", "auto"] {
        cache_only(&at.join("file"), &[(1 << 20, 1 << 20)]);
        let counted = sleds(at, &["wc", "-l", "-c", "--plan", plan, "file"]).stdout;
        let counted = String::from_utf8(counted).expect("text");
        let numbers: Vec<_> = counted.split_whitespace().collect();
        let lines = FILE_BYTES / LINE.len() as u64;
        let expected = [&lines.to_string(), &FILE_BYTES.to_string(), "file"];
        assert_eq!(numbers, expected, "{plan}");
    }
}

#[test]
fn on_btrfs_the_level_is_the_mount_and_its_disk_is_found() {
    let dir = scratch();
    let test = "on_btrfs_the_level_is_the_mount_and_its_disk_is_found";
    let Some(mounted) = mounted(test, "btrfs", dir.path()) else {
        return;
    };
    let at = fs::canonicalize(&mounted.0).expect("the mount point");
    let value = shown(&at);
    assert_eq!(
        value["device"],
        format!("btrfs:{}", at.display()),
        "{value}"
    );
    check(&at, &value);
    // A subvolume has a number of its own, which no mount has.
    if runs(
        Command::new("btrfs")
            .args(["subvolume", "create", "inner"])
            .current_dir(&at),
    ) {
        let inner = at.join("inner");
        let value = shown(&inner);
        assert_eq!(
            value["device"],
            format!("btrfs:{}", at.display()),
            "{value}"
        );
        check(&inner, &value);
    }
}

#[test]
fn on_xfs_the_level_is_the_disk() {
    let dir = scratch();
    let test = "on_xfs_the_level_is_the_disk";
    let Some(mounted) = mounted(test, "xfs", dir.path()) else {
        return;
    };
    let value = shown(&mounted.0);
    let device = value["device"].as_str().expect("a name");
    assert!(device.starts_with("loop"), "{value}");
    check(&mounted.0, &value);
}
