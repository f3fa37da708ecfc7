//! A writer that writes its sequence number into every block, and the check of these numbers on a device.
//!
//! Write `n` goes to a block that follows from the seed and `n`, once write `n - 1` is acknowledged, and fills the
//! block with `n`. So after a crash a device is correct if it contains exactly the first `N` writes for some `N`. `N`
//! can only be the newest number found, since the last write is completely visible.

use std::fmt;
use std::fs::File;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use forebay_rng::Rng;

use crate::ledger::Ledger;

pub(crate) const BLOCK: usize = 4096;
/// No device tears a smaller write.
const SECTOR: usize = 512;
/// Number of times that the numbers are repeated in a sector.
const MARK: usize = 32;
const MAGIC: u64 = u64::from_le_bytes(*b"stamped1");
/// Blocks of one read.
const READ_BLOCKS: u64 = 256;

/// Arguments that both commands must share.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct StampArgs {
    /// Number of the run, which distinguishes its blocks from those of earlier runs on the device.
    #[arg(long, default_value_t = 1)]
    run: u64,
    /// Number of blocks of 4096 bytes to use.
    #[arg(long, default_value_t = 16384)]
    blocks: u64,
}

/// End of the writes, and interval of the flushes.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct PaceArgs {
    /// Maximum number of writes; without limit if not given.
    #[arg(long)]
    writes: Option<u64>,
    /// Maximum seconds; without limit if not given.
    #[arg(long)]
    seconds: Option<u64>,
    /// Writes between two flushes.
    #[arg(long, default_value_t = 64)]
    flush_every: u64,
}

/// End of a writer.
#[derive(Debug)]
pub(crate) struct WriterEnd {
    acknowledged: u64,
    flushed: u64,
    /// Error that stopped the writer; `None` if the limit was reached.
    error: Option<std::io::Error>,
}

impl fmt::Display for WriterEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "acknowledged {} flushed {}",
            self.acknowledged, self.flushed
        )?;
        match &self.error {
            Some(error) => write!(f, " error {error}"),
            None => Ok(()),
        }
    }
}

/// Content of a device, compared with the flushed writes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StampFindings {
    /// Newest write with a visible block.
    newest: u64,
    /// Blocks older than in the state after the newest write. With such blocks, the device does not match any
    /// prefix of the writes.
    behind: u64,
    promised: u64,
    /// Blocks older than the flushed writes.
    lost: u64,
    torn: u64,
    unreadable: u64,
}

impl fmt::Display for StampFindings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let StampFindings {
            newest,
            behind,
            promised,
            lost,
            torn,
            unreadable,
        } = self;
        write!(
            f,
            "newest {newest} behind {behind} promised {promised} lost {lost} torn {torn} \
             unreadable {unreadable}"
        )
    }
}

/// Content of one block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum BlockStamp {
    /// Number of a write; 0 for a block without a write of this run.
    Write(u64),
    Torn,
    Unreadable,
}

impl StampArgs {
    fn block(&self, write: u64) -> u64 {
        Rng::new(self.run ^ (write << 8)).below(self.blocks)
    }

    /// Returns for each block the last of the first `writes` that went to the block, or 0.
    fn last(&self, writes: u64) -> Vec<u64> {
        let mut last = vec![0; self.blocks as usize];
        for write in 1..=writes {
            last[self.block(write) as usize] = write;
        }
        last
    }

    fn mark(&self, write: u64, sector: u64) -> [u8; MARK] {
        let mut mark = [0; MARK];
        let numbers = [MAGIC, self.run, write, sector];
        for (to, number) in mark.chunks_exact_mut(8).zip(numbers) {
            to.copy_from_slice(&number.to_le_bytes());
        }
        mark
    }

    fn fill(&self, block: u64, write: u64, buf: &mut [u8]) {
        for (nth, sector) in buf.chunks_exact_mut(SECTOR).enumerate() {
            let mark = self.mark(write, block * (BLOCK / SECTOR) as u64 + nth as u64);
            for to in sector.chunks_exact_mut(MARK) {
                to.copy_from_slice(&mark);
            }
        }
    }

    /// Returns the write that filled a sector, or 0 if no write of this run did.
    fn sector(&self, sector: u64, content: &[u8]) -> BlockStamp {
        let mut number = [0; 8];
        number.copy_from_slice(&content[16..24]);
        let mark = self.mark(u64::from_le_bytes(number), sector);
        match content
            .chunks_exact(MARK)
            .filter(|part| **part == mark)
            .count()
        {
            0 => BlockStamp::Write(0),
            all if all == SECTOR / MARK => BlockStamp::Write(u64::from_le_bytes(number)),
            _ => BlockStamp::Torn,
        }
    }

