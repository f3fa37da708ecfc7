//! Digests for the comparison of filesystems.

use forebay_device::is_zero;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash, Hasher};

use super::model::{FilesModel, ModelId, ModelNode, TOP};

/// Returns the hash function of digests. Its hashes are identical in each run. It is fast, because each state after a
/// crash has a digest.
fn hasher() -> impl Hasher {
    foldhash::quality::FixedState::with_seed(0).build_hasher()
}

impl FilesModel {
    /// Returns a digest that is equal for filesystems whose names lead to equal content.
    pub fn digest(&self) -> u64 {
        let mut hasher = hasher();
        let mut seen = BTreeMap::new();
        self.hash_below(TOP, &mut seen, &mut hasher);
        hasher.finish()
    }

    fn hash_below(&self, id: ModelId, seen: &mut BTreeMap<ModelId, u64>, hasher: &mut impl Hasher) {
        let next = seen.len() as u64;
        let number = *seen.entry(id).or_insert(next);
        number.hash(hasher);
        if number < next {
            return;
        }
        let node = self.node(id);
        node.digest().hash(hasher);
        for (name, below) in &node.names {
            name.hash(hasher);
            self.hash_below(*below, seen, hasher);
        }
    }
}

impl ModelNode {
    /// Returns a digest that is equal for files of equal content, regardless of their names.
    fn digest(&self) -> u64 {
        self.digest.get_or(|| self.compute_digest())
    }

    fn compute_digest(&self) -> u64 {
        let mut hasher = hasher();
        let state = &mut hasher;
        (self.kind.code(), self.permissions, self.user, self.links).hash(state);
        self.flags.hash(state);
        self.attributes.hash(state);
        self.bytes.size.hash(state);
        for (n, piece) in &self.bytes.pieces {
            if !is_zero(&piece[..]) {
                n.hash(state);
                state.write(&piece[..]);
            }
        }
        hasher.finish()
    }
}
