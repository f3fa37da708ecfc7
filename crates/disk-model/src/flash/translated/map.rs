//! The map of a translation layer: the page of each mapping unit, and the choice of the next reclaim unit to collect.
//!
//! The map is plain state without time, which is in `drive.rs`. Pages are numbered as in [`super::FlashChips`], reclaim unit
//! by reclaim unit.
//!
//! Invariants:
//! - `page_of` and `unit_of` are inverse to each other where both are set.
//! - `live` of a reclaim unit is the number of its pages with a mapping unit.
//! - Before a page is taken for the host, [`FREE_MIN`] reclaim units are free or can be freed by collection.

use std::collections::VecDeque;
use std::ops::Range;

/// Reclaim units that are kept free: collection needs one, and the other may be opened meanwhile.
pub(super) const FREE_MIN: usize = 2;
/// Value for no page or no mapping unit.
const NONE: u32 = u32::MAX;

/// Sizes of a map.
#[derive(Clone, Copy, Debug)]
pub(super) struct MapShape {
    /// Mapping units that the drive shows.
    pub(super) units: u64,
    /// Reclaim units of the chips in use.
    pub(super) reclaim_units: u64,
    /// Pages of a reclaim unit.
    pub(super) pages: u64,
    /// Placement handles.
    pub(super) handles: u16,
}

impl MapShape {
    /// Returns the reclaim units in addition to those that the data fills.
    pub(super) fn reserve(&self) -> u64 {
        self.reclaim_units
            .saturating_sub(self.units.div_ceil(self.pages))
    }

    /// Returns the minimum reserve in reclaim units: one open for each handle and for collection, those kept free, and
    /// one of garbage, so that collection gains space.
    pub(super) fn reserve_min(&self) -> u64 {
        u64::from(self.handles) + 1 + FREE_MIN as u64 + 1
    }
}

/// Writer of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PageWriter {
    /// The host, with the handle of the mapping unit.
    Host,
    /// Collection.
    Collection,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ReclaimState {
    Free,
    Open,
    Full,
}

/// A reclaim unit that is being filled.
#[derive(Clone, Copy)]
struct OpenUnit {
    unit: u32,
    /// Pages taken.
    taken: u64,
}

/// The map.
pub(super) struct FlashMap {
    shape: MapShape,
    page_of: Vec<u32>,
    unit_of: Vec<u32>,
    handle_of: Vec<u16>,
    live: Vec<u32>,
    state: Vec<ReclaimState>,
    free: VecDeque<u32>,
    /// Open units of the handles, followed by that of collection.
    open: Vec<Option<OpenUnit>>,
}

impl FlashMap {
    /// Creates the map of a drive without data.
    pub(super) fn new(shape: MapShape) -> FlashMap {
        let reclaim_units = shape.reclaim_units as usize;
        let pages = reclaim_units * shape.pages as usize;
        FlashMap {
            page_of: vec![NONE; shape.units as usize],
            unit_of: vec![NONE; pages],
            handle_of: vec![0; shape.units as usize],
            live: vec![0; reclaim_units],
            state: vec![ReclaimState::Free; reclaim_units],
            free: (0..shape.reclaim_units as u32).collect(),
            open: vec![None; usize::from(shape.handles) + 1],
            shape,
        }
    }

    /// Returns the reclaim units in use, full or empty.
    pub(super) fn reclaim_units(&self) -> u64 {
        self.shape.reclaim_units
    }

    /// Returns the pages of a reclaim unit.
    pub(super) fn pages(&self) -> u64 {
        self.shape.pages
    }

    /// Sets the handle of mapping units.
    pub(super) fn place(&mut self, units: Range<u64>, handle: u16) {
        let handle = handle.min(self.shape.handles - 1);
        for unit in units {
            self.handle_of[unit as usize] = handle;
        }
    }

