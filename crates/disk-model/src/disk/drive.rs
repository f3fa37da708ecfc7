//! A disk that serves requests.
//!
//! Two units work concurrently. The *interface* handles requests that the cache can answer: reads of held blocks, and
//! writes for which the cache has space. The *mechanism* does one task after the other: reads that miss, writes through
//! the cache, and destages. Between tasks it reads ahead. Each step is planned as a whole when it begins, so nothing
//! must be simulated between steps.

mod answer;
mod task;

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use forebay_rt::Instant;

use super::ahead::ActiveReadAhead;
use super::cache::DriveCache;
use super::geometry::DiskGeometry;
use super::mechanics::{ArmPosition, ArmStart, BlockStart, DriveMotor};
use super::options::{
    CacheChoice, DiskCompletion, DiskOp, DiskOptions, EnabledCaches, ServiceTimes,
};
use super::queue::{
    CacheAnswer, DriveQueue, QueuedRequest, QueuedTransfer, TaskCandidate, WaitingRequest,
};
use super::spec::DiskSpec;
use super::times::{CommandOverhead, ControllerTimes};

/// A disk: its mechanism, its cache, its queue and its clock.
pub struct MechanicalDisk {
    spec: DiskSpec,
    times: ControllerTimes,
    /// Enabled functions of the cache.
    choice: CacheChoice,
    geometry: DiskGeometry,
    motor: DriveMotor,
    cache: DriveCache,
    queue: DriveQueue,
    /// Planned completions, whose times may lie in the future; in order of time.
    pending: VecDeque<DiskCompletion>,
    arm: ArmPosition,
    busy: Option<BusyMechanism>,
    ahead: Option<ActiveReadAhead>,
    /// Time until which the interface is busy with an answer from the cache.
    interface_until: u64,
    /// Time until which the bus is busy with data from or to the platters.
    bus_until: u64,
    last_op: DiskOp,
    candidates: Vec<TaskCandidate>,
}

/// Current task of the mechanism.
struct BusyMechanism {
    until: u64,
    then: TaskEffect,
}

/// Action after a task of the mechanism.
enum TaskEffect {
    Nothing,
    /// The segment holds all blocks up to `end`, and will be filled to `limit`. It also gets the blocks in `before`,
    /// which will have passed the head at the given time.
    Filled {
        segment: usize,
        end: u64,
        limit: u64,
        before: Option<(Range<u64>, u64)>,
    },
    Destaged(usize),
}

/// Completion time of a request, and the parts of its duration.
struct ServicePlan {
    end: u64,
    service: ServiceTimes,
}

fn span(ns: u64) -> Duration {
    Duration::from_nanos(ns)
}

impl MechanicalDisk {
    /// Creates an idle disk at instant 0, with its arm at cylinder 0 and an empty cache.
    ///
    /// # Panics
    /// Never with a [`DiskSpec`] from this crate: specs are checked.
    pub fn new(spec: DiskSpec, options: DiskOptions) -> MechanicalDisk {
        let geometry = DiskGeometry::new(&spec.layout).expect("a spec's layout was checked");
        let choice = match options.caches {
            EnabledCaches::Off => CacheChoice::default(),
            EnabledCaches::Own => spec.own_caches(),
            EnabledCaches::Explicit(choice) => choice,
        };
        MechanicalDisk {
            motor: DriveMotor::new(&spec, options.phase),
            times: ControllerTimes::new(&spec.controller),
            cache: DriveCache::new(&spec.cache, largest_track(&spec)),
            queue: DriveQueue::new(options.scheduling),
            choice,
            geometry,
            spec,
            pending: VecDeque::new(),
            arm: ArmPosition::default(),
            busy: None,
            ahead: None,
            interface_until: 0,
            bus_until: 0,
            last_op: DiskOp::Read,
            candidates: Vec::new(),
        }
    }

    /// The drive's parameters.
    pub fn spec(&self) -> &DiskSpec {
        &self.spec
    }

    /// Returns the number of 512-byte blocks of the disk.
    pub fn blocks(&self) -> u64 {
        self.geometry.blocks()
    }

    /// Submits a request for `blocks` blocks from `first` on. The queue is unlimited. Times must not decrease from call
    /// to call.
    ///
    /// # Panics
    /// If the request is empty or goes beyond the end of the disk. A real disk refuses such requests, and callers must
    /// not send them.
    pub fn submit(&mut self, now: Instant, id: u64, op: DiskOp, first: u64, blocks: u32) {
        let end = first.saturating_add(u64::from(blocks));
        assert!(
            blocks > 0 && end <= self.blocks(),
            "{blocks} blocks from {first} on are not on a disk of {}",
            self.blocks()
        );
        let piece = self.geometry.piece(first, 1);
        let work = QueuedTransfer {
            op,
            range: first..end,
            place: BlockStart::of(&piece),
            slot_ns: self.motor.time_of(piece.slot),
        };
        self.enqueue(now, id, QueuedRequest::Transfer(work));
    }

    /// Submits a flush, which completes when every write completed before is on the platters.
    pub fn flush(&mut self, now: Instant, id: u64) {
        self.run(now.as_nanos());
        let writes = self.cache.writes();
        self.enqueue(now, id, QueuedRequest::Flush(writes));
    }

