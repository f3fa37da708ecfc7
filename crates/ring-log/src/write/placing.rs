//! Connection between the policy of rotational offsets and the writes of the log.

use std::cell::{Cell, RefCell};

use forebay_device::{Device, Durability};
use forebay_rt::{Event, Instant};
use forebay_segment_log::commit::DeviceWrite;
use forebay_segment_log::{RecordComposer, WriteWatcher};

use super::LogShared;
use crate::gaps::{CompletedWrite, OffsetPolicy, OffsetState, RecordOpening};
use crate::state::RingState;

/// Policy and the facts that it needs.
pub(crate) struct OffsetPlanner {
    policy: RefCell<OffsetState>,
    /// True if the last write had the device to itself and a writer waited for it.
    alone: Cell<bool>,
    /// True if a write that has the device to itself, with a writer waiting for it, is in flight.
    under_way: Cell<bool>,
    /// True if the policy wants an offset, so the superblock must record that offsets may exist.
    wanted: Cell<bool>,
    asked: Event,
}

/// A write in flight, as the policy will learn about it when it is done.
pub(crate) struct IssuedWrite {
    at: u64,
    len: u64,
    when: Instant,
    /// The number of the next job, if the write has the device to itself and a writer waits for it.
    alone: Option<u64>,
}

impl OffsetPlanner {
    pub(super) fn new(gaps: OffsetPolicy) -> OffsetPlanner {
        OffsetPlanner {
            policy: RefCell::new(OffsetState::new(gaps)),
            alone: Cell::new(false),
            under_way: Cell::new(false),
            wanted: Cell::new(false),
            asked: Event::new(),
        }
    }

    /// Waits until the policy wants an offset for the first time while the superblock does not allow offsets.
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

impl LogShared {
    /// Chooses the place of the next record if the place matters. It matters after a write for which a writer waited,
    /// in a log without other writes.
    pub(super) fn place_next(&self, state: &mut RingState, soon: bool) {
        let placing = self.commit.watcher();
        let mut policy = placing.policy.borrow_mut();
        if !policy.wants_gaps() || !state.may_leave_gap() {
            return;
        }
        let behind = placing.under_way.get() && state.flight().jobs_in_flight() == 1;
        let quiet = placing.alone.get() && state.flight().jobs_in_flight() == 0;
        let matters = (behind || quiet) && !state.flight().has_jobs();
        let Some(at) = state.next_at().filter(|_| matters || policy.is_for_all()) else {
            return;
        };
        if !self.superblock.borrow().gaps {
            placing.ask();
            return;
        }
        let opening = RecordOpening {
            now: self.commit.rt().now(),
            at,
            soon,
            behind,
            most: state.gap_max(),
        };
        if let Some(gap) = policy.gap(&opening) {
            policy.placed(state.plan_gap(gap));
        }
    }
}

impl WriteWatcher<RingState> for OffsetPlanner {
    type Issued = IssuedWrite;

    fn issued(
        &self,
        state: &RingState,
        now: Instant,
        write: &DeviceWrite,
        waited_for: bool,
    ) -> IssuedWrite {
        let flight = state.flight();
        let own = write.jobs().count();
        let alone = waited_for && flight.jobs_in_flight() == own && !flight.has_jobs();
        self.under_way.set(alone);
        IssuedWrite {
            at: write.at,
            len: write.len() as u64,
            when: now,
            alone: alone.then_some(flight.next_job()),
        }
    }

    fn done(
        &self,
        state: &RingState,
        device: &dyn Device,
        now: Instant,
        issued: IssuedWrite,
        durability: Durability,
    ) {
        let next_job = state.flight().next_job();
        let alone = issued.alone == Some(next_job);
        let on_medium = durability == Durability::Fua || !device.geometry().volatile;
        self.alone.set(alone && on_medium);
        if issued.alone.is_some() {
            self.under_way.set(false);
        }
        if !on_medium {
            return;
        }
        let mut policy = self.policy.borrow_mut();
        let knew = policy.turn().is_some();
        policy.written(&CompletedWrite {
            at: issued.at,
            len: issued.len,
            issued: issued.when,
            done: now,
            alone,
        });
        if let Some(turn) = policy.turn().filter(|_| !knew) {
            let turn_us = turn.as_micros() as u64;
            tracing::info!(
                turn_us,
                "the log device is a rotating disk: records are placed where its head will be"
            );
        }
    }
}
