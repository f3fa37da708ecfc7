//! Digests by which the simulator compares filesystems.

use forebay_device::is_zero;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash, Hasher};

use super::model::{FilesModel, ModelId, ModelNode, TOP};

/// The hash function of digests: the same in each run, and quick, since a digest is taken of all that each crash leaves.
fn hasher() -> impl Hasher {
    foldhash::quality::FixedState::with_seed(0).build_hasher()
}

impl FilesModel {
    /// Something that is the same for two if what names lead to is.
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
    /// Something that is the same for two of the same content, without their names.
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
