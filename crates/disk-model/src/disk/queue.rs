//! Queued requests, and the choice of the next one.

use std::collections::VecDeque;
use std::ops::Range;

use super::cache::overlap;
use super::mechanics::{ArmPosition, ArmStart, BlockStart, DriveMotor};
use super::options::{DiskOp, Scheduling};

/// A requested transfer.
#[derive(Clone, Debug)]
pub(crate) struct QueuedTransfer {
    pub(crate) op: DiskOp,
    pub(crate) range: Range<u64>,
    pub(crate) place: BlockStart,
    /// Duration of a block on its track, in nanoseconds.
    pub(crate) slot_ns: u64,
}

impl QueuedTransfer {
    pub(crate) fn blocks(&self) -> u64 {
        self.range.end - self.range.start
    }
}

#[derive(Clone, Debug)]
pub(crate) enum QueuedRequest {
    Transfer(QueuedTransfer),
    /// Waits until this many writes are on the platters.
    Flush(u64),
}

/// Result of asking the cache for a request. It stays valid until a `wake` function is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CacheAnswer {
    NotYet,
    /// The cache does not hold the blocks, or has no space for them.
    Miss,
    /// The cache holds some blocks that must go to the platters first.
    Blocked,
}

#[derive(Clone, Debug)]
pub(crate) struct WaitingRequest {
    pub(crate) id: u64,
    pub(crate) arrived: u64,
    pub(crate) request: QueuedRequest,
    pub(crate) asked: CacheAnswer,
}

/// A possible next task of the mechanism.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskCandidate {
    pub(crate) task: MechanismTask,
    pub(crate) place: BlockStart,
    pub(crate) write: bool,
    /// Earliest time at which the arm can start to move.
    pub(crate) from: u64,
    /// Earliest time at which the first block may begin.
    pub(crate) ready: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum MechanismTask {
    /// The request at this position of the queue.
    Serve(usize),
    /// The dirty blocks of this segment.
    Destage(usize),
}

/// Requests in the order of their arrival.
pub(crate) struct DriveQueue {
    pub(crate) waiting: VecDeque<WaitingRequest>,
    scheduling: Scheduling,
    upwards: bool,
}

impl DriveQueue {
    pub(crate) fn new(scheduling: Scheduling) -> DriveQueue {
        DriveQueue {
            waiting: VecDeque::new(),
            scheduling,
            upwards: true,
        }
    }

    /// Notes that the cache has, or will soon have, the blocks of `span`: reads that overlap it may ask again.
    pub(crate) fn wake_reads(&mut self, span: &Range<u64>) {
        for waiting in &mut self.waiting {
            if let QueuedRequest::Transfer(work) = &waiting.request
                && work.op == DiskOp::Read
                && overlap(&work.range, span)
            {
                waiting.asked = CacheAnswer::NotYet;
            }
        }
    }

    /// Notes that the cache may have space for writes: they may ask again.
    pub(crate) fn wake_writes(&mut self) {
        for waiting in &mut self.waiting {
            if let QueuedRequest::Transfer(work) = &waiting.request
                && work.op == DiskOp::Write
            {
                waiting.asked = CacheAnswer::NotYet;
            }
        }
    }

    /// Returns true if the first candidate is always chosen.
    pub(crate) fn in_order(&self) -> bool {
        self.scheduling == Scheduling::Fcfs
    }

    /// Chooses one of `candidates`, which are in the order of their arrival.
    pub(crate) fn choose(
        &mut self,
        motor: &DriveMotor,
        arm: ArmPosition,
        candidates: &[TaskCandidate],
    ) -> Option<MechanismTask> {
        let chosen = match self.scheduling {
            Scheduling::Fcfs => candidates.first(),
            Scheduling::Sptf => candidates.iter().min_by_key(|c| {
                let start = ArmStart { at: c.from, arm };
                motor.positioned(start, c.place, c.write, c.ready)
            }),
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

/// Returns the nearest candidate in one direction.
fn ahead(candidates: &[TaskCandidate], cylinder: u32, upwards: bool) -> Option<&TaskCandidate> {
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
