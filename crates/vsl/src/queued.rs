//! Guards of batches that wait for free space.

use std::rc::Rc;

use crate::batch::Batch;
use crate::claim::SegmentDemand;
use crate::space::SpaceInner;

/// Keeps a batch in the queue until dropped.
pub(crate) struct QueuedBatch<'a>(&'a Rc<SpaceInner>, SegmentDemand);

impl QueuedBatch<'_> {
    pub(crate) fn new<'a>(inner: &'a Rc<SpaceInner>, batch: &Batch) -> QueuedBatch<'a> {
        let wanted = SegmentDemand::of(batch);
        inner.pacing.borrow_mut().queue(wanted);
        QueuedBatch(inner, wanted)
    }
}

impl Drop for QueuedBatch<'_> {
    fn drop(&mut self) {
        self.0.pacing.borrow_mut().unqueue(self.1);
    }
}

/// Counts a batch as waiting for space until dropped.
pub(crate) struct WaitingBatch<'a>(&'a Rc<SpaceInner>);

impl WaitingBatch<'_> {
    pub(crate) fn new(inner: &Rc<SpaceInner>) -> WaitingBatch<'_> {
        inner.pacing.borrow_mut().presses(true);
        inner.clean_asked.notify_all();
        WaitingBatch(inner)
    }
}

impl Drop for WaitingBatch<'_> {
    fn drop(&mut self) {
        self.0.pacing.borrow_mut().presses(false);
    }
}
