//! The levels of storage that parts of files come from.

use std::fmt;
use std::sync::Arc;

use serde::{Serialize, Serializer};

/// Where a part of a file has to come from.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Level {
    /// The page cache; or nowhere, for holes.
    Memory,
    /// A device, by its name in the table, with that of the zone behind a colon.
    Device(Arc<str>),
    /// The kernel does not tell this caller, or nothing is known of the device.
    Unknown,
}

impl Level {
    /// `memory`, `unknown`, or the device's name.
    pub fn name(&self) -> &str {
        match self {
            Level::Memory => "memory",
            Level::Device(name) => name,
            Level::Unknown => "unknown",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Level {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
