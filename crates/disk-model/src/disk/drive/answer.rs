//! Answers of the interface from the cache.

use std::ops::Range;

use super::super::ahead::ActiveReadAhead;
use super::super::mechanics::ArmStart;
use super::super::options::{CacheChoice, DiskOp, ServiceTimes};
use super::super::queue::{CacheAnswer, QueuedRequest, QueuedTransfer};
use super::super::spec::ReadAhead;
use super::{MechanicalDisk, ServicePlan, span};

/// Source of a read's blocks.
pub(super) enum BlockSource {
    /// All blocks are in this segment.
    Held(usize),
    /// All blocks are in a segment, or will be when the read-ahead arrives there.
    Coming,
    /// The platters; the first blocks may be in the end of this segment.
    Medium(Option<usize>),
    /// The platters, after a destage.
    Blocked,
}

impl MechanicalDisk {
    /// Answers the first request that the cache can answer. Returns false if no request can be answered.
    pub(super) fn answer_one(&mut self, now: u64) -> bool {
        for index in 0..self.queue.waiting.len() {
            let waiting = &self.queue.waiting[index];
            let QueuedRequest::Transfer(work) = &waiting.request else {
                continue;
            };
            if waiting.asked != CacheAnswer::NotYet {
                continue;
            }
            let work = work.clone();
            let plan = match work.op {
                DiskOp::Read => self.answer_read(now, &work),
                DiskOp::Write => self.take_write(now, &work),
            };
            if let Some(plan) = plan {
                self.last_op = work.op;
                self.interface_until = plan.end;
                self.promise(now, index, plan);
                return true;
            }
            let blocked = work.op == DiskOp::Read && self.cache.holds_dirty(&work.range);
            self.queue.waiting[index].asked = if blocked {
                CacheAnswer::Blocked
            } else {
                CacheAnswer::Miss
            };
        }
        false
    }

    pub(super) fn source(&self, range: &Range<u64>) -> BlockSource {
        if self.choice == CacheChoice::default() {
            return BlockSource::Medium(None);
        }
        if self.choice.immediate_report && self.cache.holds_dirty(range) {
            return BlockSource::Blocked;
        }
        if !self.choice.read_ahead {
            return match self.cache.find(range) {
                Some(i) if self.choice.immediate_report && self.cache.holds(i, range) => {
                    BlockSource::Held(i)
                }
                _ => BlockSource::Medium(None),
            };
        }
        if let Some(i) = self.cache.find(range) {
            if self.cache.holds(i, range) {
                return BlockSource::Held(i);
            }
            if self.ahead.as_ref().is_some_and(|a| a.segment == i) {
                return BlockSource::Coming;
            }
            return BlockSource::Medium(Some(i));
        }
        match &self.ahead {
            Some(a) if a.covers(range.start, &self.cache.segments[a.segment].held) => {
                BlockSource::Coming
            }
            _ => BlockSource::Medium(None),
        }
    }

    /// Returns the limit of the read-ahead after a read of `range` that is kept in a segment beginning at `start`.
    pub(super) fn limit(&self, start: u64, range: &Range<u64>) -> u64 {
        let spec = &self.spec.cache;
        let size = self.cache.room();
        let disk = self.blocks();
        let end = range.end;
        if end >= disk {
            return end;
        }
        let wanted = match spec.read_ahead {
            ReadAhead::No => end,
            ReadAhead::Blocks(n) => end + u64::from(n),
            ReadAhead::TrackThenOn => {
                let track = self.geometry.track_of(end);
                if start < track.start && track.end < disk {
                    self.geometry.track_of(track.end).end
                } else {
                    track.end
                }
            }
            ReadAhead::TracksInSequence => {
                let track = self.geometry.track_of(end - 1);
                if track.end < disk {
                    self.geometry.track_of(track.end).end
                } else {
                    disk
                }
            }
        };
        let room = if spec.read_ahead_discards {
            end + size
        } else {
            range.start + size
        };
        wanted.min(room).clamp(end, disk)
    }

    fn answer_read(&mut self, now: u64, work: &QueuedTransfer) -> Option<ServicePlan> {
        let source = self.source(&work.range);
        let overhead = self.overhead(self.times.read_hit);
        let block = self.times.block;
        let bus = self.on_bus(work);
        let mut end = now + overhead + bus;
        let (first, last) = (work.range.start, work.range.end - 1);
        match source {
            BlockSource::Held(segment) => {
                self.cache.touch(segment);
                let start = self.cache.segments[segment].held.start;
                let limit = self.limit(start, &work.range);
                match &mut self.ahead {
                    Some(ahead) if ahead.segment == segment => {
                        ahead.limit = ahead.limit.max(limit);
                        self.queue.wake_reads(&(start..limit));
                    }
                    _ => self.resume_ahead(now, segment, limit),
                }
            }
            BlockSource::Coming => {
                let segment = self.ahead.as_ref()?.segment;
                self.cache.touch(segment);
                let start = self.cache.segments[segment].held.start;
                let limit = self.limit(start, &work.range);
                let ahead = self.ahead.as_mut()?;
                ahead.limit = ahead.limit.max(limit);
                self.queue.wake_reads(&(start..limit));
                let ahead = self.ahead.as_ref()?;
                let first = ahead.when(&self.motor, &self.geometry, first);
                let last = ahead.when(&self.motor, &self.geometry, last);
                end = end.max(first + bus).max(last + block);
            }
            BlockSource::Medium(_) | BlockSource::Blocked => return None,
        }
        Some(ServicePlan {
            end,
            service: ServiceTimes {
                overhead: span(overhead),
                bus: span(bus),
                transfer: span(end - now - overhead - bus),
                ..ServiceTimes::default()
            },
        })
    }

    /// Continues to fill the segment after a hit, if the drive does so.
    fn resume_ahead(&mut self, now: u64, segment: usize, limit: u64) {
        let held = self.cache.segments[segment].held.end;
        if self.choice.read_ahead
            && (self.spec.cache.read_ahead_on_hit || self.spec.cache.read_ahead_discards)
            && self.busy.is_none()
            && limit > held
            && !self.cache.segments[segment].is_dirty()
        {
            self.stop_ahead();
            let start = ArmStart {
                at: now,
                arm: self.arm,
            };
            self.ahead = Some(ActiveReadAhead::new(segment, start, held, limit, None));
            self.queue.wake_reads(&(held..limit));
        }
    }

    pub(super) fn stop_ahead(&mut self) {
        if let Some(ahead) = self.ahead.take() {
            self.arm = ahead.arm(&self.geometry);
        }
    }

    fn take_write(&mut self, now: u64, work: &QueuedTransfer) -> Option<ServicePlan> {
        if !self.choice.immediate_report {
            return None;
        }
        let ahead = self.ahead.as_ref().map(|a| a.segment);
        let segment = self.cache.accept(work.range.clone())?;
        if ahead == Some(segment) || ahead.is_some_and(|a| self.cache.segments[a].held.is_empty()) {
            self.stop_ahead();
        }
        let overhead = self.overhead(self.times.write_hit);
        let bus = self.on_bus(work);
        let end = now + overhead + bus;
        self.cache.segments[segment].data_at = end;
        self.queue.wake_reads(&self.cache.segments[segment].held);
        Some(ServicePlan {
            end: end + self.times.write_completion,
            service: ServiceTimes {
                overhead: span(overhead),
                bus: span(bus),
                ..ServiceTimes::default()
            },
        })
    }
}
