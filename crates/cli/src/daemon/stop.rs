//! The end of a daemon: a client detaches the volume, or a signal tells the daemon to stop.
//!
//! A signal leaves dirty data in the log, where it is safe. The first signal waits until the block device is no longer
//! in use; the second does not. Every other wait has a time limit: a failing data device, or a full log, must not
//! prevent a system shutdown. The daemon logs each wait, and reports it to the service manager, with the time that it
//! may still take.

use std::future::pending;
use std::io;
use std::pin::pin;
use std::time::Duration;

use forebay_linux::{SignalReader, StopSignal};
use futures_util::future::{Either, select};
use sd_notify::NotifyState;

use super::Daemon;
use super::freeze::thaw;
use super::front::FrontEnd;
use super::notify::notify;
use forebay_command_output::failure::{CommandFailure, CommandResult, FailureCode};

/// Interval between two checks of a block device in use.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Time for requests of NBD clients to complete by themselves, and, after they were refused, to be answered.
const CLIENTS_PATIENCE: Duration = Duration::from_secs(10);
/// Time for clients to receive the result of a drain.
const REPLY_PATIENCE: Duration = Duration::from_secs(2);
/// Time for closing the volume without progress. Longer than the time that a layer gives its devices to accept
/// acknowledged data, so that the layer can report the fault.
const CLOSE_PATIENCE: Duration = Duration::from_secs(75);
/// Time that write-back of the block device may fail before the device is left as it is.
const WRITE_BACK_PATIENCE: Duration = Duration::from_secs(60);
/// Time for the last flush of a stop after a second signal.
const INSISTED_PATIENCE: Duration = Duration::from_secs(5);

/// Serves until the volume is detached, a filesystem is unmounted, or a signal arrives.
pub(super) async fn run(daemon: &Daemon, signals: &SignalReader) -> CommandResult {
    let over = daemon.front.borrow().as_ref().and_then(FrontEnd::over);
    let detached = daemon.changed.until(|| daemon.detached.get().then_some(()));
    let unmounted = async {
        match over {
            Some(over) => over.wait().await,
            None => pending().await,
        }
    };
    let (detached, unmounted) = (pin!(detached), pin!(unmounted));
    let ended = select(detached, unmounted);
    match select(ended, pin!(signals.next())).await {
        // A client that detaches a filesystem unmounts it, and makes its daemon exit when all data is durable.
        Either::Left((Either::Right(_), _)) if is_still_mounted(daemon) => {
            tracing::info!("unmounted by another program; stopping");
            stop(daemon, signals).await
        }
        Either::Left((Either::Right(_), _)) => {
            daemon
                .changed
                .until(|| daemon.detached.get().then_some(()))
                .await;
            Ok(())
        }
        Either::Left(_) => Ok(()),
        Either::Right((signal, _)) => {
            let status = daemon.volume.status();
            tracing::info!(
                dirty_bytes = status.summary().dirty_bytes,
                pending_discard_bytes = status.summary().pending_discard_bytes,
                "stopping because of {}; dirty data stays in the log",
                signal_name(&signal)
            );
            stop(daemon, signals).await
        }
    }
}

/// Returns the name of the signal that ends the daemon.
fn signal_name(signal: &io::Result<StopSignal>) -> &'static str {
    match signal {
        Ok(StopSignal::Interrupt) => "SIGINT",
        Ok(StopSignal::Terminate) => "SIGTERM",
        Err(_) => "an error of the signal reader",
    }
}

/// Returns true if no client has begun to detach the filesystem.
fn is_still_mounted(daemon: &Daemon) -> bool {
    matches!(*daemon.front.borrow(), Some(FrontEnd::Mount(..)))
}

/// Stops without draining.
pub(super) async fn stop(daemon: &Daemon, signals: &SignalReader) -> CommandResult {
    notify(&[NotifyState::Stopping]);
    daemon.stopping.set(true);
    thaw(daemon);
    daemon.scrub.end().await;
    daemon.changed.notify_all();
    let again = signals.next();
    if let Either::Left((closed, _)) = select(pin!(patiently(daemon)), pin!(again)).await {
        return closed;
    }
    tracing::warn!("second signal to stop: not waiting for clients of the volume");
    leave_front(daemon);
    match daemon
        .rt
        .timeout(INSISTED_PATIENCE, daemon.volume.close())
        .await
    {
        Ok(closed) => closed.map_err(CommandFailure::io),
        Err(_) => Err(CommandFailure::io(
            "the last flush takes too long; stopped without it",
        )),
    }
}

async fn patiently(daemon: &Daemon) -> CommandResult {
    let mut said = String::new();
    let began = daemon.rt.now();
    while let Err(failure) = stop_front(daemon).await {
        let used = failure.code == FailureCode::Refused;
        if !used && daemon.rt.now().since(began) > WRITE_BACK_PATIENCE {
            tracing::error!(
                "{failure}; stopping without it: data that was not written back is lost"
            );
            leave_front(daemon);
            break;
        }
        if said != failure.text {
            waiting(&format!("{failure}; signal again to stop at once"));
            said = failure.text;
        }
        daemon.rt.sleep(LOOK_EVERY).await;
    }
    // Clients that wait for a drain receive its result before the process exits.
    let answered = || (daemon.waited_for.get() == 0).then_some(());
    let replied = daemon.changed.until(answered);
    let _ = daemon.rt.timeout(REPLY_PATIENCE, replied).await;
    // TimeoutStopSec of the unit covers the wait until here, whose duration is unknown.
    extend();
    let left = end_service(daemon).await?;
    if let Some(warning) = daemon.volume.warning() {
        tracing::error!("{warning}");
    }
    tracing::info!(dirty_bytes = left, "stopped");
    Ok(())
}

