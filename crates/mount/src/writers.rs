//! Files that programs may have changed through memory: those that are open for reading and writing.
//!
//! The kernel does not say which files are mapped, nor which pages a store has changed (`mmap` with `MAP_SHARED`). A mapping keeps
//! its open file, and the kernel writes the pages of a mapping back before it releases that. So pages of a file can be changed
//! and not yet written only while the file is open for both.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::handles::is_both;

/// How many open files there are of each file that is open for reading and writing.
#[derive(Default)]
pub(crate) struct Writers(RefCell<BTreeMap<u64, u64>>);

impl Writers {
    /// A file was opened as `handle`.
    pub(crate) fn opened(&self, file: u64, handle: u64) {
        if is_both(handle) {
            *self.0.borrow_mut().entry(file).or_default() += 1;
        }
    }

    /// The last user of `handle` has closed it.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handles::Handles;

    #[test]
    fn a_file_is_one_while_it_is_open_for_both() {
        let (handles, writers) = (Handles::default(), Writers::default());
        let open = |flags: i32| {
            let handle = handles.next(flags.cast_unsigned());
            writers.opened(7, handle);
            handle
        };
        let others = [open(libc::O_RDONLY), open(libc::O_WRONLY)];
        assert!(!writers.has(7));
        let both = [open(libc::O_RDWR), open(libc::O_RDWR)];
        assert!(writers.has(7) && !writers.has(8));
        others.iter().for_each(|handle| writers.closed(7, *handle));
        writers.closed(7, both[0]);
        assert!(writers.has(7));
        writers.closed(7, both[1]);
        assert!(!writers.has(7) && writers.0.borrow().is_empty());
    }
}
