//! How much is measured.

/// How much is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PaperScale {
    /// All of it.
    Full,
    /// A part, in a few minutes.
    Quick,
}

impl PaperScale {
    /// Of how many files of a tree one is unpacked.
    pub(crate) fn every(self) -> usize {
        match self {
            PaperScale::Full => 1,
            PaperScale::Quick => 4,
        }
    }
}