/// Asks the service manager to wait for the remaining work, as long as it may take.
fn extend() {
    let at_most = CLIENTS_PATIENCE * 2 + CLOSE_PATIENCE + INSISTED_PATIENCE;
    notify(&[NotifyState::ExtendTimeoutUsec(at_most.as_micros() as u32)]);
}

fn waiting(what: &str) {
    let wait = format!("waiting: {what}");
    tracing::warn!("{wait}");
    notify(&[NotifyState::Status(&wait)]);
}

/// Ends all NBD connections and closes the volume. Returns the bytes that stay in the log.
///
/// Requests first get time to complete normally. Then the volume is closed, which ends the requests that wait for free
/// space or for a device. Their clients receive an error instead of a broken connection.
pub(super) async fn end_service(daemon: &Daemon) -> CommandResult<u64> {
    thaw(daemon);
    daemon.scrub.end().await;
    let rt = &daemon.rt;
    let mut shutdown = pin!(async {
        if let Some(nbd) = &daemon.nbd {
            nbd.server.shutdown().await;
        }
    });
    let ended = rt.timeout(CLIENTS_PATIENCE, shutdown.as_mut()).await;
    if ended.is_err() {
        let why = daemon.volume.what_holds_up();
        let clients = daemon.nbd_connections();
        waiting(&format!(
            "{clients} NBD clients have pending requests or unread replies; {why}"
        ));
    }
    let left = daemon.volume.status().summary().dirty_bytes;
    let closed = close(daemon).await;
    if ended.is_err() && rt.timeout(CLIENTS_PATIENCE, shutdown).await.is_err() {
        let clients = daemon.nbd_connections();
        tracing::warn!("{clients} NBD clients did not read their replies; disconnecting them");
    }
    closed.map(|()| left)
}

/// Closes the volume. Goes on as long as the volume makes progress.
async fn close(daemon: &Daemon) -> CommandResult {
    let mut closing = daemon.volume.close();
    loop {
        let before = daemon.volume.progress();
        match daemon.rt.timeout(CLOSE_PATIENCE, closing.as_mut()).await {
            Ok(closed) => return closed.map_err(CommandFailure::io),
            Err(_) if daemon.volume.progress() > before => extend(),
            Err(_) => {
                return Err(CommandFailure::io(format!(
                    "closing takes too long ({}); stopped without it: flushed data is in the log",
                    daemon.volume.what_holds_up()
                )));
            }
        }
    }
}

/// Leaves the block device to its users.
fn leave_front(daemon: &Daemon) {
    let Some(device) = daemon.block_device.name() else {
        return;
    };
    let name = &daemon.target.name;
    if daemon.outlived {
        daemon.block_device.leave_link();
    }
    // If the front end was being stopped, its drop has already done this.
    if let Some(front) = &*daemon.front.borrow() {
        front.let_wait();
    }
    if daemon.outlived {
        tracing::warn!("requests to {device} now wait for the next attach of {name}");
    } else {
        tracing::warn!("{device} now returns errors; the next attach of {name} removes it");
    }
}

/// Leaves the block device to the next daemon; the requests of its users wait for that daemon.
pub(super) async fn hand_over_front(daemon: &Daemon) -> CommandResult {
    thaw(daemon);
    let front = take_front(daemon)?;
    // A request that takes longer waits for free space or for a device. It is refused when the volume is closed, and so
    // left to the next daemon.
    let handed_over = daemon.rt.timeout(CLIENTS_PATIENCE, front.hand_over()).await;
    *daemon.front.borrow_mut() = Some(front);
    let handed_over = handed_over.unwrap_or(Ok(()));
    if handed_over.is_ok() {
        daemon.block_device.leave_link();
    }
    handed_over
}

/// Checks that the block device is not in use, without changing anything.
pub(super) async fn check_front(daemon: &Daemon) -> CommandResult {
    let front = take_front(daemon)?;
    let unused = front.check_unused().await;
    *daemon.front.borrow_mut() = Some(front);
    unused
}

/// Removes the block device if it is not in use.
pub(super) async fn stop_front(daemon: &Daemon) -> CommandResult {
    thaw(daemon);
    let mut front = take_front(daemon)?;
    let mut stopped = front.check_unused().await;
    if stopped.is_ok() {
        // Remove the link first: it must not lead to a device that already belongs to another program.
        daemon.block_device.hide_link();
        stopped = front.stop().await;
        match stopped {
            Ok(()) => daemon.block_device.gone(),
            Err(_) => daemon.block_device.stays(),
        }
    }
    *daemon.front.borrow_mut() = Some(front);
    stopped
}

fn take_front(daemon: &Daemon) -> CommandResult<FrontEnd> {
    let front = daemon.front.borrow_mut().take();
    front.ok_or_else(|| CommandFailure::refused("the volume is being detached already"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_timeout_covers_the_write_back() {
        let unit = include_str!("../../../../packaging/systemd/forebay@.service");
        assert!(unit.contains("TimeoutStopSec=90s"));
        // The write-back alone must fit into the unit's timeout.
        assert!(WRITE_BACK_PATIENCE < Duration::from_secs(90));
        let rest = CLIENTS_PATIENCE * 2 + CLOSE_PATIENCE + INSISTED_PATIENCE;
        assert!(u32::try_from(rest.as_micros()).is_ok());
    }
}
