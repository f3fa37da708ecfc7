//! One attached volume: its state, and the basic functions that every operation needs.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use forebay_device::{
    AckMode, Device, DeviceError, DeviceGeometry, DeviceOp, DurableRequests, Result,
};
use forebay_ring_log::{PORTION_BYTES, RangeKind, RingLog};
use forebay_rt::{CoopBudget, Event, Instant, Lock, RangeLock, Rt};
use forebay_units::{LINE_BYTES, SECTOR_BYTES};

use crate::admission::state::AdmissionState;
use crate::format::SuperblockPayload;
use crate::map::CacheMap;
use crate::options::AttachOptions;
use crate::state::{
    BackgroundWork, CacheFaults, CleanMark, ClientActivity, DestageProgress, DeviceSpeeds,
    RescueState, UnloggedChanges, UnwritableBlocks,
};
use crate::stats::DcdCounters;
use crate::witness::FailedLogRegistry;

/// State that the operations share. Runs on one thread; no borrow is held across an await.
pub(crate) struct DcdEngine {
    pub(crate) rt: Rt,
    pub(crate) log: RingLog,
    pub(crate) data: Rc<dyn Device>,
    geometry: Cell<DeviceGeometry>,
    pub(crate) options: AttachOptions,
    pub(crate) map: RefCell<CacheMap>,
    /// Locks on ranges of the data device, in sectors (I6).
    pub(crate) home: Rc<RangeLock>,
    pub(crate) payload: RefCell<SuperblockPayload>,
    pub(crate) counters: RefCell<DcdCounters>,
    /// Bytes written to the log between two points at which a writer yields to other tasks.
    pub(crate) portions: CoopBudget,
    /// Requests under way, and tasks that wait until the log is empty.
    pub(crate) activity: RefCell<ClientActivity>,
    /// Background work that is still active while the volume is being closed.
    pub(crate) service: RefCell<BackgroundWork>,
    /// Current activity of destaging, for the status.
    pub(crate) doing: RefCell<DestageProgress>,
    /// Queued writers, and the rate at which they may fill a log that is nearly full.
    pub(crate) admission: AdmissionState,
    /// Measured speed of the devices, which limits how long destaging keeps clients waiting.
    pub(crate) speed: RefCell<DeviceSpeeds>,
    /// Changes that have no copy in the log, and their durability.
    pub(crate) past_log: RefCell<UnloggedChanges>,
    /// Held while the data device flushes.
    pub(crate) flushing: Rc<Lock>,
    /// Flushes of the data device, and its writes with FUA.
    pub(crate) durable: DurableRequests,
    /// Held while the volume takes the length of its data device.
    pub(crate) resizing: Rc<Lock>,
    /// Current faults of the devices.
    pub(crate) faults: RefCell<CacheFaults>,
    /// Fragments that the data device fails to write, which stay in the log.
    pub(crate) refused: RefCell<UnwritableBlocks>,
    /// State of the rescue from a failed log.
    pub(crate) rescue: RefCell<RescueState>,
    /// Storage of the failed-log record, for a log that cannot be marked itself.
    pub(crate) witness: Option<Rc<dyn FailedLogRegistry>>,
    pub(crate) signals: DestageSignals,
    /// Mark of an empty log while both devices are held still.
    pub(crate) clean_mark: CleanMark,
}

/// Events that wake waiting tasks. A task checks its condition again then: an event means that something may have
/// changed.
#[derive(Default)]
pub(crate) struct DestageSignals {
    /// Destaging must not wait any longer: the log is filling up, or a task waits for destaging.
    pub(crate) urgent: Event,
    /// The destager has something to check.
    pub(crate) wake: Event,
    /// A fragment reached the data device, or failed to.
    pub(crate) settled: Event,
    /// Failed work must be tried again now.
    pub(crate) again: Event,
}

impl DestageSignals {
    /// Wakes everything that delays destaging, since a client waits until the log is empty: failed work is retried, and
    /// no work is put off.
    pub(crate) fn all_is_wanted_home(&self) {
        for waiting in [&self.again, &self.wake, &self.urgent] {
            waiting.notify_all();
        }
    }

    /// Wakes every waiting task, since the volume is being closed.
    pub(crate) fn closing(&self) {
        for waiting in [&self.settled, &self.urgent, &self.wake, &self.again] {
            waiting.notify_all();
        }
    }
}

/// A client's request under way. Idle time begins when the last request is dropped.
pub(crate) struct DcdRequest<'a> {
    engine: &'a DcdEngine,
    pub(crate) began: Instant,
    /// Time when the request's work ended, once [`DcdRequest::done`] was called.
    done: Cell<Option<Instant>>,
}

impl Drop for DcdRequest<'_> {
    fn drop(&mut self) {
        let engine = self.engine;
        let done = self.done.get().unwrap_or_else(|| engine.rt.now());
        let last = engine.activity.borrow_mut().end(done);
        if last && engine.service.borrow().awaits_end_of_requests() {
            engine.signals.settled.notify_all();
        }
    }
}

