//! Change of the placement of a volume in use, on request or because another placement is expected to cost less.
//!
//! Data stays where an earlier placement put it until it is overwritten or cleaned. Streams have the same numbers with
//! every placement, and a placement accepts segments of streams that it does not use. So a change costs a checkpoint,
//! and no request waits for it.
//!
//! Placements keep different numbers of segments free. Recovery must never find a volume that is too full for its
//! placement. So a change to a placement that keeps more free takes effect first and becomes durable later. A change to
//! a placement that keeps less free becomes durable first. In between, the placement in effect keeps more free than the
//! durable placement.

use std::rc::Rc;

use forebay_placement::placement::{FillLevel, PlacementKind, TunerStatus, WorkTotals};
use forebay_units::{ByteLen, SECTOR_BYTES};

use crate::changed::ChangedBounds;
use crate::error::SpaceError;
use crate::format::SpaceSuperblock;
use crate::placed::placement_of;
use crate::room::SpaceBudget;
use crate::space::{Space, SpaceInner};
use crate::spare::spare_part;
use crate::streams::{StreamCounts, StreamShape};
use crate::volume_change::VolumeChange;

/// The reason that the placement of a volume cannot be changed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum TuneError {
    /// The volume holds too much data.
    #[error(
        "placement {kind} needs more free space, and the volume holds {over} too much data for it: delete unneeded \
         data and trim it (`fstrim`), or attach the volume with a smaller `spare`"
    )]
    Full {
        /// The requested placement.
        kind: PlacementKind,
        /// Excess of data.
        over: ByteLen,
    },
    /// The volume failed.
    #[error(transparent)]
    Space(#[from] SpaceError),
}

impl Space {
    /// Returns the current placement.
    pub fn placement(&self) -> PlacementKind {
        self.inner.placement.borrow().kind()
    }

    /// Returns true if the volume changes its placement when another placement is expected to cost less.
    pub fn is_auto(&self) -> bool {
        self.inner.auto.get()
    }

    /// Returns the data for the choice of the placement, even if the volume does not choose it automatically.
    pub fn tuning(&self) -> TunerStatus {
        self.inner.tuner.borrow().said().clone()
    }

    /// Sets the placement. `None` makes the volume choose it, starting with the current placement. The change is
    /// durable when this returns.
    ///
    /// # Errors
    /// The volume is too full for the placement, or failed. After a failure the change may be in effect.
    pub async fn set_placement(&self, kind: Option<PlacementKind>) -> Result<(), TuneError> {
        let auto = kind.is_none();
        let kind = kind.unwrap_or_else(|| self.placement());
        self.inner.change_to(kind, auto).await
    }
}

impl SpaceInner {
    /// Returns the properties of the streams with a placement.
    fn shape_of(&self, kind: PlacementKind) -> StreamShape {
        let layout = self.commit.composer().layout;
        StreamShape {
            counts: self.counts_of(kind),
            changed: ChangedBounds::of(&layout, &self.options, kind),
            spare_part: spare_part(&self.options, &layout, kind),
        }
    }

    fn counts_of(&self, kind: PlacementKind) -> StreamCounts {
        placement_of(&self.superblock_of(kind)).1
    }

    fn superblock_of(&self, kind: PlacementKind) -> SpaceSuperblock {
        SpaceSuperblock {
            placement: kind,
            ..self.superblock.borrow().clone()
        }
    }

    /// Returns the space that would be available with another placement.
    fn room_with(&self, kind: PlacementKind) -> SpaceBudget {
        let shape = self.shape_of(kind);
        let mut streams = self.commit.composer_mut();
        let present = streams.set_shape(shape);
        let room = SpaceBudget::of(&streams, &self.map.borrow());
        streams.set_shape(present);
        room
    }

    /// Changes the placement, and sets whether the volume chooses it automatically.
    async fn change_to(self: &Rc<Self>, kind: PlacementKind, auto: bool) -> Result<(), TuneError> {
        let _turn = self.tune_turn.lock().await;
        self.still.until_free().await;
        let _step = self.still.begin_step();
        let now = SpaceBudget::of(&self.commit.composer(), &self.map.borrow());
        let then = self.room_with(kind);
        let present = self.placement.borrow().kind();
        let over = then.over();
        if kind != present && over > 0 {
            let over = ByteLen(over * SECTOR_BYTES);
            return Err(TuneError::Full { kind, over });
        }
        if then.available() <= now.available() {
            self.place_by(kind);
        }
        let before = self.auto.replace(auto);
        let change = VolumeChange {
            segments: self.commit.composer().layout.segment_count,
            space_sectors: 0,
            placement: Some(kind),
        };
        let made = self.checkpoint_with(Some(change)).await;
        if kind != present || before != auto {
            tracing::info!(from = %present, to = %kind, auto, "the placement was changed");
        }
        Ok(made.map_err(SpaceError::Failed)?)
    }

    /// Switches to a placement for data written from now on.
    pub(crate) fn place_by(self: &Rc<Self>, kind: PlacementKind) {
        if self.placement.borrow().kind() == kind {
            return;
        }
        let shape = self.shape_of(kind);
        let (placement, counts) = placement_of(&self.superblock_of(kind));
        let mut streams = self.commit.composer_mut();
        streams.leave_for(counts);
        streams.set_shape(shape);
        self.commit.appended(&mut streams, false);
        drop(streams);
        self.placement.replace(placement);
        self.fill_told.set(None);
        self.tell_fill();
        self.tuner.borrow_mut().changed();
        self.commit.has_work();
        self.commit.notify();
        self.clean_asked.notify_all();
    }

    /// Evaluates the placement. Returns the placement to change to, if a change pays and is automatic.
    fn look_at_placement(&self) -> Option<PlacementKind> {
        let room = SpaceBudget::of(&self.commit.composer(), &self.map.borrow());
        let (live, capacity) = room.filled();
        let (fill, mapped) = (
            FillLevel { live, capacity },
            self.map.borrow().mapped_sectors(),
        );
        let done = {
            let stats = self.stats.borrow();
            WorkTotals {
                written: stats.bytes_written,
                in_place: stats.bytes_in_place,
                moved: stats.bytes_moved,
            }
        };
        let present = self.placement.borrow().kind();
        let look = self
            .tuner
            .borrow_mut()
            .look(present, fill, mapped, done, |kind| {
                self.room_with(kind).over() == 0
            });
        look?.change.filter(|_| self.auto.get())
    }

    /// Returns true if enough was written for the next evaluation of the placement.
    pub(crate) fn wants_look(&self) -> bool {
        let mapped = self.map.borrow().mapped_sectors();
        self.tuner.borrow().wants_look(mapped)
    }
}

/// Evaluates the placement from time to time, and changes it if the volume chooses it automatically.
pub(crate) async fn tuner(inner: Rc<SpaceInner>) {
    loop {
        let asked = inner.tune_asked.listen();
        if !inner.wants_look() {
            asked.await;
            continue;
        }
        drop(asked);
        let Some(kind) = inner.look_at_placement() else {
            continue;
        };
        if inner.closing.get() {
            continue;
        }
        if let Err(error) = inner.change_to(kind, true).await {
            tracing::warn!(%error, "the placement was not changed");
        }
    }
}
