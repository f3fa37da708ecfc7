//! The log that `dm-log-writes` records of a device: each write in the order of completion, and the points at which
//! data was made durable.
//!
//! The target writes to its second device (drivers/md/dm-log-writes.c): a superblock in the first sector, and from the
//! second sector on the entries. An entry is a sector that describes the operation, followed by the sectors of written
//! data. A write appears no sooner than the flush after it, so the entries up to a flush are the state that a power cut
//! right after the flush must have left.

use std::fmt;
use std::fs::File;
use std::ops::RangeInclusive;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};

const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;
/// Bytes of the fields of a superblock (the last has four bytes), and of an entry.
const SUPERBLOCK_BYTES: usize = 28;
const ENTRY_BYTES: usize = 32;
/// Maximum sector size of supported devices.
const SECTOR_BYTES_MAX: u32 = 4096;

mod flag {
    pub(super) const FLUSH: u64 = 1;
    pub(super) const FUA: u64 = 1 << 1;
    pub(super) const DISCARD: u64 = 1 << 2;
    pub(super) const MARK: u64 = 1 << 3;
}

/// A log being read.
struct DmLog {
    file: File,
    sector_bytes: u64,
    entries: u64,
}

/// The operation at one place in the log.
struct DmLogEntry {
    number: u64,
    sector: u64,
    sectors: u64,
    flags: u64,
    /// Bytes of the text of a mark, directly behind the entry.
    text_bytes: u64,
    /// Place of the entry in the log.
    at: u64,
}

/// An entry that made data durable or that a tester marked.
pub(crate) struct DmLogPoint {
    number: u64,
    what: String,
}

impl fmt::Display for DmLogPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.number, self.what)
    }
}

