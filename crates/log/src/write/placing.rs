//! Between the policy that says where records go, and what is written when.

use std::cell::{Cell, RefCell};

use forebay_device::{Buf, BufMut, Durability};
use forebay_rt::{Event, Instant};
use forebay_units::{RecordSeq, SegmentSeq};

use super::{Inner, LONE_BYTES};
use crate::gaps::{Gaps, Opening, Policy, Written};
use crate::ram::Job;
use crate::state::State;

/// What is known for the policy.
pub(super) struct Placing {
    policy: RefCell<Policy>,
    /// The last write had the device to itself, and somebody waited for it.
    alone: Cell<bool>,
    /// Such a write is under way.
    under_way: Cell<bool>,
    /// A gap is wanted, so the superblock is to say that there may be some.
    wanted: Cell<bool>,
    asked: Event,
}

/// One write of the device: a job, or two that lie side by side.
pub(super) struct Write {
    jobs: [Option<(u64, SegmentSeq)>; 2],
    /// Where on the device, in bytes.
    pub(super) at: u64,
    pub(super) buf: Buf,
    pub(super) last: RecordSeq,
}

/// A write under way, as it is told to the policy when it is done.
pub(super) struct Issued {
    at: u64,
    len: u64,
    when: Instant,
    /// It had the device to itself and somebody waits for it; then, the number of the next job.
    alone: Option<u64>,
}

impl Placing {
    pub(super) fn new(gaps: Gaps) -> Placing {
        Placing {
            policy: RefCell::new(Policy::new(gaps)),
            alone: Cell::new(false),
            under_way: Cell::new(false),
            wanted: Cell::new(false),
            asked: Event::new(),
        }
    }

    /// Returns when a gap is wanted for the first time, and the superblock does not say that there may be any.
    pub(super) async fn wanted(&self) {
        let wanted = || self.wanted.get().then_some(());
        self.asked.until(wanted).await;
    }

    fn ask(&self) {
        if !self.wanted.replace(true) {
            self.asked.notify_all();
        }
    }
}

impl Write {
    pub(super) fn len(&self) -> usize {
        self.buf.len()
    }

    pub(super) fn jobs(&self) -> impl Iterator<Item = (u64, SegmentSeq)> + use<> {
        self.jobs.into_iter().flatten()
    }
}

impl Inner {
    /// Says where the record goes that is opened next, where that matters: behind a write for which somebody
    /// waited, in a log that is written by nobody else.
    pub(super) fn place_next(&self, state: &mut State, soon: bool) {
        let placing = &self.placing;
        let mut policy = placing.policy.borrow_mut();
        if !policy.wants_gaps() || !state.may_leave_gap() {
            return;
        }
        let behind = placing.under_way.get() && state.jobs_in_flight() == 1;
        let quiet = placing.alone.get() && state.jobs_in_flight() == 0;
        let matters = (behind || quiet) && !state.has_jobs();
        let Some(at) = state.next_at().filter(|_| matters || policy.is_for_all()) else {
            return;
        };
        if !self.superblock.borrow().gaps {
            placing.ask();
            return;
        }
        let opening = Opening {
            now: self.rt.now(),
            at,
            soon,
            behind,
            most: state.gap_max(),
        };
        if let Some(gap) = policy.gap(&opening) {
            policy.placed(state.plan_gap(gap));
        }
    }

    /// The write that does this job; with `joining`, and the one behind it, if that lies side by side with it
    /// and both are short.
    pub(super) fn write_of(&self, (id, job): (u64, Job), joining: bool) -> Write {
        let mut state = self.state.borrow_mut();
        let at = state.ring.segment_at(job.segment) + u64::from(job.offset);
        let first = Some((id, job.segment));
        let next = joining
            .then(|| state.take_joining(&job, LONE_BYTES))
            .flatten();
        let Some((id, next)) = next else {
            return Write {
                jobs: [first, None],
                at,
                buf: job.buf,
                last: job.last,
            };
        };
        let mut both = BufMut::zeroed(job.buf.len() + next.buf.len());
        both[..job.buf.len()].copy_from_slice(&job.buf);
        both[job.buf.len()..].copy_from_slice(&next.buf);
        Write {
            jobs: [first, Some((id, next.segment))],
            at,
            buf: both.freeze(),
            last: next.last,
        }
    }

    /// A write is issued; `waited_for` if somebody waits for it, and not only for room.
    pub(super) fn issued(&self, write: &Write, waited_for: bool) -> Issued {
        let state = self.state.borrow();
        let own = write.jobs().count();
        let alone = waited_for && state.jobs_in_flight() == own && !state.has_jobs();
        self.placing.under_way.set(alone);
        Issued {
            at: write.at,
            len: write.len() as u64,
            when: self.rt.now(),
            alone: alone.then_some(state.next_job()),
        }
    }

    /// It is done.
    pub(super) fn written(&self, issued: &Issued, durability: Durability) {
        let placing = &self.placing;
        let next_job = self.state.borrow().next_job();
        let alone = issued.alone == Some(next_job);
        let on_medium = durability == Durability::Fua || !self.device.geometry().volatile;
        placing.alone.set(alone && on_medium);
        if issued.alone.is_some() {
            placing.under_way.set(false);
        }
        if !on_medium {
            return;
        }
        let mut policy = placing.policy.borrow_mut();
        let knew = policy.turn().is_some();
        policy.written(&Written {
            at: issued.at,
            len: issued.len,
            issued: issued.when,
            done: self.rt.now(),
            alone,
        });
        if let Some(turn) = policy.turn().filter(|_| !knew) {
            let turn_us = turn.as_micros() as u64;
            tracing::info!(
                turn_us,
                "the log device turns: records go where its head will be"
            );
        }
    }
}
