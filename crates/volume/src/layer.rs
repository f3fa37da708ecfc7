//! The interface of an attached volume, independent of its layers.

use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;

use forebay_device::{Device, DeviceError, LocatedExtent, ScrubTarget};
use forebay_dfs::Fs;
use forebay_placement::placement::PlacementKind;
use forebay_units::ByteLen;

use crate::error_cause::ErrorCause;
use crate::filesystem_counters::FilesystemCounters;
use crate::new_log::NewLog;
use crate::operation_error::OperationError;
use crate::placement::RequestedPlacement;
use crate::report::LayerStatus;

/// Future result of a layer's operation.
pub type LayerFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Reason, in words, why some data has not reached its final place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DrainFailure(pub(crate) String);

/// Result of extending a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResizeReport {
    /// Length before, in bytes; for a filesystem, its capacity.
    pub before: u64,
    /// Length, or capacity, now.
    pub len: u64,
    /// Notes for the administrator.
    pub notes: Vec<String>,
}

/// Result of replacing a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogReplacementReport {
    /// The former log device, as given.
    pub former: String,
    /// Notes for the administrator.
    pub notes: Vec<String>,
}

/// Durably records that a device is the log of the volume. Returns a text if this is not possible.
pub type LogRecording = LayerFuture<'static, Result<(), String>>;

/// Placement of data in a volume, and the information for choosing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TuneReport {
    /// Placement before the call.
    pub before: PlacementKind,
    /// Placement now.
    pub placement: PlacementKind,
    /// True if the volume changes its placement when it expects another placement to cost less.
    pub auto: bool,
    /// The cheapest placement for the recorded writes, and the reason; `None` before enough was written.
    pub reason: Option<String>,
    /// Number of evaluations of the writes so far.
    pub looks: u64,
    /// Placement that the newest evaluation found better.
    pub leaning: Option<PlacementKind>,
}

/// The uppermost layer of an attached volume: a device, and the operations and reports beside it.
///
/// A layer keeps the default of each method that it does not need.
pub trait Layer {
    /// Returns the volume's name.
    fn name(&self) -> String;

    /// Returns the volume's id.
    fn id(&self) -> String;

    /// Returns the volume, to be served as a block device; `None` for a filesystem. The device does not check requests: a
    /// front end, and a layer above, do so once ([`forebay_device::CheckedDevice`]).
    fn device(&self) -> Option<Rc<dyn Device>> {
        None
    }

    /// Returns the filesystem, to be mounted, and the counters of its requests; `None` for a block device.
    fn files(&self) -> Option<(Fs, Rc<FilesystemCounters>)> {
        None
    }

    /// Returns the bytes still available for unallocated ranges; `None` if the volume is not thin.
    fn room(&self) -> Option<u64> {
        None
    }

    /// Returns true if the cost of zeroing does not depend on the length.
    fn fast_zeroes(&self) -> bool {
        false
    }

    /// Returns true if acknowledged data survives the death of the serving process, even without a flush, as long as
    /// the system keeps running.
    fn survives_kill(&self) -> bool {
        false
    }

    /// Returns a summary of the volume's state.
    fn status(&self) -> LayerStatus;

    /// Returns the places of a byte range, in order, as far as they are known without reading. Unknown ranges are
    /// reported on the data device.
    fn place(&self, range: Range<u64>) -> Vec<LocatedExtent>;