    fn judge(&self, block: u64, content: &[u8]) -> BlockStamp {
        let first = block * (BLOCK / SECTOR) as u64;
        let mut sectors = (first..).zip(content.chunks_exact(SECTOR));
        let found = sectors
            .next()
            .map_or(BlockStamp::Torn, |(nth, sector)| self.sector(nth, sector));
        if sectors.all(|(nth, sector)| self.sector(nth, sector) == found) {
            found
        } else {
            BlockStamp::Torn
        }
    }

    /// Writes until the limit or an error, and records the flushed writes in the ledger.
    pub(crate) fn write(
        &self,
        device: &Path,
        ledger: &Ledger,
        pace: PaceArgs,
    ) -> Result<WriterEnd> {
        ensure!(pace.flush_every > 0, "a flush after 0 writes");
        let file = open(device, true)?;
        let mut memory = Vec::new();
        let buf = aligned(&mut memory, BLOCK);
        let began = Instant::now();
        let mut written = WriterEnd {
            acknowledged: 0,
            flushed: 0,
            error: None,
        };
        let until = pace.seconds.map(Duration::from_secs);
        while until.is_none_or(|until| began.elapsed() < until)
            && pace.writes.is_none_or(|most| written.acknowledged < most)
        {
            let write = written.acknowledged + 1;
            let block = self.block(write);
            self.fill(block, write, buf);
            if let Err(error) = file.write_all_at(buf, block * BLOCK as u64) {
                written.error = Some(error);
                return Ok(written);
            }
            written.acknowledged = write;
            if write.is_multiple_of(pace.flush_every) {
                if let Err(error) = file.sync_data() {
                    written.error = Some(error);
                    return Ok(written);
                }
                written.flushed = write;
                ledger.note(0, write)?;
            }
        }
        Ok(written)
    }

    /// Reads the device from `offset` (in bytes), and compares the content with the first `promised` writes.
    pub(crate) fn check(&self, device: &Path, promised: u64, offset: u64) -> Result<StampFindings> {
        let found = self.read(&open(device, false)?, offset);
        let newest = found.iter().map(|found| number(*found)).max().unwrap_or(0);
        let older = |than: &[u64]| {
            let pairs = found.iter().zip(than);
            pairs
                .filter(|(found, than)| matches!(found, BlockStamp::Write(n) if n < *than))
                .count() as u64
        };
        let count = |what| found.iter().filter(|found| **found == what).count() as u64;
        Ok(StampFindings {
            newest,
            behind: older(&self.last(newest)),
            promised,
            lost: older(&self.last(promised)),
            torn: count(BlockStamp::Torn),
            unreadable: count(BlockStamp::Unreadable),
        })
    }

    fn read(&self, file: &File, offset: u64) -> Vec<BlockStamp> {
        let mut memory = Vec::new();
        let buf = aligned(&mut memory, READ_BLOCKS as usize * BLOCK);
        let mut found = Vec::with_capacity(self.blocks as usize);
        for first in (0..self.blocks).step_by(READ_BLOCKS as usize) {
            let blocks = first..self.blocks.min(first + READ_BLOCKS);
            let len = (blocks.end - blocks.start) as usize * BLOCK;
            let whole = file
                .read_exact_at(&mut buf[..len], offset + first * BLOCK as u64)
                .is_ok();
            for (block, content) in blocks.zip(buf.chunks_exact_mut(BLOCK)) {
                // One unreadable block must not hide its neighbours.
                let there = whole
                    || file
                        .read_exact_at(content, offset + block * BLOCK as u64)
                        .is_ok();
                found.push(if there {
                    self.judge(block, content)
                } else {
                    BlockStamp::Unreadable
                });
            }
        }
        found
    }
}

fn number(found: BlockStamp) -> u64 {
    match found {
        BlockStamp::Write(number) => number,
        BlockStamp::Torn | BlockStamp::Unreadable => 0,
    }
}

/// Opens the device for direct I/O, since the page cache would hide its content.
fn open(path: &Path, write: bool) -> Result<File> {
    let said = || format!("cannot open {}", path.display());
    let device = std::fs::metadata(path).with_context(said)?.file_type();
    let flags = if device.is_block_device() {
        rustix::fs::OFlags::DIRECT.bits() as i32
    } else {
        0
    };
    File::options()
        .read(true)
        .write(write)
        .custom_flags(flags)
        .open(path)
        .with_context(said)
}