    /// Returns the page of a mapping unit, if it has one.
    pub(super) fn page_of(&self, unit: u64) -> Option<u64> {
        let page = self.page_of[unit as usize];
        (page != NONE).then_some(page.into())
    }

    /// Makes the page of a mapping unit garbage.
    pub(super) fn unmap(&mut self, unit: u64) {
        let page = std::mem::replace(&mut self.page_of[unit as usize], NONE);
        if page != NONE {
            self.unit_of[page as usize] = NONE;
            self.live[(u64::from(page) / self.shape.pages) as usize] -= 1;
        }
    }

    fn writer(&self, unit: u64, writer: PageWriter) -> usize {
        match writer {
            PageWriter::Host => self.handle_of[unit as usize].into(),
            PageWriter::Collection => self.shape.handles.into(),
        }
    }

    /// True if collection must gain a reclaim unit before this mapping unit is mapped for the host.
    pub(super) fn must_collect(&self, unit: u64) -> bool {
        let open = &self.open[self.writer(unit, PageWriter::Host)];
        open.is_none() && self.free.len() <= FREE_MIN
    }

    /// Maps a mapping unit to the next page of its writer. Returns the page.
    ///
    /// # Panics
    /// If no reclaim unit is free.
    pub(super) fn map(&mut self, unit: u64, writer: PageWriter) -> u64 {
        self.unmap(unit);
        let n = self.writer(unit, writer);
        let mut open = self.open[n].take().unwrap_or_else(|| {
            let unit = self.free.pop_front().expect("reclaim units are kept free");
            self.state[unit as usize] = ReclaimState::Open;
            OpenUnit { unit, taken: 0 }
        });
        let page = u64::from(open.unit) * self.shape.pages + open.taken;
        open.taken += 1;
        if open.taken == self.shape.pages {
            self.state[open.unit as usize] = ReclaimState::Full;
        } else {
            self.open[n] = Some(open);
        }
        self.page_of[unit as usize] = page as u32;
        self.unit_of[page as usize] = unit as u32;
        self.live[open.unit as usize] += 1;
        page
    }

    /// Returns the full reclaim unit with the fewest live pages, and the mapping units in it. The caller must map each
    /// of these for collection, and then call [`FlashMap::freed`].
    ///
    /// # Panics
    /// If every full reclaim unit is full of live pages: the reserve is checked when the map is made.
    pub(super) fn victim(&self) -> (u64, Vec<u64>) {
        let full = (0u64..).zip(self.state.iter().zip(&self.live));
        let full = full.filter(|(_, (state, _))| **state == ReclaimState::Full);
        let least = full.min_by_key(|(_, (_, live))| **live);
        let (victim, (_, live)) = least.expect("some reclaim unit is full");
        assert!(u64::from(*live) < self.shape.pages, "nothing is garbage");
        let first = (victim * self.shape.pages) as usize;
        let pages = &self.unit_of[first..first + self.shape.pages as usize];
        let units = pages.iter().filter(|unit| **unit != NONE);
        (victim, units.map(|unit| u64::from(*unit)).collect())
    }

    /// Notes that a reclaim unit without live pages was erased.
    pub(super) fn freed(&mut self, reclaim_unit: u64) {
        debug_assert_eq!(self.live[reclaim_unit as usize], 0);
        self.state[reclaim_unit as usize] = ReclaimState::Free;
        self.free.push_back(reclaim_unit as u32);
    }

    /// Checks the invariants.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let mut live = vec![0; self.live.len()];
        for (unit, page) in self.page_of.iter().enumerate() {
            if *page != NONE {
                assert_eq!(self.unit_of[*page as usize], unit as u32);
                live[(u64::from(*page) / self.shape.pages) as usize] += 1;
            }
        }
        assert_eq!(live, self.live);
        let mapped = self.unit_of.iter().filter(|unit| **unit != NONE).count();
        assert_eq!(mapped as u32, live.iter().sum());
    }
}
