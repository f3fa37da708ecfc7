//! The volume as its clients see it: a device with some additional functions.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use forebay_device::{
    Buf, BufMut, DataLocation, Device, DeviceGeometry, DeviceOp, Durability, IoFuture,
    LocatedExtent, ZeroedSpace,
};
use forebay_ring_log::{RangeKind, VolumeId};
use forebay_units::{ByteLen, SECTOR_BYTES};

use crate::engine::{DcdEngine, sectors};
use crate::map::SectorSource;
use crate::running::RunningEngine;
use crate::stats::{CacheMode, DcdStatus};
use crate::succession::EngineSuccession;

/// An attached volume. Clones are handles of the same volume.
#[derive(Clone)]
pub struct DcdVolume {
    pub(crate) succession: Rc<EngineSuccession>,
}

/// Reason why the log could not be emptied.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DrainError {
    /// Some data in the log is damaged.
    #[error(
        "{0} of data is damaged in the log and cannot be destaged; all other data is on the data device"
    )]
    Lost(ByteLen),
    /// The data device fails to take the data.
    #[error("{left} of data is not on the data device: {cause}")]
    Stuck {
        /// Data that is left in the log.
        left: ByteLen,
        /// Last failure.
        cause: Arc<str>,
    },
}

/// A log that holds old data and could not be marked as abandoned, since it takes no writes. If it works again, the
/// next attach would treat its data as the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the log device accepts no writes, so the log could not be marked as abandoned: if the device works again, its \
     old data would be treated as the newest; do not attach this log, make a new log with `forebay replace-log`, or \
     erase or replace the device"
)]
pub struct StaleLog;

/// Guard of a task that waits until the log is empty.
struct DrainGuard<'a>(&'a DcdEngine);

impl Drop for DrainGuard<'_> {
    fn drop(&mut self) {
        self.0.activity.borrow_mut().end_drain();
    }
}

impl DcdVolume {
    /// Serves with an engine.
    pub(crate) fn new(running: RunningEngine) -> DcdVolume {
        DcdVolume {
            succession: Rc::new(EngineSuccession::new(running)),
        }
    }

    /// Returns the present engine.
    pub(crate) fn engine(&self) -> Rc<DcdEngine> {
        self.succession.engine()
    }

    /// Destages all data that was acknowledged before the call, and retries while the data device fails. Callers should
    /// set a timeout, and read [`DcdVolume::status`] for progress.
    ///
    /// # Errors
    /// If some data is lost and cannot be destaged.
    pub async fn drain(&self) -> Result<(), DrainError> {
        let engine = &*self.engine();
        engine.activity.borrow_mut().begin_drain();
        let _draining = DrainGuard(engine);
        // The last attempt to write rejected data may have been before this call, so that data is tried once more.
        for _ in 0..2 {
            if !self.bring_home().await {
                return self.what_is_left().map_or(Ok(()), Err);
            }
            if engine.refused.borrow().is_empty() {
                break;
            }
        }
        if !engine.refused.borrow().is_empty() {
            return self.what_is_left().map_or(Ok(()), Err);
        }
        match engine.lost_sectors() {
            0 => Ok(()),
            lost => Err(DrainError::Lost(ByteLen(lost * SECTOR_BYTES))),
        }
    }

    /// Waits until the tail has passed the present head, or until only rejected data is left and was tried again.
    /// Returns false if the volume is closed meanwhile.
    async fn bring_home(&self) -> bool {
        let engine = &*self.engine();
        engine.log.seal();
        let target = engine.log.head();
        let begun = engine.refused.borrow_mut().try_now();
        engine.signals.all_is_wanted_home();
        let done = || {
            let home = engine.log.tail() >= target;
            let kept = engine.keeps_all() && engine.refused.borrow().tried_since(begun);
            let done = home || kept || engine.rescue.borrow().is_done();
            (done || engine.is_closing()).then_some(done)
        };
        engine.signals.settled.until(done).await
    }

    /// Abandons data that cannot be read from the log, at an administrator's command. The data is tried once more, and
    /// is lost for good if it is still unreadable. For a failed log, the command is also a guarantee that the log will
    /// not be attached again if it cannot be marked.
    pub fn abandon_unreadable(&self) {
        let engine = &*self.engine();
        engine.log.seal();
        engine
            .faults
            .borrow_mut()
            .abandon_unreadable(engine.log.head());
        let failed = engine.log.failure().is_some();
        engine.rescue.borrow_mut().forsake(failed);
        // Waiting tasks get the full patience again.
        engine.faults.borrow_mut().log.clear();
        engine.signals.all_is_wanted_home();
    }

