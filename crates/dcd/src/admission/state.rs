//! State of admission: the writers' queue and their pace.

use std::cell::RefCell;
use std::rc::Rc;

use forebay_rt::Lock;
use forebay_units::SegmentSeq;

use super::pace::LogPace;
use super::queue::{SpaceDemand, WriterQueue};

/// State of admission. Destaging reports its progress to `pace`.
pub(crate) struct AdmissionState {
    /// Held by the writer at the head of the queue.
    pub(super) turn: Rc<Lock>,
    /// Writers that wait for admission.
    queue: RefCell<WriterQueue>,
    /// Rate at which writers may fill a log that is nearly full.
    pub(crate) pace: RefCell<LogPace>,
}

/// Membership of a writer in the queue, which ends when the guard is dropped.
pub(super) struct QueuedWriter<'a> {
    queue: &'a RefCell<WriterQueue>,
    wanted: SpaceDemand,
}

impl Drop for QueuedWriter<'_> {
    fn drop(&mut self) {
        self.queue.borrow_mut().leave(self.wanted);
    }
}

impl AdmissionState {
    /// Creates the state of a volume without writers. `head` is the head of the log.
    pub(crate) fn new(head: SegmentSeq) -> AdmissionState {
        AdmissionState {
            turn: Rc::default(),
            queue: RefCell::default(),
            pace: RefCell::new(LogPace::new(head)),
        }
    }

    /// Returns the number of queued writers.
    pub(crate) fn queued(&self) -> u32 {
        self.queue.borrow().len()
    }

    /// Returns true if the first queued writer waits for the tail to move.
    pub(crate) fn is_starved(&self) -> bool {
        self.queue.borrow().is_starved()
    }

    /// Returns the total demand of queued writers.
    pub(super) fn wanted(&self) -> SpaceDemand {
        self.queue.borrow().wanted()
    }

    /// Adds a writer to the queue.
    pub(super) fn enter(&self, wanted: SpaceDemand) -> QueuedWriter<'_> {
        self.queue.borrow_mut().enter(wanted);
        let queue = &self.queue;
        QueuedWriter { queue, wanted }
    }

    /// Records whether the first queued writer waits for the tail to move.
    pub(super) fn starve(&self, starved: bool) {
        self.queue.borrow_mut().starve(starved);
    }
}
