//! When the cleaner works, and how fast users may write meanwhile: what `forebay_placement::pace` decides
//! from what is to be seen here.

use std::time::Duration;

use forebay_placement::cost::Disk;
use forebay_placement::pace::{Decision, Observed, Pacer, Room as Spare, assumed_rate, decide};
use forebay_rt::Instant;

use crate::room::{Room, Wanted};
use crate::streams::Streams;
use forebay_extents::Map;

/// What cleaning is to gain at a time: this part of all segments, within bounds.
const WINDOW_PART: u64 = 256;
const WINDOW_SEGMENTS_MAX: u64 = 8;

/// What is known of how fast cleaning goes, and of users.
pub(crate) struct Pacing {
    pub(crate) pacer: Pacer,
    /// When a user last wrote something.
    last: Instant,
    /// Batches that wait for room.
    waiting: usize,
    /// What batches in line want.
    queued: Wanted,
}

impl Pacing {
    /// Of a medium that is so fast.
    pub(crate) fn new(disk: &Disk) -> Pacing {
        let sectors = disk.bandwidth / forebay_units::SECTOR_BYTES as f64;
        Pacing {
            // Until it is measured, as of a medium that is rather full.
            pacer: Pacer::new(assumed_rate(sectors, 0.9)),
            last: Instant::default(),
            waiting: 0,
            queued: Wanted::default(),
        }
    }
}

/// Sectors that cleaning is to gain at a time.
pub(crate) fn window(streams: &Streams) -> u64 {
    let segments = u64::from(streams.layout.segment_count) / WINDOW_PART;
    segments.clamp(1, WINDOW_SEGMENTS_MAX) * streams.layout.dense_sectors()
}

/// How much room there is, as pacing sees it.
fn spare(streams: &Streams, map: &Map, soon: u64) -> Spare {
    let room = Room::of(streams, map);
    let (layout, usage) = (streams.layout, &streams.usage);
    let segment = layout.dense_sectors();
    let reserve = room.for_cleaner + usize::from(streams.counts.all());
    let all = u64::from(layout.segment_count) * segment;
    Spare {
        free: usage.unused() as u64 * segment,
        soon,
        reserve: reserve as u64 * segment,
        spare: all.saturating_sub(usage.live().min(all)),
        window: window(streams),
    }
}

impl Pacing {
    /// What the cleaner should do now.
    pub(crate) fn decide(&self, streams: &Streams, map: &Map, now: Instant) -> Decision {
        decide(&Observed {
            room: spare(streams, map, self.pacer.soon()),
            idle: now.since(self.last).as_nanos() as u64,
            pressed: self.waiting > 0,
            gains: streams.usage.gain() > 0,
        })
    }

    /// How long a user's write of so many sectors has to wait, so that room is used up smoothly; if it need not,
    /// it is taken as done.
    pub(crate) fn pace(
        &mut self,
        streams: &Streams,
        map: &Map,
        now: Instant,
        sectors: u64,
    ) -> Option<Duration> {
        self.last = now;
        let spare = spare(streams, map, self.pacer.soon());
        let multiple = spare.multiple().filter(|_| streams.usage.gain() > 0);
        let wait = self.pacer.wait(sectors, multiple, now.as_nanos());
        if wait > 0 {
            return Some(Duration::from_nanos(wait));
        }
        self.pacer.take(sectors);
        None
    }

    /// What batches in line want.
    pub(crate) fn queued(&self) -> Wanted {
        self.queued
    }

    /// A batch gets in line.
    pub(crate) fn queue(&mut self, wanted: Wanted) {
        self.queued = self.queued.plus(wanted);
    }

    /// It leaves the line.
    pub(crate) fn unqueue(&mut self, wanted: Wanted) {
        self.queued = self.queued.less(wanted);
    }

    /// Somebody waits for room from now on, or no longer.
    pub(crate) fn presses(&mut self, more: bool) {
        match more {
            true => self.waiting += 1,
            false => self.waiting -= 1,
        }
    }
}
