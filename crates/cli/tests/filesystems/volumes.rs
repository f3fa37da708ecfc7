//! Log-structured volumes that become full under a filesystem.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use forebay_rng::Rng;

use crate::system::{TestMount, can_serve_loop, installed, try_tool};
use crate::world::{CliSandbox, MIB};

fn status(world: &CliSandbox, what: &str) -> u64 {
    let text = world.ok(&["status", "v", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&text).unwrap();
    status[what]
        .as_u64()
        .unwrap_or_else(|| panic!("{what}: {status}"))
}

fn sync(at: &Path) -> Result<String, String> {
    try_tool("sync", &["-f", at.to_str().unwrap()])
}

/// Returns the content of file `n`.
fn content(n: u64) -> Vec<u8> {
    Rng::new(n).bytes(MIB as usize)
}

/// Writes files of a mebibyte, numbered from `first`, until the filesystem is full. Returns the number of files.
fn fill(at: &Path, first: u64) -> u64 {
    for n in first.. {
        let path = at.join(n.to_string());
        let written = File::create_new(&path).and_then(|mut file| {
            file.write_all(&content(n))?;
            file.sync_all()
        });
        if written.is_err() {
            let _ = fs::remove_file(&path);
            return n - first;
        }
    }
    unreachable!("a disk has an end")
}

fn holds(at: &Path, files: std::ops::Range<u64>) {
    for n in files {
        let found = fs::read(at.join(n.to_string())).unwrap();
        assert!(found == content(n), "file {n}");
    }
}

fn empty(at: &Path, files: std::ops::Range<u64>) {
    for n in files {
        fs::remove_file(at.join(n.to_string())).unwrap();
    }
    // Space that was freed in an uncommitted transaction is not trimmed.
    sync(at).unwrap();
    try_tool("fstrim", &[at.to_str().unwrap()]).unwrap();
    sync(at).unwrap();
}

fn create(world: &CliSandbox, placement: &str, size: &[&str]) -> String {
    world.image("data.img", 96 * MIB);
    let create = [
        "create", "--name", "v", "--data", "data.img", "--volume", "vsl",
    ];
    let how = ["--segment", "256KiB", "--placement", placement];
    world.ok(&[&create[..], &how, size].concat());
    let device = world.attach_loop();
    try_tool("mkfs.ext4", &["-q", "-m", "0", &device]).unwrap();
    device
}

/// Fills and empties the volume three times, and kills the daemon when the volume is full.
#[test]
fn a_volume_is_filled_to_the_last_block_emptied_and_filled_again() {
    let test = "a_volume_is_filled_to_the_last_block_emptied_and_filled_again";
    if !can_serve_loop(test) || !installed(test, &["mkfs.ext4", "e2fsck", "fstrim"]) {
        return;
    }
    for placement in ["lfs", "hylog+sepbit"] {
        let world = CliSandbox::new();
        let mut device = create(&world, placement, &[]);
        let at = world.path("mnt");
        let mut first = 0;
        for round in 0..3 {
            let mount = TestMount::new(&device, &at, "rw").expect("it mounts");
            let files = fill(&at, first);
            println!("{placement}, round {round}: {files} files");
            assert!(files > 40, "{files} files fit");
            assert_eq!(status(&world, "full_errors"), 0);
            let full = status(&world, "mapped_bytes");
            assert!(
                full > files * MIB,
                "{full} bytes are mapped of {files} files"
            );
            let _ = mount.unmount();
            world.kill("v");
            device = world.attach_loop();
            let mount = TestMount::new(&device, &at, "rw").expect("it mounts");
            holds(&at, first..first + files);
            empty(&at, first..first + files);
            let left = status(&world, "mapped_bytes");
            assert!(left < 16 * MIB, "{left} bytes of {full} are still mapped");
            mount.unmount().expect("it unmounts");
            try_tool("e2fsck", &["-f", "-n", &device]).expect("it is in order");
            first += files;
        }
        world.detach();
        world.ok(&["check", "v"]);
    }
}

/// A filesystem may lose data that is in its journal and cannot be written in place, as on any thin device. But the
/// check finds no error, and freed space is used again.
#[test]
fn a_full_thin_volume_fails_writes_and_is_usable_again_after_a_discard() {
    let test = "a_full_thin_volume_fails_writes_and_is_usable_again_after_a_discard";
    if !can_serve_loop(test) || !installed(test, &["mkfs.ext4", "e2fsck", "fstrim"]) {
        return;
    }
    let world = CliSandbox::new();
    let device = create(&world, "lfs", &["--size", "1GiB"]);
    let at = world.path("mnt");
    for first in [0, 1000] {
        let mount = TestMount::new(&device, &at, "rw").expect("it mounts");
        let errors = status(&world, "full_errors");
        let files = fill(&at, first);
        assert!(files > 40, "{files} files fit");
        assert!(status(&world, "full_errors") > errors);
        let _ = mount.unmount();
        let _ = try_tool("e2fsck", &["-f", "-y", &device]);
        let mount = TestMount::new(&device, &at, "rw").expect("it mounts");
        let there = |n: &u64| at.join(n.to_string()).exists();
        for n in (first..first + files).filter(there) {
            holds(&at, n..n + 1);
        }
        mount.unmount().expect("it unmounts");
        // This first discards the whole device.
        try_tool("mkfs.ext4", &["-q", "-m", "0", &device]).unwrap();
        let left = status(&world, "mapped_bytes");
        assert!(left < 16 * MIB, "{left} bytes are still mapped");
    }
    world.detach();
    world.ok(&["check", "v"]);
}
