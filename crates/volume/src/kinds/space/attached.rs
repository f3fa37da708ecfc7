//! An attached log-structured volume, as a layer.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{
    AckMode, DataLocation, Device, DeviceError, DeviceOp, LocatedExtent, ScrubTarget,
};
use forebay_rt::{Rt, Task};
use forebay_units::{ByteLen, SECTOR_BYTES};
use forebay_vsl::{PlacedRange, SectorLocation, Space, SpaceError, SpaceWorkers};

use super::counted::CountingDevice;
use super::render;
use super::resize::resize;
use super::scrub::scrub_targets;
use super::spec::SPEC;
use super::status::{self, SpaceMode};
use super::tune::tune;
use crate::layer::{DrainFailure, Layer, LayerFuture, ResizeReport, TuneReport};
use crate::operation_error::OperationError;
use crate::placement::RequestedPlacement;
use crate::report::LayerStatus;

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
pub(super) struct AttachedVolume {
    rt: Rt,
    name: String,
    id: String,
    served: Rc<CountingDevice>,
    survives_kill: bool,
    work: RefCell<Option<(SpaceWorkers, Task<()>)>>,
}

impl AttachedVolume {
    pub(super) fn new(
        rt: &Rt,
        name: &str,
        space: Space,
        workers: SpaceWorkers,
        acknowledge: AckMode,
    ) -> AttachedVolume {
        let id = space.superblock().id().to_string();
        let linear = forebay_vsl::SpaceDevice::new(space);
        let served = Rc::new(CountingDevice::new(rt.clone(), linear, acknowledge));
        let watching = rt.spawn(watch(rt.clone(), Rc::clone(&served)));
        AttachedVolume {
            rt: rt.clone(),
            name: name.into(),
            id,
            served,
            survives_kill: acknowledge != AckMode::Memory,
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
        let op = DeviceOp::Flush;
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
async fn watch(rt: Rt, served: Rc<CountingDevice>) {
    let mut before = SpaceMode::Serving;
    loop {
        let capacity = served.linear().space().capacity();
        let now = SpaceMode::at(status::share(&capacity));
        // Trimmed sectors that are still counted do not cause a write to be refused.
        if now != before && !(now == SpaceMode::Full && capacity.is_reaping) {
            let filled = render::filled(&status::of(&served));
            match now {
                SpaceMode::NearlyFull => tracing::warn!("the volume is nearly full: {filled}"),
                SpaceMode::Full => {
                    tracing::error!(
                        "the volume is full and refuses writes to unmapped blocks: {filled}"
                    );
                }
                SpaceMode::Serving | SpaceMode::Failed => {
                    tracing::info!("the volume has free space again: {filled}");
                }
            }
            before = now;
        }
        rt.sleep(LOOK_EVERY).await;
    }
}

/// Converts extents of sectors to the places of a byte range.
fn placed(range: &Range<u64>, runs: &[PlacedRange]) -> Vec<LocatedExtent> {
    let mut places = Vec::new();
    for run in runs {
        let (start, end) = (
            run.sectors.start * SECTOR_BYTES,
            run.sectors.end * SECTOR_BYTES,
        );
        let place = match run.at {
            SectorLocation::Nowhere => DataLocation::Zero,
            SectorLocation::Memory => DataLocation::Ram,
            SectorLocation::Medium(_) => DataLocation::Home,
        };
        push(
            &mut places,
            start.max(range.start)..end.min(range.end),
            place,
        );
    }
    places
}

fn push(places: &mut Vec<LocatedExtent>, range: Range<u64>, place: DataLocation) {
    match places.last_mut() {
        Some(last) if last.place == place => last.range.end = range.end,
        _ => places.push(LocatedExtent { range, place }),
    }
}

fn not_drained(error: &SpaceError) -> DrainFailure {
    DrainFailure(error.to_string())
}

impl Layer for AttachedVolume {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn id(&self) -> String {
        self.id.clone()
    }

    fn device(&self) -> Option<Rc<dyn Device>> {
        Some(Rc::clone(&self.served) as Rc<dyn Device>)
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

    fn status(&self) -> LayerStatus {
        LayerStatus::new(&SPEC, status::of(&self.served))
    }

    /// Mapped sectors are in memory or on the only device. All other sectors read as zeroes.
    fn place(&self, range: Range<u64>) -> Vec<LocatedExtent> {
        let sectors = range.start / SECTOR_BYTES..range.end.div_ceil(SECTOR_BYTES);
        let mut places = placed(&range, &self.space().places_now(sectors));
        let end = places.last().map_or(range.start, |last| last.range.end);
        if end < range.end {
            push(&mut places, end..range.end, DataLocation::Home);
        }
        places
    }

    fn look_up_places(&self, range: Range<u64>) -> LayerFuture<'_, Vec<LocatedExtent>> {
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
    fn drain(&self) -> LayerFuture<'_, Result<(), DrainFailure>> {
        Box::pin(async {
            let kept = self.space().checkpoint().await;
            kept.map_err(|error| not_drained(&error))
        })
    }

    fn hold_still(&self) -> LayerFuture<'_, Result<(), DrainFailure>> {
        Box::pin(async {
            let held = self.space().hold_still().await;
            held.map_err(|error| not_drained(&error))
        })
    }

    fn resume(&self) {
        self.space().resume();
    }

    fn what_is_left(&self) -> Option<DrainFailure> {
        let failure = self.space().failure()?;
        Some(DrainFailure(failure.to_string()))
    }

    fn resize(
        &self,
        size: Option<ByteLen>,
    ) -> LayerFuture<'_, Result<ResizeReport, OperationError>> {
        Box::pin(resize(&self.rt, self.space(), size))
    }

    fn tune(
        &self,
        placement: Option<RequestedPlacement>,
    ) -> LayerFuture<'_, Result<TuneReport, OperationError>> {
        Box::pin(tune(self.space(), placement))
    }

    fn scrub_targets(&self) -> Vec<Rc<dyn ScrubTarget>> {
        scrub_targets(self.space())
    }

    fn is_busy(&self) -> bool {
        self.served.is_busy() || self.space().has_waiting_writers()
    }

    fn close(&self) -> LayerFuture<'_, Result<(), DeviceError>> {
        Box::pin(self.end())
    }

    fn what_holds_up(&self) -> String {
        render::what_holds_up(&status::of(&self.served))
    }
}
