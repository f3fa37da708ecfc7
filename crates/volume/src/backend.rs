//! The storage that backs a device, and its identity, which does not depend on the name.
//!
//! This is the only module that distinguishes kinds of storage. A new kind is a variant of [`DeviceBackend`], with its
//! identity in [`StorageIdentity`].

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use forebay_linux::{DeviceOpenError, DeviceOpenOptions, IoRing, LockedDevice, NodeId};

/// The storage that backs a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeviceBackend {
    /// A regular file or a block device.
    Path(PathBuf),
}

/// Identity of a storage, independent of its name: equal values mean the same bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StorageNode {
    /// A file's inode, or a block device's number.
    Node(NodeId),
}

/// Identity of a device: its storage, and the part of the storage that it covers. An emulated disk has the identity of
/// the storage that it emulates the timing over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StorageIdentity {
    storage: StorageNode,
    /// Byte range of the part; `None` for the whole storage.
    part: Option<Range<u64>>,
}

impl DeviceBackend {
    /// Opens the storage.
    ///
    /// # Errors
    /// If it does not exist, is in use, or cannot be opened.
    pub(crate) fn open(
        &self,
        ring: &Rc<IoRing>,
        options: DeviceOpenOptions,
    ) -> Result<LockedDevice, DeviceOpenError> {
        match self {
            DeviceBackend::Path(path) => forebay_linux::open(ring, path, options),
        }
    }

    /// Returns the identity of a part of the storage.
    ///
    /// # Errors
    /// If the storage does not exist.
    pub(crate) fn identity(&self, part: Option<&Range<u64>>) -> io::Result<StorageIdentity> {
        let storage = match self {
            DeviceBackend::Path(path) => StorageNode::Node(forebay_linux::node_id(path)?),
        };
        let part = part.cloned();
        Ok(StorageIdentity { storage, part })
    }

    /// Returns the path. All backends have a path so far.
    pub(crate) fn path(&self) -> &Path {
        match self {
            DeviceBackend::Path(path) => path,
        }
    }
}

impl fmt::Display for DeviceBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceBackend::Path(path) => path.display().fmt(f),
        }
    }
}

impl StorageIdentity {
    /// Returns true if both are on one device, in any parts of it.
    pub fn shares_device(&self, other: &StorageIdentity) -> bool {
        self.storage == other.storage
    }

    /// Returns true if both are files of one filesystem.
    pub fn shares_filesystem(&self, other: &StorageIdentity) -> bool {
        let (StorageNode::Node(own), StorageNode::Node(other)) = (self.storage, other.storage);
        match (own, other) {
            (NodeId::File(own, _), NodeId::File(other, _)) => own == other,
            _ => false,
        }
    }

    /// Returns true if both have bytes in common.
    pub fn overlaps(&self, other: &StorageIdentity) -> bool {
        let apart = match (&self.part, &other.part) {
            (Some(a), Some(b)) => a.end <= b.start || b.end <= a.start,
            _ => false,
        };
        self.shares_device(other) && !apart
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DeviceSpec;

    /// Returns the identities of two specs on the files `a`, `b` (a hard link to `a`) and `c`.
    fn identities(specs: [&str; 2]) -> [StorageIdentity; 2] {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("a"), "").unwrap();
        std::fs::hard_link(at("a"), at("b")).unwrap();
        std::fs::write(at("c"), "").unwrap();
        specs.map(|text| {
            let spec: DeviceSpec = text.parse().unwrap();
            spec.at(at(spec.path().to_str().unwrap()))
                .identity()
                .unwrap()
        })
    }

    #[test]
    fn a_device_has_the_same_identity_by_any_path_and_with_any_model() {
        for same in [["a", "b"], ["a@0+1M", "b@0+1M"], ["a", "model:barracuda:b"]] {
            let [a, b] = identities(same);
            assert_eq!(a, b, "{same:?}");
        }
        for other in [["a", "c"], ["a@0+1M", "a@1M+1M"], ["a", "a@0+1M"]] {
            let [a, b] = identities(other);
            assert_ne!(a, b, "{other:?}");
        }
    }

    #[test]
    fn ranges_overlap_only_if_they_share_a_byte() {
        for (specs, overlap) in [
            (["a@0+1M", "b@1M+1M"], false),
            (["a@0+1M", "b@512K+1M"], true),
            (["a", "b@512K+1M"], true),
            (["a", "c"], false),
            (["a@0+1M", "c@0+1M"], false),
        ] {
            let [a, b] = identities(specs);
            assert_eq!(a.overlaps(&b), overlap, "{specs:?}");
            assert_eq!(b.overlaps(&a), overlap, "{specs:?}");
        }
    }

    #[test]
    fn a_missing_path_has_no_identity() {
        assert!(DeviceSpec::whole("/nowhere/at/all").identity().is_err());
    }
}