/// Returns a range of `memory` that is aligned for direct I/O.
fn aligned(memory: &mut Vec<u8>, len: usize) -> &mut [u8] {
    memory.resize(len + BLOCK, 0);
    let at = memory.as_ptr().align_offset(BLOCK);
    &mut memory[at..at + len]
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMPS: StampArgs = StampArgs { run: 7, blocks: 64 };

    /// Creates a device with this number of writes, and their ledger.
    fn written(writes: u64) -> (tempfile::TempDir, std::path::PathBuf, Ledger) {
        let dir = tempfile::tempdir().unwrap();
        let device = dir.path().join("device");
        std::fs::write(&device, vec![9; 80 * BLOCK]).unwrap();
        let ledger = Ledger::open(&dir.path().join("ledger")).unwrap();
        let pace = PaceArgs {
            writes: Some(writes),
            seconds: None,
            flush_every: 16,
        };
        let written = STAMPS.write(&device, &ledger, pace).unwrap();
        assert_eq!(written.acknowledged, writes);
        (dir, device, ledger)
    }

    /// Undoes write `write` as a crash would: the block gets its previous content.
    fn undo(device: &Path, write: u64) {
        let block = STAMPS.block(write);
        let before = STAMPS.last(write - 1)[block as usize];
        let mut buf = vec![9; BLOCK];
        if before > 0 {
            STAMPS.fill(block, before, &mut buf);
        }
        let file = File::options().write(true).open(device).unwrap();
        file.write_all_at(&buf, block * BLOCK as u64).unwrap();
    }

    /// Returns the newest visible write of the first `writes`, after skipping `back` visible writes.
    fn visible(writes: u64, back: usize) -> u64 {
        let mut last = STAMPS.last(writes);
        last.sort_unstable();
        last[last.len() - 1 - back]
    }

    #[test]
    fn all_written_stamps_are_found_and_flushes_are_recorded() {
        let (_dir, device, ledger) = written(100);
        let promised = ledger.count(0).unwrap();
        assert_eq!(promised, 96);
        let left = STAMPS.check(&device, promised, 0).unwrap();
        assert_eq!(
            left.to_string(),
            "newest 100 behind 0 promised 96 lost 0 torn 0 unreadable 0"
        );
    }

    #[test]
    fn missing_last_writes_leave_a_prefix_and_a_missing_middle_write_does_not() {
        let (_dir, device, _ledger) = written(100);
        for write in (98..=100).rev() {
            undo(&device, write);
        }
        let left = STAMPS.check(&device, 96, 0).unwrap();
        assert_eq!((left.newest, left.behind, left.lost), (97, 0, 0));
        undo(&device, visible(96, 2));
        let left = STAMPS.check(&device, 96, 0).unwrap();
        assert_eq!((left.newest, left.behind, left.lost), (97, 1, 1));
    }

    #[test]
    fn missing_flushed_writes_are_counted_as_lost_even_if_the_rest_is_a_prefix() {
        let (_dir, device, _ledger) = written(100);
        for write in (91..=100).rev() {
            undo(&device, write);
        }
        let left = STAMPS.check(&device, 96, 0).unwrap();
        assert_eq!((left.newest, left.behind), (90, 0));
        assert!(left.lost > 0, "{left}");
    }

    #[test]
    fn torn_and_unreadable_blocks_are_counted() {
        let (_dir, device, _ledger) = written(100);
        let file = File::options().write(true).open(&device).unwrap();
        let at = STAMPS.block(100) * BLOCK as u64 + 3 * SECTOR as u64;
        file.write_all_at(&[0; SECTOR], at).unwrap();
        let left = STAMPS.check(&device, 0, 0).unwrap();
        assert_eq!((left.torn, left.unreadable), (1, 0));
        file.set_len(60 * BLOCK as u64).unwrap();
        assert_eq!(STAMPS.check(&device, 0, 0).unwrap().unreadable, 4);
    }

    #[test]
    fn stamps_of_another_run_or_another_offset_are_ignored() {
        let (_dir, device, _ledger) = written(100);
        let other = StampArgs { run: 8, ..STAMPS };
        let left = other.check(&device, 0, 0).unwrap();
        assert_eq!((left.newest, left.torn), (0, 0));
        // Misplaced blocks are also ignored.
        let left = STAMPS.check(&device, 0, 2 * BLOCK as u64).unwrap();
        assert_eq!((left.newest, left.torn), (0, 0));
    }
}
