//! Where things are on the medium.

use forebay_units::SECTOR_BYTES;

/// A place on the medium, in sectors from where its first segment begins. Below 2^48.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place(pub u64);

impl Place {
    /// Places are below this: six bytes on the medium.
    pub const END: u64 = 1 << 48;

    /// The byte it begins at.
    pub fn bytes(self) -> u64 {
        self.0 * SECTOR_BYTES
    }

    /// The place `sectors` further on.
    #[must_use]
    pub fn plus(self, sectors: u64) -> Place {
        Place(self.0 + sectors)
    }
}
