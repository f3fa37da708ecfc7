//! Freezes: writes are held back for a limited time, so that an administrator can copy the devices.

use std::cell::{Cell, RefCell};
use std::fmt::Display;
use std::rc::Rc;
use std::time::Duration;

use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_control::RemainingWork;
use forebay_frontend::freeze::{FreezeFailure, FreezePhase, StillVolume, VolumeFreeze};
use forebay_volume::DrainFailure;

use super::{Daemon, PROGRESS_EVERY, STUCK_PATIENCE};
use crate::report::left;

/// Longest time limit of a freeze. The kernel reports tasks that wait longer.
const LIMIT_MAX: Duration = Duration::from_secs(3600);

/// The freeze of the served volume.
pub(super) struct ServedFreeze {
    /// Stands between the front ends and the volume.
    pub(super) gate: VolumeFreeze,
}

impl ServedFreeze {
    pub(super) fn new(gate: VolumeFreeze) -> ServedFreeze {
        ServedFreeze { gate }
    }

    /// Refuses a request that would change the devices of a frozen volume.
    pub(super) fn check_thawed(&self, name: &str) -> CommandResult {
        if self.gate.phase() == FreezePhase::Thawed {
            return Ok(());
        }
        Err(CommandFailure::refused(format!(
            "{name} is frozen for {:.0} s more; thaw it first: forebay thaw {name}",
            self.gate.seconds_left()
        )))
    }
}

impl StillVolume for Daemon {
    type Failure = DrainFailure;

    async fn drain(&self) -> Result<(), DrainFailure> {
        self.volume.drain().await
    }

    async fn hold_still(&self) -> Result<(), DrainFailure> {
        self.volume.hold_still().await
    }

    fn resume(&self) {
        self.volume.resume();
    }
}

/// A client's wish for a freeze. If it is dropped before the freeze is complete, the freeze is abandoned.
pub(super) struct FreezeWish {
    daemon: Rc<Daemon>,
    is_wanted: Rc<Cell<bool>>,
}

impl Drop for FreezeWish {
    fn drop(&mut self) {
        if self.is_wanted.replace(false) {
            thaw(&self.daemon);
        }
    }
}

/// Freezes the volume: drains it while clients write, holds back new writes for `limit` at most, and drains the rest.
/// Reports progress meanwhile. If `progress` fails before the freeze is complete, the freeze is abandoned.
pub(super) async fn freeze<E>(
    daemon: &Rc<Daemon>,
    limit: Duration,
    mut progress: impl AsyncFnMut(RemainingWork) -> Result<(), E>,
) -> Result<CommandResult<u64>, E> {
    if let Err(failure) = can_begin(daemon, limit) {
        return Ok(Err(failure));
    }
    let wish = FreezeWish {
        daemon: Rc::clone(daemon),
        is_wanted: Rc::new(Cell::new(true)),
    };
    let result: Rc<RefCell<Option<CommandResult>>> = Rc::default();
    let (owned, is_wanted) = (Rc::clone(daemon), Rc::clone(&wish.is_wanted));
    let reported = Rc::clone(&result);
    let preparing = async move {
        let prepared = prepare(&owned, limit, &is_wanted).await;
        *reported.borrow_mut() = Some(prepared);
        owned.changed.notify_all();
    };
    // The preparation is not cancelled, even if its client disconnects.
    daemon.rt.spawn(preparing).detach();
    let mut failing_since = None;
    loop {
        let prepared = daemon.changed.until(|| result.borrow_mut().take());
        if let Ok(prepared) = daemon.rt.timeout(PROGRESS_EVERY, prepared).await {
            return Ok(prepared.map(|()| 0));
        }
        let status = daemon.volume.status();
        let now = daemon.rt.now();
        let since = *failing_since.get_or_insert(now);
        if !status.summary().drain_fails {
            failing_since = None;
        } else if now.since(since) > STUCK_PATIENCE {
            return Ok(Err(not_frozen(daemon, &"the data device fails")));
        }
        progress(left(&status)).await?;
    }
}

fn can_begin(daemon: &Daemon, limit: Duration) -> CommandResult {
    let (freeze, name) = (&daemon.freeze, daemon.target.name.as_str());
    if limit.is_zero() || limit > LIMIT_MAX {
        return Err(CommandFailure::usage(format!(
            "cannot freeze {name}: the time limit is longer than 1 h or zero; choose a shorter one, such as 60s"
        )));
    }
    freeze.check_thawed(name)?;
    if daemon.changing.is_held() {
        return Err(CommandFailure::refused(format!(
            "cannot freeze {name}: its length or its log is being changed; try again when it is done"
        )));
    }
    if freeze.gate.is_preparing() {
        return Err(CommandFailure::refused(format!(
            "cannot freeze {name}: another freeze is being prepared; try again when it is done"
        )));
    }
    Ok(())
}

fn not_frozen(daemon: &Daemon, why: &dyn Display) -> CommandFailure {
    let name = &daemon.target.name;
    CommandFailure::io(format!(
        "{name} is not frozen: {why}; writes continue, see `forebay status {name}`"
    ))
}

/// Freezes the volume, while its client wants it.
async fn prepare(daemon: &Rc<Daemon>, limit: Duration, is_wanted: &Cell<bool>) -> CommandResult {
    let gate = &daemon.freeze.gate;
    let is_served = || !daemon.stopping.get() && daemon.front.borrow().is_some();
    let wanted = || is_wanted.get() && is_served();
    let why = match gate.freeze(daemon, limit, wanted).await {
        Ok(()) => {
            // From now on, only the time limit or a command ends the freeze.
            is_wanted.set(false);
            tracing::info!(?limit, "frozen; writes wait");
            return Ok(());
        }
        Err(FreezeFailure::Volume(error)) => error.to_string(),
        Err(FreezeFailure::Withdrawn) => "the request was withdrawn".into(),
        Err(FreezeFailure::Released) => "its data was not in place within the time limit".into(),
    };
    Err(not_frozen(daemon, &why))
}

/// Lets writes continue at a client's command.
///
/// # Errors
/// If the volume is not frozen: a copy made meanwhile may be incomplete.
pub(super) fn thaw_commanded(daemon: &Daemon) -> CommandResult<u64> {
    if thaw(daemon) {
        return Ok(daemon.volume.status().summary().dirty_bytes);
    }
    let name = &daemon.target.name;
    Err(CommandFailure::refused(format!(
        "{name} is not frozen: no freeze, or its time limit is over and writes continued; discard a copy made meanwhile, \
         and freeze with a longer --timeout"
    )))
}

/// Lets writes continue. Returns false if the volume was not frozen.
pub(super) fn thaw(daemon: &Daemon) -> bool {
    let gate = &daemon.freeze.gate;
    if gate.phase() == FreezePhase::Thawed {
        return false;
    }
    let waited = gate.held_writes();
    gate.release(daemon);
    tracing::info!(waited, "thawed; writes continue");
    true
}
