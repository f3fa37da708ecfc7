//! Number of durable acts of each writer, recorded on a device that outlives the machine.
//!
//! Each writer has a sector, written through at once, so that no count is torn. On a device of its own the ledger stays
//! correct whatever happens to the tested devices.

use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, Result, ensure};

const SECTOR: u64 = 512;
const MAGIC: [u8; 8] = *b"ledger01";

/// Counts of all writers.
pub(crate) struct Ledger(File);

impl Ledger {
    /// Opens a device, or a file that is created if missing. A sector of zeroes is a count of zero.
    pub(crate) fn open(path: &Path) -> Result<Ledger> {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(rustix::fs::OFlags::DSYNC.bits() as i32)
            .open(path)
            .with_context(|| format!("cannot open the ledger {}", path.display()))?;
        Ok(Ledger(file))
    }

    /// Returns the number of durable acts of a writer.
    pub(crate) fn count(&self, writer: u64) -> Result<u64> {
        let mut sector = [0; SECTOR as usize];
        let mut read = 0;
        while read < sector.len() {
            match self
                .0
                .read_at(&mut sector[read..], writer * SECTOR + read as u64)?
            {
                0 => break,
                n => read += n,
            }
        }
        let (magic, rest) = sector.split_at(MAGIC.len());
        if magic.iter().all(|byte| *byte == 0) {
            return Ok(0);
        }
        ensure!(magic == MAGIC, "this is no ledger");
        Ok(u64::from_le_bytes(rest[..8].try_into()?))
    }

    /// Returns the numbers of durable acts of the first `writers` writers.
    pub(crate) fn counts(&self, writers: u64) -> Result<Vec<u64>> {
        (0..writers).map(|writer| self.count(writer)).collect()
    }

    /// Records, durably, that the first `count` acts of a writer are durable.
    pub(crate) fn note(&self, writer: u64, count: u64) -> Result<()> {
        let mut sector = [0; SECTOR as usize];
        sector[..8].copy_from_slice(&MAGIC);
        sector[8..16].copy_from_slice(&count.to_le_bytes());
        self.0
            .write_all_at(&sector, writer * SECTOR)
            .context("cannot write the ledger")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_returns_the_recorded_count_of_every_writer_and_starts_at_zero() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger");
        let ledger = Ledger::open(&path).unwrap();
        assert_eq!(ledger.counts(3).unwrap(), [0, 0, 0]);
        ledger.note(1, 7).unwrap();
        ledger.note(2, 300).unwrap();
        drop(ledger);
        let ledger = Ledger::open(&path).unwrap();
        assert_eq!(ledger.counts(3).unwrap(), [0, 7, 300]);
    }

    #[test]
    fn a_file_that_is_not_a_ledger_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ledger");
        std::fs::write(&path, [9; 512]).unwrap();
        assert!(Ledger::open(&path).unwrap().count(0).is_err());
    }
}
