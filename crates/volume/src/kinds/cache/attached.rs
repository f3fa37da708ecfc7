//! An attached write cache, as a layer.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use forebay_dcd::{
    DcdVolume, LogReplacement, LogScrub, LogSuperblockScrub, ReplacementError, ReplacementReport,
    ResizeError, StaleLog,
};
use forebay_device::{AckMode, Device, DeviceError, LocatedExtent, ScrubTarget};
use forebay_units::ByteLen;

use super::devices::CacheDevices;
use super::render;
use super::settings::{beside_data, settings};
use super::spec::SPEC;
use crate::error_cause::ErrorCause;
use crate::kind::AcceptedFaults;
use crate::layer::{
    DrainFailure, Layer, LayerFuture, LogRecording, LogReplacementReport, ResizeReport,
};
use crate::new_log::NewLog;
use crate::open::OpenDevice;
use crate::operation_error::OperationError;
use crate::options::OptionValues;
use crate::report::LayerStatus;
use crate::scrub::plain::PlainScrub;

/// An attached write cache.
pub(super) struct AttachedCache {
    volume: DcdVolume,
    device: Rc<DcdVolume>,
    log: RefCell<OpenDevice>,
    data: OpenDevice,
    options: OptionValues,
    survives_kill: bool,
}

impl AttachedCache {
    /// Returns a layer for a volume that was attached to `pair`.
    pub(super) fn new(
        volume: DcdVolume,
        pair: CacheDevices,
        acknowledge: AckMode,
    ) -> AttachedCache {
        AttachedCache {
            device: Rc::new(volume.clone()),
            volume,
            log: RefCell::new(pair.log),
            data: pair.data,
            options: pair.options,
            survives_kill: acknowledge != AckMode::Memory,
        }
    }

    /// Erases the former log, so that its device is free. Returns a note for the administrator.
    async fn released(&self, former: &OpenDevice, replaced: ReplacementReport) -> String {
        let log = &former.spec;
        if replaced.is_stale {
            return format!("the former log could not be marked as abandoned: {log}: {StaleLog}");
        }
        if replaced.had_failed || !replaced.may_be_erased {
            return format!(
                "the former log {log} is marked as abandoned; `forebay create` and `replace-log` overwrite it with --force"
            );
        }
        match forebay_dcd::erase(Rc::clone(&former.device)).await {
            Ok(()) => format!("the former log {log} is free"),
            Err(error) => format!(
                "the former log {log} is marked as abandoned, but could not be erased: {error}"
            ),
        }
    }
}

/// Returns the class of an error, with its text.
fn not_replaced(error: &ReplacementError) -> OperationError {
    let cause = match error {
        ReplacementError::Unfit(_) => ErrorCause::Usage,
        ReplacementError::Rescue | ReplacementError::Lost(_) | ReplacementError::Closing => {
            ErrorCause::Refused
        }
        ReplacementError::Format(_)
        | ReplacementError::Drain(_)
        | ReplacementError::Record(_)
        | ReplacementError::Data(_)
        | ReplacementError::Open(_)
        | ReplacementError::TooSlow => ErrorCause::Device,
    };
    OperationError::new(cause, error)
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

    fn replace_log(
        &self,
        new: NewLog,
        record: LogRecording,
    ) -> LayerFuture<'_, Result<LogReplacementReport, OperationError>> {
        Box::pin(async move {
            let options = settings(
                &self.options,
                new.shared.one_disk,
                AcceptedFaults::default(),
            );
            let devices = [new.device.clone(), self.data.clone()];
            let [log, data] = new.shared.put_on(devices).map(|part| part.device);
            let replacement = LogReplacement {
                log,
                data,
                segment: new.segment,
                options,
            };
            let replaced = self.volume.replace_log(replacement, record).await;
            let replaced = replaced.map_err(|error| not_replaced(&error))?;
            let mut notes: Vec<String> =
                beside_data(new.shared.same_disk.as_deref(), &self.options)
                    .into_iter()
                    .collect();
            let former = self.log.replace(new.device);
            notes.push(self.released(&former, replaced).await);
            Ok(LogReplacementReport {
                former: former.spec.to_string(),
                notes,
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
        Some(format!("{}: {stale}", self.log.borrow().spec))
    }

    fn what_holds_up(&self) -> String {
        render::what_holds_up(&self.volume.status())
    }
}
