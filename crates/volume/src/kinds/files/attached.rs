//! An attached filesystem, as a layer.

use std::cell::RefCell;
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{DeviceError, DeviceOp, LocatedExtent, ScrubTarget};
use forebay_dfs::Fs;
use forebay_rt::{Rt, Task};
use forebay_units::ByteLen;
use forebay_vsl::SpaceWorkers;

use super::error::FilesError;
use super::render;
use super::spec::SPEC;
use super::status;
use crate::error::VolumeError;
use crate::error_cause::ErrorCause;
use crate::filesystem_counters::FilesystemCounters;
use crate::held::ReleaseCounter;
use crate::kind::{AttachContext, AttachedLayer};
use crate::kinds::space::{self, SpaceMode, status_of};
use crate::layer::{DrainFailure, Layer, LayerFuture, ResizeReport, TuneReport};
use crate::open::OpenDevice;
use crate::operation_error::OperationError;
use crate::options::OptionValues;
use crate::placement::RequestedPlacement;
use crate::report::LayerStatus;

/// Interval at which the fill level is checked.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// Interval at which all changes are made durable. The kernel does not pass `sync(2)` to a filesystem in user space,
/// and users of other filesystems may rely on such an interval.
const KEEP_EVERY: Duration = Duration::from_secs(5);
/// Pause between two steps of counting the files, so that other tasks can run.
const COUNT_PAUSE: Duration = Duration::from_millis(1);
/// Longest time without progress while changes become durable on closing.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest time that closing waits for a failing device.
const FAULT_PATIENCE: Duration = Duration::from_secs(10);

/// An attached filesystem.
struct AttachedFilesystem {
    rt: Rt,
    name: String,
    id: String,
    fs: Fs,
    counted: Rc<FilesystemCounters>,
    work: RefCell<Option<(SpaceWorkers, [Task<()>; 3])>>,
    releases: ReleaseCounter,
}

/// Recovers the filesystem on `data`, and attaches it.
///
/// # Errors
/// If the device holds no filesystem, it cannot be attached, or durable data is missing and `accept` does not permit
/// the loss.
pub(super) async fn attach(
    data: OpenDevice,
    options: &OptionValues,
    context: AttachContext,
) -> Result<AttachedLayer, VolumeError> {
    let (rt, clock) = (context.rt, context.clock);
    let accept_loss = context.accept.loss;
    let opened = space::open_space(&rt, &data, options, space::comfortable(), accept_loss).await;
    let (space, workers, notes) = opened?;
    let id = space.superblock().id().to_string();
    let opened = forebay_dfs::open(space, clock).await;
    let fs = opened.map_err(|error| FilesError::NotFiles {
        data: data.spec.to_string(),
        error,
    })?;
    let counted = Rc::new(FilesystemCounters::default());
    let work = [
        rt.spawn(watch(rt.clone(), fs.clone())),
        rt.spawn(keep_all(rt.clone(), fs.clone())),
        rt.spawn(count(rt.clone(), fs.clone())),
    ];
    let layer = AttachedFilesystem {
        rt,
        name: context.name,
        id,
        fs,
        counted,
        work: RefCell::new(Some((workers, work))),
        releases: ReleaseCounter::default(),
    };
    Ok(AttachedLayer {
        layer: Rc::new(layer),
        notes,
    })
}

/// Logs when the filesystem becomes nearly full or full, and when it has free space again.
async fn watch(rt: Rt, fs: Fs) {
    // Initial state: a filesystem that is already full when it is mounted is only visible in the status.
    let mut before = status::mode(fs.room());
    loop {
        let room = fs.room();
        let now = status::mode(room);
        if now != before {
            let filled = render::filled(room);
            match now {
                SpaceMode::NearlyFull => tracing::warn!("the filesystem is nearly full: {filled}"),
                SpaceMode::Full => tracing::error!("the filesystem is full: {filled}"),
                SpaceMode::Serving | SpaceMode::Failed => {
                    tracing::info!("the filesystem has free space again: {filled}");
                }
            }
            before = now;
        }
        rt.sleep(LOOK_EVERY).await;
    }
}

/// Makes all changes durable at regular intervals, if anything changed.
async fn keep_all(rt: Rt, fs: Fs) {
    let mut kept = None;
    loop {
        rt.sleep(KEEP_EVERY).await;
        let now = fs.space().stats().batches;
        if kept == Some(now) {
            continue;
        }
        match fs.sync().await {
            Ok(()) => kept = Some(now),
            // A client that requests durability receives the error, and the status shows it.
            Err(error) => tracing::debug!(%error, "cannot make new changes durable"),
        }
    }
}

/// Counts the files step by step, for `df -i`.
async fn count(rt: Rt, fs: Fs) {
    loop {
        let pause = match fs.count_files().await {
            Ok(false) => COUNT_PAUSE,
            Ok(true) | Err(_) => KEEP_EVERY,
        };
        rt.sleep(pause).await;
    }
}

