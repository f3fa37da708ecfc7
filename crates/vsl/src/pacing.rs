//! Pacing: applies the decisions of `forebay_placement::pace` on cleaning and on the speed of clients' writes to the
//! state of this volume.

use std::time::Duration;

use forebay_placement::cost::DiskParameters;
use forebay_placement::pace::{
    CleaningConditions, CleaningDecision, CleaningSpace as Spare, Pacer, assumed_rate, decide,
};
use forebay_rt::Instant;
use forebay_segment_log::GatherLimits;

use crate::claim::{ClaimFloors as _, SegmentClaim, SegmentDemand};
use crate::geometry::SegmentLayout;
use crate::options::SpaceSettings;
use crate::room::SpaceBudget;
use crate::streams::SegmentStreams;
use forebay_extent_map::ExtentMap;

/// Gain of one window of cleaning, as a fraction of all segments, within bounds.
const WINDOW_PART: u64 = 256;
const WINDOW_SEGMENTS_MAX: u64 = 8;

/// Appended data waits for this multiple of the positioning time, so that a stream with few writes takes at most a
/// fiftieth of the device's time. The minimum is `DELAY_MIN`.
const DELAY_POSITIONINGS: f64 = 50.0;
const DELAY_MIN: Duration = Duration::from_millis(50);
/// Data that takes this multiple of the positioning time to transfer is sent at once.
const ENOUGH_POSITIONINGS: f64 = 2.0;
/// Maximum of this amount, in bytes.
const ENOUGH_MAX: u32 = 4 << 20;

/// Returns the delay and the amount of data to gather before it is sent without a flush.
pub(crate) fn gathering(
    disk: &DiskParameters,
    options: &SpaceSettings,
    layout: &SegmentLayout,
) -> GatherLimits {
    let delay = Duration::from_secs_f64(DELAY_POSITIONINGS * disk.positioning.max(0.0));
    let enough = ENOUGH_POSITIONINGS * disk.positioning * disk.bandwidth;
    let most = layout.segment_bytes.min(ENOUGH_MAX);
    GatherLimits {
        delay: delay.max(DELAY_MIN).min(options.max_delay),
        enough: (enough as u32).clamp(GatherLimits::ENOUGH.min(most), most),
    }
}

/// The measured speed of cleaning, and the waiting clients.
pub(crate) struct WriterPacing {
    pub(crate) pacer: Pacer,
    /// Time of the last write by a client.
    last: Instant,
    /// Number of batches that wait for free space.
    waiting: usize,
    /// Demand of queued batches.
    queued: SegmentDemand,
}

impl WriterPacing {
    /// Creates the state for a device with the speed of `disk`.
    pub(crate) fn new(disk: &DiskParameters) -> WriterPacing {
        let sectors = disk.bandwidth / forebay_units::SECTOR_BYTES as f64;
        WriterPacing {
            // Until the rate is measured, assume a rather full device.
            pacer: Pacer::new(assumed_rate(sectors, 0.9)),
            last: Instant::default(),
            waiting: 0,
            queued: SegmentDemand::default(),
        }
    }
}

/// Returns the sectors that one window of cleaning must gain.
pub(crate) fn window(streams: &SegmentStreams) -> u64 {
    let segments = u64::from(streams.layout.segment_count) / WINDOW_PART;
    segments.clamp(1, WINDOW_SEGMENTS_MAX) * streams.layout.dense_sectors()
}

/// Returns the free space as input of the pacing decisions.
fn spare(streams: &SegmentStreams, map: &ExtentMap, soon: u64) -> Spare {
    let room = SpaceBudget::of(streams, map);
    let (layout, table) = (streams.layout, &streams.table);
    let segment = layout.dense_sectors();
    let reserve = room.floor(SegmentClaim::Writers) + usize::from(streams.counts.all());
    let all = u64::from(layout.segment_count) * segment;
    Spare {
        free: table.unused() as u64 * segment,
        soon,
        reserve: reserve as u64 * segment,
        spare: all.saturating_sub(table.weight().min(all)),
        window: window(streams),
    }
}

impl WriterPacing {
    /// Decides about the next step of the cleaner.
    pub(crate) fn decide(
        &self,
        streams: &SegmentStreams,
        map: &ExtentMap,
        now: Instant,
    ) -> CleaningDecision {
        let decision = decide(&CleaningConditions {
            room: spare(streams, map, self.pacer.soon()),
            idle: now.since(self.last).as_nanos() as u64,
            pressed: self.waiting > 0,
            gains: streams.table.gain() > 0,
        });
        match decision {
            CleaningDecision::Clean(_) if !streams.can_gain_segment() => CleaningDecision::Rest,
            decision => decision,
        }
    }

    /// Returns the time that a client's write of `sectors` sectors must wait, so that free space is used up smoothly.
    /// If the write need not wait, it is counted as done.
    pub(crate) fn pace(
        &mut self,
        streams: &SegmentStreams,
        map: &ExtentMap,
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

    /// Returns the demand of queued batches.
    pub(crate) fn queued(&self) -> SegmentDemand {
        self.queued
    }

    /// Adds the demand of a batch to the queue.
    pub(crate) fn queue(&mut self, wanted: SegmentDemand) {
        self.queued = self.queued.plus(wanted);
    }

    /// Removes the demand of a batch from the queue.
    pub(crate) fn unqueue(&mut self, wanted: SegmentDemand) {
        self.queued = self.queued.less(wanted);
    }

    /// Returns true while batches wait for free space.
    pub(crate) fn has_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Records that one more batch waits for free space, or one less.
    pub(crate) fn presses(&mut self, more: bool) {
        if more {
            self.waiting += 1;
        } else {
            self.waiting -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gathered(positioning: f64, bandwidth: f64) -> GatherLimits {
        let layout = SegmentLayout {
            segment_bytes: 1 << 20,
            segment_count: 100,
            block: 4096,
            len: 101 << 20,
        };
        let disk = DiskParameters {
            positioning,
            bandwidth,
            arms: 1.0,
        };
        gathering(&disk, &SpaceSettings::default(), &layout)
    }

    #[test]
    fn slow_devices_get_larger_and_later_writes() {
        let usual = GatherLimits::after(DELAY_MIN);
        assert_eq!(
            gathered(0.0001, 2e9),
            GatherLimits {
                enough: 400_000,
                ..usual
            }
        );
        assert_eq!(gathered(0.0, 1e9), usual);
        let disk = gathered(0.004, 50e6);
        assert_eq!(disk.delay, Duration::from_millis(200));
        assert_eq!(disk.enough, 400_000);
        // The delay does not exceed the allowed delay, and the amount does not exceed a segment.
        let slow = gathered(4.2, 4e12);
        assert_eq!(slow.delay, SpaceSettings::default().max_delay);
        assert_eq!(slow.enough, 1 << 20);
    }
}
