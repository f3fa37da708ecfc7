//! One attached volume: its state, and what every operation needs of it.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use forebay_device::{Device, DeviceError, Geometry, Op, Result};
use forebay_log::{Log, RangeKind, SEGMENTS_RESERVED};
use forebay_rt::{Event, Instant, RangeLock, Rt};
use forebay_units::{ByteLen, SECTOR_BYTES};
use serde::Serialize;

use crate::format::Payload;
use crate::map::Map;
use crate::policy;
use crate::speed::Speed;
use crate::stats::Counters;

/// When a write is acknowledged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Acknowledge {
    /// Once it is in the segment buffer: the paper's immediate report. Durable with the next flush.
    #[default]
    Flush,
    /// Once it is durable.
    Write,
}

/// How an attached volume is to behave.
#[derive(Clone, Copy, Debug)]
pub struct AttachOptions {
    /// When a write is acknowledged.
    pub acknowledge: Acknowledge,
    /// The longest that unflushed data waits before it goes to the log.
    pub max_delay: Duration,
    /// Writes of at least this length go straight to the data device (the paper's direct path). They
    /// keep a disk's semantics, not the log's order.
    pub bypass: Option<ByteLen>,
    /// Take up a log in which something durable is missing, up to what is missing.
    pub accept_loss: bool,
    /// Take up a log whose data device was changed without it.
    pub accept_changed: bool,
}

impl Default for AttachOptions {
    fn default() -> AttachOptions {
        AttachOptions {
            acknowledge: Acknowledge::Flush,
            max_delay: Duration::from_millis(50),
            bypass: None,
            accept_loss: false,
            accept_changed: false,
        }
    }
}

/// What became of a log that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rescue {
    /// The log works.
    NotNeeded,
    /// What only it or its buffer holds is being taken home.
    UnderWay,
    /// All that could be read is home.
    Done,
}

/// The state that the operations share. One thread; nothing is borrowed across an await.
pub(crate) struct Engine {
    pub(crate) rt: Rt,
    pub(crate) log: Log,
    pub(crate) data: Rc<dyn Device>,
    pub(crate) geometry: Geometry,
    pub(crate) options: AttachOptions,
    pub(crate) map: RefCell<Map>,
    /// Turns on home ranges, in sectors (I6).
    pub(crate) home: Rc<RangeLock>,
    pub(crate) payload: RefCell<Payload>,
    pub(crate) counters: RefCell<Counters>,
    /// Writers that wait for room, in order.
    pub(crate) queue: Rc<RangeLock>,
    pub(crate) queued: Cell<u32>,
    /// True if a writer waits for the tail to move.
    pub(crate) starved: Cell<bool>,
    /// When the next paced write may go.
    pub(crate) pace_at: Cell<Instant>,
    /// How fast the log was emptied lately, in bytes of log a second; 0 while unknown.
    pub(crate) empty_rate: Cell<f64>,
    /// How fast the devices have been, for those who must not keep users waiting.
    pub(crate) speed: Speed,
    /// Destaging must not wait any longer: the log fills, or somebody waits.
    pub(crate) urgent: Event,
    /// How long destaging stood back for users, in all.
    pub(crate) yielded: Cell<Duration>,
    users: Cell<u32>,
    last_user: Cell<Instant>,
    /// The destager has something to look at.
    pub(crate) wake: Event,
    /// Something came home, or failed to.
    pub(crate) settled: Event,
    pub(crate) draining: Cell<u32>,
    pub(crate) closed: Cell<bool>,
    /// Home writes may be under way.
    pub(crate) destaging: Cell<bool>,
    /// How many changes past the log have completed that need a flush of the data device, and how
    /// many of them had one. Not a flag: who comes while the flush is under way must wait, too.
    pub(crate) bypassed: Cell<u64>,
    pub(crate) bypassed_durable: Cell<u64>,
    /// A flush of the data device failed that some of those needed. Whether they are there nobody
    /// knows, and a later flush that succeeds does not say so; none is acknowledged after that.
    pub(crate) bypassed_lost: RefCell<Option<Arc<str>>>,
    /// Why the data device does not take what is destaged.
    pub(crate) trouble: RefCell<Option<Arc<str>>>,
    pub(crate) rescue: Cell<Rescue>,
    /// Data that was not durable was lost with the log; no flush succeeds after that.
    pub(crate) lost_unflushed: Cell<bool>,
    /// The log could not be told that what it holds no longer counts, and would be believed.
    pub(crate) stale_log: Cell<bool>,
}

