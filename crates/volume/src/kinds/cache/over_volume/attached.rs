//! An attached cache over a log-structured volume, as one layer.

use std::ops::Range;
use std::rc::Rc;

use forebay_device::{DataLocation, Device, DeviceError, LocatedExtent, ScrubArea, ScrubTarget};
use forebay_rt::Rt;
use forebay_units::ByteLen;

use super::admission::AdmissionDevice;
use crate::held::ReleaseCounter;
use crate::layer::{
    DrainFailure, Layer, LayerFuture, LogRecording, LogReplacementReport, ResizeReport, TuneReport,
};
use crate::new_log::NewLog;
use crate::operation_error::OperationError;
use crate::placement::RequestedPlacement;
use crate::report::LayerStatus;

/// A cache over another layer.
pub(super) struct CachedVolume {
    above: Rc<dyn Layer>,
    below: Rc<dyn Layer>,
    device: Rc<AdmissionDevice>,
    releases: ReleaseCounter,
}

impl CachedVolume {
    pub(super) fn new(rt: Rt, above: Rc<dyn Layer>, below: Rc<dyn Layer>) -> CachedVolume {
        let device = AdmissionDevice::new(rt, Rc::clone(&above), Rc::clone(&below));
        CachedVolume {
            above,
            below,
            device: Rc::new(device),
            releases: ReleaseCounter::default(),
        }
    }

    async fn end(&self) -> Result<(), DeviceError> {
        // The volume below is closed even if closing the cache failed.
        let above = self.above.close().await;
        let below = self.below.close().await;
        above.and(below)
    }
}

impl Layer for CachedVolume {
    fn name(&self) -> String {
        self.above.name()
    }

    fn id(&self) -> String {
        self.above.id()
    }

    fn device(&self) -> Option<Rc<dyn Device>> {
        Some(Rc::clone(&self.device) as Rc<dyn Device>)
    }

    fn room(&self) -> Option<u64> {
        self.below.room()
    }

    fn fast_zeroes(&self) -> bool {
        self.above.fast_zeroes()
    }

    /// Data that bypasses the log is kept by the volume below, so both must survive.
    fn survives_kill(&self) -> bool {
        self.above.survives_kill() && self.below.survives_kill()
    }

    fn status(&self) -> LayerStatus {
        self.above.status().over(self.below.status())
    }

    fn place(&self, range: Range<u64>) -> Vec<LocatedExtent> {
        let places = self.above.place(range).into_iter();
        let below = |extent: LocatedExtent| match extent.place {
            DataLocation::Home => self.below.place(extent.range),
            _ => vec![extent],
        };
        places.flat_map(below).collect()
    }

    fn look_up_places(&self, range: Range<u64>) -> LayerFuture<'_, Vec<LocatedExtent>> {
        Box::pin(async move {
            let mut places = Vec::new();
            for extent in self.above.place(range) {
                match extent.place {
                    DataLocation::Home => {
                        places.extend(self.below.look_up_places(extent.range).await);
                    }
                    _ => places.push(extent),
                }
            }
            places
        })
    }

    /// Resizes the volume below and then the cache, which gets the same length.
    fn resize(
        &self,
        size: Option<ByteLen>,
    ) -> LayerFuture<'_, Result<ResizeReport, OperationError>> {
        Box::pin(async move {
            let below = self.below.resize(size).await?;
            let above = self.above.resize(None).await?;
            Ok(ResizeReport {
                notes: below.notes.into_iter().chain(above.notes).collect(),
                ..above
            })
        })
    }

    fn tune(
        &self,
        placement: Option<RequestedPlacement>,
    ) -> LayerFuture<'_, Result<TuneReport, OperationError>> {
        self.below.tune(placement)
    }

    fn drain(&self) -> LayerFuture<'_, Result<(), DrainFailure>> {
        Box::pin(async {
            self.above.drain().await?;
            self.below.drain().await
        })
    }

    fn hold_still(&self) -> LayerFuture<'_, Result<(), DrainFailure>> {
        Box::pin(async {
            let before = self.releases.count();
            self.above.hold_still().await?;
            if self.releases.count() != before {
                return Ok(());
            }
            self.below.hold_still().await
        })
    }

    fn resume(&self) {
        self.releases.release();
        self.below.resume();
        self.above.resume();
    }

    fn what_is_left(&self) -> Option<DrainFailure> {
        self.above
            .what_is_left()
            .or_else(|| self.below.what_is_left())
    }

    fn can_abandon(&self) -> bool {
        self.above.can_abandon()
    }

    fn abandon_unreadable(&self) {
        self.above.abandon_unreadable();
    }

    fn is_abandoning(&self) -> bool {
        self.above.is_abandoning()
    }

    fn replace_log(
        &self,
        new: NewLog,
        record: LogRecording,
    ) -> LayerFuture<'_, Result<LogReplacementReport, OperationError>> {
        self.above.replace_log(new, record)
    }

    /// The volume below is the data device of the cache, and is read with its checksums.
    fn scrub_targets(&self) -> Vec<Rc<dyn ScrubTarget>> {
        let above = self.above.scrub_targets().into_iter();
        let above = above.filter(|target| target.area() != ScrubArea::Device);
        above.chain(self.below.scrub_targets()).collect()
    }

    fn is_busy(&self) -> bool {
        self.above.is_busy() || self.below.is_busy()
    }

    fn close(&self) -> LayerFuture<'_, Result<(), DeviceError>> {
        Box::pin(self.end())
    }

    fn warning(&self) -> Option<String> {
        self.above.warning()
    }

    fn what_holds_up(&self) -> String {
        let (above, below) = (self.above.what_holds_up(), self.below.what_holds_up());
        format!("{above}; below it, {below}")
    }
}
