//! Counters of the requests to a filesystem, maintained by the front end that serves it.

use std::cell::{Cell, RefCell};

use forebay_device::{LatencyHistogram, LatencySummary};
use forebay_dfs::RequestClass;

/// Counters of requests to a filesystem, maintained by the front end that serves it.
#[derive(Default)]
pub struct FilesystemCounters {
    times: Cell<[u64; RequestClass::COUNT]>,
    bytes: Cell<[u64; RequestClass::COUNT]>,
    errors: Cell<u64>,
    full: Cell<u64>,
    latencies: RefCell<[LatencyHistogram; RequestClass::COUNT]>,
}

impl FilesystemCounters {
    /// Returns the number of completed requests of a class.
    pub(crate) fn count(&self, asked: RequestClass) -> u64 {
        self.times.get()[asked as usize]
    }

    /// Returns the bytes of completed requests of a class.
    pub(crate) fn bytes(&self, asked: RequestClass) -> u64 {
        self.bytes.get()[asked as usize]
    }

    /// Returns the number of requests that failed because the filesystem was full, and for other reasons.
    pub(crate) fn failures(&self) -> (u64, u64) {
        (self.full.get(), self.errors.get())
    }

    /// Counts a completed request: its bytes, and its duration in nanoseconds.
    pub fn record(&self, asked: RequestClass, bytes: u64, ns: u64) {
        let (n, mut times, mut all) = (asked as usize, self.times.get(), self.bytes.get());
        times[n] += 1;
        all[n] += bytes;
        self.times.set(times);
        self.bytes.set(all);
        self.latencies.borrow_mut()[n].record(ns);
    }

    /// Counts a failed request: the filesystem was full, or had another error.
    pub fn failed(&self, is_full: bool) {
        let count = if is_full { &self.full } else { &self.errors };
        count.set(count.get() + 1);
    }

    pub(crate) fn latency(&self, asked: RequestClass) -> LatencySummary {
        self.latencies.borrow()[asked as usize].summary()
    }
}
