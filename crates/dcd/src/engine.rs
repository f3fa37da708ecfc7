//! One attached volume: its state, and what every operation needs of it.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use forebay_device::{Device, DeviceError, DurableRequests, Geometry, Op, Result};
use forebay_log::{Log, PORTION_BYTES, RangeKind};
use forebay_rt::{Event, Instant, Lock, Portions, RangeLock, Rt};
use forebay_units::{LINE_BYTES, SECTOR_BYTES};

use crate::format::Payload;
use crate::map::Map;
use crate::options::{Acknowledge, AttachOptions};
use crate::state::{Activity, Doing, Faults, Pace, PastLog, Refused, Rescue, Service, Speed};
use crate::stats::Counters;
use crate::witness::Witness;

/// The state that the operations share. One thread; nothing is borrowed across an await.
pub(crate) struct Engine {
    pub(crate) rt: Rt,
    pub(crate) log: Log,
    pub(crate) data: Rc<dyn Device>,
    geometry: Cell<Geometry>,
    pub(crate) options: AttachOptions,
    pub(crate) map: RefCell<Map>,
    /// Turns on home ranges, in sectors (I6).
    pub(crate) home: Rc<RangeLock>,
    pub(crate) payload: RefCell<Payload>,
    pub(crate) counters: RefCell<Counters>,
    /// Turns of writers that wait for room.
    pub(crate) queue: Rc<Lock>,
    /// Bytes written to the log between turns of everybody else.
    pub(crate) portions: Portions,
    /// Who is being served, and who waits.
    pub(crate) activity: RefCell<Activity>,
    /// What still goes on, while the volume is being closed.
    pub(crate) service: RefCell<Service>,
    /// What destaging is doing, for those who watch.
    pub(crate) doing: RefCell<Doing>,
    /// How fast writers may fill a log that is nearly full.
    pub(crate) pace: RefCell<Pace>,
    /// How fast the devices have been, for those who must not keep users waiting.
    pub(crate) speed: RefCell<Speed>,
    /// What has no copy in the log, and whether it is durable.
    pub(crate) past_log: RefCell<PastLog>,
    /// Held while the data device flushes.
    pub(crate) flushing: Rc<Lock>,
    /// Flushes of the data device, and its writes with FUA.
    pub(crate) durable: DurableRequests,
    /// Held while the volume takes the length of its data device.
    pub(crate) resizing: Rc<Lock>,
    /// What the devices fail to do.
    pub(crate) faults: RefCell<Faults>,
    /// What home refuses, and is kept in the log.
    pub(crate) refused: RefCell<Refused>,
    /// What becomes of a log that failed.
    pub(crate) rescue: RefCell<Rescue>,
    /// Who remembers that a log was given up which cannot be told so itself.
    pub(crate) witness: Option<Rc<dyn Witness>>,
    pub(crate) signals: Signals,
}

/// What those who wait are woken by. They look again then: a signal says that something may have
/// changed, and not what.
#[derive(Default)]
pub(crate) struct Signals {
    /// Destaging must not wait any longer: the log fills, or somebody waits.
    pub(crate) urgent: Event,
    /// The destager has something to look at.
    pub(crate) wake: Event,
    /// Something came home, or failed to.
    pub(crate) settled: Event,
    /// What failed is to be tried again now.
    pub(crate) again: Event,
}

impl Signals {
    /// Somebody waits for everything to be home: what failed is tried again, and nothing is put off.
    pub(crate) fn all_is_wanted_home(&self) {
        for waiting in [&self.again, &self.wake, &self.urgent] {
            waiting.notify_all();
        }
    }

    /// The volume is being closed.
    pub(crate) fn closing(&self) {
        for waiting in [&self.settled, &self.urgent, &self.wake, &self.again] {
            waiting.notify_all();
        }
    }
}

