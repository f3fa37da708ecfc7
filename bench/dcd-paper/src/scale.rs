//! Amount of the measurements.

/// Amount of the measurements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PaperScale {
    /// All measurements.
    Full,
    /// A part of the measurements, in a few minutes.
    Quick,
}

impl PaperScale {
    /// Returns `n`: one in `n` files of a tree is unpacked.
    pub(crate) fn every(self) -> usize {
        match self {
            PaperScale::Full => 1,
            PaperScale::Quick => 4,
        }
    }
}
