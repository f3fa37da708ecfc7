//! Files of which the page cache may have something, for direct writes to keep it right.
//!
//! The kernel drops pages before it sends a direct write of a file that was opened with `O_DIRECT`, and not again behind it. A read
//! through the page cache that is answered in between brings the old data back, for good. So pages that such a write has changed are
//! forgotten before it is answered, if the file was read through the page cache.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

/// After so many direct writes without a read through the page cache, all of the file is forgotten, and later writes are as quick as before.
const WRITES_MAX: u32 = 16;

/// Files that were read through the page cache, and how many direct writes there have been since.
#[derive(Default)]
pub(crate) struct CachedFiles(RefCell<BTreeMap<u64, u32>>);

impl CachedFiles {
    /// A file is about to be read through the page cache.
    pub(crate) fn note_read(&self, file: u64) {
        self.0.borrow_mut().insert(file, 0);
    }

    /// The kernel has forgotten a file.
    pub(crate) fn forget(&self, file: u64) {
        self.0.borrow_mut().remove(&file);
    }

    /// Returns true if the page cache may have something of a file.
    pub(crate) fn has(&self, file: u64) -> bool {
        self.0.borrow().contains_key(&file)
    }

    /// These bytes were written directly: returns what the kernel has to forget, if anything.
    pub(crate) fn written(&self, file: u64, bytes: Range<u64>) -> Option<Range<u64>> {
        let mut all = self.0.borrow_mut();
        let writes = all.get_mut(&file)?;
        *writes += 1;
        if *writes < WRITES_MAX {
            return Some(bytes);
        }
        all.remove(&file);
        Some(0..i64::MAX as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn direct_writes_forget_what_they_changed_and_at_last_the_whole_file() {
        let cached = CachedFiles::default();
        assert_eq!(cached.written(7, 0..512), None);
        cached.note_read(7);
        for n in 1..u64::from(WRITES_MAX) {
            assert_eq!(cached.written(7, n..n + 512), Some(n..n + 512));
        }
        assert_eq!(cached.written(7, 0..512), Some(0..i64::MAX as u64));
        assert!(!cached.has(7) && cached.written(7, 0..512).is_none());
        cached.note_read(7);
        assert!(cached.has(7));
        cached.forget(7);
        assert!(!cached.has(7));
    }
}
