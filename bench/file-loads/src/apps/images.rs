//! An update of the operating system on several virtual machines at once: each reads its image and rewrites a part of
//! the image.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use forebay_rng::mix;
use rustix::fs::OFlags;

use super::{AppAmount, must};
use crate::buffer::AlignedBytes;

/// Number of machines.
const MACHINES: u64 = 4;
/// Bytes of a request.
const PIECE: usize = 64 << 10;
/// One in this many requests rewrites its data.
const REWRITTEN: u64 = 3;
/// Requests between two `fsync` calls.
const SYNC_EVERY: u64 = 64;

fn path(dir: &Path, machine: u64) -> PathBuf {
    dir.join(format!("machine{machine}.img"))
}

/// Returns the number of requests for an image.
fn pieces(amount: AppAmount) -> u64 {
    amount.of(8, 1 << 10, 6 << 10)
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .custom_flags(OFlags::DIRECT.bits().cast_signed())
        .open(path)
}

/// Returns the first bytes of the data of a request.
fn stamp(machine: u64, piece: u64, version: u64) -> [u8; 8] {
    mix(mix(machine, piece), version).to_le_bytes()
}

fn each(work: impl Fn(u64) -> io::Result<()> + Sync) -> io::Result<()> {
    let work = &work;
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..MACHINES)
            .map(|machine| scope.spawn(move || work(machine)))
            .collect();
        let mut ended = all.into_iter().map(|one| {
            let joined = one.join();
            joined.unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
        });
        ended.try_for_each(|done| done)
    })
}

pub(super) fn prepare(dir: &Path, amount: AppAmount) -> io::Result<()> {
    each(|machine| {
        let (file, mut piece) = (open(&path(dir, machine))?, AlignedBytes::zeroed(PIECE));
        for n in 0..pieces(amount) {
            piece.bytes_mut()[..8].copy_from_slice(&stamp(machine, n, 0));
            file.write_all_at(piece.bytes(), n * PIECE as u64)?;
        }
        file.sync_all()
    })
}

pub(super) fn run(dir: &Path, amount: AppAmount) -> io::Result<()> {
    each(|machine| {
        let (file, mut piece) = (open(&path(dir, machine))?, AlignedBytes::zeroed(PIECE));
        for n in 0..pieces(amount) {
            let at = n * PIECE as u64;
            file.read_exact_at(piece.bytes_mut(), at)?;
            must(piece.bytes()[..8] == stamp(machine, n, 0), "an image")?;
            if n % REWRITTEN == 0 {
                piece.bytes_mut()[..8].copy_from_slice(&stamp(machine, n, 1));
                file.write_all_at(piece.bytes(), at)?;
            }
            if n % SYNC_EVERY == SYNC_EVERY - 1 {
                file.sync_data()?;
            }
        }
        file.sync_all()
    })
}
