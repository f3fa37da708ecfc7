//! The steps of a freeze: drain, hold writes back, hold the devices still, and release everything at the time limit.

use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use super::{FreezePhase, VolumeFreeze};

/// A volume whose devices can be held still.
pub trait StillVolume {
    /// Reason why the devices cannot be held still.
    type Failure;

    /// Brings most data to its final place, while clients continue.
    fn drain(&self) -> impl Future<Output = Result<(), Self::Failure>>;

    /// Brings all data to its final place, and lets background work rest until [`StillVolume::resume`], also after a
    /// failure. No client changes the volume meanwhile.
    fn hold_still(&self) -> impl Future<Output = Result<(), Self::Failure>>;

    /// Lets background work continue.
    fn resume(&self);
}

/// Reason why a volume is not frozen. Its writes continue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FreezeFailure<F> {
    /// The volume failed.
    Volume(F),
    /// The freeze is no longer wanted.
    Withdrawn,
    /// The time limit was reached, or a thaw was commanded, before all data was in place.
    Released,
}

impl VolumeFreeze {
    /// Freezes a volume: drains it while clients write, holds back new writes for `limit` at most, and holds its
    /// devices still. `is_wanted` is asked before writes are held back. The call must not be cancelled.
    ///
    /// # Errors
    /// If the volume is not frozen. Its writes continue then.
    pub async fn freeze<V: StillVolume + 'static>(
        &self,
        volume: &Rc<V>,
        limit: Duration,
        is_wanted: impl Fn() -> bool,
    ) -> Result<(), FreezeFailure<V::Failure>> {
        let _turn = self.shared.turn.lock().await;
        volume.drain().await.map_err(FreezeFailure::Volume)?;
        if !is_wanted() {
            return Err(FreezeFailure::Withdrawn);
        }
        self.begin(self.rt.now().plus(limit));
        let (gate, watched, expired) = (self.clone(), Rc::clone(volume), self.expired());
        let watching = async move {
            if expired.await {
                tracing::warn!("the time limit of the freeze is reached; writes continue");
                gate.release(&*watched);
            }
        };
        self.rt.spawn(watching).detach();
        let held = if self.quiet().await {
            volume.hold_still().await
        } else {
            Ok(())
        };
        if held.is_ok() && self.phase() == FreezePhase::Frozen {
            return Ok(());
        }
        // The freeze ended before its preparation, whose last step may have let background work rest.
        volume.resume();
        self.thaw();
        Err(held.map_or_else(FreezeFailure::Volume, |()| FreezeFailure::Released))
    }

    /// Returns true while a freeze is prepared.
    pub fn is_preparing(&self) -> bool {
        self.shared.turn.is_held()
    }

    /// Lets background work and then all writes continue. Returns false if the volume was not frozen.
    pub fn release<V: StillVolume>(&self, volume: &V) -> bool {
        if self.phase() == FreezePhase::Thawed {
            return false;
        }
        volume.resume();
        self.thaw()
    }
}
