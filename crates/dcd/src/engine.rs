//! One attached volume: its state, and what every operation needs of it.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use forebay_device::{Device, DeviceError, Geometry, Op, Result};
use forebay_log::{Log, RangeKind};
use forebay_rt::{Event, Instant, RangeLock, Rt};
use forebay_units::{ByteLen, SECTOR_BYTES, SegmentSeq};
use serde::Serialize;

use crate::format::Payload;
use crate::map::Map;
use crate::state::{Pace, Refused, Speed, Trouble};
use crate::stats::Counters;
use crate::witness::Witness;

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
    /// How long requests wait for a device that fails before they fail too, counted from when the
    /// trouble began. What fails is tried again for as long as it takes.
    pub patience: Duration,
    /// How much memory the map may take for its pieces and marks; less than a MiB
    /// written at once can take counts as that.
    /// What would take more waits, as for room in the log.
    pub map_memory: ByteLen,
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
            patience: Duration::from_secs(60),
            map_memory: ByteLen::gib(1),
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
    /// What only it or its buffer holds is being taken home, or it is being marked as given up.
    UnderWay,
    /// All that was not lost is home, and no later attach will believe the log.
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
    /// How fast writers may fill a log that is nearly full.
    pub(crate) pace: RefCell<Pace>,
    /// How fast the devices have been, for those who must not keep users waiting.
    pub(crate) speed: RefCell<Speed>,
    /// Destaging must not wait any longer: the log fills, or somebody waits.
    pub(crate) urgent: Event,
    users: Cell<u32>,
    last_user: Cell<Instant>,
    /// The destager has something to look at.
    pub(crate) wake: Event,
    /// Something came home, or failed to.
    pub(crate) settled: Event,
    pub(crate) draining: Cell<u32>,
    /// Since when the volume is being closed: requests that come now fail, and those that wait for room
    /// do so, too.
    pub(crate) closing: Cell<Option<Instant>>,
    /// What was acknowledged is durable, or cannot be made so: whatever goes home by itself stops.
    pub(crate) stopping: Cell<bool>,
    /// Home writes may be under way: of destaging, and of the rescue.
    pub(crate) destaging: Cell<bool>,
    pub(crate) rescuing: Cell<bool>,
    /// How many changes past the log have completed that need a flush of the data device, and how
    /// many of them had one. Not a flag: who comes while the flush is under way must wait, too.
    pub(crate) bypassed: Cell<u64>,
    pub(crate) bypassed_durable: Cell<u64>,
    /// A flush of the data device failed that some of those needed. Whether they are there nobody
    /// knows, and a later flush that succeeds does not say so; none is acknowledged after that.
    pub(crate) bypassed_lost: RefCell<Option<Arc<str>>>,
    /// Flushes of the data device that failed. One may lose all that was written and not flushed, and
    /// not only what it was issued for: whoever wrote before it and flushes after it has nothing.
    pub(crate) lost_flushes: Cell<u64>,
    /// With the data device: it does not take what is to go home.
    pub(crate) data_trouble: Trouble,
    /// With the log device: it does not give back what it holds, or cannot be marked.
    pub(crate) log_trouble: Trouble,
    /// What failed is to be tried again now.
    pub(crate) again: Event,
    /// What home refuses, and is kept in the log.
    pub(crate) refused: RefCell<Refused>,
    /// Bytes in the log that could not be read when it was tried last.
    pub(crate) unreadable: Cell<u64>,
    /// An administrator said that what cannot be read is to be given up.
    pub(crate) give_up_unreadable: Cell<bool>,
    /// That was said of the segments before this one.
    pub(crate) give_up_before: Cell<SegmentSeq>,
    /// An administrator answers for it that a failed log is not attached again.
    pub(crate) forsaken: Cell<bool>,
    /// Who remembers that a log was given up which cannot be told so itself.
    pub(crate) witness: Option<Rc<dyn Witness>>,
    /// A witness, or an administrator, knows that the log was given up.
    pub(crate) witnessed: Cell<bool>,
    pub(crate) rescue: Cell<Rescue>,
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
            if self.engine.closing.get().is_some() {
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
        // Of the size it was made with, on whatever device or kernel it is now.
        let block_size = payload.block_size;
        let geometry = Geometry {
            block_size,
            physical_block_size: below.physical_block_size.max(block_size),
            volatile: options.acknowledge == Acknowledge::Flush,
            // Where home discards nothing, a discard would only bring old data back to light.
            discard_granularity: match below.discard_granularity {
                0 => 0,
                unit => unit.max(block_size),
            },
            preferred_io: below.preferred_io.max(4096),
            ..below
        };
        Engine {
            last_user: Cell::new(rt.now()),
            pace: RefCell::new(Pace::new(log.head())),
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
            speed: RefCell::new(Speed::new()),
            urgent: Event::new(),
            users: Cell::new(0),
            wake: Event::new(),
            settled: Event::new(),
            draining: Cell::new(0),
            closing: Cell::new(None),
            stopping: Cell::new(false),
            destaging: Cell::new(false),
            rescuing: Cell::new(false),
            bypassed: Cell::new(0),
            bypassed_durable: Cell::new(0),
            bypassed_lost: RefCell::new(None),
            lost_flushes: Cell::new(0),
            data_trouble: Trouble::default(),
            log_trouble: Trouble::default(),
            again: Event::new(),
            refused: RefCell::default(),
            unreadable: Cell::new(0),
            give_up_unreadable: Cell::new(false),
            give_up_before: Cell::default(),
            forsaken: Cell::new(false),
            witness: None,
            witnessed: Cell::new(false),
            rescue: Cell::new(Rescue::NotNeeded),
            stale_log: Cell::new(false),
        }
    }

    /// Begins a user's request.
    pub(crate) fn request(&self, op: Op) -> Result<Request<'_>> {
        if self.closing.get().is_some() {
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