    /// Returns true while the volume has something to abandon: data that the log does not return, or a failed log that
    /// a later attach could still use.
    pub fn can_abandon(&self) -> bool {
        let engine = &*self.engine();
        let held_up = engine.rescue.borrow().is_under_way();
        engine.faults.borrow().unreadable > 0
            || held_up && engine.faults.borrow().log.cause().is_some()
    }

    /// Returns true until all abandoned data is either destaged or lost, and a failed log is settled.
    pub fn is_abandoning(&self) -> bool {
        let engine = &*self.engine();
        let held_up = engine.rescue.borrow().is_under_way();
        let to_be_read = engine.faults.borrow().abandons_from(engine.log.tail());
        let abandons_more = to_be_read && !engine.keeps_all();
        let faults = engine.faults.borrow();
        faults.is_abandoning() && faults.unreadable > 0 || abandons_more || held_up
    }

    /// Returns the reason why a drain does not end. `None` if no data is left in the log.
    pub fn what_is_left(&self) -> Option<DrainError> {
        let engine = &*self.engine();
        let left = engine.map.borrow().live_sectors() * SECTOR_BYTES;
        let cause = engine.faults.borrow().data.cause();
        let cause = cause.or_else(|| engine.faults.borrow().log.cause());
        let cause = cause.unwrap_or_else(|| "the time limit was reached".into());
        (left > 0).then_some(DrainError::Stuck {
            left: ByteLen(left),
            cause,
        })
    }

    /// Returns a warning about the log, if it failed and could not be marked. After [`DcdVolume::close`] this is final;
    /// before, the log may still be marked.
    pub fn stale_log(&self) -> Option<StaleLog> {
        let stale = self.engine().rescue.borrow().has_stale_log();
        stale.then_some(StaleLog)
    }

    /// Closes the volume: new requests fail, requests under way end, acknowledged data becomes durable, and data that
    /// is not destaged stays in the log. If the log is empty, it is marked clean and the data device alone is the
    /// volume. Callers should check [`DcdVolume::stale_log`] afterwards.
    ///
    /// Closing takes no longer than the requests under way on the devices. For failing devices the limit is
    /// [`crate::AttachOptions::patience`].
    ///
    /// # Errors
    /// If acknowledged data could not be made durable.
    pub async fn close(&self) -> Result<(), forebay_device::DeviceError> {
        // Ends the replacement of a log. Its engine would otherwise continue after the present one is closed.
        self.engine().begin_to_close();
        let _turn = self.succession.turn.lock().await;
        self.succession.running().close().await
    }

    /// Returns the volume's name.
    pub fn name(&self) -> String {
        self.engine().payload.borrow().name.clone()
    }

    /// Returns the volume's id.
    pub fn id(&self) -> VolumeId {
        self.engine().log.volume()
    }

    /// Returns the status of the volume.
    pub fn status(&self) -> DcdStatus {
        let engine = &*self.engine();
        let (mode, mode_detail) = self.mode();
        let (refused_bytes, refused_ranges) = engine.refused.borrow().ranges();
        let map = engine.map.borrow();
        let log = &engine.log;
        let segment = u64::from(log.ring().segment_bytes);
        let log_bytes = segment * log.ring().segment_count;
        let log_used_bytes = log.head().since(log.tail()) * segment;
        let dirty_bytes = map.live_sectors() * SECTOR_BYTES;
        let rate = engine.admission.pace.borrow().rate().unwrap_or(0.0);
        // Estimated from the number of fragments, most of which have equal length.
        let (_, pieces) = engine.admission.pace.borrow().unflushed();
        let pieces = pieces.min(map.len()) as u128;
        let unflushed = u128::from(dirty_bytes) * pieces / map.len().max(1) as u128;
        let doing = engine.doing.borrow();
        DcdStatus {
            mode,
            mode_detail,
            len: engine.geometry().len,
            block_size: engine.geometry().block_size,
            log_bytes,
            log_used_bytes,
            log_head_bytes: log.ring().slot(log.head()) * segment,
            waiting_writes: engine.admission.queued().into(),
            dirty_bytes,
            destage_unflushed_bytes: unflushed as u64,
            pending_discard_bytes: doing.left_of(map.ranges().sectors_to_carry()) * SECTOR_BYTES,
            destaging: doing.what(),
            // In segments, which are freed as a whole: a segment with few live bytes takes as much of the log as a full
            // one.
            dirty_share: log_used_bytes as f64 / log_bytes as f64,
            // The earlier rate does not apply to a device that fails.
            drain_eta_s: (dirty_bytes > 0 && rate > 0.0 && mode != CacheMode::DataFailing)
                .then(|| log_used_bytes as f64 / rate),
            epoch: log.superblock().epoch.0,
            map_bytes: map.bytes(),
            map_bytes_max: engine.map_bytes_max(),
            buffer_bytes: log.ram_bytes(),
            log_written_bytes: engine.log_written_bytes(),
            absorbed_bytes: engine.absorbed_bytes(),
            damaged_bytes: engine.lost_sectors() * SECTOR_BYTES,
            unreadable_bytes: engine.faults.borrow().unreadable,
            refused_bytes,
            refused_ranges,
            ..engine.counters.borrow().status()
        }
    }

