//! Checks of the table's invariants.

use std::collections::BTreeSet;

use super::SegmentTable;
use crate::geometry::SegmentSlot;
use crate::segment::SegmentState;
use crate::weight::units_at_most;

impl SegmentTable {
    /// Compares the counts, lists and numbers with the state of each segment.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub(crate) fn check(&self) -> Result<(), String> {
        let (mut counts, mut live, mut weight) = ([0; SegmentState::COUNT], 0, 0);
        let (mut with_lists, mut node_segments) = (0, 0);
        for n in 0..self.len() {
            let slot = SegmentSlot(n as u32);
            let (segment, state) = (self.get(slot), self.state(slot));
            counts[state as usize] += 1;
            live += u64::from(self.live_in(slot));
            weight += self.weight_of(slot);
            let demand = |holds: bool, what: &str| {
                if holds {
                    Ok(())
                } else {
                    Err(format!("{slot:?}, {state:?}: {what} ({segment:?})"))
                }
            };
            demand(segment.phase == state.phase(), "another phase")?;
            let most = units_at_most(segment.live.into());
            demand(
                u64::from(segment.units) <= most,
                "more units than sectors have",
            )?;
            demand(
                !state.is_unused() || self.live_in(slot) == 0,
                "unused, but has live data",
            )?;
            let number = self.slots.get(&segment.seq) == Some(&slot);
            demand(state.has_number() == number, "a number too many or too few")?;
            let listed =
                SegmentTable::list(state).is_none_or(|list| self.lists[list].contains(&slot));
            demand(listed, "not in the list of its state")?;
            with_lists += usize::from(SegmentTable::list(state).is_some());
            node_segments += usize::from(self.holds_nodes(slot, state));
            let victim = self.victims.get(slot.0).is_some();
            demand(
                victim == (state == SegmentState::Closed),
                "a victim too many or too few",
            )?;
            let written = self.states[n].in_place > 0;
            demand(
                written == (state == SegmentState::InPlace),
                "written in place in another state",
            )?;
        }
        let listed: usize = self.lists.iter().map(BTreeSet::len).sum();
        let settling: usize = self.settling.iter().map(|(_, slots)| slots.len()).sum();
        let demand = |holds: bool, what: &str| if holds { Ok(()) } else { Err(what.to_owned()) };
        demand(counts == self.counts, "the counts by state are wrong")?;
        demand(
            listed == with_lists,
            "a list has a segment of another state",
        )?;
        demand(
            node_segments == self.node_segments,
            "the count of segments of nodes is wrong",
        )?;
        demand(
            self.queue.len() == self.count_of(SegmentState::Queued),
            "the queue lacks a segment",
        )?;
        demand(
            settling == self.count_of(SegmentState::Settling),
            "a settling segment is lost",
        )?;
        demand(
            (live, weight) == (self.live, self.weight),
            "the sums of live data are wrong",
        )
    }
}
