//! The levels of storage that parts of files come from.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// Level that a part of a file comes from.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum StorageLevel {
    /// The page cache, or a hole.
    Memory,
    /// A device, with its name from the table. The name of the zone follows a colon.
    Device(Arc<str>),
    /// Unknown: the kernel does not report the residency to this caller, or the device is unknown.
    Unknown,
}

impl StorageLevel {
    /// Returns `memory`, `unknown`, or the device's name.
    pub fn name(&self) -> &str {
        match self {
            StorageLevel::Memory => "memory",
            StorageLevel::Device(name) => name,
            StorageLevel::Unknown => "unknown",
        }
    }
}

impl fmt::Display for StorageLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for StorageLevel {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