    fn mode(&self) -> (CacheMode, Option<String>) {
        let engine = &*self.engine();
        let data = engine.faults.borrow().data.cause();
        let log = engine.faults.borrow().log.cause();
        let both = |one: &Option<Arc<str>>, other: &Option<Arc<str>>| {
            let causes = one.iter().chain(other).map(|cause| &**cause);
            causes.collect::<Vec<_>>().join("; ")
        };
        match engine.log.failure() {
            Some(failure) => {
                let what = if engine.rescue.borrow().is_done() {
                    "all readable data is on the data device; replace the log".into()
                } else if data.is_some() || log.is_some() {
                    format!(
                        "the rescue of its data cannot finish: {}",
                        both(&data, &log)
                    )
                } else {
                    "its data is being moved to the data device".into()
                };
                let detail = match self.stale_log() {
                    Some(stale) => format!("{failure}; {what}; {stale}"),
                    None => format!("{failure}; {what}"),
                };
                (CacheMode::Degraded, Some(detail))
            }
            None if data.is_some() => (CacheMode::DataFailing, Some(both(&data, &log))),
            None if log.is_some() => (CacheMode::LogFailing, Some(both(&log, &None))),
            None if engine.activity.borrow().is_draining() => (CacheMode::Draining, None),
            None => (CacheMode::Caching, None),
        }
    }

    /// Returns the locations of the parts of a byte range, in order.
    pub fn place(&self, range: Range<u64>) -> Vec<LocatedExtent> {
        let engine = &*self.engine();
        let mut out: Vec<LocatedExtent> = Vec::new();
        for extent in engine.map.borrow().lookup(sectors(&range)) {
            let place = match extent.source {
                SectorSource::Home => DataLocation::Home,
                SectorSource::Marked(RangeKind::Lost) => DataLocation::Damaged,
                SectorSource::Marked(_) => DataLocation::Zero,
                SectorSource::Piece(piece, _) => {
                    let ram = engine
                        .log
                        .with_ram(piece.addr, piece.sectors.into(), |_| ());
                    if ram.is_some() {
                        DataLocation::Ram
                    } else {
                        DataLocation::Log
                    }
                }
            };
            let range = extent.sectors.start * SECTOR_BYTES..extent.sectors.end * SECTOR_BYTES;
            match out.last_mut() {
                Some(last) if last.place == place => last.range.end = range.end,
                _ => out.push(LocatedExtent { range, place }),
            }
        }
        out
    }
}

impl Device for DcdVolume {
    fn geometry(&self) -> DeviceGeometry {
        self.engine().geometry()
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        Box::pin(async move { self.succession.serving().await.read(at, buf).await })
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let engine = self.succession.serving().await;
            engine.write(at, buf, durability).await
        })
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        Box::pin(async move { self.succession.serving().await.flush().await })
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        self.mark(DeviceOp::Discard, RangeKind::Discard, range)
    }

    fn write_zeroes(&self, range: Range<u64>, room: ZeroedSpace) -> IoFuture<'_, ()> {
        let kind = match room {
            ZeroedSpace::Keep => RangeKind::Zero,
            ZeroedSpace::Release => RangeKind::Unmap,
        };
        self.mark(DeviceOp::WriteZeroes, kind, range)
    }
}

impl DcdVolume {
    fn mark(&self, op: DeviceOp, kind: RangeKind, range: Range<u64>) -> IoFuture<'_, ()> {
        Box::pin(async move {
            let engine = self.succession.serving().await;
            engine.mark(op, kind, range).await
        })
    }
}
