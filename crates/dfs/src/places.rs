//! Physical locations of a file's bytes.

use std::ops::Range;

use forebay_units::SECTOR_BYTES;
use forebay_vsl::SectorLocation;

use crate::data::regular;
use crate::error::Result;
use crate::format::Inode;
use crate::fs::Fs;

/// A contiguous part of a file with one location.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlacedBytes {
    /// The bytes; never an empty range.
    pub bytes: Range<u64>,
    /// The location: for the device, the byte at which the part begins.
    pub at: SectorLocation,
}

impl Fs {
    /// Returns the locations of bytes of a file: parts in order and without gaps, up to the end of the file. The result
    /// ends early at `most` parts (at least 1), or after a long search; the caller can continue there. The file may
    /// change meanwhile; each part was correct at some moment.
    ///
    /// # Errors
    ///
    /// If the file has no data, or the map of the space cannot be read.
    pub async fn places(
        &self,
        file: u64,
        bytes: Range<u64>,
        most: usize,
    ) -> Result<Vec<PlacedBytes>> {
        let file = self.file(file).await?;
        let look = async |inode| self.places_in(&inode, &bytes, most).await;
        self.look_into(&file, look).await
    }

    async fn places_in(
        &self,
        inode: &Inode,
        bytes: &Range<u64>,
        most: usize,
    ) -> Result<Vec<PlacedBytes>> {
        regular(inode)?;
        let (start, end) = (bytes.start, bytes.end.min(inode.size));
        if start >= end {
            return Ok(Vec::new());
        }
        if inode.is_inline() {
            // Inline data lies in the i-node, which is in memory while this file is being used.
            let at = SectorLocation::Memory;
            return Ok(vec![PlacedBytes {
                bytes: start..end,
                at,
            }]);
        }
        let sectors = start / SECTOR_BYTES..end.div_ceil(SECTOR_BYTES);
        let in_space = inode.base + sectors.start..inode.base + sectors.end;
        let runs = self.space().places(in_space, most).await?;
        let parts = runs.into_iter().map(|run| {
            let byte = |sector: u64| (sector - inode.base) * SECTOR_BYTES;
            let (from, to) = (byte(run.sectors.start), byte(run.sectors.end));
            let skipped = start.saturating_sub(from);
            let at = match run.at {
                SectorLocation::Medium(at) => SectorLocation::Medium(at + skipped),
                other => other,
            };
            PlacedBytes {
                bytes: from + skipped..to.min(end),
                at,
            }
        });
        Ok(parts.collect())
    }
}
