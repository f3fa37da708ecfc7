//! What a disk is asked, told and answers.

use std::time::Duration;

use forebay_rt::Instant;

/// What a request does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// From the medium or the drive's cache to the host.
    Read,
    /// From the host to the medium, or at first to the drive's cache.
    Write,
}

/// The explicit choice of what the drive's cache does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheChoice {
    /// Report a write as done when its data is in the cache, and write it afterwards.
    pub immediate_report: bool,
    /// Keep what was read, and read on after it while there is nothing else to do.
    pub read_ahead: bool,
}

/// Which of the drive's caches are on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Caches {
    /// None: every request goes to the medium. For experiments.
    #[default]
    Off,
    /// As the drive was set when its parameters were measured.
    Own,
    /// As said, within what the drive can do.
    Explicit(CacheChoice),
}

/// Which of the waiting requests is next.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scheduling {
    /// The one that came first.
    #[default]
    Fcfs,
    /// The nearest in the direction in which the arm moves; at the last, it turns round (LOOK).
    Elevator,
    /// The one whose first block can be under the heads soonest (SPTF).
    Sptf,
}

/// How a disk behaves, besides its parameters.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Options {
    /// Which caches are on.
    pub caches: Caches,
    /// How the queue is served.
    pub scheduling: Scheduling,
    /// The rotational position at instant 0, as a fraction of a rotation.
    pub phase: f64,
}

/// Where the time of a request went. The parts may overlap, so they need not add up to the whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Service {
    /// Waiting for requests before it.
    pub queue: Duration,
    /// The controller's work.
    pub overhead: Duration,
    /// Moving the arm, choosing the head, settling.
    pub seek: Duration,
    /// Waiting for the first block to come by.
    pub rotation: Duration,
    /// Between the medium and the drive's memory.
    pub transfer: Duration,
    /// Between the drive's memory and the host.
    pub bus: Duration,
}

/// A request that is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The id it was submitted with.
    pub id: u64,
    /// When it was done.
    pub at: Instant,
    /// Where its time went.
    pub service: Service,
}
