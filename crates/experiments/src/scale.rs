//! How much is measured.

/// How much is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// All of it.
    Full,
    /// A part, in a few minutes.
    Quick,
}

impl Scale {
    /// Of how many files of a tree one is unpacked.
    pub(crate) fn every(self) -> usize {
        match self {
            Scale::Full => 1,
            Scale::Quick => 4,
        }
    }
}
