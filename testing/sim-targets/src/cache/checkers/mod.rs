//! Checkers of the cache, in addition to the checkers of any volume. Each checker is independent of the others.
//!
//! This module combines the checkers of device requests for each disk. The other checkers are called when their
//! conditions are due.

mod abandoned;
pub mod accounts;
mod copies;
pub mod epochs;
mod home;
pub mod liveness;
mod segments;
pub mod smooth;
#[cfg(test)]
mod tests;
mod turns;

use std::rc::Rc;

use forebay_sim::Violation;
use forebay_sim::disk::{DiskRequest, SimDisk};
use forebay_sim::system::RequestWatcher;
use forebay_sim::writers::WriterHistories;

/// Observer of the log device in one incarnation.
pub(super) struct LogDeviceWatcher {
    abandoned: abandoned::AbandonedLogChecker,
    copies: copies::SuperblockChecker,
    segments: Option<segments::SegmentChecker>,
    /// The data device, if the log is on the same disk.
    beside: Option<Rc<SimDisk>>,
}

impl LogDeviceWatcher {
    /// Creates an observer for an incarnation with this data device, which may be on the log's disk. `honest` is true
    /// if the disks keep all data that they acknowledged as durable.
    pub(super) fn new(data: &Rc<SimDisk>, honest: bool, one_disk: bool) -> LogDeviceWatcher {
        LogDeviceWatcher {
            abandoned: abandoned::AbandonedLogChecker::default(),
            copies: copies::SuperblockChecker::default(),
            segments: honest.then(|| segments::SegmentChecker::new(data)),
            beside: one_disk.then(|| Rc::clone(data)),
        }
    }
}

impl RequestWatcher for LogDeviceWatcher {
    fn issued(&self, _writers: &WriterHistories, request: &DiskRequest) -> Result<(), Violation> {
        self.abandoned.issued(request)?;
        // A fault of the data device may have made the log fail. This checker cannot observe such a failure.
        let beside = self.beside.as_ref();
        if beside.is_some_and(|data| data.injected() > 0) {
            return Ok(());
        }
        self.copies.issued(request)?;
        let segments = self.segments.as_ref();
        segments.map_or(Ok(()), |segments| segments.issued(request))
    }

    fn ended(&self, request: &DiskRequest, failed: bool) {
        self.abandoned.ended(request, failed);
        self.copies.ended(request, failed);
        if let Some(segments) = &self.segments {
            segments.ended(request, failed);
        }
    }
}

/// Observer of the data device in one incarnation.
#[derive(Default)]
pub(super) struct DataDeviceWatcher {
    turns: turns::OverlapChecker,
}

impl RequestWatcher for DataDeviceWatcher {
    fn issued(&self, writers: &WriterHistories, request: &DiskRequest) -> Result<(), Violation> {
        self.turns.issued(request)?;
        home::issued(writers, request)
    }

    fn ended(&self, request: &DiskRequest, _failed: bool) {
        self.turns.ended(request);
    }
}
