//! Files that programs may have changed through memory: those that are open for reading and writing.
//!
//! The kernel reports neither the mapped files nor the pages that a store has changed (`mmap` with `MAP_SHARED`). A
//! mapping keeps its open file, and the kernel writes the pages of a mapping back before it releases the file. So pages
//! of a file can be changed and not yet written only while the file is open for both.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use crate::handles::is_both;

/// Number of handles of each file that is open for reading and writing.
#[derive(Default)]
pub(crate) struct ReadWriteHandles(RefCell<BTreeMap<u64, u64>>);

impl ReadWriteHandles {
    /// Records that a file was opened as `handle`.
    pub(crate) fn opened(&self, file: u64, handle: u64) {
        if is_both(handle) {
            *self.0.borrow_mut().entry(file).or_default() += 1;
        }
    }

    /// Records that the last user of `handle` has closed it.
    pub(crate) fn closed(&self, file: u64, handle: u64) {
        let mut counts = self.0.borrow_mut();
        let Some(count) = counts.get_mut(&file).filter(|_| is_both(handle)) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            counts.remove(&file);
        }
    }

    /// Returns true if pages of a file may be changed in memory and not yet written.
    pub(crate) fn has(&self, file: u64) -> bool {
        self.0.borrow().contains_key(&file)
    }
}

/// Ranges of files; the ranges of each file are in order and do not overlap.
pub(crate) type FileRanges = BTreeMap<u64, Vec<Range<u64>>>;

/// Bytes of files that an atomic update changes, until the kernel has forgotten their pages. Until then, the kernel may
/// write back pages that are older than the update, so these bytes are left out of such writes.
#[derive(Default)]
pub(crate) struct AtomicUpdates {
    last: Cell<u64>,
    all: RefCell<BTreeMap<u64, FileRanges>>,
}

/// An update in progress. Dropping the value ends the update.
pub(crate) struct AtomicUpdate {
    all: Rc<AtomicUpdates>,
    number: u64,
}

impl AtomicUpdates {
    /// Begins an update of exactly these bytes.
    pub(crate) fn begin(self: &Rc<Self>, of: FileRanges) -> AtomicUpdate {
        let number = self.last.get() + 1;
        self.last.set(number);
        self.all.borrow_mut().insert(number, of);
        let all = Rc::clone(self);
        AtomicUpdate { all, number }
    }

    /// Returns the ranges within these bytes of a file that updates change, in no order.
    pub(crate) fn changed(&self, file: u64, bytes: &Range<u64>) -> Vec<Range<u64>> {
        let mut changed = Vec::new();
        for ranges in self.all.borrow().values().filter_map(|of| of.get(&file)) {
            let first = ranges.partition_point(|range| range.end <= bytes.start);
            let touched = ranges[first..].iter();
            changed.extend(touched.take_while(|range| range.start < bytes.end).cloned());
        }
        changed
    }
}

impl Drop for AtomicUpdate {
    fn drop(&mut self) {
        self.all.all.borrow_mut().remove(&self.number);
    }
}

/// Returns the rest of a range without `pieces`, in order.
pub(crate) fn without(bytes: Range<u64>, mut pieces: Vec<Range<u64>>) -> Vec<Range<u64>> {
    pieces.sort_by_key(|piece| piece.start);
    let (mut left, mut at) = (Vec::new(), bytes.start);
    for piece in pieces {
        let end = piece.start.min(bytes.end);
        if at < end {
            left.push(at..end);
        }
        at = at.max(piece.end);
    }
    if at < bytes.end {
        left.push(at..bytes.end);
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handles::HandleGenerator;

    #[test]
    fn a_file_counts_as_read_write_while_such_a_handle_is_open() {
        let (handles, writers) = (HandleGenerator::default(), ReadWriteHandles::default());
        let open = |flags: i32| {
            let handle = handles.next(flags.cast_unsigned());
            writers.opened(7, handle);
            handle
        };
        let others = [open(libc::O_RDONLY), open(libc::O_WRONLY)];
        assert!(!writers.has(7));
        let both = [open(libc::O_RDWR), open(libc::O_RDWR)];
        assert!(writers.has(7) && !writers.has(8));
        for handle in &others {
            writers.closed(7, *handle);
        }
        writers.closed(7, both[0]);
        assert!(writers.has(7));
        writers.closed(7, both[1]);
        assert!(!writers.has(7) && writers.0.borrow().is_empty());
    }

    #[test]
    fn invalidated_ranges_exclude_updates_in_progress() {
        let updates = Rc::new(AtomicUpdates::default());
        let begin = |ranges: &[Range<u64>]| updates.begin([(7, ranges.to_vec())].into());
        let update = begin(&[10..20, 100..150]);
        let more = begin(&[140..150, 150..160]);
        let left = |bytes: Range<u64>| without(bytes.clone(), updates.changed(7, &bytes));
        assert_eq!(left(0..200), [0..10, 20..100, 160..200]);
        assert_eq!(left(120..170), vec![160..170]);
        assert!(left(110..155).is_empty() && updates.changed(8, &(0..200)).is_empty());
        drop(update);
        assert_eq!(left(0..200), [0..140, 160..200]);
        drop(more);
        assert_eq!(left(0..200), vec![0..200]);
    }
}
