//! Noting in the superblock which records are durable, where no later record does.
//!
//! Recovery takes a broken record for a torn write, unless something says that the record was durable. Each record says
//! so of the records that were flushed before it; the superblock says so of the last.

use std::rc::Rc;

use forebay_rt::Instant;
use forebay_units::RecordSeq;

use crate::engine::Engine;
use crate::policy::{self, Note, Noting};

/// The newest durable record, and when the noter first saw that it was durable.
type Newest = (RecordSeq, Instant);

/// Notes the newest flush for as long as the volume is attached and its log works.
pub(crate) async fn noter(engine: Rc<Engine>) {
    let mut newest = (engine.log.stable(), engine.rt.now());
    while engine.log.failure().is_none() && !engine.is_closing() {
        let wake = engine.signals.wake.listen();
        if engine.log.stable() != newest.0 {
            newest = (engine.log.stable(), engine.rt.now());
        }
        match policy::note(&engine.observe_flushes(newest)) {
            Note::Rest => wake.await,
            Note::Wait(span) => {
                drop(wake);
                engine.rt.sleep(span).await;
            }
            // A failure is the log's, and latched there.
            Note::Now => drop(engine.log.update_superblock(|_| {}).await),
        }
    }
}

impl Engine {
    /// Returns what [`policy::note`] decides by.
    fn observe_flushes(&self, (durable, since): Newest) -> Noting {
        let (noted, now) = (self.log.superblock().stable, self.rt.now());
        Noting {
            is_noted: noted >= durable,
            is_newest: noted >= self.log.last_record(),
            age: now.since(since),
            idle: self.activity.borrow().idle(now),
        }
    }
}
