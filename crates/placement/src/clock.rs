//! When things were written.

/// How much users had written when something happened, in sectors: the clock by which lifetimes are told,
/// as in SepBIT (section 2.1), where time is what users write and not what a wall clock says.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct WriteClock(pub u64);

impl WriteClock {
    /// Sectors that users wrote since `earlier`; none if that is later.
    pub fn since(self, earlier: WriteClock) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
