//! The scrub of a volume while it is served.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_command_output::failure::CommandFailure;
use forebay_control::{ScrubRange, ScrubStatus};
use forebay_rt::{Rt, Task};
use forebay_volume::{Layer, ScrubFault, ScrubFaults, ScrubPhase, ScrubState};

use super::Daemon;
use crate::report::DaemonReply;
use crate::scrub_record::ScrubRecord;

/// Limit of a scrub in bytes per second, unless the administrator gives another.
const DEFAULT_RATE: u64 = 32 << 20;

/// The newest scrub of the volume, and its task.
pub(super) struct ScrubSlot {
    state: Rc<RefCell<ScrubState>>,
    /// The result of the newest complete scrub before the attach.
    earlier: Option<ScrubStatus>,
    record: ScrubRecord,
    task: RefCell<Option<Task<()>>>,
    /// Set when the volume is being closed.
    closed: Cell<bool>,
}

/// Starts a scrub, or changes the rate of the running scrub. Returns the reply to the client.
pub(super) fn start(daemon: &Daemon, rate: Option<u64>) -> DaemonReply {
    if daemon.scrub.closed.get() {
        let name = &daemon.target.name;
        let text = format!(
            "cannot scrub {name}: its daemon is closing the volume; attach it again, and then scrub it"
        );
        return CommandFailure::refused(text).into();
    }
    daemon.scrub.start(&daemon.rt, &daemon.volume, rate);
    DaemonReply::Scrub(Box::new(daemon.scrub.status(&daemon.rt)))
}

/// Ends a running scrub after the piece that it reads now. Returns the reply to the client.
pub(super) fn stop(daemon: &Daemon) -> DaemonReply {
    daemon.scrub.state.borrow_mut().stop();
    DaemonReply::Scrub(Box::new(daemon.scrub.status(&daemon.rt)))
}

impl ScrubSlot {
    /// Reads the result of the newest complete scrub.
    pub(super) async fn new(record: ScrubRecord) -> ScrubSlot {
        ScrubSlot {
            state: Rc::default(),
            earlier: record.read().await,
            record,
            task: RefCell::default(),
            closed: Cell::new(false),
        }
    }

    /// Starts a scrub in the background. If one is running, only changes its rate.
    fn start(&self, rt: &Rt, volume: &Rc<dyn Layer>, rate: Option<u64>) {
        if self.state.borrow().is_running() {
            if let Some(rate) = rate {
                self.state.borrow_mut().rate = rate;
            }
            return;
        }
        let rate = rate.unwrap_or(DEFAULT_RATE);
        self.state.borrow_mut().begin(rt.now(), rate);
        tracing::info!(rate, "a scrub begins");
        let (rt, volume, state) = (rt.clone(), Rc::clone(volume), Rc::clone(&self.state));
        let (spawner, record) = (rt.clone(), self.record.clone());
        let task = spawner.spawn(async move {
            forebay_volume::scrub(&rt, &*volume, &state).await;
            log_result(&state.borrow());
            let is_result = matches!(
                state.borrow().phase,
                ScrubPhase::Finished | ScrubPhase::Failed
            );
            if is_result {
                let status = status_of(&state.borrow(), &rt);
                record.write(&status).await;
            }
        });
        *self.task.borrow_mut() = Some(task);
    }

    /// Ends a running scrub at once, since the volume is being closed. Waits until the result of a complete scrub is
    /// recorded.
    pub(super) async fn end(&self) {
        self.closed.set(true);
        let task = self.task.borrow_mut().take();
        if self.state.borrow().is_running() {
            drop(task);
            self.state.borrow_mut().abandon();
        } else if let Some(task) = task {
            task.await;
        }
    }

    /// Returns the state for a report.
    pub(super) fn status(&self, rt: &Rt) -> ScrubStatus {
        let status = status_of(&self.state.borrow(), rt);
        match &self.earlier {
            Some(earlier) if !status.has_begun() => earlier.clone(),
            Some(earlier) => ScrubStatus {
                scrub_finished_timestamp_s: status
                    .scrub_finished_timestamp_s
                    .or(earlier.scrub_finished_timestamp_s),
                ..status
            },
            None => status,
        }
    }
}

fn status_of(state: &ScrubState, rt: &Rt) -> ScrubStatus {
    let now = rt.now();
    let unix = SystemTime::now().duration_since(UNIX_EPOCH);
    let unix = unix.map_or(0.0, |span| span.as_secs_f64());
    ScrubStatus {
        scrub: state.phase.name().into(),
        scrub_done_bytes: state.bytes,
        scrub_checked_bytes: state.checked_bytes,
        scrub_total_bytes: state.total_bytes.max(state.bytes),
        scrub_rate_max_bytes: state.rate,
        scrub_eta_s: state.eta_s(now),
        scrub_finished_timestamp_s: state
            .finished
            .map(|ended| (unix - now.since(ended).as_secs_f64()).round()),
        scrub_damaged_ranges: state.damaged.ranges,
        scrub_unreadable_ranges: state.unreadable.ranges,
        scrub_damage: ranges(&state.damaged),
        scrub_unreadable: ranges(&state.unreadable),
    }
}

fn ranges(faults: &ScrubFaults) -> Vec<ScrubRange> {
    let range = |fault: &ScrubFault| ScrubRange {
        area: fault.area.name().into(),
        sector: fault.sectors.start,
        sectors: fault.sectors.end - fault.sectors.start,
        detail: fault.detail.clone(),
    };
    faults.first.iter().map(range).collect()
}

/// Logs the result of a scrub that ended by itself.
fn log_result(state: &ScrubState) {
    let (damaged, unreadable) = (state.damaged.ranges, state.unreadable.ranges);
    let (bytes, phase) = (state.bytes, state.phase.name());
    if damaged > 0 {
        tracing::error!(
            damaged,
            unreadable,
            bytes,
            "the scrub {phase}, and found damage"
        );
    } else if unreadable > 0 {
        tracing::error!(
            unreadable,
            bytes,
            "the scrub {phase}, and a device returned errors"
        );
    } else {
        tracing::info!(bytes, "the scrub {phase}, and found no fault");
    }
}
