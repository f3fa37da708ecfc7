//! Preallocated ranges in memory. `settle.rs` keeps them consistent with the space's count.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;

use forebay_units::RangeSet;

use crate::error::{FsError, Result};
use crate::format::PREALLOCATED_RANGES_MAX;

/// The most files with preallocated ranges, and the most ranges of all files: they are kept in memory.
const FILES_MAX: usize = 1 << 16;
const RANGES_MAX: usize = 1 << 18;

/// A change of a file's preallocated ranges. Sectors count from the beginning of the file's data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum RangeEdit {
    Add(Range<u64>),
    Remove(Range<u64>),
}

/// The preallocated ranges of one file.
#[derive(Clone, Default, Debug)]
pub(crate) struct PreallocatedFile {
    pub(crate) ranges: RangeSet,
    /// Sectors of the ranges that are not mapped.
    pub(crate) unmapped: u64,
}

/// The preallocated ranges of all files.
#[derive(Default)]
pub(crate) struct PreallocationTable {
    /// By i-number.
    files: RefCell<BTreeMap<u64, PreallocatedFile>>,
    /// The number of ranges of all files.
    ranges: Cell<usize>,
}

/// The effect of a batch on the preallocated ranges of a file.
pub(crate) struct SettledFile {
    pub(crate) file: u64,
    /// The change in the number of sectors that are not mapped.
    pub(crate) change: i64,
    /// The new ranges, if they change.
    pub(crate) ranges: Option<RangeSet>,
}

impl PreallocationTable {
    /// Returns true if no file has preallocated ranges.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.borrow().is_empty()
    }

    pub(crate) fn has(&self, file: u64) -> bool {
        self.files.borrow().contains_key(&file)
    }

    pub(crate) fn of(&self, file: u64) -> Option<PreallocatedFile> {
        self.files.borrow().get(&file).cloned()
    }

    /// Returns the number of preallocated sectors of a file that are not mapped.
    pub(crate) fn unmapped(&self, file: u64) -> u64 {
        self.files.borrow().get(&file).map_or(0, |one| one.unmapped)
    }

    /// Returns true if a file has preallocated ranges whose sectors are all mapped.
    pub(crate) fn is_used_up(&self, file: u64) -> bool {
        let files = self.files.borrow();
        files.get(&file).is_some_and(|one| one.unmapped == 0)
    }

    /// Fails if a file cannot change from `before` ranges to `after` ranges.
    pub(crate) fn must_take(&self, before: usize, after: usize) -> Result<()> {
        let is_new = before == 0 && self.files.borrow().len() >= FILES_MAX;
        let all = self.ranges.get() + after.saturating_sub(before);
        if after > before && (is_new || all > RANGES_MAX || after > PREALLOCATED_RANGES_MAX) {
            return Err(FsError::PreallocatedRanges);
        }
        Ok(())
    }

    /// Sets the ranges of a file, and the number of their sectors that are not mapped.
    pub(crate) fn set(&self, file: u64, new: PreallocatedFile) {
        let mut files = self.files.borrow_mut();
        let more = new.ranges.ranges();
        let old = if new.ranges.is_empty() {
            files.remove(&file)
        } else {
            files.insert(file, new)
        };
        let fewer = old.map_or(0, |old| old.ranges.ranges());
        self.ranges.set(self.ranges.get() + more - fewer);
    }

    /// Records that a batch was applied.
    pub(crate) fn settle(&self, settled: Vec<SettledFile>) {
        for SettledFile {
            file,
            change,
            ranges,
        } in settled
        {
            let mut one = self.of(file).unwrap_or_default();
            one.unmapped = one.unmapped.saturating_add_signed(change);
            one.ranges = ranges.unwrap_or(one.ranges);
            self.set(file, one);
        }
    }
}

impl RangeEdit {
    /// Returns the ranges after edits, which are applied in order.
    pub(crate) fn apply_all<'a>(
        ranges: &RangeSet,
        edits: impl Iterator<Item = &'a RangeEdit>,
    ) -> RangeSet {
        let mut ranges = ranges.clone();
        for edit in edits {
            match edit {
                RangeEdit::Add(range) => ranges.insert(range.clone()),
                RangeEdit::Remove(range) => {
                    let mut fewer = ranges.clone();
                    fewer.remove(range.clone());
                    // A hole in the middle splits a range into two. If the record has no space for both, the hole stays
                    // preallocated.
                    if fewer.ranges() <= PREALLOCATED_RANGES_MAX {
                        ranges = fewer;
                    }
                }
            }
        }
        ranges
    }
}
