//! How a daemon ends: a client detaches the volume, or a signal asks it to stop.
//!
//! A signal leaves dirty data in the log, where it is safe. The first waits for the block device to
//! be given up by whoever mounted it; the second does not.

use std::pin::pin;
use std::time::Duration;

use forebay_os::Signals;
use futures_util::future::{Either, select};
use sd_notify::NotifyState;

use super::Daemon;
use super::start::notify;
use crate::failure::{Failure, Outcome};

/// How often a block device in use is looked at again.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long NBD clients may take to fetch their last replies.
const CLIENTS_PATIENCE: Duration = Duration::from_secs(10);
/// How long a stop that is insisted on waits for the last flush.
const INSISTED_PATIENCE: Duration = Duration::from_secs(5);

/// Serves until the volume is detached or a signal comes.
pub(super) async fn run(daemon: &Daemon, signals: &Signals) -> Outcome {
    let detached = daemon.changed.until(|| daemon.detached.get().then_some(()));
    match select(pin!(detached), pin!(signals.next())).await {
        Either::Left(_) => Ok(()),
        Either::Right((signal, _)) => {
            tracing::info!(?signal, "stopping; what is dirty stays in the log");
            stop(daemon, signals).await
        }
    }
}

/// Stops without draining.
pub(super) async fn stop(daemon: &Daemon, signals: &Signals) -> Outcome {
    notify(&[NotifyState::Stopping]);
    let again = signals.next();
    if let Either::Left((closed, _)) = select(pin!(patiently(daemon)), pin!(again)).await {
        return closed;
    }
    tracing::warn!("told to stop again: not waiting for users of the volume");
    if let Some(device) = &daemon.block_device {
        tracing::warn!(
            "{device} gives errors from now on; the next attach of {} clears it away",
            daemon.target.name
        );
    }
    match daemon
        .rt
        .timeout(INSISTED_PATIENCE, daemon.volume.close())
        .await
    {
        Ok(closed) => closed.map_err(Failure::io),
        Err(_) => Err(Failure::io(
            "the last flush takes too long; stopped without it",
        )),
    }
}

async fn patiently(daemon: &Daemon) -> Outcome {
    let mut said = String::new();
    while let Err(failure) = stop_front(daemon).await {
        if said != failure.text {
            let wait = format!("waiting: {failure}; signal again to stop at once");
            tracing::warn!("{wait}");
            notify(&[NotifyState::Status(&wait)]);
            said = failure.text;
        }
        daemon.rt.sleep(LOOK_EVERY).await;
    }
    stop_nbd(daemon).await;
    let left = daemon.volume.status().dirty_bytes;
    daemon.volume.close().await.map_err(Failure::io)?;
    if let Some(stale) = daemon.volume.stale_log() {
        tracing::error!("{}: {stale}", daemon.target.log);
    }
    tracing::info!(dirty_bytes = left, "stopped");
    Ok(())
}

/// Takes the block device away, if nobody uses it.
pub(super) async fn stop_front(daemon: &Daemon) -> Outcome {
    let Some(mut front) = daemon.front.borrow_mut().take() else {
        return Err(Failure::refused("the volume is being detached already"));
    };
    let stopped = front.stop().await;
    *daemon.front.borrow_mut() = Some(front);
    stopped
}

/// Ends all NBD connections.
pub(super) async fn stop_nbd(daemon: &Daemon) {
    let shutdown = daemon.nbd.shutdown();
    if daemon.rt.timeout(CLIENTS_PATIENCE, shutdown).await.is_err() {
        tracing::warn!("NBD clients did not fetch their replies; leaving them");
    }
}
