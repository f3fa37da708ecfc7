//! A disk that serves requests.
//!
//! Two things work at a time. The *interface* takes what the cache can answer: reads of blocks
//! held, and writes for which there is room. The *mechanism* does one task after the other: reads
//! that miss, writes that go through, destages; and between them it reads ahead. Each step is
//! planned as a whole when it begins, so between steps there is nothing to simulate.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use forebay_rt::Instant;

use super::ahead::Ahead;
use super::cache::Cache;
use super::geometry::Geometry;
use super::mechanics::{Arm, Motor, Place, Transfer, ns};
use super::options::{CacheChoice, Caches, Completion, Op, Options, Service};
use super::queue::{Candidate, Queue, Request, Task, Waiting, Work};
use super::spec::{Overhead, ReadAhead, Spec};

/// A disk: its mechanism, its memory, its queue and its clock.
pub struct Disk {
    spec: Spec,
    /// What of the cache is on.
    choice: CacheChoice,
    geometry: Geometry,
    motor: Motor,
    cache: Cache,
    queue: Queue,
    /// Done at the instant inside, which may lie ahead; in order of time.
    pending: VecDeque<Completion>,
    arm: Arm,
    busy: Option<Busy>,
    ahead: Option<Ahead>,
    /// Until when the interface is taken by an answer from the cache.
    interface_until: u64,
    /// Until when the bus is taken by data that came from or go to the medium.
    bus_until: u64,
    last_op: Op,
    candidates: Vec<Candidate>,
}

/// What the mechanism is doing.
struct Busy {
    until: u64,
    then: Then,
}

/// What follows when the mechanism is done.
enum Then {
    Nothing,
    /// The segment holds everything up to a block, and is to be filled to the limit.
    Filled {
        segment: usize,
        end: u64,
        limit: u64,
    },
    Destaged(usize),
}

/// Where a read's blocks would come from.
enum Source {
    /// All are in the segment.
    Held(usize),
    /// They are there, or will be when the read-ahead gets there.
    Coming,
    /// From the medium; those up to the end of the segment are held.
    Medium(Option<usize>),
    /// From the medium, after a destage.
    Blocked,
}

/// When a request is done, and where its time goes.
struct Plan {
    end: u64,
    service: Service,
}

fn span(ns: u64) -> Duration {
    Duration::from_nanos(ns)
}

impl Disk {
    /// A disk at rest at instant 0, its arm at cylinder 0, its memory empty.
    ///
    /// # Panics
    /// Not with a [`Spec`] as this crate makes them: they are checked.
    pub fn new(spec: Spec, options: Options) -> Disk {
        let geometry = Geometry::new(&spec.layout).expect("a spec's layout was checked");
        let choice = match options.caches {
            Caches::Off => CacheChoice::default(),
            Caches::Own => spec.own_caches(),
            Caches::Explicit(choice) => choice,
        };
        Disk {
            motor: Motor::new(&spec, options.phase),
            cache: Cache::new(&spec.cache),
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

    /// How many 512-byte blocks the disk has.
    pub fn blocks(&self) -> u64 {
        self.geometry.blocks()
    }

    /// Hands over a request for `blocks` blocks from `first` on. Any number may wait. Instants do
    /// not go back from call to call.
    ///
    /// # Panics
    /// If it is empty or goes past the end of the disk: what a real disk refuses, and the caller
    /// has to rule out.
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
            slot: piece.slot,
        };
        self.enqueue(now, id, Request::Transfer(work));
    }

    /// Asks to be told when every write completed before is on the medium.
    pub fn flush(&mut self, now: Instant, id: u64) {
        self.run(now.as_nanos());
        let writes = self.cache.writes();
        self.enqueue(now, id, Request::Flush(writes));
    }

    /// When something will happen of itself that the host can notice; `None` if nothing will.
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