fn number(bytes: &[u8]) -> u64 {
    let mut all = [0; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(all)
}

impl DmLog {
    fn open(path: &Path) -> Result<DmLog> {
        let file = File::open(path).with_context(|| path.display().to_string())?;
        let mut bytes = [0; SUPERBLOCK_BYTES];
        file.read_exact_at(&mut bytes, 0)?;
        let [magic, version, entries] = [0, 8, 16].map(|at| number(&bytes[at..at + 8]));
        let sector_bytes = number(&bytes[24..28]);
        ensure!(
            magic == MAGIC && version == VERSION,
            "{} is no log of dm-log-writes",
            path.display()
        );
        ensure!(
            (512..=u64::from(SECTOR_BYTES_MAX)).contains(&sector_bytes),
            "sectors of {sector_bytes} bytes"
        );
        Ok(DmLog {
            file,
            sector_bytes,
            entries,
        })
    }

    /// Calls `each` for every entry, in order.
    fn each(&self, mut each: impl FnMut(&DmLogEntry) -> Result<()>) -> Result<()> {
        let mut at = self.sector_bytes;
        for number in 0..self.entries {
            let entry = self.entry(number, at)?;
            each(&entry)?;
            at += self.sector_bytes * (1 + entry.data_sectors());
        }
        Ok(())
    }

    fn entry(&self, nth: u64, at: u64) -> Result<DmLogEntry> {
        let mut bytes = [0; ENTRY_BYTES];
        self.file
            .read_exact_at(&mut bytes, at)
            .with_context(|| format!("entry {nth}"))?;
        let [sector, sectors, flags, text_bytes] =
            [0, 8, 16, 24].map(|at| number(&bytes[at..at + 8]));
        Ok(DmLogEntry {
            number: nth,
            sector,
            sectors,
            flags,
            text_bytes,
            at,
        })
    }

    fn text(&self, entry: &DmLogEntry) -> Result<String> {
        let len = entry.text_bytes.min(self.sector_bytes - ENTRY_BYTES as u64);
        let mut text = vec![0; len as usize];
        self.file
            .read_exact_at(&mut text, entry.at + ENTRY_BYTES as u64)?;
        let text = String::from_utf8_lossy(&text);
        Ok(text.trim_end_matches(['\0', '\n']).to_owned())
    }
}

impl DmLogEntry {
    fn is(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    /// Returns the sectors of data behind the entry.
    fn data_sectors(&self) -> u64 {
        if self.is(flag::DISCARD | flag::MARK) {
            0
        } else {
            self.sectors
        }
    }
}

/// Returns the points of a log, in order.
pub(crate) fn points(log: &Path) -> Result<Vec<DmLogPoint>> {
    let log = DmLog::open(log)?;
    let mut points = Vec::new();
    log.each(|entry| {
        let what = if entry.is(flag::MARK) {
            format!("mark {}", log.text(entry)?)
        } else if entry.is(flag::FLUSH | flag::FUA) {
            "flush".into()
        } else {
            return Ok(());
        };
        points.push(DmLogPoint {
            number: entry.number,
            what,
        });
        Ok(())
    })?;
    Ok(points)
}

/// Writes the entries of `range` to `target`, and returns a summary with the number of writes. Discards are omitted: no
/// client may rely on the content of a discarded range.
pub(crate) fn replay(log: &Path, target: &Path, range: RangeInclusive<u64>) -> Result<String> {
    let log = DmLog::open(log)?;
    let target = File::options()
        .write(true)
        .open(target)
        .with_context(|| target.display().to_string())?;
    let mut writes = 0;
    log.each(|entry| {
        if !range.contains(&entry.number) || entry.data_sectors() == 0 {
            return Ok(());
        }
        let mut data = vec![0; (entry.sectors * log.sector_bytes) as usize];
        log.file
            .read_exact_at(&mut data, entry.at + log.sector_bytes)
            .with_context(|| format!("the data of entry {}", entry.number))?;
        target.write_all_at(&data, entry.sector * log.sector_bytes)?;
        writes += 1;
        Ok(())
    })?;
    target.sync_data()?;
    Ok(format!("{writes} writes of {} entries", log.entries))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a log as the kernel writes it: a write, a flush, a mark, a discard, a write with FUA.
    fn log() -> (tempfile::TempDir, std::path::PathBuf) {
        let mut bytes = Vec::new();
        let mut sector = |numbers: &[u64], rest: &[u8]| {
            let at = bytes.len();
            bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
            bytes.extend(rest);
            bytes.resize(at + 512, 0);
        };
        sector(&[MAGIC, VERSION, 5], &512_u32.to_le_bytes());
        sector(&[3, 2, 0, 0], &[]);
        sector(&[], &[0xa1; 512]);
        sector(&[], &[0xa2; 512]);
        sector(&[0, 0, flag::FLUSH, 0], &[]);
        sector(&[0, 0, flag::MARK, 6], b"acts 7");
        sector(&[0, 100, flag::DISCARD, 0], &[]);
        sector(&[4, 1, flag::FUA, 0], &[]);
        sector(&[], &[0xb1; 512]);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, bytes).unwrap();
        (dir, path)
    }

    #[test]
    fn points_are_the_flushes_and_marks_with_their_entry_numbers() {
        let (_dir, log) = log();
        let points: Vec<String> = points(&log)
            .unwrap()
            .iter()
            .map(DmLogPoint::to_string)
            .collect();
        assert_eq!(points, ["1 flush", "2 mark acts 7", "4 flush"]);
    }

    #[test]
    fn a_replay_restores_the_state_at_an_entry_and_can_continue_from_it() {
        let (dir, log) = log();
        let target = dir.path().join("target");
        std::fs::write(&target, [0; 8 * 512]).unwrap();
        let sectors = || {
            let content = std::fs::read(&target).unwrap();
            let firsts = content.chunks(512).map(|sector| sector[0]);
            firsts.collect::<Vec<u8>>()
        };
        let said = replay(&log, &target, 0..=2).unwrap();
        assert_eq!(said, "1 writes of 5 entries");
        assert_eq!(sectors(), [0, 0, 0, 0xa1, 0xa2, 0, 0, 0]);
        replay(&log, &target, 3..=4).unwrap();
        assert_eq!(sectors(), [0, 0, 0, 0xa1, 0xb1, 0, 0, 0]);
    }

    #[test]
    fn a_file_that_is_not_a_write_log_is_refused() {
        let (dir, _) = log();
        let path = dir.path().join("other");
        std::fs::write(&path, [0; 512]).unwrap();
        assert!(points(&path).is_err());
    }
}
