//! When the cleaner works, and how fast users may write meanwhile: what `forebay_placement::pace` decides
//! from what is to be seen here.

use std::time::Duration;

use forebay_placement::cost::Disk;
use forebay_placement::pace::{Decision, Observed, Pacer, Room as Spare, assumed_rate, decide};
use forebay_rt::Instant;
use forebay_segments::Gathering;

use crate::claim::{Claim, Floors as _, Wanted};
use crate::geometry::Layout;
use crate::options::Options;
use crate::room::Room;
use crate::streams::Streams;
use forebay_extents::Map;

/// What cleaning is to gain at a time: this part of all segments, within bounds.
const WINDOW_PART: u64 = 256;
const WINDOW_SEGMENTS_MAX: u64 = 8;

/// Appended data waits for so many times what positioning takes, so that a stream that gets little takes a fiftieth of
/// the device's time; but not less than this is waited.
const DELAY_POSITIONINGS: f64 = 50.0;
const DELAY_MIN: Duration = Duration::from_millis(50);
/// What is transferred in so many times what positioning takes is enough to be sent at once.
const ENOUGH_POSITIONINGS: f64 = 2.0;
/// As far as that is not more than this, in bytes.
const ENOUGH_MAX: u32 = 4 << 20;

/// How much is gathered for a device like this before it is sent there unasked.
pub(crate) fn gathering(disk: &Disk, options: &Options, layout: &Layout) -> Gathering {
    let delay = Duration::from_secs_f64(DELAY_POSITIONINGS * disk.positioning.max(0.0));
    let enough = ENOUGH_POSITIONINGS * disk.positioning * disk.bandwidth;
    let most = layout.segment_bytes.min(ENOUGH_MAX);
    Gathering {
        delay: delay.max(DELAY_MIN).min(options.max_delay),
        enough: (enough as u32).clamp(Gathering::ENOUGH.min(most), most),
    }
}

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
    let (layout, table) = (streams.layout, &streams.table);
    let segment = layout.dense_sectors();
    let reserve = room.floor(Claim::Writers) + usize::from(streams.counts.all());
    let all = u64::from(layout.segment_count) * segment;
    Spare {
        free: table.unused() as u64 * segment,
        soon,
        reserve: reserve as u64 * segment,
        spare: all.saturating_sub(table.weight().min(all)),
        window: window(streams),
    }
}

impl Pacing {
    /// What the cleaner should do now.
    pub(crate) fn decide(&self, streams: &Streams, map: &Map, now: Instant) -> Decision {
        let decision = decide(&Observed {
            room: spare(streams, map, self.pacer.soon()),
            idle: now.since(self.last).as_nanos() as u64,
            pressed: self.waiting > 0,
            gains: streams.table.gain() > 0,
        });
        match decision {
            Decision::Clean(_) if !streams.can_gain_segment() => Decision::Rest,
            decision => decision,
        }
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
        let multiple = spare.multiple().filter(|_| streams.table.gain() > 0);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn gathered(positioning: f64, bandwidth: f64) -> Gathering {
        let layout = Layout {
            segment_bytes: 1 << 20,
            segment_count: 100,
            block: 4096,
            len: 101 << 20,
        };
        let disk = Disk {
            positioning,
            bandwidth,
            arms: 1.0,
        };
        gathering(&disk, &Options::default(), &layout)
    }

    #[test]
    fn slow_arms_are_sent_more_at_a_time_and_later() {
        let usual = Gathering::after(DELAY_MIN);
        assert_eq!(
            gathered(0.0001, 2e9),
            Gathering {
                enough: 400_000,
                ..usual
            }
        );
        assert_eq!(gathered(0.0, 1e9), usual);
        let disk = gathered(0.004, 50e6);
        assert_eq!(disk.delay, Duration::from_millis(200));
        assert_eq!(disk.enough, 400_000);
        // No longer than is allowed, nor more than a segment.
        let slow = gathered(4.2, 4e12);
        assert_eq!(slow.delay, Options::default().max_delay);
        assert_eq!(slow.enough, 1 << 20);
    }
}
