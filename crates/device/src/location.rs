//! The place of a part of a volume among the devices of its layer.

use std::ops::Range;

use serde::Serialize;

/// Location of a part of the volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DataLocation {
    /// At its address on the data device.
    Home,
    /// In the segment buffer.
    Ram,
    /// In the log.
    Log,
    /// No stored data: reads as zeroes.
    Zero,
    /// Lost.
    Damaged,
}

/// A part of the volume and its location.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LocatedExtent {
    /// Byte range.
    pub range: Range<u64>,
    /// Location.
    pub place: DataLocation,
}