    /// Moves to `now`, and appends what has been done until then, in order of time.
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
        });
        self.dispatch(arrived);
    }

    /// The next instant at which the disk itself changes its state.
    fn own_event(&self) -> Option<u64> {
        let busy = self.busy.as_ref().map(|b| b.until);
        let interface = (self.interface_until > 0).then_some(self.interface_until);
        match (busy, interface) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Lets everything happen that happens until `now`.
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

    /// The mechanism is done with its task.
    fn finish(&mut self) {
        let Some(busy) = self.busy.take() else {
            return;
        };
        match busy.then {
            Then::Nothing => {}
            Then::Destaged(segment) => self.cache.end_destage(segment),
            Then::Filled {
                segment,
                end,
                limit,
            } => {
                self.cache.segments[segment].filling = false;
                self.cache.extend(segment, end);
                if limit > end {
                    self.ahead = Some(Ahead::new(segment, (busy.until, self.arm), end, limit));
                }
            }
        }
    }

    /// Starts whatever can start at `now`.
    fn dispatch(&mut self, now: u64) {
        if let Some(ahead) = &mut self.ahead {
            let reached = ahead.advance(&self.motor, &self.geometry, now);
            self.cache.extend(ahead.segment, reached);
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

    /// Takes a request out of the queue; it will be done as planned.
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

    /// Answers the first request that the cache can answer. Returns whether there was one.
    fn answer_one(&mut self, now: u64) -> bool {
        for index in 0..self.queue.waiting.len() {
            let Request::Transfer(work) = &self.queue.waiting[index].request else {
                continue;
            };
            let work = work.clone();
            let plan = match work.op {
                Op::Read => self.answer_read(now, &work),
                Op::Write => self.take_write(now, &work),
            };
            if let Some(plan) = plan {
                self.last_op = work.op;
                self.interface_until = plan.end;
                self.promise(now, index, plan);
                return true;
            }
        }
        false
    }

    fn overhead(&self, of: Overhead) -> u64 {
        ns(match self.last_op {
            Op::Read => of.after_read_ms,
            Op::Write => of.after_write_ms,
        })
    }

    fn block_on_bus(&self) -> u64 {
        ns(self.spec.controller.bus_ms)
    }

    fn on_bus(&self, work: &Work) -> u64 {
        ns(self.spec.controller.first_block_ms) + self.block_on_bus() * (work.blocks() - 1)
    }

    fn source(&self, range: &Range<u64>) -> Source {
        if self.choice.immediate_report && self.cache.holds_dirty(range) {
            return Source::Blocked;
        }
        if !self.choice.read_ahead {
            return match self.cache.find(range.start) {
                Some(i) if self.choice.immediate_report && self.cache.holds(i, range) => {
                    Source::Held(i)
                }
                _ => Source::Medium(None),
            };
        }
        if let Some(i) = self.cache.find(range.start) {
            if self.cache.holds(i, range) {
                return Source::Held(i);
            }
            if self.ahead.as_ref().is_some_and(|a| a.segment == i) {
                return Source::Coming;
            }
            return Source::Medium(Some(i));
        }
        match &self.ahead {
            Some(a) if self.cache.will_hold(a.segment, range.start) && range.start < a.limit => {
                Source::Coming
            }
            _ => Source::Medium(None),
        }
    }

    /// How far to read on after a read up to `end` that is kept in a segment beginning at `start`.
    fn limit(&self, start: u64, range: &Range<u64>) -> u64 {
        let spec = &self.spec.cache;
        let size = self.cache.segment_blocks();
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
        };
        let room = if spec.read_ahead_discards {
            end + size
        } else {
            range.start + size
        };
        wanted.min(room).clamp(end, disk)
    }

    fn answer_read(&mut self, now: u64, work: &Work) -> Option<Plan> {
        let source = self.source(&work.range);
        let overhead = self.overhead(self.spec.controller.read_hit);
        let block = self.block_on_bus();
        let bus = self.on_bus(work);
        let mut end = now + overhead + bus;
        let (first, last) = (work.range.start, work.range.end - 1);
        match source {
            Source::Held(segment) => {
                self.cache.touch(segment);
                let start = self.cache.segments[segment].held.start;
                let limit = self.limit(start, &work.range);
                match &mut self.ahead {
                    Some(ahead) if ahead.segment == segment => ahead.limit = ahead.limit.max(limit),
                    _ => self.resume_ahead(now, segment, limit),
                }
            }
            Source::Coming => {
                let segment = self.ahead.as_ref()?.segment;
                self.cache.touch(segment);
                let limit = self.limit(self.cache.segments[segment].held.start, &work.range);
                let ahead = self.ahead.as_mut()?;
                ahead.limit = ahead.limit.max(limit);
                let first = ahead.when(&self.motor, &self.geometry, first);
                let last = ahead.when(&self.motor, &self.geometry, last);
                end = end.max(first + bus).max(last + block);
            }
            Source::Medium(_) | Source::Blocked => return None,
        }
        Some(Plan {
            end,
            service: Service {
                overhead: span(overhead),
                bus: span(bus),
                transfer: span(end - now - overhead - bus),
                ..Service::default()
            },
        })
    }

    /// After a hit: the drive may go on filling the segment.
    fn resume_ahead(&mut self, now: u64, segment: usize, limit: u64) {
        let held = self.cache.segments[segment].held.end;
        if self.choice.read_ahead
            && self.spec.cache.read_ahead_on_hit
            && self.busy.is_none()
            && limit > held
            && !self.cache.segments[segment].is_dirty()
        {
            self.stop_ahead();
            self.ahead = Some(Ahead::new(segment, (now, self.arm), held, limit));
        }
    }

    fn stop_ahead(&mut self) {
        if let Some(ahead) = self.ahead.take() {
            self.arm = ahead.arm(&self.geometry);
        }
    }

    fn take_write(&mut self, now: u64, work: &Work) -> Option<Plan> {
        if !self.choice.immediate_report {
            return None;
        }
        let ahead = self.ahead.as_ref().map(|a| a.segment);
        let segment = self.cache.accept(work.range.clone())?;
        if ahead == Some(segment) || ahead.is_some_and(|a| self.cache.segments[a].held.is_empty()) {
            self.stop_ahead();
        }
        let overhead = self.overhead(self.spec.controller.write_hit);
        let bus = self.on_bus(work);
        let end = now + overhead + bus;
        self.cache.segments[segment].data_at = end;
        Some(Plan {
            end: end + ns(self.spec.controller.write_completion_ms),
            service: Service {
                overhead: span(overhead),
                bus: span(bus),
                ..Service::default()
            },
        })
    }

    /// Gives the mechanism its next task, if there is one.
    fn start_task(&mut self, now: u64) {
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        // Something waits for a destage.
        let mut pressed = false;
        let mut pressed_first = false;
        for (index, waiting) in self.queue.waiting.iter().enumerate() {
            let serves = match &waiting.request {
                Request::Flush(_) => None,
                Request::Transfer(work) => match (work.op, self.source_of(work)) {
                    (Op::Read, Source::Medium(_)) => Some(work),
                    (Op::Read, Source::Held(_) | Source::Coming) => continue,
                    (Op::Write, Source::Medium(_)) => Some(work),
                    _ => None,
                },
            };
            match serves {
                Some(work) => {
                    let from = now + self.medium_overhead(work);
                    candidates.push(Candidate {
                        task: Task::Serve(index),
                        place: work.place,
                        write: work.op == Op::Write,
                        from,
                        ready: self.data_ready(from, work),
                    });
                }
                None => {
                    pressed = true;
                    pressed_first |= candidates.is_empty();
                }
            }
        }
        if pressed || candidates.is_empty() {
            let begin = if pressed_first { 0 } else { candidates.len() };
            let destages = self.cache.to_destage().map(|(segment, range)| Candidate {
                task: Task::Destage(segment),
                place: Place::of(&self.geometry.piece(range.start, 1)),
                write: true,
                from: now,
                ready: self.cache.segments[segment].data_at,
            });
            candidates.splice(begin..begin, destages);
        }
        if let [only] = candidates[..] {
            self.start(now, only.task);
        } else if !candidates.is_empty() {
            let arm = self
                .ahead
                .as_ref()
                .map_or(self.arm, |a| a.arm(&self.geometry));
            if let Some(task) = self.queue.choose(&self.motor, arm, &candidates) {
                self.start(now, task);
            }
        }
        self.candidates = candidates;
    }

    /// Where a request would be served from; for a write, `Medium` if it goes through.
    fn source_of(&self, work: &Work) -> Source {
        match work.op {
            Op::Read => self.source(&work.range),
            Op::Write => {
                let cached =
                    self.choice.immediate_report && work.blocks() <= self.cache.segment_blocks();
                if cached || self.cache.holds_dirty(&work.range) {
                    Source::Blocked
                } else {
                    Source::Medium(None)
                }
            }
        }
    }

    fn start(&mut self, now: u64, task: Task) {
        self.stop_ahead();
        match task {
            Task::Destage(segment) => {
                let known = self.cache.segments[segment].data_at;
                let range = self.cache.begin_destage(segment);
                let transfer = self.transfer(now, &range, true, known);
                self.busy = Some(Busy {
                    until: transfer.end,
                    then: Then::Destaged(segment),
                });
            }
            Task::Serve(index) => {
                let Request::Transfer(work) = &self.queue.waiting[index].request else {
                    return;
                };
                let work = work.clone();
                let plan = match work.op {
                    Op::Read => self.read(now, &work),
                    Op::Write => self.write_through(now, &work),
                };
                self.last_op = work.op;
                self.promise(now, index, plan);
            }
        }
    }

    /// Moves the mechanism.
    fn transfer(&mut self, at: u64, range: &Range<u64>, write: bool, ready: u64) -> Transfer {
        let transfer = self.motor.transfer(
            &self.geometry,
            (at, self.arm),
            (range.start, range.end - range.start),
            write,
            ready,
        );
        self.arm = transfer.arm;
        transfer
    }

    /// What the controller needs before the arm sets out for a request.
    fn medium_overhead(&self, work: &Work) -> u64 {
        let controller = &self.spec.controller;
        self.overhead(match work.op {
            Op::Read => controller.read_miss,
            Op::Write if self.choice.immediate_report => controller.write_hit,
            Op::Write => controller.write_miss,
        })
    }

    /// When the medium may begin with a request whose data may be on the bus from `from` on. Where
    /// the medium is faster than the bus, a write has to wait, so that no block comes too late.
    fn data_ready(&self, from: u64, work: &Work) -> u64 {
        if work.op == Op::Read {
            return 0;
        }
        let from = from.max(self.bus_until);
        let slot = self.motor.time_of(work.slot);
        let others = (work.blocks() - 1) * slot;
        (from + self.on_bus(work))
            .saturating_sub(others)
            .max(from + self.block_on_bus())
    }

    /// A read from the medium.
    fn read(&mut self, now: u64, work: &Work) -> Plan {
        let overhead = self.medium_overhead(work);
        let block = self.block_on_bus();
        let bus = self.on_bus(work);
        let held = match self.source(&work.range) {
            Source::Medium(held) => held,
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
            now + self.overhead(self.spec.controller.read_hit)
        };
        let bus_from = first.max(self.bus_until);
        let end = (bus_from + bus).max(transfer.end + block);
        self.bus_until = end;
        let then = self.fill(work, held, &transfer);
        self.busy = Some(Busy {
            until: transfer.end,
            then,
        });
        let moved = overhead + transfer.seek + transfer.latency;
        Plan {
            end,
            service: Service {
                overhead: span(overhead),
                seek: span(transfer.seek),
                rotation: span(transfer.latency),
                transfer: span(transfer.end - now - moved),
                bus: span(bus),
                ..Service::default()
            },
        }
    }

    /// What becomes of the blocks of a read.
    fn fill(&mut self, work: &Work, held: Option<usize>, transfer: &Transfer) -> Then {
        if !self.choice.read_ahead {
            return Then::Nothing;
        }
        let Some(segment) = held.or_else(|| self.cache.take_for_read()) else {
            return Then::Nothing;
        };
        if held.is_none() {
            let mut start = work.range.start;
            if self.spec.cache.keeps_passing {
                let turned = self.motor.turned_in(transfer.latency);
                let before = start - self.geometry.track_of(start).start;
                start -= before.min(turned / self.geometry.piece(start, 1).slot);
            }
            self.cache.segments[segment].held = start..work.range.start;
        }
        self.cache.touch(segment);
        self.cache.segments[segment].filling = true;
        let start = self.cache.segments[segment].held.start;
        Then::Filled {
            segment,
            end: work.range.end,
            limit: self.limit(start, &work.range),
        }
    }

    /// A write that is done when it is on the medium.
    fn write_through(&mut self, now: u64, work: &Work) -> Plan {
        let overhead = self.medium_overhead(work);
        let bus = self.on_bus(work);
        self.cache.forget(&work.range, usize::MAX);
        let from = (now + overhead).max(self.bus_until);
        let ready = self.data_ready(now + overhead, work);
        let transfer = self.transfer(now + overhead, &work.range, true, ready);
        self.bus_until = from + bus;
        self.busy = Some(Busy {
            until: transfer.end,
            then: Then::Nothing,
        });
        let moved = overhead + transfer.seek + transfer.latency;
        Plan {
            end: transfer.end.max(from + bus) + ns(self.spec.controller.write_completion_ms),
            service: Service {
                overhead: span(overhead),
                seek: span(transfer.seek),
                rotation: span(transfer.latency),
                transfer: span(transfer.end - now - moved),
                bus: span(bus),
                ..Service::default()
            },
        }
    }
}
