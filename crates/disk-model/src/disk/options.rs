//! Requests, options and completions of a disk.

use std::time::Duration;

use forebay_rt::Instant;

/// Kind of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DiskOp {
    /// From the platters or the drive's cache to the host.
    Read,
    /// From the host to the platters, or at first to the drive's cache.
    Write,
}

/// Explicit choice of the cache's functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheChoice {
    /// Report a write as done when its data is in the cache, and write it to the platters afterwards.
    pub immediate_report: bool,
    /// Keep read blocks, and read ahead while the mechanism is idle.
    pub read_ahead: bool,
}

/// Enabled caches of the drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum EnabledCaches {
    /// No cache: every request goes to the platters. For experiments.
    #[default]
    Off,
    /// The drive's settings at the time when its parameters were measured.
    Own,
    /// An explicit choice, within the abilities of the drive.
    Explicit(CacheChoice),
}

/// Order in which queued requests are served.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scheduling {
    /// First come, first served.
    #[default]
    Fcfs,
    /// The nearest request in the arm's direction; the arm reverses after the last one (LOOK).
    Elevator,
    /// The request whose first block can be under the heads first (SPTF).
    Sptf,
}

/// Options of a disk, in addition to its parameters.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct DiskOptions {
    /// Enabled caches.
    pub caches: EnabledCaches,
    /// Order of service.
    pub scheduling: Scheduling,
    /// Rotational position at instant 0, as a fraction of a rotation.
    pub phase: f64,
}

/// Parts of a request's duration. They may overlap, so their sum can exceed the duration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ServiceTimes {
    /// Time in the queue.
    pub queue: Duration,
    /// Time of the controller's work.
    pub overhead: Duration,
    /// Time of moving the arm, switching the head, and settling.
    pub seek: Duration,
    /// Time until the first block passed the head.
    pub rotation: Duration,
    /// Time of the transfer between the platters and the drive's cache.
    pub transfer: Duration,
    /// Time of the transfer between the drive's cache and the host.
    pub bus: Duration,
}

/// A completed request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskCompletion {
    /// The id with which the request was submitted.
    pub id: u64,
    /// Completion time.
    pub at: Instant,
    /// Parts of the duration.
    pub service: ServiceTimes,
}