    /// Returns the time of the next event that the host can notice. `None` without a future event.
    pub fn next_event(&self) -> Option<Instant> {
        let own = if self.queue.waiting.is_empty() {
            None
        } else {
            self.own_event()
        };
        let done = self.pending.front().map(|c| c.at.as_nanos());
        match (own, done) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
        .map(Instant::from_nanos)
    }

    /// Advances to `now`, and appends the requests completed until then, in order of time.
    pub fn advance(&mut self, now: Instant, done: &mut Vec<DiskCompletion>) {
        self.run(now.as_nanos());
        while self.pending.front().is_some_and(|c| c.at <= now) {
            done.extend(self.pending.pop_front());
        }
    }

    fn enqueue(&mut self, now: Instant, id: u64, request: QueuedRequest) {
        let arrived = now.as_nanos();
        self.run(arrived);
        self.queue.waiting.push_back(WaitingRequest {
            id,
            arrived,
            request,
            asked: CacheAnswer::NotYet,
        });
        self.dispatch(arrived);
    }

    /// Returns the next time at which the disk changes its state by itself.
    fn own_event(&self) -> Option<u64> {
        let busy = self.busy.as_ref().map(|b| b.until);
        let interface = (self.interface_until > 0).then_some(self.interface_until);
        match (busy, interface) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Processes all events until `now`.
    fn run(&mut self, now: u64) {
        while let Some(at) = self.own_event() {
            if at > now {
                break;
            }
            if self.interface_until == at {
                self.interface_until = 0;
            }
            if self.busy.as_ref().is_some_and(|b| b.until == at) {
                self.finish();
            }
            self.dispatch(at);
        }
    }

    /// Ends the task of the mechanism.
    fn finish(&mut self) {
        let Some(busy) = self.busy.take() else {
            return;
        };
        match busy.then {
            TaskEffect::Nothing => {}
            TaskEffect::Destaged(segment) => {
                let written = self.cache.segments[segment].in_flight.clone();
                self.cache.end_destage(segment);
                self.queue.wake_reads(&written);
                self.queue.wake_writes();
            }
            TaskEffect::Filled {
                segment,
                end,
                limit,
                before,
            } => {
                if self.cache.end_fill(segment) {
                    if limit > end || before.is_some() {
                        let from = ArmStart {
                            at: busy.until,
                            arm: self.arm,
                        };
                        self.ahead = Some(ActiveReadAhead::new(segment, from, end, limit, before));
                    }
                    let start = self.cache.segments[segment].held.start;
                    self.queue.wake_reads(&(start..limit));
                }
                self.queue.wake_writes();
            }
        }
    }

    /// Starts all work that can start at `now`.
    fn dispatch(&mut self, now: u64) {
        if self.ahead.is_some() && self.queue.waiting.is_empty() && !self.cache.is_dirty() {
            return;
        }
        if let Some(ahead) = &mut self.ahead {
            let reached = ahead.advance(&self.motor, &self.geometry, now);
            self.cache.extend(ahead.segment, reached);
            if let Some(start) = ahead.reached_before(now) {
                self.cache.extend_before(ahead.segment, start);
            }
            if ahead.is_done(now) {
                self.stop_ahead();
            }
        }
        self.finish_flushes(now);
        if self.choice.read_ahead || self.choice.immediate_report {
            while self.interface_until == 0 && self.answer_one(now) {}
        }
        if self.busy.is_none() {
            self.start_task(now);
        }
    }

    fn finish_flushes(&mut self, now: u64) {
        let mut index = 0;
        while index < self.queue.waiting.len() {
            let clean = match self.queue.waiting[index].request {
                QueuedRequest::Flush(writes) => self.cache.is_clean_up_to(writes),
                QueuedRequest::Transfer(_) => false,
            };
            if !clean {
                index += 1;
                continue;
            }
            let plan = ServicePlan {
                end: now,
                service: ServiceTimes::default(),
            };
            self.promise(now, index, plan);
        }
    }

    /// Removes a request from the queue, and plans its completion.
    fn promise(&mut self, now: u64, index: usize, plan: ServicePlan) {
        let Some(waiting) = self.queue.waiting.remove(index) else {
            return;
        };
        let completion = DiskCompletion {
            id: waiting.id,
            at: Instant::from_nanos(plan.end),
            service: ServiceTimes {
                queue: span(now - waiting.arrived),
                ..plan.service
            },
        };
        let place = self.pending.partition_point(|c| c.at <= completion.at);
        self.pending.insert(place, completion);
    }

    fn overhead(&self, of: CommandOverhead) -> u64 {
        match self.last_op {
            DiskOp::Read => of.after_read,
            DiskOp::Write => of.after_write,
        }
    }

    fn on_bus(&self, work: &QueuedTransfer) -> u64 {
        self.times.first_block + self.times.block * (work.blocks() - 1)
    }
}

/// Returns the number of blocks of the largest track.
fn largest_track(spec: &DiskSpec) -> u32 {
    let sectors = spec.layout.zones.iter().map(|zone| zone.sectors);
    sectors.max().unwrap_or(0)
}
