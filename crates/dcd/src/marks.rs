//! Carrying out pending zeroes and discards on the data device.

use std::ops::Range;

use forebay_device::{Device, Result, ZeroedSpace};
use forebay_ring_log::RangeKind;
use forebay_units::SECTOR_BYTES;

use crate::engine::DcdEngine;
use crate::ranges::RangeState;
use crate::stats::DestageActivity;

/// Longest range that is zeroed or discarded on the data device in one request, in sectors: 64 MiB.
const CHANGE_SECTORS_MAX: u64 = 128 << 10;

/// Splits a range into parts that are changed on the data device one after the other. So a waiting client waits for the
/// lock of one part at most.
pub(crate) fn home_parts(sectors: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let Range { start, end } = sectors;
    let starts = (start..end).step_by(CHANGE_SECTORS_MAX as usize);
    starts.map(move |start| start..end.min(start + CHANGE_SECTORS_MAX))
}

impl DcdEngine {
    /// Returns the parts of a range where this mark is still valid: neither replaced by a newer mark nor covered by
    /// data.
    pub(crate) fn still_marked(&self, mark: RangeState, range: Range<u64>) -> Vec<Range<u64>> {
        let map = self.map.borrow();
        let parts = map.ranges().overlapping(range);
        parts
            .filter(|(_, now)| *now == mark)
            .flat_map(|(part, _)| map.bare(part))
            .collect()
    }

    /// Carries out a mark on a range, which must be one of [`home_parts`], as far as the mark is still valid once the
    /// range is locked (I6). Skips sectors with data on top: this data may be on the data device already. If the tail
    /// has passed the data in one copy of the superblock, no other copy of it is guaranteed.
    pub(crate) async fn mark_at_home(&self, mark: RangeState, sectors: Range<u64>) -> Result<()> {
        let turn = self.home.lock(sectors.clone()).await;
        for part in self.still_marked(mark, sectors) {
            self.doing.borrow_mut().now(match mark.kind {
                RangeKind::Discard => DestageActivity::Discarding,
                _ => DestageActivity::Zeroing,
            });
            self.change_home(mark.kind, part).await?;
        }
        drop(turn);
        // The lookup in the map takes time, even if no part has to be changed.
        self.rt.yield_now().await;
        Ok(())
    }

    /// Zeroes or discards a range of the data device. The caller holds the lock of the range.
    pub(crate) async fn change_home(&self, kind: RangeKind, sectors: Range<u64>) -> Result<()> {
        let bytes = sectors.start * SECTOR_BYTES..sectors.end * SECTOR_BYTES;
        match kind {
            RangeKind::Zero => self.data.write_zeroes(bytes, ZeroedSpace::Keep).await,
            RangeKind::Unmap => self.data.write_zeroes(bytes, ZeroedSpace::Release).await,
            RangeKind::Discard if self.data.geometry().discard_granularity > 0 => {
                self.data.discard(bytes).await
            }
            RangeKind::Discard | RangeKind::Lost => Ok(()),
        }
    }
}
