//! Where a file's bytes lie.

use std::ops::Range;

use forebay_units::SECTOR_BYTES;
use forebay_vsl::Where;

use crate::data::regular;
use crate::error::Result;
use crate::format::Inode;
use crate::fs::Fs;

/// A part of a file that one thing has, in one piece.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlacedBytes {
    /// The bytes; never none.
    pub bytes: Range<u64>,
    /// What has them; of the medium, the byte where the first of them lies.
    pub at: Where,
}

impl Fs {
    /// Where bytes of a file lie: parts in order and without gaps from the first on, as far as the file goes. They end sooner
    /// where there would be more than `most` (at least 1), or where much was looked at: then go on there. Nobody is kept
    /// from changing the file meanwhile; each part was right at some moment.
    ///
    /// # Errors
    /// If it has no data, or the map of the space cannot be read.
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
            // With the i-node, which is in memory as long as anybody asks about it.
            let at = Where::Memory;
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
                Where::Medium(at) => Where::Medium(at + skipped),
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
