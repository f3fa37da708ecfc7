//! An attached log-structured volume, as a layer.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use forebay_dcd::Acknowledge;
use forebay_device::{Checked, Device, DeviceError, Op};
use forebay_rt::{Rt, Task};
use forebay_units::{ByteLen, SECTOR_BYTES};
use forebay_vsl::{PlacedRun, Space, SpaceError, Where, Workers};

use super::resize::resize;
use super::served::Served;
use super::status::{self, SpaceMode};
use super::tune::tune;
use super::words;
use crate::layer::{Layer, LayerFuture, NotDrained, Place, PlaceExtent, Resized, Tuned};
use crate::not_done::NotDone;
use crate::{Placing, Status};

/// Interval at which the fill level is checked.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Longest time for requests in progress to end when the volume is closed, and again for the written data to become
/// durable.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longest time that closing waits for a failing device.
const FAULT_PATIENCE: Duration = Duration::from_secs(10);

/// Number of extents per query for the places of data.
const RUNS_AT_ONCE: usize = 1024;

/// An attached log-structured volume.
pub(super) struct InUse {
    rt: Rt,
    name: String,
    id: String,
    served: Rc<Served>,
    device: Rc<Checked<Rc<Served>>>,
    survives_kill: bool,
    work: RefCell<Option<(Workers, Task<()>)>>,
}

impl InUse {
    pub(super) fn new(
        rt: &Rt,
        name: &str,
        (space, workers): (Space, Workers),
        acknowledge: Acknowledge,
    ) -> InUse {
        let id = space.superblock().volume.to_string();
        let linear = forebay_vsl::Linear::new(space);
        let served = Rc::new(Served::new(rt.clone(), linear, acknowledge));
        let watching = rt.spawn(watch(rt.clone(), Rc::clone(&served)));
        InUse {
            rt: rt.clone(),
            name: name.into(),
            id,
            device: Rc::new(Checked::new(Rc::clone(&served), "volume")),
            served,
            survives_kill: acknowledge != Acknowledge::Flush,
            work: RefCell::new(Some((workers, watching))),
        }
    }

    fn space(&self) -> &Space {
        self.served.linear().space()
    }

    async fn end(&self) -> Result<(), DeviceError> {
        let ended = self.rt.timeout(PATIENCE, self.served.close()).await;
        if ended.is_err() {
            tracing::warn!("requests do not end; closing the volume without them");
        }
        let patience = match self.space().failure() {
            Some(_) => FAULT_PATIENCE,
            None => PATIENCE,
        };
        let kept = self.rt.timeout(patience, self.space().settle()).await;
        self.work.take();
        let op = Op::Flush;
        match kept {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(DeviceError::Failed {
                op,
                cause: error.to_string().into(),
            }),
            Err(_) => Err(DeviceError::Failed {
                op,
                cause: "the device takes too long".into(),
            }),
        }
    }
}

/// Logs when the volume becomes nearly full or full, and when it has free space again.
async fn watch(rt: Rt, served: Rc<Served>) {
    let mut before = SpaceMode::Serving;
    loop {
        let capacity = served.linear().space().capacity();
        let now = SpaceMode::at(status::share(&capacity));
        // Trimmed sectors that are still counted do not cause a write to be refused.
        if now != before && !(now == SpaceMode::Full && capacity.is_reaping) {
            let filled = words::filled(&status::of(&served));
            match now {
                SpaceMode::NearlyFull => tracing::warn!("the volume is nearly full: {filled}"),
                SpaceMode::Full => {
                    tracing::error!(
                        "the volume is full, and refuses writes to new places: {filled}"
                    );
                }
                SpaceMode::Serving | SpaceMode::Failed => {
                    tracing::info!("the volume has room again: {filled}");
                }
            }
            before = now;
        }
        rt.sleep(LOOK_EVERY).await;
    }
}

/// Converts extents of sectors to the places of a byte range.
fn placed(range: &Range<u64>, runs: &[PlacedRun]) -> Vec<PlaceExtent> {
    let mut places = Vec::new();
    for run in runs {
        let (start, end) = (
            run.sectors.start * SECTOR_BYTES,
            run.sectors.end * SECTOR_BYTES,
        );
        let place = match run.at {
            Where::Nowhere => Place::Zero,
            Where::Memory => Place::Ram,
            Where::Medium(_) => Place::Home,
        };
        push(
            &mut places,
            start.max(range.start)..end.min(range.end),
            place,
        );
    }
    places
}

fn push(places: &mut Vec<PlaceExtent>, range: Range<u64>, place: Place) {
    match places.last_mut() {
        Some(last) if last.place == place => last.range.end = range.end,
        _ => places.push(PlaceExtent { range, place }),
    }
}

fn not_drained(error: &SpaceError) -> NotDrained {
    NotDrained(error.to_string())
}

impl Layer for InUse {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn id(&self) -> String {
        self.id.clone()
    }

    fn device(&self) -> Option<Rc<dyn Device>> {
        Some(Rc::clone(&self.device) as Rc<dyn Device>)
    }

    fn room(&self) -> Option<u64> {
        let capacity = self.space().capacity();
        Some(capacity.mappable.saturating_sub(capacity.mapped))
    }

    /// Zeroes are one entry in a record.
    fn fast_zeroes(&self) -> bool {
        true
    }

    fn survives_kill(&self) -> bool {
        self.survives_kill
    }

    fn status(&self) -> Status {
        Status::Space(status::of(&self.served))
    }

    /// Mapped sectors are in memory or on the only device. All other sectors read as zeroes.
    fn place(&self, range: Range<u64>) -> Vec<PlaceExtent> {
        let sectors = range.start / SECTOR_BYTES..range.end.div_ceil(SECTOR_BYTES);
        let mut places = placed(&range, &self.space().places_now(sectors));
        let end = places.last().map_or(range.start, |last| last.range.end);
        if end < range.end {
            push(&mut places, end..range.end, Place::Home);
        }
        places
    }

    fn look_up_places(&self, range: Range<u64>) -> LayerFuture<'_, Vec<PlaceExtent>> {
        Box::pin(async move {
            let (mut at, end) = (range.start / SECTOR_BYTES, range.end.div_ceil(SECTOR_BYTES));
            let mut places = Vec::new();
            while at < end {
                let Ok(runs) = self.space().places(at..end, RUNS_AT_ONCE).await else {
                    break;
                };
                at = runs.last().map_or(end, |run| run.sectors.end);
                for extent in placed(&range, &runs) {
                    push(&mut places, extent.range, extent.place);
                }
            }
            places
        })
    }

    /// Writes a checkpoint: afterwards all data is durable and recovery has nothing to do.
    fn drain(&self) -> LayerFuture<'_, Result<(), NotDrained>> {
        Box::pin(async {
            let kept = self.space().checkpoint().await;
            kept.map_err(|error| not_drained(&error))
        })
    }

    fn what_is_left(&self) -> Option<NotDrained> {
        let failure = self.space().failure()?;
        Some(NotDrained(failure.to_string()))
    }

    fn resize(&self, size: Option<ByteLen>) -> LayerFuture<'_, Result<Resized, NotDone>> {
        Box::pin(resize(&self.rt, self.space(), size))
    }

    fn tune(&self, placement: Option<Placing>) -> LayerFuture<'_, Result<Tuned, NotDone>> {
        Box::pin(tune(self.space(), placement))
    }

    fn close(&self) -> LayerFuture<'_, Result<(), DeviceError>> {
        Box::pin(self.end())
    }

    fn what_holds_up(&self) -> String {
        words::what_holds_up(&status::of(&self.served))
    }
}
