//! Batches: changes of the space that are applied atomically.

use forebay_device::Buf;
use forebay_units::{SECTOR_BYTES, Sector};

/// Maximum bytes of data in a batch.
pub const BATCH_BYTES_MAX: u64 = 64 << 20;
/// Maximum number of writes and trims in a batch.
pub const BATCH_PIECES_MAX: usize = 8192;

/// An operation of a batch.
#[derive(Clone, Debug)]
pub enum BatchOp {
    /// New data, in whole sectors.
    Write {
        /// First sector of the data.
        sector: Sector,
        /// The data.
        data: Buf,
    },
    /// A range to unmap. It reads as zeroes afterwards.
    Trim {
        /// First sector of the range.
        sector: Sector,
        /// Number of sectors.
        sectors: u64,
    },
}

/// Writes and trims that are applied in order. After a crash, either all of them or none took effect.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    ops: Vec<BatchOp>,
    bytes: u64,
    preallocates: i64,
}

/// The reason to refuse a batch. No part of the batch was applied.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BatchError {
    /// Data that is empty, or not a whole number of sectors.
    #[error("a length of {0} bytes is not a positive multiple of 512 bytes")]
    Sectors(usize),
    /// A range that ends beyond the space.
    #[error("{sectors} sectors from {sector} on end beyond the space")]
    Beyond {
        /// First sector of the range.
        sector: Sector,
        /// Number of sectors.
        sectors: u64,
    },
    /// More bytes than a batch may write.
    #[error("a batch of {0} bytes is larger than the 67108864 that can be written at once")]
    Bytes(u64),
    /// More writes and trims than a batch may have.
    #[error("a batch of {0} writes and trims is larger than the 8192 that can be done at once")]
    Pieces(usize),
}

impl Batch {
    /// Creates an empty batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Creates a batch that writes `data`.
    pub fn of_write(sector: Sector, data: Buf) -> Batch {
        let mut batch = Batch::new();
        batch.write(sector, data);
        batch
    }

    /// Adds a write.
    pub fn write(&mut self, sector: Sector, data: Buf) -> &mut Batch {
        self.bytes += data.len() as u64;
        self.ops.push(BatchOp::Write { sector, data });
        self
    }

    /// Adds a trim.
    pub fn trim(&mut self, sector: Sector, sectors: u64) -> &mut Batch {
        self.ops.push(BatchOp::Trim { sector, sectors });
        self
    }

    /// Preallocates `sectors` more sectors together with the writes and trims, or fewer sectors if negative. The caller
    /// does the accounting: it must subtract here those newly mapped sectors that were preallocated.
    pub fn preallocate(&mut self, sectors: i64) -> &mut Batch {
        self.preallocates += sectors;
        self
    }

    /// Returns the change of the number of preallocated sectors.
    pub fn preallocates(&self) -> i64 {
        self.preallocates
    }

    /// Returns the operations in order.
    pub fn ops(&self) -> &[BatchOp] {
        &self.ops
    }

    /// Returns the bytes of data that the batch writes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns an upper bound of the record entries for this batch: an entry for each touched block of 4 KiB, and for
    /// each trim.
    pub(crate) fn entries(&self) -> u64 {
        let of = |op: &BatchOp| match op {
            BatchOp::Write { data, .. } => data.len() as u64 / forebay_units::LINE_BYTES + 2,
            BatchOp::Trim { .. } => 1,
        };
        self.ops.iter().map(of).sum()
    }

    /// Returns an upper bound of how often this batch ends the open records early: once because of older data in the
    /// open record of another stream, and once for each entry if ranges of the batch overlap.
    pub(crate) fn rounds(&self) -> u64 {
        let mut ranges: Vec<(u64, u64)> = self
            .ops
            .iter()
            .filter_map(|op| {
                let (sector, sectors) = op.range().ok()?;
                Some((sector.0, sector.0.saturating_add(sectors)))
            })
            .collect();
        ranges.sort_unstable();
        let overlap = ranges.windows(2).any(|pair| pair[0].1 > pair[1].0);
        1 + if overlap { self.entries() } else { 0 }
    }

    /// Checks that the batch fits into a space of `space_sectors`.
    ///
    /// # Errors
    /// The first violated limit.
    pub fn check(&self, space_sectors: u64) -> Result<(), BatchError> {
        if self.ops.len() > BATCH_PIECES_MAX {
            return Err(BatchError::Pieces(self.ops.len()));
        }
        if self.bytes > BATCH_BYTES_MAX {
            return Err(BatchError::Bytes(self.bytes));
        }
        for op in &self.ops {
            let (sector, sectors) = op.range()?;
            let end = sector.0.checked_add(sectors);
            if sectors == 0 || end.is_none_or(|end| end > space_sectors) {
                return Err(BatchError::Beyond { sector, sectors });
            }
        }
        Ok(())
    }
}

impl BatchOp {
    /// Returns the first sector and the number of sectors.
    ///
    /// # Errors
    /// The data is empty, or not a whole number of sectors.
    pub fn range(&self) -> Result<(Sector, u64), BatchError> {
        match self {
            BatchOp::Write { sector, data } => {
                let whole = !data.is_empty() && (data.len() as u64).is_multiple_of(SECTOR_BYTES);
                let sectors = data.len() as u64 / SECTOR_BYTES;
                whole
                    .then_some((*sector, sectors))
                    .ok_or(BatchError::Sectors(data.len()))
            }
            BatchOp::Trim { sector, sectors } => Ok((*sector, *sectors)),
        }
    }
}