impl AttachedFilesystem {
    async fn keep(&self) -> Result<(), String> {
        self.fs.sync().await.map_err(|error| error.to_string())?;
        let kept = self.fs.space().settle().await;
        kept.map_err(|error| error.to_string())
    }

    async fn end(&self) -> Result<(), DeviceError> {
        let mut keep = pin!(async {
            // After an unmount the kernel no longer reports the inodes that it had in use.
            if let Err(error) = self.fs.forget_all().await {
                tracing::warn!(%error, "unlinked files are removed by the next mount");
            }
            self.keep().await
        });
        let kept = loop {
            let before = self.progress();
            // The space keeps retrying on a failing device, but closing does not wait for it.
            let patience = match self.fs.space().failure() {
                Some(_) => FAULT_PATIENCE,
                None => PATIENCE,
            };
            match self.rt.timeout(patience, keep.as_mut()).await {
                Ok(kept) => break kept,
                Err(_) if self.progress() > before => {}
                Err(_) => {
                    let failure = self.fs.space().failure();
                    let slow = || "the device takes too long".to_owned();
                    break Err(failure.map_or_else(slow, |failure| failure.to_string()));
                }
            }
        };
        self.work.take();
        let Err(cause) = kept else { return Ok(()) };
        Err(DeviceError::Failed {
            op: DeviceOp::Flush,
            cause: cause.into(),
        })
    }
}

impl Layer for AttachedFilesystem {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn id(&self) -> String {
        self.id.clone()
    }

    fn files(&self) -> Option<(Fs, Rc<FilesystemCounters>)> {
        Some((self.fs.clone(), Rc::clone(&self.counted)))
    }

    fn room(&self) -> Option<u64> {
        Some(self.fs.room().free)
    }

    fn status(&self) -> LayerStatus {
        let below = LayerStatus::new(&space::SPEC, status_of(self.fs.space()));
        let own = LayerStatus::new(&SPEC, status::of(&self.fs, &self.counted));
        own.over(below)
    }

    fn place(&self, _range: Range<u64>) -> Vec<LocatedExtent> {
        Vec::new()
    }

    /// Writes a checkpoint: afterwards all data is durable and recovery has nothing to do.
    fn drain(&self) -> LayerFuture<'_, Result<(), DrainFailure>> {
        Box::pin(async {
            let synced = self.fs.sync().await;
            synced.map_err(|error| DrainFailure(error.to_string()))?;
            let kept = self.fs.space().checkpoint().await;
            kept.map_err(|error| DrainFailure(error.to_string()))
        })
    }

    fn hold_still(&self) -> LayerFuture<'_, Result<(), DrainFailure>> {
        Box::pin(async {
            let before = self.releases.count();
            self.fs.ignore_reads(true);
            let synced = self.fs.sync().await;
            synced.map_err(|error| DrainFailure(error.to_string()))?;
            if self.releases.count() != before {
                return Ok(());
            }
            let held = self.fs.space().hold_still().await;
            held.map_err(|error| DrainFailure(error.to_string()))
        })
    }

    fn resume(&self) {
        self.releases.release();
        self.fs.ignore_reads(false);
        self.fs.space().resume();
    }

    fn what_is_left(&self) -> Option<DrainFailure> {
        let failure = self.fs.space().failure()?;
        Some(DrainFailure(failure.to_string()))
    }

    fn resize(
        &self,
        size: Option<ByteLen>,
    ) -> LayerFuture<'_, Result<ResizeReport, OperationError>> {
        Box::pin(async move {
            match size {
                None => space::resize_room(self.fs.space()).await,
                Some(_) => Err(OperationError::new(
                    ErrorCause::Usage,
                    "a filesystem has the size of its device: leave out --size, and make the device longer",
                )),
            }
        })
    }

    fn tune(
        &self,
        placement: Option<RequestedPlacement>,
    ) -> LayerFuture<'_, Result<TuneReport, OperationError>> {
        Box::pin(async move {
            match placement {
                Some(RequestedPlacement::Auto) => Err(OperationError::does_not_choose()),
                placement => space::tune(self.fs.space(), placement).await,
            }
        })
    }

    fn scrub_targets(&self) -> Vec<Rc<dyn ScrubTarget>> {
        space::scrub_targets(self.fs.space())
    }

    fn is_busy(&self) -> bool {
        self.fs.space().has_waiting_writers()
    }

    fn close(&self) -> LayerFuture<'_, Result<(), DeviceError>> {
        Box::pin(self.end())
    }

    fn progress(&self) -> u64 {
        let (log, done) = (self.fs.space().log_stats(), self.fs.space().stats());
        log.bytes_written + log.flushes + done.bytes_checkpoints + done.node_reads
    }

    fn what_holds_up(&self) -> String {
        match self.fs.space().failure() {
            Some(failure) => failure.to_string(),
            None => render::filled(self.fs.room()),
        }
    }
}
