//! Files that the page cache may hold, so that direct writes can keep the page cache correct.
//!
//! The kernel drops pages before it sends a direct write of a file that was opened with `O_DIRECT`, but not after it. A
//! buffered read that is answered in between brings the old data back permanently. So if the file was read through the
//! page cache, the kernel is told to forget the written pages before the direct write is answered.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

/// Number of direct writes without a buffered read after which all of the file is forgotten. Later writes are then as
/// fast as without the page cache.
const WRITES_MAX: u32 = 16;

/// Files that were read through the page cache, with the number of direct writes since the last read.
#[derive(Default)]
pub(crate) struct CachedFiles(RefCell<BTreeMap<u64, u32>>);

impl CachedFiles {
    /// Records that a file is about to be read through the page cache.
    pub(crate) fn note_read(&self, file: u64) {
        self.0.borrow_mut().insert(file, 0);
    }

    /// Records that the kernel has forgotten a file.
    pub(crate) fn forget(&self, file: u64) {
        self.0.borrow_mut().remove(&file);
    }

    /// Returns true if the page cache may hold data of a file.
    pub(crate) fn has(&self, file: u64) -> bool {
        self.0.borrow().contains_key(&file)
    }

    /// Records a direct write of these bytes. Returns the range that the kernel must forget, if any.
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
    fn direct_writes_invalidate_their_ranges_and_finally_the_whole_file() {
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
