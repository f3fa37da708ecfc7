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

use super::ahead::Ahead;
use super::cache::Cache;
use super::geometry::Geometry;
use super::mechanics::{Arm, Motor, Place};
use super::options::{CacheChoice, Caches, Completion, Op, Options, Service};
use super::queue::{Asked, Candidate, Queue, Request, Waiting, Work};
use super::spec::Spec;
use super::times::{Overhead, Times};

/// A disk: its mechanism, its cache, its queue and its clock.
pub struct Disk {
    spec: Spec,
    times: Times,
    /// Enabled functions of the cache.
    choice: CacheChoice,
    geometry: Geometry,
    motor: Motor,
    cache: Cache,
    queue: Queue,
    /// Planned completions, whose times may lie in the future; in order of time.
    pending: VecDeque<Completion>,
    arm: Arm,
    busy: Option<Busy>,
    ahead: Option<Ahead>,
    /// Time until which the interface is busy with an answer from the cache.
    interface_until: u64,
    /// Time until which the bus is busy with data from or to the platters.
    bus_until: u64,
    last_op: Op,
    candidates: Vec<Candidate>,
}

/// Current task of the mechanism.
struct Busy {
    until: u64,
    then: Then,
}

/// Action after a task of the mechanism.
enum Then {
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
struct Plan {
    end: u64,
    service: Service,
}

fn span(ns: u64) -> Duration {
    Duration::from_nanos(ns)
}

impl Disk {
    /// Creates an idle disk at instant 0, with its arm at cylinder 0 and an empty cache.
    ///
    /// # Panics
    /// Never with a [`Spec`] from this crate: specs are checked.
    pub fn new(spec: Spec, options: Options) -> Disk {
        let geometry = Geometry::new(&spec.layout).expect("a spec's layout was checked");
        let choice = match options.caches {
            Caches::Off => CacheChoice::default(),
            Caches::Own => spec.own_caches(),
            Caches::Explicit(choice) => choice,
        };
        Disk {
            motor: Motor::new(&spec, options.phase),
            times: Times::new(&spec.controller),
            cache: Cache::new(&spec.cache, largest_track(&spec)),
            queue: Queue::new(options.scheduling),
            choice,
            geometry,
            spec,
            pending: VecDeque::new(),
            arm: Arm::default(),
            busy: None,
            ahead: None,
            interface_until: 0,
            bus_until: 0,
            last_op: Op::Read,
            candidates: Vec::new(),
        }
    }

    /// The drive's parameters.
    pub fn spec(&self) -> &Spec {
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
    pub fn submit(&mut self, now: Instant, id: u64, op: Op, first: u64, blocks: u32) {
        let end = first.saturating_add(u64::from(blocks));
        assert!(
            blocks > 0 && end <= self.blocks(),
            "{blocks} blocks from {first} on are not on a disk of {}",
            self.blocks()
        );
        let piece = self.geometry.piece(first, 1);
        let work = Work {
            op,
            range: first..end,
            place: Place::of(&piece),
            slot_ns: self.motor.time_of(piece.slot),
        };
        self.enqueue(now, id, Request::Transfer(work));
    }

    /// Submits a flush, which completes when every write completed before is on the platters.
    pub fn flush(&mut self, now: Instant, id: u64) {
        self.run(now.as_nanos());
        let writes = self.cache.writes();
        self.enqueue(now, id, Request::Flush(writes));
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
    pub fn advance(&mut self, now: Instant, done: &mut Vec<Completion>) {
        self.run(now.as_nanos());
        while self.pending.front().is_some_and(|c| c.at <= now) {
            done.extend(self.pending.pop_front());
        }
    }

    fn enqueue(&mut self, now: Instant, id: u64, request: Request) {
        let arrived = now.as_nanos();
        self.run(arrived);
        self.queue.waiting.push_back(Waiting {
            id,
            arrived,
            request,
            asked: Asked::NotYet,
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
            Then::Nothing => {}
            Then::Destaged(segment) => {
                let written = self.cache.segments[segment].in_flight.clone();
                self.cache.end_destage(segment);
                self.queue.wake_reads(&written);
                self.queue.wake_writes();
            }
            Then::Filled {
                segment,
                end,
                limit,
                before,
            } => {
                if self.cache.end_fill(segment) {
                    if limit > end || before.is_some() {
                        let from = (busy.until, self.arm);
                        self.ahead = Some(Ahead::new(segment, from, end, limit, before));
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
                Request::Flush(writes) => self.cache.is_clean_up_to(writes),
                Request::Transfer(_) => false,
            };
            if !clean {
                index += 1;
                continue;
            }
            let plan = Plan {
                end: now,
                service: Service::default(),
            };
            self.promise(now, index, plan);
        }
    }

    /// Removes a request from the queue, and plans its completion.
    fn promise(&mut self, now: u64, index: usize, plan: Plan) {
        let Some(waiting) = self.queue.waiting.remove(index) else {
            return;
        };
        let completion = Completion {
            id: waiting.id,
            at: Instant::from_nanos(plan.end),
            service: Service {
                queue: span(now - waiting.arrived),
                ..plan.service
            },
        };
        let place = self.pending.partition_point(|c| c.at <= completion.at);
        self.pending.insert(place, completion);
    }

    fn overhead(&self, of: Overhead) -> u64 {
        match self.last_op {
            Op::Read => of.after_read,
            Op::Write => of.after_write,
        }
    }

    fn on_bus(&self, work: &Work) -> u64 {
        self.times.first_block + self.times.block * (work.blocks() - 1)
    }
}

/// Returns the number of blocks of the largest track.
fn largest_track(spec: &Spec) -> u32 {
    let sectors = spec.layout.zones.iter().map(|zone| zone.sectors);
    sectors.max().unwrap_or(0)
}
