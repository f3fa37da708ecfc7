//! What the device took, as seen by who waited for it.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::describe::shared;
use crate::located::Located;
use crate::observed;
use crate::residency::Presence;

/// An observation counts if waiting was this share of the time: then the device was hardly ever idle,
/// and the whole time is its own.
const WAITING: f64 = 0.7;
/// A shorter pass in file order is not worth writing down.
const IN_ORDER_BYTES_MIN: u64 = 32 << 20;

/// Adds up the waiting of one pass over a part of a file.
pub(super) struct Clock {
    /// What it is noted under.
    key: Arc<str>,
    begun: Option<Instant>,
    waited: Duration,
    bytes: u64,
}

impl Clock {
    fn new(key: Arc<str>) -> Clock {
        Clock {
            key,
            begun: None,
            waited: Duration::ZERO,
            bytes: 0,
        }
    }

    /// For a pass in best order; `None` where zones differ, as the pass may go over several.
    pub(super) fn best(located: &Located) -> Option<Clock> {
        located.observed_as().map(|key| Clock::new(Arc::clone(key)))
    }

    /// For a pass in file order over bytes `from` to `to`, which are all where `presence` says. `None` if
    /// they are few, or a part of them is in memory now, or a hole: what it takes would say nothing of
    /// the device.
    pub(super) fn in_file_order(
        file: &File,
        (from, to): (u64, u64),
        presence: impl FnOnce() -> Option<Presence>,
    ) -> Option<Clock> {
        if to.saturating_sub(from) < IN_ORDER_BYTES_MIN || presence() != Some(Presence::Absent) {
            return None;
        }
        let meta = file.metadata().ok()?;
        if meta.is_file() && meta.blocks().saturating_mul(512) < meta.len() {
            return None;
        }
        let located = shared().locate(file).ok()?;
        let key = located.observed_as()?;
        Some(Clock::new(observed::in_file_order(key).into()))
    }

    /// The caller waited since `begun`, and has so many bytes for it.
    pub(super) fn waited_since(&mut self, begun: Instant, bytes: u64) {
        self.begun.get_or_insert(begun);
        self.waited += begun.elapsed();
        self.bytes += bytes;
    }

    /// The pass is over: what it took refreshes the estimates.
    pub(super) fn note(self) {
        let took = self
            .begun
            .map_or(0.0, |begun| begun.elapsed().as_secs_f64());
        if self.waited.as_secs_f64() >= took * WAITING {
            observed::note(&self.key, self.bytes, took);
        }
    }
}
