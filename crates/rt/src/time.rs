//! Instants.

use std::fmt;
use std::time::Duration;

/// A point in time, in nanoseconds since the driver's own start (584 years fit).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Instant(u64);

impl Instant {
    /// Returns the instant `ns` nanoseconds after the start.
    pub const fn from_nanos(ns: u64) -> Instant {
        Instant(ns)
    }

    /// Returns the nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Returns the instant `span` later; the last instant if the result is out of range.
    #[must_use]
    pub fn plus(self, span: Duration) -> Instant {
        Instant(
            self.0
                .saturating_add(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)),
        )
    }

    /// Returns the span since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// The error of an exceeded time limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TimeLimitError;

impl fmt::Display for TimeLimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("time ran out")
    }
}

impl std::error::Error for TimeLimitError {}
