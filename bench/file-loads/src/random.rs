//! Small random direct reads and writes of one file, by threads.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use forebay_rng::{Rng, mix};
use rustix::fs::OFlags;

use crate::buffer::AlignedBytes;
use crate::machine::{TimeTaken, measured};

/// Bytes of one request.
pub const BLOCK: u64 = 4096;
/// Bytes of one write while the file is filled.
const PIECE: usize = 1 << 20;
/// Requests between two looks at the clock.
const LOOK_EVERY: u64 = 16;

/// Operation on blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RandomOp {
    /// Read blocks.
    Read,
    /// Overwrite blocks.
    Write,
}

/// Number of blocks, and their time.
#[derive(Clone, Copy, Debug)]
pub struct RandomOutcome {
    /// Number of blocks.
    pub blocks: u64,
    /// Time of the run.
    pub took: TimeTaken,
}

impl RandomOutcome {
    /// Returns the blocks per second.
    pub fn rate(&self) -> f64 {
        self.took.rate(self.blocks)
    }
}

/// Opens a file for direct I/O.
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(OFlags::DIRECT.bits().cast_signed())
        .open(path)
}

/// Returns the first bytes of the block at an offset. They differ for every offset.
fn stamp(at: u64) -> [u8; 8] {
    mix(at, 4).to_le_bytes()
}

/// Fills the first `len` bytes of an existing file or a device, in large writes.
///
/// # Errors
/// System errors.
pub fn fill(path: &Path, len: u64) -> io::Result<()> {
    if !path.exists() {
        File::create(path)?;
    }
    let file = open(path)?;
    let mut piece = AlignedBytes::zeroed(PIECE);
    for at in (0..len).step_by(PIECE) {
        let here = piece.bytes_mut();
        let here = &mut here[..(len - at).min(PIECE as u64) as usize];
        for (block, from) in here
            .chunks_mut(BLOCK as usize)
            .zip((at..).step_by(BLOCK as usize))
        {
            block[..8].copy_from_slice(&stamp(from));
        }
        file.write_all_at(here, at)?;
    }
    file.sync_all()
}

/// Reads or writes blocks at random places of the first `len` bytes of a [filled](fill) file, for a time. Each of the
/// `threads` threads makes one request after the other.
///
/// # Errors
/// System errors, and a block with unexpected content.
pub fn blocks(
    path: &Path,
    len: u64,
    what: RandomOp,
    threads: u64,
    lasts: Duration,
) -> io::Result<RandomOutcome> {
    let stop = AtomicBool::new(false);
    let each = |thread: u64| {
        let done = one(path, len, what, thread, lasts, &stop);
        if done.is_err() {
            stop.store(true, Ordering::Relaxed);
        }
        done
    };
    let work = || {
        std::thread::scope(|scope| {
            let all: Vec<_> = (0..threads)
                .map(|thread| scope.spawn(move || each(thread)))
                .collect();
            let ended = all.into_iter().map(|one| {
                let joined = one.join();
                joined.unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
            });
            ended.sum::<io::Result<u64>>()
        })
    };
    let (blocks, took) = measured(work)?;
    Ok(RandomOutcome { blocks, took })
}

fn one(
    path: &Path,
    len: u64,
    what: RandomOp,
    thread: u64,
    lasts: Duration,
    stop: &AtomicBool,
) -> io::Result<u64> {
    let file = open(path)?;
    let numbers = Rng::new(mix(thread, 1));
    let mut buffer = AlignedBytes::zeroed(BLOCK as usize);
    let began = Instant::now();
    let mut done = 0;
    loop {
        if done % LOOK_EVERY == 0 && (began.elapsed() >= lasts || stop.load(Ordering::Relaxed)) {
            return Ok(done);
        }
        let at = numbers.below(len / BLOCK) * BLOCK;
        match what {
            RandomOp::Read => {
                file.read_exact_at(buffer.bytes_mut(), at)?;
                if buffer.bytes()[..8] != stamp(at) {
                    let wrong = format!("what is read at {at} was not written there");
                    return Err(io::Error::other(wrong));
                }
            }
            RandomOp::Write => {
                buffer.bytes_mut()[..8].copy_from_slice(&stamp(at));
                file.write_all_at(buffer.bytes(), at)?;
            }
        }
        done += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const LEN: u64 = 64 * BLOCK;
    const TIME: Duration = Duration::from_millis(1);

    #[test]
    fn blocks_keep_their_content_and_a_wrong_block_is_detected() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        if let Err(error) = fill(&path, LEN) {
            let why = format!(
                "SKIPPED: blocks_keep_their_content_and_a_wrong_block_is_detected: no direct I/O here: {error}\n"
            );
            std::io::stderr().write_all(why.as_bytes()).unwrap();
            return;
        }
        for what in [RandomOp::Write, RandomOp::Read] {
            let done = blocks(&path, LEN, what, 3, TIME).unwrap();
            assert!(done.blocks >= 3, "{done:?}");
        }
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .write_all_at(&vec![0; LEN as usize], 0)
            .unwrap();
        assert!(blocks(&path, LEN, RandomOp::Read, 2, TIME).is_err());
    }
}
