//! Measures the device time of a pass by the time that the reader waited.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::describe::shared;
use crate::located::LocatedDevice;
use crate::observed;
use crate::residency::Presence;

/// Minimum share of waiting in the time of a pass. Above it the device was almost never idle, so the whole time is
/// device time.
const WAITING: f64 = 0.7;
/// Minimum length of an observed pass in file order.
const IN_ORDER_BYTES_MIN: u64 = 32 << 20;

/// Adds up the waiting time of one pass over a part of a file.
pub(super) struct WaitClock {
    /// Key of the observation.
    key: Arc<str>,
    begun: Option<Instant>,
    waited: Duration,
    bytes: u64,
}

impl WaitClock {
    fn new(key: Arc<str>) -> WaitClock {
        WaitClock {
            key,
            begun: None,
            waited: Duration::ZERO,
            bytes: 0,
        }
    }

    /// Makes a clock for a pass in best order. `None` on a device with different zones, since the pass may cover
    /// several of them.
    pub(super) fn best(located: &LocatedDevice) -> Option<WaitClock> {
        located
            .observed_as()
            .map(|key| WaitClock::new(Arc::clone(key)))
    }

    /// Makes a clock for a pass in file order over bytes `from` to `to`; `presence` returns the common presence of all
    /// bytes, if they have one. `None` if the range is short, or if a part of it is in memory or a hole: the time would
    /// not be device time.
    pub(super) fn in_file_order(
        file: &File,
        (from, to): (u64, u64),
        presence: impl FnOnce() -> Option<Presence>,
    ) -> Option<WaitClock> {
        if to.saturating_sub(from) < IN_ORDER_BYTES_MIN || presence() != Some(Presence::Absent) {
            return None;
        }
        let meta = file.metadata().ok()?;
        if meta.is_file() && meta.blocks().saturating_mul(512) < meta.len() {
            return None;
        }
        let located = shared().locate(file).ok()?;
        let key = located.observed_as()?;
        Some(WaitClock::new(observed::in_file_order(key).into()))
    }

    /// Adds the wait since `begun`, which delivered `bytes`.
    pub(super) fn waited_since(&mut self, begun: Instant, bytes: u64) {
        self.begun.get_or_insert(begun);
        self.waited += begun.elapsed();
        self.bytes += bytes;
    }

    /// Ends the pass and records its observation, which refreshes the estimates.
    pub(super) fn note(self) {
        let took = self
            .begun
            .map_or(0.0, |begun| begun.elapsed().as_secs_f64());
        if self.waited.as_secs_f64() >= took * WAITING {
            observed::note(&self.key, self.bytes, took);
        }
    }
}
