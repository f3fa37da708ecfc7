//! Block devices, tested with loop devices. Needs root.

mod common;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::{dir, file, filled, open, read, root_or_skip, run};
use forebay_device::{BufMut, Durability, ZeroedSpace};
use forebay_linux::{DeviceKind, DeviceOpenError, DeviceOpenOptions, identity, node_id};

const MIB: u64 = 1 << 20;
const WRITING: DeviceOpenOptions = DeviceOpenOptions {
    read_only: false,
    small_blocks: false,
    outlast_readers: false,
};
const READING: DeviceOpenOptions = DeviceOpenOptions {
    read_only: true,
    small_blocks: false,
    outlast_readers: false,
};

/// Only one device at a time: a program that another test starts inherits the open files of this process until it calls
/// `exec`.
static ONE: Mutex<()> = Mutex::new(());

/// A loop device over a file; both are removed when the test ends, even if it fails.
struct LoopGuard {
    device: PathBuf,
    backing: PathBuf,
    _dir: tempfile::TempDir,
    _one: MutexGuard<'static, ()>,
}

impl LoopGuard {
    fn new(len: u64, options: &[&str]) -> Option<LoopGuard> {
        if !root_or_skip("block devices") {
            return None;
        }
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = dir();
        let backing = file(&dir, "backing", len);
        let output = Command::new("losetup")
            .args(["--find", "--show"])
            .args(options)
            .arg(&backing)
            .output()
            .expect("losetup");
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            eprintln!("SKIPPED (no loop device to be had): block devices: {why}");
            return None;
        }
        Some(LoopGuard {
            device: String::from_utf8(output.stdout).unwrap().trim().into(),
            backing,
            _dir: dir,
            _one: one,
        })
    }
}

impl Drop for LoopGuard {
    fn drop(&mut self) {
        let status = Command::new("losetup").arg("-d").arg(&self.device).status();
        if !status.is_ok_and(|s| s.success()) {
            eprintln!("{} stays attached", self.device.display());
        }
    }
}

fn sh(program: &str, arguments: &[&Path]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "{program}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn refused(path: &Path, options: DeviceOpenOptions) -> DeviceOpenError {
    let path = path.to_owned();
    run(|_, ring| async move { forebay_linux::open(&ring, path, options).err() }).expect("an error")
}

#[test]
fn a_block_device_is_written_flushed_discarded_and_zeroed() {
    for options in [&["--direct-io=on"][..], &["--sector-size=4096"][..]] {
        let Some(disk) = LoopGuard::new(16 * MIB, options) else {
            return;
        };
        let block = if options[0].contains("4096") {
            4096u32
        } else {
            512
        };
        let path = disk.device.clone();
        run(move |_, ring| async move {
            let device = open(&ring, path);
            let geometry = device.geometry();
            assert_eq!((geometry.len, geometry.block_size), (16 * MIB, block));
            assert!(geometry.volatile && geometry.discard_granularity > 0);
            assert!(geometry.zeroes_by_unmapping);
            let data = filled(8 * MIB as usize, 7);
            device.write(0, data, Durability::Flush).await.unwrap();
            device
                .write(8 * MIB, filled(4096, 8), Durability::Fua)
                .await
                .unwrap();
            let zero = |range, room| device.write_zeroes(range, room);
            zero(4096..2 * MIB, ZeroedSpace::Keep).await.unwrap();
            zero(9 * MIB..12 * MIB, ZeroedSpace::Release).await.unwrap();
            zero(12 * MIB..16 * MIB, ZeroedSpace::Release)
                .await
                .unwrap();
            device.discard(4 * MIB..6 * MIB).await.unwrap();
            device.flush().await.unwrap();
            assert_eq!(
                read(&*device, 0, 8192).await,
                [vec![7; 4096], vec![0; 4096]].concat()
            );
            assert_eq!(read(&*device, 2 * MIB, 4096).await, vec![7; 4096]);
            // Discards of a loop device punch holes, so the content is defined here.
            assert_eq!(read(&*device, 4 * MIB, 4096).await, vec![0; 4096]);
            assert_eq!(read(&*device, 8 * MIB, 4096).await, vec![8; 4096]);
            let mut odd = BufMut::zeroed(4096 + 1);
            let _front = odd.split_to(1);
            assert!(
                device
                    .read(8 * MIB, odd)
                    .await
                    .unwrap()
                    .iter()
                    .all(|b| *b == 8)
            );
        });
        let used = std::fs::metadata(&disk.backing).unwrap().blocks() * 512;
        // Of 16 MiB, two are discarded and seven unmapped.
        assert!(used < 8 * MIB, "both reached the file: {used}");
    }
}

