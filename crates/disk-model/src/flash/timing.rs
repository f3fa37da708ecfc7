//! Completion times of requests.
//!
//! Each die is in one phase at a time. A read is array time, then a transfer for each page. A program is a transfer for
//! each page, then array time. An erase is array time alone. A group is the set of requests that a die serves at once:
//! the longest waiting request, and the first waiting request of each other plane, if they are of the same kind.
//!
//! Invariant: events are handled in the order of their time, and equal times in the order of planning. So a run depends
//! only on the submissions and their times.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use forebay_rt::Instant;

use super::{ChipArrangement, FlashCompletion, FlashOp, FlashPart};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FlashOpKind {
    Read,
    Program,
    Erase,
}

fn kind(op: &FlashOp) -> FlashOpKind {
    match op {
        FlashOp::Read { .. } => FlashOpKind::Read,
        FlashOp::Program { .. } => FlashOpKind::Program,
        FlashOp::Erase(_) => FlashOpKind::Erase,
    }
}

#[derive(Clone, Copy, Debug)]
struct QueuedFlashOp {
    /// Number of the submission; the lowest number waited longest.
    turn: u64,
    id: u64,
    kind: FlashOpKind,
}

/// Requests that a die serves at present.
struct DieGroup {
    kind: FlashOpKind,
    ids: Vec<u64>,
    /// Remaining transfers.
    transfers: usize,
}

struct Die {
    channel: usize,
    planes: Vec<VecDeque<QueuedFlashOp>>,
    group: Option<DieGroup>,
    /// True if an [`FlashEvent::Begin`] is planned.
    begins: bool,
}

#[derive(Default)]
struct FlashChannel {
    busy: bool,
    /// Dies that need a transfer, with the request of the transfer.
    queue: VecDeque<(usize, u64)>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum FlashEvent {
    /// An idle die received a request. It begins with all requests of this instant.
    Begin { die: usize },
    /// A die's array operation is complete.
    Array { die: usize },
    /// A channel's transfer is complete.
    Transfer { die: usize, id: u64 },
}

pub(super) struct FlashTiming {
    part: FlashPart,
    dies: Vec<Die>,
    dies_per_channel: usize,
    channels: Vec<FlashChannel>,
    events: BinaryHeap<Reverse<(Instant, u64, FlashEvent)>>,
    planned: u64,
    submitted: u64,
}

impl FlashTiming {
    pub(super) fn new(part: FlashPart, arrangement: ChipArrangement) -> FlashTiming {
        let dies_per_channel = arrangement.dies_per_channel as usize;
        let channels = arrangement.channels as usize;
        let die = |n: usize| Die {
            channel: n / dies_per_channel,
            planes: vec![VecDeque::new(); part.planes_per_die as usize],
            group: None,
            begins: false,
        };
        FlashTiming {
            part,
            dies: (0..channels * dies_per_channel).map(die).collect(),
            dies_per_channel,
            channels: (0..channels).map(|_| FlashChannel::default()).collect(),
            events: BinaryHeap::new(),
            planned: 0,
            submitted: 0,
        }
    }

    pub(super) fn submit(&mut self, now: Instant, id: u64, op: FlashOp) {
        let block = op.block();
        let die = block.channel as usize * self.dies_per_channel + block.die as usize;
        let waiting = QueuedFlashOp {
            turn: self.submitted,
            id,
            kind: kind(&op),
        };
        self.submitted += 1;
        let state = &mut self.dies[die];
        state.planes[block.plane as usize].push_back(waiting);
        if state.group.is_none() && !std::mem::replace(&mut state.begins, true) {
            self.plan(now, FlashEvent::Begin { die });
        }
    }

    pub(super) fn next_event(&self) -> Option<Instant> {
        self.events.peek().map(|Reverse((at, ..))| *at)
    }

    pub(super) fn advance(&mut self, now: Instant, done: &mut Vec<FlashCompletion>) {
        while let Some(Reverse((at, _, event))) = self.events.peek().copied()
            && at <= now
        {
            self.events.pop();
            match event {
                FlashEvent::Begin { die } => {
                    self.dies[die].begins = false;
                    self.begin(die, at);
                }
                FlashEvent::Array { die } => self.array_over(die, at, done),
                FlashEvent::Transfer { die, id } => self.transfer_over(die, id, at, done),
            }
        }
    }

    fn plan(&mut self, at: Instant, event: FlashEvent) {
        self.events.push(Reverse((at, self.planned, event)));
        self.planned += 1;
    }

    /// Starts the next group of an idle die.
    fn begin(&mut self, die: usize, now: Instant) {
        let state = &mut self.dies[die];
        if state.group.is_some() {
            return;
        }
        let heads = state.planes.iter().filter_map(VecDeque::front);
        let Some(first) = heads.min_by_key(|head| head.turn).copied() else {
            return;
        };
        let of_kind = |plane: &mut VecDeque<QueuedFlashOp>| {
            let fits = plane.front().is_some_and(|head| head.kind == first.kind);
            fits.then(|| plane.pop_front()).flatten()
        };
        let mut group: Vec<QueuedFlashOp> = state.planes.iter_mut().filter_map(of_kind).collect();
        group.sort_by_key(|waiting| waiting.turn);
        let ids: Vec<u64> = group.iter().map(|waiting| waiting.id).collect();
        state.group = Some(DieGroup {
            kind: first.kind,
            transfers: ids.len(),
            ids: ids.clone(),
        });
        match first.kind {
            FlashOpKind::Read => self.plan(now.plus(self.part.read), FlashEvent::Array { die }),
            FlashOpKind::Erase => self.plan(now.plus(self.part.erase), FlashEvent::Array { die }),
            FlashOpKind::Program => self.transfer_all(die, &ids, now),
        }
    }

    fn transfer_all(&mut self, die: usize, ids: &[u64], now: Instant) {
        let channel = self.dies[die].channel;
        let queue = &mut self.channels[channel].queue;
        queue.extend(ids.iter().map(|id| (die, *id)));
        self.use_channel(channel, now);
    }

    fn use_channel(&mut self, channel: usize, now: Instant) {
        let state = &mut self.channels[channel];
        if state.busy {
            return;
        }
        if let Some((die, id)) = state.queue.pop_front() {
            state.busy = true;
            self.plan(
                now.plus(self.part.transfer()),
                FlashEvent::Transfer { die, id },
            );
        }
    }

    fn array_over(&mut self, die: usize, at: Instant, done: &mut Vec<FlashCompletion>) {
        let state = &mut self.dies[die];
        let group = state
            .group
            .as_ref()
            .expect("an array operation has a group");
        let ids = group.ids.clone();
        if group.kind == FlashOpKind::Read {
            self.transfer_all(die, &ids, at);
            return;
        }
        state.group = None;
        done.extend(ids.into_iter().map(|id| FlashCompletion { id, at }));
        self.begin(die, at);
    }

    fn transfer_over(&mut self, die: usize, id: u64, at: Instant, done: &mut Vec<FlashCompletion>) {
        let state = &mut self.dies[die];
        let channel = state.channel;
        let group = state.group.as_mut().expect("a transfer has a group");
        group.transfers -= 1;
        let (kind, last) = (group.kind, group.transfers == 0);
        if kind == FlashOpKind::Read {
            done.push(FlashCompletion { id, at });
        }
        if last && kind == FlashOpKind::Read {
            state.group = None;
        } else if last {
            self.plan(at.plus(self.part.program), FlashEvent::Array { die });
        }
        self.channels[channel].busy = false;
        self.use_channel(channel, at);
        self.begin(die, at);
    }
}
