//! An attached write cache, as a layer.

use std::ops::Range;
use std::rc::Rc;

use forebay_dcd::{DcdVolume, LogScrub, LogSuperblockScrub, ResizeError};
use forebay_device::{AckMode, Device, DeviceError, LocatedExtent, ScrubTarget};
use forebay_units::ByteLen;

use super::render;
use super::spec::SPEC;
use crate::error_cause::ErrorCause;
use crate::layer::{DrainFailure, Layer, LayerFuture, ResizeReport};
use crate::operation_error::OperationError;
use crate::report::LayerStatus;
use crate::scrub::plain::PlainScrub;

/// An attached write cache.
pub(super) struct AttachedCache {
    volume: DcdVolume,
    device: Rc<DcdVolume>,
    /// The log device, as given.
    log: String,
    survives_kill: bool,
}

impl AttachedCache {
    pub(super) fn new(volume: DcdVolume, log: String, acknowledge: AckMode) -> AttachedCache {
        AttachedCache {
            device: Rc::new(volume.clone()),
            volume,
            log,
            survives_kill: acknowledge != AckMode::Memory,
        }
    }
}

impl Layer for AttachedCache {
    fn name(&self) -> String {
        self.volume.name()
    }

    fn id(&self) -> String {
        self.volume.id().to_string()
    }

    fn device(&self) -> Option<Rc<dyn Device>> {
        Some(Rc::clone(&self.device) as Rc<dyn Device>)
    }

    /// Zeroes are one entry in the log.
    fn fast_zeroes(&self) -> bool {
        true
    }

    fn survives_kill(&self) -> bool {
        self.survives_kill
    }

    fn status(&self) -> LayerStatus {
        LayerStatus::new(&SPEC, self.volume.status())
    }

    fn place(&self, range: Range<u64>) -> Vec<LocatedExtent> {
        self.volume.place(range)
    }

    fn drain(&self) -> LayerFuture<'_, Result<(), DrainFailure>> {
        Box::pin(async {
            let drained = self.volume.drain().await;
            drained.map_err(|error| DrainFailure(error.to_string()))
        })
    }

    fn hold_still(&self) -> LayerFuture<'_, Result<(), DrainFailure>> {
        Box::pin(async {
            let held = self.volume.hold_still().await;
            held.map_err(|error| DrainFailure(error.to_string()))
        })
    }

    fn resume(&self) {
        self.volume.resume();
    }

    fn what_is_left(&self) -> Option<DrainFailure> {
        let left = self.volume.what_is_left()?;
        Some(DrainFailure(left.to_string()))
    }

    fn can_abandon(&self) -> bool {
        self.volume.can_abandon()
    }

    fn abandon_unreadable(&self) {
        self.volume.abandon_unreadable();
    }

    fn is_abandoning(&self) -> bool {
        self.volume.is_abandoning()
    }

    fn resize(
        &self,
        size: Option<ByteLen>,
    ) -> LayerFuture<'_, Result<ResizeReport, OperationError>> {
        Box::pin(async move {
            if size.is_some() {
                let text = "a cached volume has the length of its data device: leave out --size, and make the data \
                            device longer";
                return Err(OperationError::new(ErrorCause::Usage, text));
            }
            let resized = self.volume.resize().await;
            let resized = resized.map_err(|error| {
                let cause = match &error {
                    ResizeError::Shrunk { .. } => ErrorCause::Refused,
                    ResizeError::Device(_) | ResizeError::Log(_) => ErrorCause::Device,
                };
                OperationError::new(cause, error)
            })?;
            Ok(ResizeReport {
                before: resized.before,
                len: resized.len,
                notes: resized.notes,
            })
        })
    }

    fn scrub_targets(&self) -> Vec<Rc<dyn ScrubTarget>> {
        vec![
            Rc::new(LogSuperblockScrub(self.volume.clone())),
            Rc::new(LogScrub(self.volume.clone())),
            Rc::new(PlainScrub::new(self.volume.data_device())),
        ]
    }

    fn is_busy(&self) -> bool {
        self.volume.is_busy()
    }

    fn close(&self) -> LayerFuture<'_, Result<(), DeviceError>> {
        Box::pin(self.volume.close())
    }

    fn warning(&self) -> Option<String> {
        let stale = self.volume.stale_log()?;
        Some(format!("{}: {stale}", self.log))
    }

    fn what_holds_up(&self) -> String {
        render::what_holds_up(&self.volume.status())
    }
}
