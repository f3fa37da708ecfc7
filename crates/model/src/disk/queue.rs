//! The requests that wait, and which of them is next.

use std::collections::VecDeque;
use std::ops::Range;

use super::cache::overlap;
use super::mechanics::{Arm, Motor, Place};
use super::options::{Op, Scheduling};

/// A transfer asked for.
#[derive(Clone, Debug)]
pub(crate) struct Work {
    pub(crate) op: Op,
    pub(crate) range: Range<u64>,
    pub(crate) place: Place,
    /// The time a block takes there, in nanoseconds.
    pub(crate) slot_ns: u64,
}

impl Work {
    pub(crate) fn blocks(&self) -> u64 {
        self.range.end - self.range.start
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Request {
    Transfer(Work),
    /// Wait until so many writes are on the medium.
    Flush(u64),
}

/// Whether the cache was asked for a request, and what keeps it from answering. This stays so until
/// one of the `wake` functions is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    NotYet,
    /// It does not hold the blocks, or has no room for them.
    Miss,
    /// It holds some that have to go to the medium first.
    Blocked,
}

#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) id: u64,
    pub(crate) arrived: u64,
    pub(crate) request: Request,
    pub(crate) asked: Asked,
}

/// Something the mechanism could do next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) task: Task,
    pub(crate) place: Place,
    pub(crate) write: bool,
    /// When the arm could set out.
    pub(crate) from: u64,
    /// When the first block may begin.
    pub(crate) ready: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Task {
    /// The request at this place in the queue.
    Serve(usize),
    /// The dirty blocks of this segment.
    Destage(usize),
}

/// Requests in the order they came.
pub(crate) struct Queue {
    pub(crate) waiting: VecDeque<Waiting>,
    scheduling: Scheduling,
    upwards: bool,
}

impl Queue {
    pub(crate) fn new(scheduling: Scheduling) -> Queue {
        Queue {
            waiting: VecDeque::new(),
            scheduling,
            upwards: true,
        }
    }

    /// The cache got, or is about to get, the blocks of `span`: reads that begin there may ask
    /// again.
    pub(crate) fn wake_reads(&mut self, span: &Range<u64>) {
        for waiting in &mut self.waiting {
            if let Request::Transfer(work) = &waiting.request
                && work.op == Op::Read
                && overlap(&work.range, span)
            {
                waiting.asked = Asked::NotYet;
            }
        }
    }

    /// There may be room for writes: they may ask again.
    pub(crate) fn wake_writes(&mut self) {
        for waiting in &mut self.waiting {
            if let Request::Transfer(work) = &waiting.request
                && work.op == Op::Write
            {
                waiting.asked = Asked::NotYet;
            }
        }
    }

    /// Whether the first candidate is chosen, whatever comes after it.
    pub(crate) fn in_order(&self) -> bool {
        self.scheduling == Scheduling::Fcfs
    }

    /// Picks from `candidates`, which are in the order they came.
    pub(crate) fn choose(
        &mut self,
        motor: &Motor,
        arm: Arm,
        candidates: &[Candidate],
    ) -> Option<Task> {
        let chosen = match self.scheduling {
            Scheduling::Fcfs => candidates.first(),
            Scheduling::Sptf => candidates
                .iter()
                .min_by_key(|c| motor.positioned((c.from, arm), c.place, c.write, c.ready)),
            Scheduling::Elevator => {
                let found = ahead(candidates, arm.cylinder, self.upwards);
                if found.is_none() {
                    self.upwards = !self.upwards;
                }
                found.or_else(|| ahead(candidates, arm.cylinder, self.upwards))
            }
        };
        chosen.map(|c| c.task)
    }
}

/// The nearest candidate in one direction.
fn ahead(candidates: &[Candidate], cylinder: u32, upwards: bool) -> Option<&Candidate> {
    candidates
        .iter()
        .filter(|c| {
            if upwards {
                c.place.arm.cylinder >= cylinder
            } else {
                c.place.arm.cylinder <= cylinder
            }
        })
        .min_by_key(|c| c.place.arm.cylinder.abs_diff(cylinder))
}
