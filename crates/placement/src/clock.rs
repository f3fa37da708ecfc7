//! Clock of client writes.

/// Amount of data that clients had written at an event, in sectors. This clock measures lifetimes as in SepBIT (section
/// 2.1): time is the amount of data written, not wall-clock time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct WriteClock(pub u64);

impl WriteClock {
    /// Returns the sectors that clients wrote since `earlier`; 0 if `earlier` is later.
    pub fn since(self, earlier: WriteClock) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
