//! What is live in segments.

use forebay_extents::{Changes, Place};
use forebay_units::SegmentSeq;

use super::{SegmentTable, weight_of};
use crate::counted::Counted;
use crate::geometry::Slot;
use crate::segment::SegmentState;
use crate::weight::units_of;

impl SegmentTable {
    /// All numbers that have places, in no order, and their slots.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = (SegmentSeq, Slot)> {
        let slots = (0..self.len() as u32).map(Slot);
        slots.filter_map(|slot| {
            let number = self.get(slot).seq;
            (self.slot_of(number) == Some(slot)).then_some((number, slot))
        })
    }

    /// Sectors that checkpoints wrote beside nodes.
    pub(crate) fn meta_sectors(&self) -> u64 {
        let meta = self.states.iter().map(|known| u64::from(known.meta));
        meta.sum()
    }

    /// Takes what was counted anew for what is live.
    pub(crate) fn set_counts(&mut self, counted: &Counted) {
        let numbers: Vec<(SegmentSeq, Slot)> = self.numbers().collect();
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

    /// The map has changed so. Its extents in a segment are what is live there.
    pub(crate) fn count(&mut self, changes: &Changes) {
        // First, so that a segment with a rest is never empty in between.
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

    /// The newest checkpoint points at something it wrote beside nodes.
    pub(crate) fn count_meta(&mut self, place: Place, sectors: u64) {
        let Some(slot) = self.slot_at(place) else {
            return self.doubt(Slot(0), "a checkpoint lies in a segment that is retired");
        };
        let before = self.weight_of(slot);
        self.states[slot.0 as usize].meta += sectors as u32;
        self.live += sectors;
        self.reweigh(slot, before);
    }

    /// It no longer does.
    pub(crate) fn discount_meta(&mut self, place: Place, sectors: u64) {
        let Some(slot) = self.slot_at(place) else {
            return self.doubt(Slot(0), "a checkpoint lay in a segment that is retired");
        };
        let before = self.weight_of(slot);
        self.states[slot.0 as usize].meta -= sectors as u32;
        self.live -= sectors;
        self.reweigh(slot, before);
    }

    /// The newest checkpoint points at a node.
    pub(crate) fn count_node(&mut self, place: Place, sectors: u64) {
        self.nodes += sectors;
        self.add(place, sectors, 0);
    }

    /// It no longer does.
    pub(crate) fn discount_node(&mut self, place: Place, sectors: u64) {
        self.nodes = self.nodes.saturating_sub(sectors);
        self.subtract(place, sectors, 0);
    }

    /// So many of the sectors that are live are nodes', when a volume is opened.
    pub(crate) fn set_nodes(&mut self, sectors: u64) {
        self.nodes = sectors;
    }

    fn add(&mut self, place: Place, sectors: u64, units: u64) {
        let Some(slot) = self.slot_at(place) else {
            // Nothing is mapped to a number that is retired, unless counts were wrong.
            return self.doubt(Slot(0), "the map points at a segment that is retired");
        };
        let before = self.weight_of(slot);
        let segment = self.segments.get_mut(slot);
        segment.live += sectors as u32;
        segment.units += units as u32;
        self.live += sectors;
        self.reweigh(slot, before);
    }

    fn subtract(&mut self, place: Place, sectors: u64, units: u64) {
        // What lay in a retired segment was given up with it.
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
            self.doubt(slot, "more was given up in a segment than was counted");
        }
        self.reweigh(slot, before);
    }

    /// Sectors that something points at in a segment, whatever it is.
    pub(crate) fn live_in(&self, slot: Slot) -> u32 {
        self.get(slot).live + self.states[slot.0 as usize].meta
    }

    pub(super) fn weight_of(&self, slot: Slot) -> u64 {
        let meta = self.states[slot.0 as usize].meta;
        weight_of(self.get(slot)) + u64::from(meta)
    }

    /// A segment weighs something else than it did.
    pub(super) fn reweigh(&mut self, slot: Slot, before: u64) {
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