#[test]
fn refresh_len_returns_the_length_of_a_grown_block_device() {
    let Some(disk) = LoopGuard::new(16 * MIB, &[]) else {
        return;
    };
    let (path, backing) = (disk.device.clone(), disk.backing.clone());
    run(move |_, ring| async move {
        let device = open(&ring, &path);
        let file = std::fs::OpenOptions::new().write(true).open(&backing);
        file.unwrap().set_len(24 * MIB).unwrap();
        sh("losetup", &[Path::new("--set-capacity"), &path]);
        assert_eq!(device.geometry().len, 16 * MIB);
        assert_eq!(device.refresh_len().unwrap(), 24 * MIB);
        let end = 24 * MIB - 4096;
        let written = device.write(end, filled(4096, 7), Durability::Fua);
        written.await.unwrap();
        assert_eq!(read(&*device, end, 4096).await, vec![7; 4096]);
    });
}

#[test]
fn a_mounted_device_can_be_opened_only_for_reading_and_the_error_names_the_mount() {
    let Some(disk) = LoopGuard::new(64 * MIB, &[]) else {
        return;
    };
    let at = disk.backing.with_file_name("mount point");
    std::fs::create_dir(&at).unwrap();
    sh("mkfs.ext4", &[Path::new("-q"), &disk.device]);
    sh("mount", &[&disk.device, &at]);
    let (device, backing) = (
        refused(&disk.device, WRITING),
        refused(&disk.backing, WRITING),
    );
    let path = disk.device.clone();
    run(|_, ring| async move {
        let opened = forebay_linux::open(&ring, path, READING).unwrap();
        assert_eq!(opened.identity.kind, DeviceKind::Block);
    });
    sh("umount", &[&at]);
    let mounted = format!("mounted at {}", at.display());
    assert!(matches!(device, DeviceOpenError::InUse { .. }), "{device}");
    assert!(device.to_string().contains(&mounted), "{device}");
    let DeviceOpenError::BacksLoop { loop_device, .. } = &backing else {
        panic!("{backing}")
    };
    assert_eq!(Path::new(loop_device), disk.device);
    assert!(backing.to_string().contains(&mounted), "{backing}");
}

#[test]
fn a_device_open_for_writing_cannot_be_opened_again() {
    let Some(disk) = LoopGuard::new(MIB, &[]) else {
        return;
    };
    let path = disk.device.clone();
    run(|_, ring| async move {
        let first = open(&ring, &path);
        let second = forebay_linux::open(&ring, &path, WRITING).err().unwrap();
        assert!(matches!(second, DeviceOpenError::InUse { .. }), "{second}");
        let us = format!("process {}", std::process::id());
        assert!(second.to_string().contains(&us), "{second}");
        let reader = forebay_linux::open(&ring, &path, READING).err().unwrap();
        assert!(matches!(reader, DeviceOpenError::Locked { .. }), "{reader}");
        drop(first);
        forebay_linux::open(&ring, &path, WRITING).unwrap();
    });
}

#[test]
fn a_read_only_device_is_refused_for_writing() {
    let Some(disk) = LoopGuard::new(MIB, &["--read-only"]) else {
        return;
    };
    let error = refused(&disk.device, WRITING);
    assert!(
        matches!(
            error,
            DeviceOpenError::ReadOnly {
                what: "the device",
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_block_device_is_identified_by_its_number_under_any_path() {
    let Some(disk) = LoopGuard::new(MIB, &[]) else {
        return;
    };
    let link = disk.backing.with_file_name("link");
    std::os::unix::fs::symlink(&disk.device, &link).unwrap();
    let id = |path: &Path| node_id(path).unwrap();
    assert_eq!(id(&link), id(&disk.device));
    assert_ne!(id(&disk.backing), id(&disk.device));
    let who = identity(&link).unwrap();
    assert_eq!((who.kind, who.len), (DeviceKind::Block, MIB));
    assert_eq!(Path::new(&who.path), disk.device);
}
