//! An engine with its background work: starting and closing.

use std::cell::RefCell;
use std::rc::Rc;

use forebay_device::Result;
use forebay_ring_log::LogWorkers;
use forebay_rt::Task;

use crate::degraded::rescuer;
use crate::destage::destager;
use crate::engine::DcdEngine;
use crate::noting::noter;
use crate::reopening::reopener;

/// An engine with its background work. Clones are handles of the same engine.
#[derive(Clone)]
pub(crate) struct RunningEngine {
    pub(crate) engine: Rc<DcdEngine>,
    work: Rc<RefCell<Option<BackgroundTasks>>>,
}

/// Background work, which stops when dropped.
struct BackgroundTasks {
    _log: LogWorkers,
    _tasks: [Task<()>; 4],
}

impl RunningEngine {
    /// Starts the background work of an engine.
    pub(crate) fn start(engine: DcdEngine, workers: LogWorkers) -> RunningEngine {
        let engine = Rc::new(engine);
        let rt = engine.rt.clone();
        let tasks = [
            rt.spawn(destager(Rc::clone(&engine))),
            rt.spawn(noter(Rc::clone(&engine))),
            rt.spawn(rescuer(Rc::clone(&engine))),
            rt.spawn(reopener(Rc::clone(&engine))),
        ];
        let work = Some(BackgroundTasks {
            _log: workers,
            _tasks: tasks,
        });
        RunningEngine {
            engine,
            work: Rc::new(RefCell::new(work)),
        }
    }

    /// Closes the engine; see [`DcdVolume::close`].
    pub(crate) async fn close(&self) -> Result<()> {
        let engine = &*self.engine;
        engine.begin_to_close();
        let busy = || engine.activity.borrow().is_busy() || engine.service.borrow().destaging;
        let served = || (!busy()).then_some(());
        engine.signals.settled.until(served).await;
        let flushed = engine.make_durable(engine.log.last_record()).await;
        // A write to the data device that is left under way could conflict with writes of the next attach.
        engine.service.borrow_mut().stop();
        engine.signals.again.notify_all();
        let rested = || (!engine.service.borrow().rescuing).then_some(());
        engine.signals.settled.until(rested).await;
        let empty = engine.is_empty();
        if flushed.is_ok() && engine.log.failure().is_none() {
            let layer = engine.payload.borrow().encode();
            let noted = engine.log.update_superblock(|superblock| {
                superblock.clean = empty;
                superblock.layer = layer;
            });
            if let Err(error) = noted.await {
                tracing::warn!(%error, "the state of the log could not be recorded at close");
                engine.rescue.borrow_mut().marked(!empty);
            }
        } else if engine.rescue.borrow().is_done()
            && (flushed.is_ok() || engine.rescue.borrow().has_stale_log())
        {
            // This is the last attempt; `stale_log` returns its result.
            engine.mark_for_good().await;
        }
        self.work.replace(None);
        engine.signals.settled.notify_all();
        flushed
    }
}
