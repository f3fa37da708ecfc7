//! Digests that are kept.

use std::cell::Cell;

/// A digest that is computed once for as long as its file does not change. Files are compared without it.
#[derive(Clone, Default, Debug)]
pub(super) struct CachedDigest(Cell<Option<u64>>);

impl PartialEq for CachedDigest {
    fn eq(&self, _: &CachedDigest) -> bool {
        true
    }
}

impl Eq for CachedDigest {}

impl CachedDigest {
    /// Returns the digest, which `compute` gives the first time.
    pub(super) fn get_or(&self, compute: impl FnOnce() -> u64) -> u64 {
        let digest = self.0.get().unwrap_or_else(compute);
        self.0.set(Some(digest));
        digest
    }
}