/// A user's request under way; idleness begins when the last is dropped.
pub(crate) struct Request<'a> {
    engine: &'a Engine,
    pub(crate) began: Instant,
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        let left = self.engine.users.get() - 1;
        self.engine.users.set(left);
        if left == 0 {
            self.engine.last_user.set(self.engine.rt.now());
            if self.engine.closed.get() {
                self.engine.settled.notify_all();
            }
        }
    }
}

impl Request<'_> {
    /// Nanoseconds since the request began.
    pub(crate) fn ns(&self) -> u64 {
        self.engine.rt.now().since(self.began).as_nanos() as u64
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
        let geometry = Geometry {
            volatile: options.acknowledge == Acknowledge::Flush,
            // Where home discards nothing, a discard would only bring old data back to light.
            discard_granularity: match below.discard_granularity {
                0 => 0,
                unit => unit.max(below.block_size),
            },
            preferred_io: below.preferred_io.max(4096),
            ..below
        };
        Engine {
            last_user: Cell::new(rt.now()),
            rt,
            log,
            data,
            geometry,
            options,
            map: RefCell::new(map),
            home: Rc::default(),
            payload: RefCell::new(payload),
            counters: RefCell::new(Counters::new()),
            queue: Rc::default(),
            queued: Cell::new(0),
            starved: Cell::new(false),
            pace_at: Cell::default(),
            empty_rate: Cell::new(0.0),
            speed: Speed::new(),
            urgent: Event::new(),
            yielded: Cell::default(),
            users: Cell::new(0),
            wake: Event::new(),
            settled: Event::new(),
            draining: Cell::new(0),
            closed: Cell::new(false),
            destaging: Cell::new(false),
            bypassed: Cell::new(0),
            bypassed_durable: Cell::new(0),
            bypassed_lost: RefCell::new(None),
            trouble: RefCell::new(None),
            rescue: Cell::new(Rescue::NotNeeded),
            lost_unflushed: Cell::new(false),
            stale_log: Cell::new(false),
        }
    }

    /// Begins a user's request.
    pub(crate) fn request(&self, op: Op) -> Result<Request<'_>> {
        if self.closed.get() {
            return Err(DeviceError::Closed { op });
        }
        self.users.set(self.users.get() + 1);
        Ok(Request {
            engine: self,
            began: self.rt.now(),
        })
    }

    pub(crate) fn users(&self) -> u32 {
        self.users.get()
    }

    /// How long no user request has been under way.
    pub(crate) fn idle(&self) -> Duration {
        match self.users.get() {
            0 => self.rt.now().since(self.last_user.get()),
            _ => Duration::ZERO,
        }
    }

    /// The share of the log's segments in use by users' standards: 1 when they have to wait.
    pub(crate) fn used(&self) -> f64 {
        let count = self.log.layout().segment_count - SEGMENTS_RESERVED;
        let free = self.log.free_segments().saturating_sub(SEGMENTS_RESERVED);
        1.0 - free.min(count) as f64 / count as f64
    }

    /// Waits for `span`, or until destaging is urgent.
    pub(crate) async fn wait_unless_urgent(&self, span: Duration) {
        let sleep = self.rt.sleep(span);
        futures_util::future::select(sleep, self.urgent.listen()).await;
    }

    /// True if all that is not home cannot come home, because it is lost.
    pub(crate) fn only_lost(&self) -> bool {
        let map = self.map.borrow();
        map.live_sectors() == 0
            && !map.is_empty()
            && map
                .ranges()
                .iter()
                .all(|(_, mark)| mark.kind == RangeKind::Lost)
    }

    /// Sectors that are lost.
    pub(crate) fn lost_sectors(&self) -> u64 {
        let map = self.map.borrow();
        let lost = map
            .ranges()
            .iter()
            .filter(|(_, mark)| mark.kind == RangeKind::Lost);
        lost.map(|(range, _)| range.end - range.start).sum()
    }

    /// What the destager sees.
    pub(crate) fn observe(&self) -> policy::Observed {
        let used = self.used();
        let something = !self.map.borrow().is_empty() || self.log.tail() != self.log.head();
        policy::Observed {
            used,
            dirty: something && (used > policy::HIGH_WATER || !self.only_lost()),
            idle: self.idle(),
            pressed: self.starved.get() || self.draining.get() > 0,
            unnoted: self.log.superblock().stable < self.log.stable(),
        }
    }
}
