//! Cached digests.

use std::cell::Cell;

/// A digest that is computed once, until its file changes. Comparisons of files ignore it.
#[derive(Clone, Default, Debug)]
pub(super) struct CachedDigest(Cell<Option<u64>>);

impl PartialEq for CachedDigest {
    fn eq(&self, _: &CachedDigest) -> bool {
        true
    }
}

impl Eq for CachedDigest {}

impl CachedDigest {
    /// Returns the digest, and calls `compute` if it is not cached.
    pub(super) fn get_or(&self, compute: impl FnOnce() -> u64) -> u64 {
        let digest = self.0.get().unwrap_or_else(compute);
        self.0.set(Some(digest));
        digest
    }
}
