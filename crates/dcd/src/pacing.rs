//! Who waits for whom, and how long: destaging for users, and writers for the destaging.
//!
//! A disk has one queue, so whoever comes waits behind what is under way. Destaging lets users go first
//! while there is room, and has no more under way than they would wait for (`state/speed.rs` says how
//! much that is). Once the log is nearly full it is the writers who wait, so that they fill it no faster
//! than it is emptied (`state/pace.rs`). How long, and from when on: `policy.rs`.

use std::time::Duration;

use forebay_device::{DeviceError, Op, Result};
use futures_util::future::select;

use crate::engine::Engine;
use crate::options::Acknowledge;
use crate::policy;
use crate::state::Wanted;

/// Waits shorter than this are not worth a timer.
const PACE_GRAIN: Duration = Duration::from_millis(1);
/// Who waits for the pace looks again this often: it changes.
const PACE_AGAIN: Duration = Duration::from_millis(20);
/// The longest that the pace alone makes anybody wait at the head of the queue.
const PACED_MAX: Duration = Duration::from_secs(1);
/// What a piece or a mark takes in the log besides its data, in bytes, roughly.
const ENTRY_BYTES: u64 = 32;

/// How what goes home stands to users' requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Priority {
    /// Destaging while there is room: users go first.
    Idle,
    /// Destaging that must not wait, since the log is filling up or somebody waits.
    Urgent,
    /// The rescue from a failed log, which users wait for.
    Rescue,
}

impl Priority {
    /// Of destaging.
    pub(crate) fn of_destaging(urgent: bool) -> Priority {
        match urgent {
            true => Priority::Urgent,
            false => Priority::Idle,
        }
    }
}

impl Engine {
    /// What the destager sees.
    pub(crate) fn observe(&self) -> policy::Observed {
        let used = self.used();
        let something = !self.map.borrow().is_empty() || self.log.tail() != self.log.head();
        let keeps = self.keeps_all();
        let due = self.refused.borrow().due(self.rt.now());
        policy::Observed {
            used,
            dirty: something
                && (!keeps || due || self.log_used() > policy::HIGH_WATER && self.would_gain()),
            idle: self.activity.borrow().idle(self.rt.now()),
            pressed: self.activity.borrow().presses(),
            look_again: self.refused.borrow().due_in(self.rt.now()),
        }
    }

    /// Waits for `span`, or until destaging is urgent.
    pub(crate) async fn wait_unless_urgent(&self, span: Duration) {
        let sleep = self.rt.sleep(span);
        select(sleep, self.signals.urgent.listen()).await;
    }

    /// Lets users go first, where they do: returns when nobody is being served, or at once.
    ///
    /// # Errors
    /// When the volume is closing: what is not home by then stays in the log. For destaging, when the
    /// log has failed, too.
    pub(crate) async fn give_way(&self, priority: Priority) -> Result<()> {
        match priority {
            Priority::Idle => self.yield_to_users(false).await,
            Priority::Urgent => self.yield_to_users(true).await,
            Priority::Rescue if self.is_stopping() => Err(DeviceError::Closed { op: Op::Write }),
            Priority::Rescue => Ok(()),
        }
    }

    /// True if what is under way is to end: the volume is closing, or the rescue takes over.
    pub(crate) fn is_called_off(&self, priority: Priority) -> bool {
        match priority {
            Priority::Idle | Priority::Urgent => self.is_closing() || self.log.failure().is_some(),
            Priority::Rescue => self.is_stopping(),
        }
    }

    /// How long what is under way may keep users waiting; none if there is no bound.
    pub(crate) fn patience(&self, priority: Priority) -> Option<Duration> {
        let pressed = || self.observe().pressed;
        match priority {
            Priority::Idle => policy::patience(false, pressed()),
            Priority::Urgent => policy::patience(true, pressed()),
            Priority::Rescue => None,
        }
    }

    async fn yield_to_users(&self, urgent: bool) -> Result<()> {
        loop {
            let op = Op::Write;
            if self.is_closing() {
                return Err(DeviceError::Closed { op });
            }
            // The rescue takes over, and users wait for it: they are never idle.
            if self.log.failure().is_some() {
                let cause = "the log failed meanwhile".into();
                return Err(DeviceError::Failed { op, cause });
            }
            if urgent {
                return Ok(());
            }
            let seen = self.observe();
            if seen.pressed || seen.used > policy::HIGH_WATER {
                return Ok(());
            }
            let threshold = policy::idle_threshold(seen.used);
            // Right after a pause, any request at all makes it wait out another whole threshold.
            if seen.idle >= threshold {
                return Ok(());
            }
            let began = self.rt.now();
            self.wait_unless_urgent(threshold - seen.idle).await;
            let waited = self.rt.now().since(began);
            self.pace.borrow_mut().stood_back(waited);
        }
    }

    /// How long a write has to wait, so that writers and destaging meet before the log is full; nothing while
    /// nobody is paced.
    pub(crate) fn pace_wait(&self) -> Option<Duration> {
        let Some(multiple) = policy::pace(self.used_soon()) else {
            self.pace.borrow_mut().forgive();
            return None;
        };
        Some(self.pace.borrow_mut().wait(multiple, self.rt.now()))
    }

    /// What was wanted is taken of what is paced.
    pub(crate) fn take(&self, wanted: Wanted) {
        let bytes = wanted.bytes + wanted.entries * ENTRY_BYTES;
        let segment_bytes = self.log.ring().segment_bytes;
        let head = self.log.head();
        self.pace.borrow_mut().take(bytes, head, segment_bytes);
    }

    /// Waits until it is the turn of who comes next, looking again as the log empties.
    ///
    /// Where each write waits for the log, those who came one by one would have a record each, with a header as
    /// long as their data: where several wait, they go together.
    pub(crate) async fn keep_pace(&self) {
        let end = self.rt.now().plus(PACED_MAX);
        while !self.is_closing() && self.log.failure().is_none() && self.rt.now() < end {
            let progress = self.log.progress();
            let together = self.options.acknowledge > Acknowledge::Flush;
            if together && self.pace.borrow().in_bunch() {
                return;
            }
            let Some(wait) = self.pace_wait().filter(|wait| !wait.is_zero()) else {
                if together && self.activity.borrow().queued() > 1 {
                    self.pace.borrow_mut().begin_bunch();
                }
                return;
            };
            let sleep = self.rt.sleep(wait.clamp(PACE_GRAIN, PACE_AGAIN));
            let settled = self.signals.settled.listen();
            select(sleep, select(settled, progress)).await;
        }
    }
}
