//! Tasks of the mechanism.

use std::ops::Range;

use super::super::mechanics::{ArmPosition, ArmStart, BlockStart, PlatterTransfer};
use super::super::options::{DiskOp, ServiceTimes};
use super::super::queue::{
    CacheAnswer, MechanismTask, QueuedRequest, QueuedTransfer, TaskCandidate,
};
use super::super::spec::ReadAhead;
use super::answer::BlockSource;
use super::{BusyMechanism, MechanicalDisk, ServicePlan, TaskEffect, span};

/// Resource for which a request waits.
enum AwaitedResource {
    /// The interface.
    Interface,
    /// The mechanism.
    Medium,
    /// A destage.
    Destage,
}

impl MechanicalDisk {
    /// Gives the mechanism its next task, if any.
    pub(super) fn start_task(&mut self, now: u64) {
        let mut candidates = std::mem::take(&mut self.candidates);
        self.collect(now, &mut candidates);
        if let [only] = candidates[..] {
            self.start(now, only.task);
        } else if !candidates.is_empty() {
            let arm = self.arm_now();
            if let Some(task) = self.queue.choose(&self.motor, arm, &candidates) {
                self.start(now, task);
            }
        }
        self.candidates = candidates;
    }

    /// Collects the possible tasks of the mechanism in the order of their arrival. Destages have the lowest priority,
    /// unless a request waits for them: then they take the position of this request.
    fn collect(&mut self, now: u64, candidates: &mut Vec<TaskCandidate>) {
        candidates.clear();
        let arm = self.arm_now();
        let dirty = self.cache.is_dirty();
        let mut pressed = false;
        let mut pressed_first = false;
        for (index, waiting) in self.queue.waiting.iter().enumerate() {
            let need = match &waiting.request {
                QueuedRequest::Flush(_) => AwaitedResource::Destage,
                QueuedRequest::Transfer(work) => self.need(work, dirty, waiting.asked),
            };
            match (need, &waiting.request) {
                (AwaitedResource::Medium, QueuedRequest::Transfer(work)) => {
                    let from = now + self.medium_overhead(work, arm);
                    candidates.push(TaskCandidate {
                        task: MechanismTask::Serve(index),
                        place: work.place,
                        write: work.op == DiskOp::Write,
                        from,
                        ready: self.data_ready(from, work),
                    });
                    if self.queue.in_order() {
                        break;
                    }
                }
                (AwaitedResource::Interface, _) => {}
                _ => {
                    pressed = true;
                    pressed_first |= candidates.is_empty();
                }
            }
        }
        if dirty && (pressed || candidates.is_empty()) {
            let begin = if pressed_first { 0 } else { candidates.len() };
            let wanted = if self.queue.in_order() { 1 } else { usize::MAX };
            let destages = self
                .cache
                .to_destage()
                .take(wanted)
                .map(|(segment, range)| TaskCandidate {
                    task: MechanismTask::Destage(segment),
                    place: BlockStart::of(&self.geometry.piece(range.start, 1)),
                    write: true,
                    from: now,
                    ready: self.cache.segments[segment].data_at,
                });
            candidates.splice(begin..begin, destages);
        }
    }

    /// Returns the resource for which a request waits.
    fn need(&self, work: &QueuedTransfer, dirty: bool, asked: CacheAnswer) -> AwaitedResource {
        match work.op {
            DiskOp::Read if asked == CacheAnswer::Miss => AwaitedResource::Medium,
            DiskOp::Read if asked == CacheAnswer::Blocked => AwaitedResource::Destage,
            DiskOp::Read => match self.source(&work.range) {
                BlockSource::Held(_) | BlockSource::Coming => AwaitedResource::Interface,
                BlockSource::Medium(_) => AwaitedResource::Medium,
                BlockSource::Blocked => AwaitedResource::Destage,
            },
            DiskOp::Write => {
                let cached =
                    self.choice.immediate_report && work.blocks() <= self.cache.segment_blocks();
                if cached || (dirty && self.cache.holds_dirty(&work.range)) {
                    AwaitedResource::Destage
                } else {
                    AwaitedResource::Medium
                }
            }
        }
    }

    fn start(&mut self, now: u64, task: MechanismTask) {
        self.stop_ahead();
        match task {
            MechanismTask::Destage(segment) => {
                let known = self.cache.segments[segment].data_at;
                let range = self.cache.begin_destage(segment);
                let transfer = self.transfer(now, &range, true, known);
                self.busy = Some(BusyMechanism {
                    until: transfer.end,
                    then: TaskEffect::Destaged(segment),
                });
            }
            MechanismTask::Serve(index) => {
                let QueuedRequest::Transfer(work) = &self.queue.waiting[index].request else {
                    return;
                };
                let work = work.clone();
                let plan = match work.op {
                    DiskOp::Read => self.read(now, &work),
                    DiskOp::Write => self.write_through(now, &work),
                };
                self.last_op = work.op;
                self.promise(now, index, plan);
            }
        }
    }

    /// Moves the mechanism.
    fn transfer(
        &mut self,
        at: u64,
        range: &Range<u64>,
        write: bool,
        ready: u64,
    ) -> PlatterTransfer {
        let transfer = self.motor.transfer(
            &self.geometry,
            ArmStart { at, arm: self.arm },
            (range.start, range.end - range.start),
            write,
            ready,
        );
        self.arm = transfer.arm;
        transfer
    }

