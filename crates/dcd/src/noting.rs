//! Noting in the superblock which records are durable, where no later record does.
//!
//! Recovery takes a broken record for a torn write, unless something says that the record was durable. Each record says
//! so of the records that were flushed before it; the superblock says so of the last.

use std::rc::Rc;

use crate::engine::Engine;
use crate::policy::{self, Note, Noting};

/// Notes the newest flush for as long as the volume is attached and its log works.
pub(crate) async fn noter(engine: Rc<Engine>) {
    while engine.log.failure().is_none() && !engine.is_closing() {
        let durable = engine.log.durable();
        match policy::note(&engine.observe_flushes()) {
            // A volume that is closed while this waits drops it.
            Note::Rest => durable.await,
            Note::Wait(span) => {
                drop(durable);
                engine.rt.sleep(span).await;
            }
            // A failure is the log's, and latched there.
            Note::Now => drop(engine.log.update_superblock(|_| {}).await),
        }
    }
}

impl Engine {
    /// Returns what [`policy::note`] decides by.
    fn observe_flushes(&self) -> Noting {
        let (now, (stable, since)) = (self.rt.now(), self.log.newest_stable());
        Noting {
            is_noted: self.log.superblock().stable >= stable,
            age: now.since(since),
            idle: self.activity.borrow().idle(now),
        }
    }
}
