//! The engine that serves a volume now, and the change to the next one (`replacement.rs`).

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use forebay_rt::{Event, Lock};

use crate::engine::DcdEngine;
use crate::running::RunningEngine;

/// The present engine of a volume, and the requests that wait for the next one.
pub(crate) struct EngineSuccession {
    present: RefCell<RunningEngine>,
    /// True while requests wait for the next engine.
    held: Cell<bool>,
    changed: Event,
    /// Held while the log is replaced, and while the volume is closed.
    pub(crate) turn: Rc<Lock>,
}

/// New requests wait until it is dropped.
pub(crate) struct RequestHold<'a> {
    succession: &'a EngineSuccession,
    engine: Rc<DcdEngine>,
}

impl Drop for RequestHold<'_> {
    fn drop(&mut self) {
        self.engine.service.borrow_mut().awaits_quiet = false;
        self.succession.held.set(false);
        self.succession.changed.notify_all();
    }
}

impl EngineSuccession {
    pub(crate) fn new(first: RunningEngine) -> EngineSuccession {
        EngineSuccession {
            present: RefCell::new(first),
            held: Cell::new(false),
            changed: Event::new(),
            turn: Rc::default(),
        }
    }

    /// Returns the present engine.
    pub(crate) fn engine(&self) -> Rc<DcdEngine> {
        Rc::clone(&self.present.borrow().engine)
    }

    /// Returns the present engine with its background work.
    pub(crate) fn running(&self) -> RunningEngine {
        self.present.borrow().clone()
    }

    /// Makes `next` the present engine.
    pub(crate) fn replace(&self, next: RunningEngine) {
        self.present.replace(next);
    }

    /// Returns the engine that serves a new request. The caller must begin the request without waiting.
    pub(crate) async fn serving(&self) -> Rc<DcdEngine> {
        if self.held.get() {
            let free = || (!self.held.get()).then_some(());
            Box::pin(self.changed.until(free)).await;
        }
        self.engine()
    }

    /// Lets new requests wait until the result is dropped.
    pub(crate) fn hold(&self) -> RequestHold<'_> {
        self.held.set(true);
        let engine = self.engine();
        engine.service.borrow_mut().awaits_quiet = true;
        RequestHold {
            succession: self,
            engine,
        }
    }
}
