//! The placement of data that users request.

use std::fmt;
use std::str::FromStr;

use forebay_placement::placement::{PlacementKind, UnknownPlacement};

/// Requested placement of data in a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RequestedPlacement {
    /// The placement with the lowest expected cost on the device.
    #[default]
    Auto,
    /// This placement.
    As(PlacementKind),
}

impl FromStr for RequestedPlacement {
    type Err = UnknownPlacement;

    fn from_str(text: &str) -> Result<RequestedPlacement, UnknownPlacement> {
        match text {
            "auto" => Ok(RequestedPlacement::Auto),
            kind => kind.parse().map(RequestedPlacement::As),
        }
    }
}

impl RequestedPlacement {
    /// Returns the name that users write.
    pub fn name(self) -> &'static str {
        match self {
            RequestedPlacement::Auto => "auto",
            RequestedPlacement::As(kind) => kind.name(),
        }
    }
}

impl fmt::Display for RequestedPlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