/// A user's request under way; idleness begins when the last is dropped.
pub(crate) struct Request<'a> {
    engine: &'a Engine,
    pub(crate) began: Instant,
    /// When its work was done, once that was asked for.
    done: Cell<Option<Instant>>,
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        let engine = self.engine;
        let done = self.done.get().unwrap_or_else(|| engine.rt.now());
        let last = engine.activity.borrow_mut().end(done);
        if last && engine.is_closing() {
            engine.signals.settled.notify_all();
        }
    }
}

impl Request<'_> {
    /// Its work is done: how many nanoseconds that took.
    pub(crate) fn done(&self) -> u64 {
        let now = self.engine.rt.now();
        self.done.set(Some(now));
        now.since(self.began).as_nanos() as u64
    }
}

/// Sectors of a byte range.
pub(crate) fn sectors(bytes: &Range<u64>) -> Range<u64> {
    bytes.start / SECTOR_BYTES..bytes.end / SECTOR_BYTES
}

impl Engine {
    pub(crate) fn new(
        rt: Rt,
        log: Log,
        data: Rc<dyn Device>,
        options: AttachOptions,
        map: Map,
        payload: Payload,
    ) -> Engine {
        let below = data.geometry();
        // Of the size it was made with, on whatever device or kernel it is now.
        let block_size = payload.block_size;
        let geometry = Geometry {
            len: payload.data.len,
            block_size,
            physical_block_size: below.physical_block_size.max(block_size),
            volatile: options.acknowledge < Acknowledge::Write,
            // Where home discards nothing, a discard would only bring old data back to light.
            discard_granularity: match below.discard_granularity {
                0 => 0,
                unit => unit.max(block_size),
            },
            preferred_io: below.preferred_io.max(LINE_BYTES as u32),
            ..below
        };
        Engine {
            activity: RefCell::new(Activity::new(rt.now())),
            pace: RefCell::new(Pace::new(log.head())),
            rt,
            log,
            data,
            geometry: Cell::new(geometry),
            options,
            map: RefCell::new(map),
            home: Rc::default(),
            payload: RefCell::new(payload),
            counters: RefCell::new(Counters::new()),
            queue: Rc::default(),
            portions: Portions::of(PORTION_BYTES),
            service: RefCell::default(),
            doing: RefCell::default(),
            speed: RefCell::new(Speed::new()),
            past_log: RefCell::default(),
            flushing: Rc::default(),
            durable: DurableRequests::default(),
            resizing: Rc::default(),
            faults: RefCell::default(),
            refused: RefCell::default(),
            rescue: RefCell::default(),
            witness: None,
            signals: Signals::default(),
        }
    }

    /// The volume as its users see it.
    pub(crate) fn geometry(&self) -> Geometry {
        self.geometry.get()
    }

    /// The volume is `len` bytes long from here on.
    pub(crate) fn set_len(&self, len: u64) {
        let geometry = self.geometry.get();
        self.geometry.set(Geometry { len, ..geometry });
    }

    /// Begins a user's request.
    pub(crate) fn request(&self, op: Op) -> Result<Request<'_>> {
        if self.is_closing() {
            return Err(DeviceError::Closed { op });
        }
        self.activity.borrow_mut().begin();
        Ok(Request {
            engine: self,
            began: self.rt.now(),
            done: Cell::new(None),
        })
    }

    /// True once the volume is being closed: no request is taken any more.
    pub(crate) fn is_closing(&self) -> bool {
        self.service.borrow().closing().is_some()
    }

    /// True once nothing may go home unasked.
    pub(crate) fn is_stopping(&self) -> bool {
        self.service.borrow().is_stopping()
    }

    /// Ranges (first sector, sectors) that are lost, in order, neighbours as one: they were lost piece
    /// by piece, and the superblock has room for few.
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

    /// Sectors that are lost.
    pub(crate) fn lost_sectors(&self) -> u64 {
        self.lost_ranges().iter().map(|(_, sectors)| sectors).sum()
    }
}
