//! Admission: decides when a writer may put its data into the log.
//!
//! A writer calls [`DcdEngine::admit`] with its demand. The decision has these steps, in this order:
//! 1. If the log has failed, the writer goes to the data device at once.
//! 2. If free space suffices for the writer and for all queued writers (`space.rs`), and the pace permits, the writer
//!    is admitted at once. Above 70 % of the cache the pace permits only a writer whose wait is zero and that no queued
//!    writer precedes. Below, there is no pace (`policy.rs::goes_at_once`).
//! 3. Any other writer joins the queue (`queue.rs`) and waits for its turn, in order of arrival.
//! 4. The head of the queue waits for the pace (`pacing.rs`): writers and destaging must reach the same rate before
//!    the log is full. `policy.rs::pace` returns the permitted multiple of the rate that `pace.rs` measures. If writes
//!    wait for the log device, several queued writers are admitted together.
//! 5. Then it waits for free space. A writer that only destaging can help is *starved*: destaging no longer yields to
//!    clients, and a fault of a device that outlasts the configured patience fails the writer.
//!
//! Invariants:
//! - The admitted space is available to the code that follows without an await.
//! - A writer passes the queue only if free space suffices for all queued writers as well.
//! - A writer that is not admitted has put nothing into the log, and is not acknowledged.
//! - The pace alone delays the head of the queue by one second at most. So a wrong rate stops no writer.
//! - Every wait ends: with free space, with the failure of the log, with closing, or with the end of patience.
//!
//! The rest of the crate uses little of this: [`DcdEngine::admit`], the fill that destaging decides by
//! ([`DcdEngine::used`], [`DcdEngine::log_used`]), the queue length and the starved writer in
//! [`state::AdmissionState`], and [`pace::LogPace`], to which destaging reports its progress.

pub(crate) mod pace;
mod pacing;
mod policy;
mod queue;
mod space;
pub(crate) mod state;

use std::pin::pin;

use forebay_device::{DeviceError, DeviceOp, Result};
use futures_util::future::{Either, select};

use crate::engine::DcdEngine;

pub(crate) use queue::SpaceDemand;
pub(crate) use space::ATOMIC_BYTES;
use space::CacheShortage;

/// Destination of an admitted request.
pub(crate) enum WriteDestination {
    /// The log.
    Log,
    /// The data device, since the log has failed.
    DataDevice,
}

impl DcdEngine {
    /// Waits until the log and the map have free space, and until the pace of a nearly full log admits the request. The
    /// free space is still available to code that follows without an await.
    ///
    /// # Errors
    /// If the volume is being closed, or destaging cannot free space for longer than the configured patience.
    pub(crate) async fn admit(
        &self,
        op: DeviceOp,
        wanted: SpaceDemand,
    ) -> Result<WriteDestination> {
        if self.log.failure().is_some() {
            return Ok(WriteDestination::DataDevice);
        }
        if !self.goes_at_once(wanted) {
            return Box::pin(self.admit_from_queue(op, wanted)).await;
        }
        self.take(wanted);
        Ok(WriteDestination::Log)
    }

    /// Returns true if the writer need not join the queue.
    fn goes_at_once(&self, wanted: SpaceDemand) -> bool {
        let queued = self.admission.wanted();
        self.has_room(queued.plus(wanted))
            && policy::goes_at_once(queued != SpaceDemand::default(), self.pace_wait())
    }

    /// Queues the writer. Waits for its turn, then for the pace, then for free space.
    async fn admit_from_queue(
        &self,
        op: DeviceOp,
        wanted: SpaceDemand,
    ) -> Result<WriteDestination> {
        let began = self.rt.now();
        let _queued = self.admission.enter(wanted);
        let _turn = self.admission.turn.lock().await;
        self.keep_pace().await;
        let admitted = self.wait_for_room(op, wanted).await?;
        let waited = self.rt.now().since(began).as_nanos() as u64;
        self.counters.borrow_mut().throttled_ns += waited;
        Ok(admitted)
    }

    /// Waits until free space suffices for the writer at the head of the queue.
    async fn wait_for_room(&self, op: DeviceOp, wanted: SpaceDemand) -> Result<WriteDestination> {
        loop {
            let progress = self.log.progress();
            if self.log.failure().is_some() {
                return Ok(WriteDestination::DataDevice);
            }
            if self.has_room(wanted) {
                self.take(wanted);
                return Ok(WriteDestination::Log);
            }
            // Records in the log stay there. Data that was not admitted was never acknowledged.
            if self.is_closing() {
                return Err(DeviceError::Closed { op });
            }
            match self.press_destaging(wanted) {
                Some(lack) => self.wait_for_destaging(op, lack, progress).await?,
                None => progress.await,
            }
        }
    }

    /// Wakes destaging for the writer at the head of the queue. Returns the resource that only destaging can free.
    fn press_destaging(&self, wanted: SpaceDemand) -> Option<CacheShortage> {
        let lack = self.lacks_room(wanted);
        self.admission.starve(lack.is_some());
        self.signals.wake.notify_all();
        self.signals.urgent.notify_all();
        lack
    }

    /// Waits until the log makes progress.
    ///
    /// # Errors
    /// If a fault of a device lasts longer than the configured patience.
    async fn wait_for_destaging(
        &self,
        op: DeviceOp,
        lack: CacheShortage,
        progress: impl Future<Output = ()> + Unpin,
    ) -> Result<()> {
        let lasts = pin!(self.trouble_lasts());
        match select(progress, lasts).await {
            Either::Left(_) => Ok(()),
            Either::Right((cause, _)) => {
                let cause = format!("{}: {cause}", lack.text()).into();
                Err(DeviceError::Failed { op, cause })
            }
        }
    }
}
