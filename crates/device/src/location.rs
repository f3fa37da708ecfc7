//! The place of a part of a volume among the devices of its layer.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// Location of a part of the volume. Messages of the control socket name it by the words here.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DataLocation {
    /// At its address on the data device.
    Home,
    /// In the segment buffer, in the daemon's memory.
    #[serde(rename = "memory")]
    Ram,
    /// In the log.
    Log,
    /// No stored data: reads as zeroes.
    #[serde(rename = "nowhere")]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_have_the_words_of_the_control_socket() {
        use DataLocation::{Damaged, Home, Log, Ram, Zero};
        let words = serde_json::to_value([Home, Log, Ram, Zero, Damaged]).expect("encodes");
        let expected = ["home", "log", "memory", "nowhere", "damaged"];
        assert_eq!(words, serde_json::json!(expected));
    }
}
