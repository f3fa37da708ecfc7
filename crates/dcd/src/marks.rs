//! Making true at home what marks say: zeroes and discards.

use std::ops::Range;

use forebay_device::{Device, Result, Room};
use forebay_log::RangeKind;
use forebay_units::SECTOR_BYTES;

use crate::engine::Engine;
use crate::ranges::Mark;
use crate::stats::Destaging;

/// The longest range that is zeroed or discarded at home in one request, in sectors: 64 MiB.
const CHANGE_SECTORS_MAX: u64 = 128 << 10;

/// A range in parts that are changed at home one after the other, so that nobody waits for the lock of
/// more than one.
pub(crate) fn home_parts(sectors: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let Range { start, end } = sectors;
    let starts = (start..end).step_by(CHANGE_SECTORS_MAX as usize);
    starts.map(move |start| start..end.min(start + CHANGE_SECTORS_MAX))
}

impl Engine {
    /// The parts of a range for which this mark still counts: not marked anew, no data on top.
    pub(crate) fn still_marked(&self, mark: Mark, range: Range<u64>) -> Vec<Range<u64>> {
        let map = self.map.borrow();
        let parts = map.ranges().overlapping(range);
        parts
            .filter(|(_, now)| *now == mark)
            .flat_map(|(part, _)| map.bare(part))
            .collect()
    }

    /// Makes home what a mark says of a range, one of [`home_parts`], as far as it still counts when
    /// its turn has come (I6). Not where data lies on top: that may be home already, and if the tail
    /// has passed it in one copy of the superblock, it is nowhere else for sure.
    pub(crate) async fn mark_at_home(&self, mark: Mark, sectors: Range<u64>) -> Result<()> {
        let turn = self.home.lock(sectors.clone()).await;
        for part in self.still_marked(mark, sectors) {
            self.doing.borrow_mut().now(match mark.kind {
                RangeKind::Discard => Destaging::Discarding,
                _ => Destaging::Zeroing,
            });
            self.change_home(mark.kind, part).await?;
        }
        drop(turn);
        // To ask the map takes a while, even if it says that nothing is to be done.
        self.rt.yield_now().await;
        Ok(())
    }

    /// Zeroes or discards a range at home. The caller has the turn.
    pub(crate) async fn change_home(&self, kind: RangeKind, sectors: Range<u64>) -> Result<()> {
        let bytes = sectors.start * SECTOR_BYTES..sectors.end * SECTOR_BYTES;
        match kind {
            RangeKind::Zero => self.data.write_zeroes(bytes, Room::Keep).await,
            RangeKind::Unmap => self.data.write_zeroes(bytes, Room::Release).await,
            RangeKind::Discard if self.data.geometry().discard_granularity > 0 => {
                self.data.discard(bytes).await
            }
            RangeKind::Discard | RangeKind::Lost => Ok(()),
        }
    }
}
