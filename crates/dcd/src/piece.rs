//! A fragment of data in the log.

use std::ops::Range;

use forebay_device::Buf;
use forebay_ring_log::LogAddr;
use forebay_units::{BlockNumber, LINE_SECTORS, SECTOR_BYTES, Sector};

/// A fragment as it was written: up to 8 sectors of one block, at one address, under one checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LogFragment {
    pub(crate) line: BlockNumber,
    /// First sector within the block.
    pub(crate) start: u8,
    /// Number of sectors as written.
    pub(crate) sectors: u8,
    /// Sectors of the block for which this fragment holds the newest data, one bit each.
    pub(crate) live: u8,
    pub(crate) addr: LogAddr,
    pub(crate) crc: u32,
}

impl LogFragment {
    pub(crate) fn new(sector: Sector, sectors: u8, addr: LogAddr, crc: u32) -> LogFragment {
        let start = sector.in_line();
        LogFragment {
            line: sector.line(),
            start,
            sectors,
            live: mask(start, sectors),
            addr,
            crc,
        }
    }

    /// Returns the length in bytes.
    pub(crate) fn bytes(&self) -> usize {
        usize::from(self.sectors) * SECTOR_BYTES as usize
    }

    /// Returns true if these bytes match the checksum.
    pub(crate) fn is_sound(&self, bytes: &[u8]) -> bool {
        crc32c::crc32c(bytes) == self.crc
    }

    /// Returns the live sectors, as ranges of the volume in order.
    pub(crate) fn live_runs(self) -> impl Iterator<Item = Range<u64>> {
        let base = self.line.first_sector().0;
        let mut at = 0u64;
        std::iter::from_fn(move || {
            let rest = u16::from(self.live) >> at;
            if at >= LINE_SECTORS || rest == 0 {
                return None;
            }
            let start = at + u64::from(rest.trailing_zeros());
            let run = u64::from((u16::from(self.live) >> start).trailing_ones());
            at = start + run;
            Some(base + start..base + at)
        })
    }

    /// Returns all sectors of the fragment's block.
    pub(crate) fn line_sectors(&self) -> Range<u64> {
        let start = self.line.first_sector();
        start.0..start.plus(LINE_SECTORS).0
    }

    /// Returns the first sector of the volume that the fragment was written to.
    pub(crate) fn sector(&self) -> Sector {
        self.line.first_sector().plus(self.start.into())
    }
}

/// A fragment with its data, which matches the checksum.
#[derive(Clone)]
pub(crate) struct LoadedFragment {
    pub(crate) piece: LogFragment,
    pub(crate) bytes: Buf,
}

/// Returns the number of live bytes of these fragments.
pub(crate) fn bytes_of(pieces: &[LogFragment]) -> u64 {
    let live = pieces
        .iter()
        .map(|piece| u64::from(piece.live.count_ones()));
    live.sum::<u64>() * SECTOR_BYTES
}

/// Returns the bits of `sectors` sectors of a block, from `start` on.
pub(crate) fn mask(start: u8, sectors: u8) -> u8 {
    (((1u16 << sectors) - 1) << start) as u8
}
