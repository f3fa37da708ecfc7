//! Requests for checkpoints, in order of arrival.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use forebay_rt::Event;
use forebay_segment_log::LogError;

use crate::volume_change::VolumeChange;

/// A request for a checkpoint.
pub(crate) struct QueuedCheckpoint {
    /// Change of the volume, in effect when the checkpoint is valid.
    pub(crate) change: Option<VolumeChange>,
    made: RefCell<Option<Result<(), LogError>>>,
}

/// Requests for checkpoints that have not begun.
#[derive(Default)]
pub(crate) struct CheckpointQueue {
    waiting: RefCell<VecDeque<Rc<QueuedCheckpoint>>>,
    /// True if no more checkpoints are made.
    stopped: Cell<bool>,
    ended: Event,
}

impl CheckpointQueue {
    /// Adds a request. If the result is dropped before the checkpoint begins, the request is withdrawn.
    pub(crate) fn push(&self, change: Option<VolumeChange>) -> Rc<QueuedCheckpoint> {
        let request = Rc::new(QueuedCheckpoint {
            change,
            made: RefCell::new(None),
        });
        self.waiting.borrow_mut().push_back(Rc::clone(&request));
        request
    }

    /// Removes the oldest request that a task still waits for.
    pub(crate) fn pop(&self) -> Option<Rc<QueuedCheckpoint>> {
        let mut waiting = self.waiting.borrow_mut();
        loop {
            let request = waiting.pop_front()?;
            if Rc::strong_count(&request) > 1 {
                return Some(request);
            }
        }
    }

    /// Notes the result of a request.
    pub(crate) fn end(&self, request: &QueuedCheckpoint, made: Result<(), LogError>) {
        request.made.replace(Some(made));
        self.ended.notify_all();
    }

    /// Notes that no more checkpoints are made, since the volume is closed.
    pub(crate) fn stop(&self) {
        self.stopped.set(true);
        self.ended.notify_all();
    }

    /// Waits for the result of a request.
    pub(crate) async fn result(&self, request: &QueuedCheckpoint) -> Result<(), LogError> {
        let stopped = || LogError::Failed("the volume is closed".into());
        let made = || {
            let made = request.made.borrow_mut().take();
            made.or_else(|| self.stopped.get().then(|| Err(stopped())))
        };
        self.ended.until(made).await
    }
}
