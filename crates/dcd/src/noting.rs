//! Recording the newest durable record in the superblock, if no later record does so.
//!
//! Recovery treats a broken record as a torn write, unless the log proves that the record was durable. Each record
//! proves this for the records that were flushed before it. For the last records the superblock does.

use std::rc::Rc;

use crate::engine::DcdEngine;
use crate::policy::{self, NoterDecision, NoterInput};

/// Records the newest flush, for as long as the volume is attached and its log works.
pub(crate) async fn noter(engine: Rc<DcdEngine>) {
    while engine.log.failure().is_none() && !engine.is_closing() {
        let durable = engine.log.durable();
        match policy::note(&engine.observe_flushes()) {
            // This task is dropped if the volume is closed while it waits.
            NoterDecision::Rest => durable.await,
            NoterDecision::Wait(span) => {
                drop(durable);
                engine.rt.sleep(span).await;
            }
            // The log records its own failure, so the result is not needed.
            NoterDecision::Now => drop(engine.log.update_superblock(|_| {}).await),
        }
    }
}

impl DcdEngine {
    /// Collects the input of [`policy::note`].
    fn observe_flushes(&self) -> NoterInput {
        let (now, (stable, since)) = (self.rt.now(), self.log.newest_stable());
        NoterInput {
            is_noted: self.log.superblock().stable >= stable,
            age: now.since(since),
            idle: self.activity.borrow().idle(now),
        }
    }
}
