//! Counters of the requests to a filesystem, maintained by the front end that serves it.

use std::cell::{Cell, RefCell};

use forebay_device::{LatencyHistogram, LatencySummary};

/// Kind of a request to a filesystem.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FilesystemRequestKind {
    /// A read of a file.
    Read,
    /// A write to a file.
    Write,
    /// A request to make changes durable.
    Sync,
    /// Creation, change or removal of a name or of attributes.
    Change,
    /// Any other request.
    Look,
}

impl FilesystemRequestKind {
    const COUNT: usize = 5;
}

/// Counters of requests to a filesystem, maintained by the front end that serves it.
#[derive(Default)]
pub struct FilesystemCounters {
    times: Cell<[u64; FilesystemRequestKind::COUNT]>,
    bytes: Cell<[u64; FilesystemRequestKind::COUNT]>,
    errors: Cell<u64>,
    full: Cell<u64>,
    latencies: RefCell<[LatencyHistogram; FilesystemRequestKind::COUNT]>,
}

impl FilesystemCounters {
    /// Returns the number of completed requests of a kind.
    pub(crate) fn count(&self, asked: FilesystemRequestKind) -> u64 {
        self.times.get()[asked as usize]
    }

    /// Returns the bytes of completed requests of a kind.
    pub(crate) fn bytes(&self, asked: FilesystemRequestKind) -> u64 {
        self.bytes.get()[asked as usize]
    }

    /// Returns the number of requests that failed because the filesystem was full, and for other reasons.
    pub(crate) fn failures(&self) -> (u64, u64) {
        (self.full.get(), self.errors.get())
    }

    /// Counts a completed request: its bytes, and its duration in nanoseconds.
    pub fn record(&self, asked: FilesystemRequestKind, bytes: u64, ns: u64) {
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

    pub(crate) fn latency(&self, asked: FilesystemRequestKind) -> LatencySummary {
        self.latencies.borrow()[asked as usize].summary()
    }
}
