//! Accounting of live sectors in segments.

use forebay_extent_map::{LogPlace, MapChanges};
use forebay_units::SegmentSeq;

use super::{SegmentTable, weight_of};
use crate::counted::MapCounts;
use crate::geometry::SegmentSlot;
use crate::segment::SegmentState;
use crate::weight::units_of;

impl SegmentTable {
    /// Returns all numbers that have places, with their slots, in no particular order.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = (SegmentSeq, SegmentSlot)> {
        let slots = (0..self.len() as u32).map(SegmentSlot);
        slots.filter_map(|slot| {
            let number = self.get(slot).seq;
            (self.slot_of(number) == Some(slot)).then_some((number, slot))
        })
    }

    /// Returns the sectors that checkpoints wrote beside nodes.
    pub(crate) fn meta_sectors(&self) -> u64 {
        let meta = self.states.iter().map(|known| u64::from(known.meta));
        meta.sum()
    }

    /// Replaces the counts of live sectors by a new count.
    pub(crate) fn set_counts(&mut self, counted: &MapCounts) {
        let numbers: Vec<(SegmentSeq, SegmentSlot)> = self.numbers().collect();
        for (number, slot) in numbers {
            let (live, units) = counted.segments.get(&number).copied().unwrap_or_default();
            let (before, had) = (self.weight_of(slot), self.get(slot).live);
            let segment = self.segments.get_mut(slot);
            segment.live = live as u32;
            segment.units = units as u32;
            self.live = self.live - u64::from(had) + live;
            self.reweigh(slot, before);
        }
        self.nodes = counted.nodes;
        self.doubtful = false;
    }

    /// Applies changes of the map to the counts. The map's extents in a segment are its live data.
    pub(crate) fn count(&mut self, changes: &MapChanges) {
        // Add first, so that a segment with a remaining part is never empty in between.
        for one in &changes.new {
            self.add(one.extent.place, one.extent.sectors, units_of(one));
        }
        for one in &changes.rest {
            // While recovery applies records, the map may point at segments that were used again.
            if self.slot_at(one.extent.place).is_some() {
                self.add(one.extent.place, one.extent.sectors, units_of(one));
            }
        }
        for one in &changes.gone {
            self.subtract(one.extent.place, one.extent.sectors, units_of(one));
        }
    }

    /// Counts sectors of the newest checkpoint beside nodes.
    pub(crate) fn count_meta(&mut self, place: LogPlace, sectors: u64) {
        let Some(slot) = self.slot_at(place) else {
            return self.doubt(
                SegmentSlot(0),
                "a checkpoint lies in a segment that is retired",
            );
        };
        let before = self.weight_of(slot);
        self.states[slot.0 as usize].meta += sectors as u32;
        self.live += sectors;
        self.reweigh(slot, before);
    }

    /// Discounts sectors of a superseded checkpoint beside nodes.
    pub(crate) fn discount_meta(&mut self, place: LogPlace, sectors: u64) {
        let Some(slot) = self.slot_at(place) else {
            return self.doubt(
                SegmentSlot(0),
                "a checkpoint lay in a segment that is retired",
            );
        };
        let before = self.weight_of(slot);
        self.states[slot.0 as usize].meta -= sectors as u32;
        self.live -= sectors;
        self.reweigh(slot, before);
    }

    /// Counts a node that the newest checkpoint points at.
    pub(crate) fn count_node(&mut self, place: LogPlace, sectors: u64) {
        self.nodes += sectors;
        self.add(place, sectors, 0);
    }

    /// Discounts a node that no checkpoint points at any more.
    pub(crate) fn discount_node(&mut self, place: LogPlace, sectors: u64) {
        self.nodes = self.nodes.saturating_sub(sectors);
        self.subtract(place, sectors, 0);
    }

    /// Sets the live sectors of nodes when a volume is opened.
    pub(crate) fn set_nodes(&mut self, sectors: u64) {
        self.nodes = sectors;
    }

    fn add(&mut self, place: LogPlace, sectors: u64, units: u64) {
        let Some(slot) = self.slot_at(place) else {
            // The map points at a retired number only if counts were wrong.
            return self.doubt(
                SegmentSlot(0),
                "the map points at a segment that is retired",
            );
        };
        let before = self.weight_of(slot);
        let segment = self.segments.get_mut(slot);
        segment.live += sectors as u32;
        segment.units += units as u32;
        self.live += sectors;
        self.reweigh(slot, before);
    }

    fn subtract(&mut self, place: LogPlace, sectors: u64, units: u64) {
        // Data in a retired segment was released with the segment.
        let Some(slot) = self.slot_at(place) else {
            return;
        };
        let before = self.weight_of(slot);
        let segment = self.segments.get_mut(slot);
        let (had, gone) = (segment.live, sectors as u32);
        segment.live = had.saturating_sub(gone);
        segment.units = segment.units.saturating_sub(units as u32);
        self.live -= u64::from(had.min(gone));
        if had < gone {
            self.doubt(
                slot,
                "more sectors of a segment were released than were counted",
            );
        }
        self.reweigh(slot, before);
    }

    /// Returns the live sectors of a segment: data, nodes and other parts of checkpoints.
    pub(crate) fn live_in(&self, slot: SegmentSlot) -> u32 {
        self.get(slot).live + self.states[slot.0 as usize].meta
    }

    pub(super) fn weight_of(&self, slot: SegmentSlot) -> u64 {
        let meta = self.states[slot.0 as usize].meta;
        weight_of(self.get(slot)) + u64::from(meta)
    }

    /// Updates sums and state after the weight of a segment has changed.
    pub(super) fn reweigh(&mut self, slot: SegmentSlot, before: u64) {
        let (now, live) = (self.weight_of(slot), self.live_in(slot));
        self.weight = self.weight - before + now;
        match self.state(slot) {
            SegmentState::Closed if live > 0 => self.victims.changed(slot.0, now as u32),
            SegmentState::Closed
            | SegmentState::Cleaned
            | SegmentState::Unreadable
            | SegmentState::Pending
            | SegmentState::Empty => {
                let is_empty = live == 0;
                let was_empty = self.state(slot).is_unused();
                if is_empty != was_empty {
                    self.change(slot, self.rest(slot));
                }
            }
            _ => {}
        }
    }
}
