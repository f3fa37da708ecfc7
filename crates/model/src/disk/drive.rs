//! A disk that serves requests.

use std::collections::VecDeque;
use std::time::Duration;

use forebay_rt::Instant;

use super::geometry::{Angle, Geometry};
use super::mechanics::{Arm, Motor, ns};
use super::options::{Completion, Op, Options, Scheduling, Service};
use super::spec::Spec;

/// A disk: its mechanism, its queue and its clock.
pub struct Disk {
    spec: Spec,
    options: Options,
    geometry: Geometry,
    motor: Motor,
    arm: Arm,
    upwards: bool,
    waiting: VecDeque<Waiting>,
    /// Done at the instant inside, which may lie ahead.
    pending: VecDeque<Completion>,
    /// The mechanism is busy until then.
    busy_until: u64,
    last_op: Op,
}

struct Waiting {
    id: u64,
    arrived: u64,
    /// `None`: a flush.
    work: Option<Work>,
}

#[derive(Clone, Copy)]
struct Work {
    op: Op,
    first: u64,
    blocks: u64,
    place: Arm,
    angle: Angle,
}

impl Disk {
    /// A disk at rest at instant 0, its arm at cylinder 0.
    pub fn new(spec: Spec, options: Options) -> Disk {
        let geometry = Geometry::new(&spec.layout).expect("a spec's layout was checked");
        let motor = Motor::new(&spec, options.phase);
        Disk {
            spec,
            options,
            geometry,
            motor,
            arm: Arm::default(),
            upwards: true,
            waiting: VecDeque::new(),
            pending: VecDeque::new(),
            busy_until: 0,
            last_op: Op::Read,
        }
    }

    /// How many 512-byte blocks the disk has.
    pub fn blocks(&self) -> u64 {
        self.geometry.blocks()
    }

    /// Hands over a request for `blocks` blocks from `first` on. Any number may wait.
    ///
    /// # Panics
    /// If it is empty or goes past the end of the disk: what a real disk refuses, and the caller
    /// has to rule out.
    pub fn submit(&mut self, now: Instant, id: u64, op: Op, first: u64, blocks: u32) {
        let blocks = u64::from(blocks);
        let fits = first
            .checked_add(blocks)
            .is_some_and(|end| end <= self.blocks());
        assert!(
            blocks > 0 && fits,
            "{blocks} blocks from {first} on are not on a disk of {}",
            self.blocks()
        );
        let piece = self.geometry.piece(first, 1);
        self.waiting.push_back(Waiting {
            id,
            arrived: now.as_nanos(),
            work: Some(Work {
                op,
                first,
                blocks,
                place: Arm {
                    cylinder: piece.cylinder,
                    head: piece.head,
                },
                angle: piece.angle,
            }),
        });
        self.start(now.as_nanos());
    }

    /// Asks to be told when everything written before is on the medium.
    pub fn flush(&mut self, now: Instant, id: u64) {
        self.waiting.push_back(Waiting {
            id,
            arrived: now.as_nanos(),
            work: None,
        });
        self.start(now.as_nanos());
    }

    /// When something will happen of itself; `None` if the disk is at rest.
    pub fn next_event(&self) -> Option<Instant> {
        self.pending.front().map(|c| c.at)
    }

    /// Moves to `now`, and appends what has been done until then, in order of time.
    pub fn advance(&mut self, now: Instant, done: &mut Vec<Completion>) {
        while self.pending.front().is_some_and(|c| c.at <= now) {
            let completion = self.pending.pop_front().expect("there is one");
            done.push(completion);
            self.start(completion.at.as_nanos());
        }
    }

    /// Starts the next request if the mechanism is free.
    fn start(&mut self, now: u64) {
        if !self.pending.is_empty() {
            return;
        }
        let Some(index) = self.choose(now) else {
            return;
        };
        let waiting = self.waiting.remove(index).expect("chosen from the queue");
        let queue = Duration::from_nanos(now - waiting.arrived);
        let Some(work) = waiting.work else {
            self.pending.push_back(Completion {
                id: waiting.id,
                at: Instant::from_nanos(now),
                service: Service {
                    queue,
                    ..Service::default()
                },
            });
            return;
        };
        let (at, mut service) = self.serve(now, work);
        service.queue = queue;
        self.pending.push_back(Completion {
            id: waiting.id,
            at: Instant::from_nanos(at),
            service,
        });
    }

    fn choose(&mut self, now: u64) -> Option<usize> {
        // A flush waits for what came before it, and holds up nothing.
        if self.waiting.front()?.work.is_none() {
            return Some(0);
        }
        let cylinder = self.arm.cylinder;
        let requests = || {
            self.waiting
                .iter()
                .enumerate()
                .filter_map(|(i, w)| w.work.map(|work| (i, work)))
        };
        match self.options.scheduling {
            Scheduling::Fcfs => Some(0),
            Scheduling::Sptf => requests()
                .min_by_key(|(_, w)| {
                    self.motor
                        .positioning(now, self.arm, w.place, w.angle, w.op == Op::Write)
                })
                .map(|(i, _)| i),
            Scheduling::Elevator => {
                let next = |upwards: bool| {
                    requests()
                        .filter(|(_, w)| {
                            if upwards {
                                w.place.cylinder >= cylinder
                            } else {
                                w.place.cylinder <= cylinder
                            }
                        })
                        .min_by_key(|(_, w)| w.place.cylinder.abs_diff(cylinder))
                        .map(|(i, _)| i)
                };
                let found = next(self.upwards);
                if found.is_some() {
                    return found;
                }
                self.upwards = !self.upwards;
                next(self.upwards)
            }
        }
    }

    fn serve(&mut self, now: u64, work: Work) -> (u64, Service) {
        let controller = &self.spec.controller;
        let write = work.op == Op::Write;
        let overheads = if write {
            controller.write_miss
        } else {
            controller.read_miss
        };
        let overhead = ns(match self.last_op {
            Op::Read => overheads.after_read_ms,
            Op::Write => overheads.after_write_ms,
        });
        let block = ns(controller.bus_ms);
        let bus = block * work.blocks;
        self.last_op = work.op;
        let transfer = self.motor.transfer(
            &self.geometry,
            (now + overhead, self.arm),
            (work.first, work.blocks),
            write,
        );
        self.arm = transfer.arm;
        let end = if write {
            transfer.end.max(now + overhead + bus) + ns(controller.write_completion_ms)
        } else {
            (transfer.first_done + bus).max(transfer.end + block)
        };
        self.busy_until = end;
        let service = Service {
            queue: Duration::ZERO,
            overhead: Duration::from_nanos(overhead),
            seek: Duration::from_nanos(transfer.seek),
            rotation: Duration::from_nanos(transfer.latency),
            transfer: Duration::from_nanos(
                transfer.end - now - overhead - transfer.seek - transfer.latency,
            ),
            bus: Duration::from_nanos(bus),
        };
        (end, service)
    }
}
