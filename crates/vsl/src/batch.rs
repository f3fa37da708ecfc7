//! What is done to the space at once.

use forebay_device::Buf;
use forebay_units::{SECTOR_BYTES, Sector};

/// The most bytes of data that a batch may write.
pub const BATCH_BYTES_MAX: u64 = 64 << 20;
/// The most writes and trims that a batch may have.
pub const BATCH_PIECES_MAX: usize = 8192;

/// One thing that a batch does.
#[derive(Clone, Debug)]
pub enum Op {
    /// New data, in whole sectors.
    Write {
        /// Where it begins.
        sector: Sector,
        /// The data.
        data: Buf,
    },
    /// A range is unmapped: it reads as zeroes.
    Trim {
        /// Where it begins.
        sector: Sector,
        /// How many sectors.
        sectors: u64,
    },
}

/// Writes and trims that are done in order, and at any crash all or not at all.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    ops: Vec<Op>,
    bytes: u64,
    preallocates: i64,
}

/// Why a batch was refused; nothing of it was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BatchError {
    /// Data that is not in whole sectors, or none.
    #[error("{0} bytes are not a whole number of sectors of 512 bytes, at least one")]
    Sectors(usize),
    /// A range that ends beyond the space.
    #[error("{sectors} sectors from {sector} on end beyond the space")]
    Beyond {
        /// Where it begins.
        sector: Sector,
        /// How many sectors.
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
    /// One that does nothing yet.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// One that writes `data`.
    pub fn of_write(sector: Sector, data: Buf) -> Batch {
        let mut batch = Batch::new();
        batch.write(sector, data);
        batch
    }

    /// Adds a write.
    pub fn write(&mut self, sector: Sector, data: Buf) -> &mut Batch {
        self.bytes += data.len() as u64;
        self.ops.push(Op::Write { sector, data });
        self
    }

    /// Adds a trim.
    pub fn trim(&mut self, sector: Sector, sectors: u64) -> &mut Batch {
        self.ops.push(Op::Trim { sector, sectors });
        self
    }

    /// Preallocates `sectors` sectors more, or fewer if negative, with the writes and trims. The caller
    /// counts: of the sectors that the batch maps, those that were preallocated are subtracted here.
    pub fn preallocate(&mut self, sectors: i64) -> &mut Batch {
        self.preallocates += sectors;
        self
    }

    /// Returns the change of preallocated sectors.
    pub fn preallocates(&self) -> i64 {
        self.preallocates
    }

    /// What it does, in order.
    pub fn ops(&self) -> &[Op] {
        &self.ops
    }

    /// Bytes that it writes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The most entries that records need for it: a piece for each line that is touched, and each trim.
    pub(crate) fn entries(&self) -> u64 {
        let of = |op: &Op| match op {
            Op::Write { data, .. } => data.len() as u64 / forebay_units::LINE_BYTES + 2,
            Op::Trim { .. } => 1,
        };
        self.ops.iter().map(of).sum()
    }

    /// The most times that it makes the open records end early: once for what lies in another stream's open record, and at
    /// each entry if its own ranges overlap.
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

    /// Whether it can be done in a space of `space_sectors`.
    ///
    /// # Errors
    /// If not; the error says why.
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

impl Op {
    /// The first sector, and how many.
    ///
    /// # Errors
    /// If data is not in whole sectors.
    pub fn range(&self) -> Result<(Sector, u64), BatchError> {
        match self {
            Op::Write { sector, data } => {
                let whole = !data.is_empty() && (data.len() as u64).is_multiple_of(SECTOR_BYTES);
                let sectors = data.len() as u64 / SECTOR_BYTES;
                whole
                    .then_some((*sector, sectors))
                    .ok_or(BatchError::Sectors(data.len()))
            }
            Op::Trim { sector, sectors } => Ok((*sector, *sectors)),
        }
    }
}