    /// Returns the time that the controller needs before the arm starts to move for a request.
    fn medium_overhead(&self, work: &QueuedTransfer, arm: ArmPosition) -> u64 {
        match work.op {
            DiskOp::Read => {
                let least = self.motor.least_before_read(arm, work.place.arm);
                self.overhead(self.times.read_miss).max(least)
            }
            DiskOp::Write if self.choice.immediate_report => self.overhead(self.times.write_hit),
            DiskOp::Write => self.overhead(self.times.write_miss),
        }
    }

    fn arm_now(&self) -> ArmPosition {
        let ahead = self.ahead.as_ref();
        ahead.map_or(self.arm, |a| a.arm(&self.geometry))
    }

    /// Returns the earliest start of a request on the platters whose data can be on the bus from `from` on. If the
    /// platters are faster than the bus, a write must wait, so that no block arrives too late.
    fn data_ready(&self, from: u64, work: &QueuedTransfer) -> u64 {
        if work.op == DiskOp::Read {
            return 0;
        }
        let from = from.max(self.bus_until);
        let others = (work.blocks() - 1) * work.slot_ns;
        (from + self.on_bus(work))
            .saturating_sub(others)
            .max(from + self.times.block)
    }

    /// Plans a read from the platters.
    fn read(&mut self, now: u64, work: &QueuedTransfer) -> ServicePlan {
        let overhead = self.medium_overhead(work, self.arm);
        let block = self.times.block;
        let bus = self.on_bus(work);
        let held = match self.source(&work.range) {
            BlockSource::Medium(held) => held,
            _ => None,
        };
        let mut missing = work.range.clone();
        if let Some(segment) = held {
            missing.start = self.cache.segments[segment].held.end;
        }
        let transfer = self.transfer(now + overhead, &missing, false, 0);
        let first = if missing.start == work.range.start {
            transfer.first_done
        } else {
            now + self.overhead(self.times.read_hit)
        };
        let bus_from = first.max(self.bus_until);
        let end = (bus_from + bus).max(transfer.end + block);
        self.bus_until = end;
        let then = self.fill(work, held, &transfer);
        self.busy = Some(BusyMechanism {
            until: transfer.end,
            then,
        });
        let moved = overhead + transfer.seek + transfer.latency;
        ServicePlan {
            end,
            service: ServiceTimes {
                overhead: span(overhead),
                seek: span(transfer.seek),
                rotation: span(transfer.latency),
                transfer: span(transfer.end - now - moved),
                bus: span(bus),
                ..ServiceTimes::default()
            },
        }
    }

    /// Decides the use of a read's blocks for the cache.
    fn fill(
        &mut self,
        work: &QueuedTransfer,
        held: Option<usize>,
        transfer: &PlatterTransfer,
    ) -> TaskEffect {
        if !self.choice.read_ahead {
            return TaskEffect::Nothing;
        }
        let Some(segment) = held.or_else(|| self.cache.take_for_read()) else {
            return TaskEffect::Nothing;
        };
        let cache = &self.spec.cache;
        let alone = cache.read_ahead == ReadAhead::TracksInSequence && held.is_none();
        if held.is_none() {
            let mut start = work.range.start;
            if cache.keeps_passing && !alone {
                let turned = self.motor.turned_in(transfer.latency);
                let before = start - self.geometry.track_of(start).start;
                start -= before.min(turned / self.geometry.piece(start, 1).slot);
            }
            self.cache.segments[segment].held = start..work.range.start;
        }
        self.cache.begin_fill(segment, work.range.end);
        let start = self.cache.segments[segment].held.start;
        let (mut limit, mut before) = (work.range.end, None);
        if !alone {
            limit = self.limit(start, &work.range);
            let track = self.geometry.track_of(work.range.end - 1);
            if self.spec.cache.reads_whole_tracks() && track.start < start {
                before = Some((track.start..start, transfer.arrived + self.motor.rotation()));
            }
        }
        TaskEffect::Filled {
            segment,
            end: work.range.end,
            limit,
            before,
        }
    }

    /// Plans a write that completes when it is on the platters.
    fn write_through(&mut self, now: u64, work: &QueuedTransfer) -> ServicePlan {
        let overhead = self.medium_overhead(work, self.arm);
        let bus = self.on_bus(work);
        self.cache.forget(&work.range, usize::MAX);
        let from = (now + overhead).max(self.bus_until);
        let ready = self.data_ready(now + overhead, work);
        let transfer = self.transfer(now + overhead, &work.range, true, ready);
        self.bus_until = from + bus;
        self.busy = Some(BusyMechanism {
            until: transfer.end,
            then: TaskEffect::Nothing,
        });
        let moved = overhead + transfer.seek + transfer.latency;
        ServicePlan {
            end: transfer.end.max(from + bus) + self.times.write_completion,
            service: ServiceTimes {
                overhead: span(overhead),
                seek: span(transfer.seek),
                rotation: span(transfer.latency),
                transfer: span(transfer.end - now - moved),
                bus: span(bus),
                ..ServiceTimes::default()
            },
        }
    }
}