impl DcdRequest<'_> {
    /// Ends the request's work. Returns its duration in nanoseconds.
    pub(crate) fn done(&self) -> u64 {
        let now = self.engine.rt.now();
        self.done.set(Some(now));
        now.since(self.began).as_nanos() as u64
    }
}

/// Converts a byte range to sectors.
pub(crate) fn sectors(bytes: &Range<u64>) -> Range<u64> {
    bytes.start / SECTOR_BYTES..bytes.end / SECTOR_BYTES
}

impl DcdEngine {
    pub(crate) fn new(
        rt: Rt,
        log: RingLog,
        data: Rc<dyn Device>,
        options: AttachOptions,
        map: CacheMap,
        payload: SuperblockPayload,
    ) -> DcdEngine {
        let below = data.geometry();
        // The volume keeps its recorded length and block size, whatever the present device or kernel reports.
        let block_size = payload.block_size;
        let geometry = DeviceGeometry {
            len: payload.data.len,
            block_size,
            physical_block_size: below.physical_block_size.max(block_size),
            volatile: options.acknowledge < AckMode::Durable,
            // If the data device cannot discard, a discard would only make old data visible again.
            discard_granularity: match below.discard_granularity {
                0 => 0,
                unit => unit.max(block_size),
            },
            preferred_io: below.preferred_io.max(LINE_BYTES as u32),
            ..below
        };
        DcdEngine {
            activity: RefCell::new(ClientActivity::new(rt.now())),
            admission: AdmissionState::new(log.head()),
            rt,
            log,
            data,
            geometry: Cell::new(geometry),
            options,
            map: RefCell::new(map),
            home: Rc::default(),
            payload: RefCell::new(payload),
            counters: RefCell::new(DcdCounters::new()),
            portions: CoopBudget::of(PORTION_BYTES),
            service: RefCell::default(),
            doing: RefCell::default(),
            speed: RefCell::new(DeviceSpeeds::new()),
            past_log: RefCell::default(),
            flushing: Rc::default(),
            durable: DurableRequests::default(),
            resizing: Rc::default(),
            faults: RefCell::default(),
            refused: RefCell::default(),
            rescue: RefCell::default(),
            witness: None,
            signals: DestageSignals::default(),
            clean_mark: CleanMark::default(),
        }
    }

    /// Returns the geometry of the volume.
    pub(crate) fn geometry(&self) -> DeviceGeometry {
        self.geometry.get()
    }

    /// Sets the length of the volume, in bytes.
    pub(crate) fn set_len(&self, len: u64) {
        let geometry = self.geometry.get();
        self.geometry.set(DeviceGeometry { len, ..geometry });
    }

    /// Begins a client's request.
    ///
    /// # Errors
    /// If the volume is being closed.
    pub(crate) fn request(&self, op: DeviceOp) -> Result<DcdRequest<'_>> {
        if self.is_closing() {
            return Err(DeviceError::Closed { op });
        }
        self.activity.borrow_mut().begin();
        Ok(DcdRequest {
            engine: self,
            began: self.rt.now(),
            done: Cell::new(None),
        })
    }

    /// Begins to close: no more requests are accepted, and everything that waits is woken.
    pub(crate) fn begin_to_close(&self) {
        self.service.borrow_mut().close(self.rt.now());
        self.signals.closing();
        self.clean_mark.closing();
        self.log.notify();
    }

    /// Returns true once the volume is being closed: it accepts no more requests.
    pub(crate) fn is_closing(&self) -> bool {
        self.service.borrow().closing().is_some()
    }

    /// Returns true if the log has no data, and no segment in use.
    pub(crate) fn is_empty(&self) -> bool {
        self.map.borrow().is_empty() && self.log.tail() == self.log.head()
    }

    /// Returns true once background work must no longer write to the data device.
    pub(crate) fn is_stopping(&self) -> bool {
        self.service.borrow().is_stopping()
    }

    /// Returns the bytes written to the log device, and to the log devices before it.
    pub(crate) fn log_written_bytes(&self) -> u64 {
        self.counters.borrow().log_written_bytes + self.log.stats().bytes_written
    }

    /// Returns the bytes that were overwritten before they were destaged, with all logs since the attach.
    pub(crate) fn absorbed_bytes(&self) -> u64 {
        let absorbed = self.map.borrow().absorbed_sectors() * SECTOR_BYTES;
        self.counters.borrow().absorbed_bytes + absorbed
    }

    /// Returns the lost ranges (first sector, number of sectors) in order, with adjacent ranges merged. They were lost
    /// fragment by fragment, and the superblock has space for few ranges.
    pub(crate) fn lost_ranges(&self) -> Vec<(u64, u64)> {
        let map = self.map.borrow();
        let lost = map.ranges().iter();
        let lost = lost.filter(|(_, mark)| mark.kind == RangeKind::Lost);
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for (range, _) in lost {
            let sectors = range.end - range.start;
            match ranges.last_mut() {
                Some((at, n)) if *at + *n == range.start => *n += sectors,
                _ => ranges.push((range.start, sectors)),
            }
        }
        ranges
    }

    /// Returns the number of lost sectors.
    pub(crate) fn lost_sectors(&self) -> u64 {
        self.lost_ranges().iter().map(|(_, sectors)| sectors).sum()
    }
}