    /// Returns the places of a byte range, and reads the map for them where needed. The result omits ranges whose map
    /// cannot be read.
    fn look_up_places(&self, range: Range<u64>) -> LayerFuture<'_, Vec<LocatedExtent>> {
        Box::pin(async move { self.place(range) })
    }

    /// Brings all data that was acknowledged before the call to its final place. It keeps trying while a device fails:
    /// bound the call by a timeout, and watch [`Layer::status`] for progress.
    ///
    /// # Errors
    /// If some data is lost and cannot be brought there.
    fn drain(&self) -> LayerFuture<'_, Result<(), DrainFailure>>;

    /// Brings all data to its final place, and makes background work rest until [`Layer::resume`]. The caller holds
    /// back all changes by clients meanwhile, so the devices below the log do not change: a copy of them is the volume.
    /// The call must not be cancelled. After a failure, background work rests nevertheless. If [`Layer::resume`] is
    /// called meanwhile, background work continues at once, whatever this call waits for.
    ///
    /// # Errors
    /// If some data is lost, or the volume failed.
    fn hold_still(&self) -> LayerFuture<'_, Result<(), DrainFailure>> {
        self.drain()
    }

    /// Lets background work continue.
    fn resume(&self) {}

    /// Returns the reason why a drain does not end; `None` if nothing is left to do.
    fn what_is_left(&self) -> Option<DrainFailure>;

    /// Returns true while data could be abandoned, because a device cannot read it.
    fn can_abandon(&self) -> bool {
        false
    }

    /// Declares lost, at an administrator's command, the data that cannot be read now.
    fn abandon_unreadable(&self) {}

    /// Returns true until the abandoned data is either recorded as lost or was read after all.
    fn is_abandoning(&self) -> bool {
        false
    }

    /// Checks the lengths of the devices and uses any added length. If `size` is given, makes the volume `size` bytes
    /// long. [`Layer::device`] has the new length from then on.
    ///
    /// # Errors
    /// If a device became shorter, or the volume cannot have that size. The volume keeps its length.
    fn resize(
        &self,
        size: Option<ByteLen>,
    ) -> LayerFuture<'_, Result<ResizeReport, OperationError>> {
        let _ = size;
        Box::pin(async {
            let text = "volumes of this kind cannot be made longer";
            Err(OperationError::new(ErrorCause::Usage, text))
        })
    }

    /// Sets the placement of new data, or lets the volume choose it. `None` changes nothing.
    ///
    /// # Errors
    /// If the volume has no placement, is too full for that placement, or its device fails.
    fn tune(
        &self,
        placement: Option<RequestedPlacement>,
    ) -> LayerFuture<'_, Result<TuneReport, OperationError>> {
        let _ = placement;
        Box::pin(async { Err(OperationError::places_nothing()) })
    }

    /// Replaces the log while the volume serves. `record` durably records the new log as the log of the volume, before the
    /// volume uses it. Callers should drain the volume before.
    ///
    /// # Errors
    /// If the volume has no log, the present log cannot be emptied, a device fails, or `record` fails. The text says
    /// whether the volume continues without a log.
    fn replace_log(
        &self,
        new: NewLog,
        record: LogRecording,
    ) -> LayerFuture<'_, Result<LogReplacementReport, OperationError>> {
        drop((new, record));
        Box::pin(async {
            let text = "a volume of this kind has no log that could be replaced";
            Err(OperationError::new(ErrorCause::Usage, text))
        })
    }

    /// Returns the parts of the volume that a scrub reads, in order.
    fn scrub_targets(&self) -> Vec<Rc<dyn ScrubTarget>> {
        Vec::new()
    }

    /// Returns true while requests of clients wait, as far as the layer has the information. A scrub then pauses.
    fn is_busy(&self) -> bool {
        false
    }

    /// Ends service: new requests to [`Layer::device`] fail with [`DeviceError::Closed`], requests in progress end, and
    /// acknowledged data becomes durable. The call takes no longer than the devices need; for devices that fail, no
    /// longer than the configured limit. The caller unmounts a filesystem before.
    ///
    /// # Errors
    /// If acknowledged data could not be made durable.
    fn close(&self) -> LayerFuture<'_, Result<(), DeviceError>>;

    /// Returns a measure of the work on the devices, specific to the layer, that grows while work is done. Callers that
    /// wait long for [`Layer::close`] watch it. It is constant where closing takes no longer than the configured limit.
    fn progress(&self) -> u64 {
        0
    }

    /// Returns a warning that an administrator must read before using the devices otherwise, if any. After
    /// [`Layer::close`] it is final.
    fn warning(&self) -> Option<String> {
        None
    }

    /// Returns, in words, the reason why requests may be waiting now.
    fn what_holds_up(&self) -> String;
}
