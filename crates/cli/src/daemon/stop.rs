//! How a daemon ends: a client detaches the volume, or a signal asks it to stop.
//!
//! A signal leaves dirty data in the log, where it is safe. The first waits for the block device to
//! be given up by whoever mounted it; the second does not. Nothing else is waited for without end: a
//! data device that fails, or a log without room, must not keep a system from going down. What is
//! waited for is said, to the log and to the service manager, which is also told how long that may
//! still take.

use std::future::pending;
use std::pin::pin;
use std::time::Duration;

use forebay_os::Signals;
use futures_util::future::{Either, select};
use sd_notify::NotifyState;

use super::Daemon;
use super::front::Front;
use super::notify::notify;
use forebay_program::failure::{Code, Failure, Outcome};

/// How often a block device in use is looked at again.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How long requests of NBD clients may take to end by themselves, and then, refused, to be answered.
const CLIENTS_PATIENCE: Duration = Duration::from_secs(10);
/// How long clients may take to be told that a drain has ended.
const TELLING_PATIENCE: Duration = Duration::from_secs(2);
/// How long closing may take, or get nowhere: longer than a layer itself gives its devices to take what was
/// acknowledged, so that it can say what is wrong.
const CLOSE_PATIENCE: Duration = Duration::from_secs(75);
/// How long the block device may fail to be written back before it is left as it is.
const WRITE_BACK_PATIENCE: Duration = Duration::from_secs(60);
/// How long a stop that is insisted on waits for the last flush.
const INSISTED_PATIENCE: Duration = Duration::from_secs(5);

/// Serves until the volume is detached, a filesystem is unmounted, or a signal comes.
pub(super) async fn run(daemon: &Daemon, signals: &Signals) -> Outcome {
    let over = daemon.front.borrow().as_ref().and_then(Front::over);
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
        // Whoever detaches a filesystem unmounts it, and has its daemon end when all is durable.
        Either::Left((Either::Right(_), _)) if is_still_mounted(daemon) => {
            tracing::info!("unmounted by somebody else; stopping");
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
                ?signal,
                dirty_bytes = status.dirty_bytes(),
                marked_bytes = status.marked_bytes(),
                "stopping; what is dirty stays in the log"
            );
            stop(daemon, signals).await
        }
    }
}

/// True if nobody has begun to detach a filesystem.
fn is_still_mounted(daemon: &Daemon) -> bool {
    matches!(*daemon.front.borrow(), Some(Front::Mount(..)))
}

/// Stops without draining.
pub(super) async fn stop(daemon: &Daemon, signals: &Signals) -> Outcome {
    notify(&[NotifyState::Stopping]);
    daemon.stopping.set(true);
    daemon.changed.notify_all();
    let again = signals.next();
    if let Either::Left((closed, _)) = select(pin!(patiently(daemon)), pin!(again)).await {
        return closed;
    }
    tracing::warn!("told to stop again: not waiting for users of the volume");
    leave_front(daemon);
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
    let began = daemon.rt.now();
    while let Err(failure) = stop_front(daemon).await {
        let used = failure.code == Code::Refused;
        if !used && daemon.rt.now().since(began) > WRITE_BACK_PATIENCE {
            tracing::error!("{failure}; stopping without it, what was not written back is lost");
            leave_front(daemon);
            break;
        }
        if said != failure.text {
            waiting(&format!("{failure}; signal again to stop at once"));
            said = failure.text;
        }
        daemon.rt.sleep(LOOK_EVERY).await;
    }
    // Who waits for a drain is told that it has ended, before the process does.
    let answered = || (daemon.waited_for.get() == 0).then_some(());
    let told = daemon.changed.until(answered);
    let _ = daemon.rt.timeout(TELLING_PATIENCE, told).await;
    // The unit's TimeoutStopSec is for what came until now, of which nobody knows how long it takes.
    extend();
    let left = end_service(daemon).await?;
    if let Some(warning) = daemon.volume.warning() {
        tracing::error!("{warning}");
    }
    tracing::info!(dirty_bytes = left, "stopped");
    Ok(())
}

/// Has the service manager wait for what is still to be done, as long as that may take.
fn extend() {
    let at_most = CLIENTS_PATIENCE * 2 + CLOSE_PATIENCE + INSISTED_PATIENCE;
    notify(&[NotifyState::ExtendTimeoutUsec(at_most.as_micros() as u32)]);
}

fn waiting(what: &str) {
    let wait = format!("waiting: {what}");
    tracing::warn!("{wait}");
    notify(&[NotifyState::Status(&wait)]);
}

/// Ends all NBD connections and closes the volume; gives the bytes that stay in the log.
///
/// First requests may end as they would. Then the volume is closed, which ends those that wait for
/// room or for a device, so that clients get an error and not a broken connection.
pub(super) async fn end_service(daemon: &Daemon) -> Outcome<u64> {
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
            "{clients} NBD clients have requests under way or replies to fetch; {why}"
        ));
    }
    let left = daemon.volume.status().dirty_bytes();
    let closed = close(daemon).await;
    if ended.is_err() && rt.timeout(CLIENTS_PATIENCE, shutdown).await.is_err() {
        let clients = daemon.nbd_connections();
        tracing::warn!("{clients} NBD clients did not fetch their replies; leaving them");
    }
    closed.map(|()| left)
}

/// Closes the volume, which may take as long as it gets on.
async fn close(daemon: &Daemon) -> Outcome {
    let mut closing = daemon.volume.close();
    loop {
        let before = daemon.volume.progress();
        match daemon.rt.timeout(CLOSE_PATIENCE, closing.as_mut()).await {
            Ok(closed) => return closed.map_err(Failure::io),
            Err(_) if daemon.volume.progress() > before => extend(),
            Err(_) => {
                return Err(Failure::io(format!(
                    "closing takes too long ({}); stopped without it: what was flushed is in the log",
                    daemon.volume.what_holds_up()
                )));
            }
        }
    }
}

/// Leaves the block device to whoever uses it.
fn leave_front(daemon: &Daemon) {
    let Some(device) = daemon.block_device.name() else {
        return;
    };
    let name = &daemon.target.name;
    if daemon.outlived {
        daemon.block_device.leave_link();
    }
    // One that was being stopped just now saw to that itself when it was dropped.
    if let Some(front) = &*daemon.front.borrow() {
        front.let_wait();
    }
    match daemon.outlived {
        true => tracing::warn!("{device} waits from now on, for the next attach of {name}"),
        false => tracing::warn!(
            "{device} gives errors from now on; the next attach of {name} clears it away"
        ),
    }
}

/// Leaves the block device to the next daemon, and has its users wait for that.
pub(super) async fn hand_over_front(daemon: &Daemon) -> Outcome {
    let front = take_front(daemon)?;
    // What takes longer waits for room or for a device; it is refused when the volume is closed, and so
    // left to the next daemon.
    let handed_over = daemon.rt.timeout(CLIENTS_PATIENCE, front.hand_over()).await;
    *daemon.front.borrow_mut() = Some(front);
    let handed_over = handed_over.unwrap_or(Ok(()));
    if handed_over.is_ok() {
        daemon.block_device.leave_link();
    }
    handed_over
}

/// Looks whether anybody uses the block device, without undoing anything.
pub(super) async fn check_front(daemon: &Daemon) -> Outcome {
    let front = take_front(daemon)?;
    let unused = front.check_unused().await;
    *daemon.front.borrow_mut() = Some(front);
    unused
}

/// Takes the block device away, if nobody uses it.
pub(super) async fn stop_front(daemon: &Daemon) -> Outcome {
    let mut front = take_front(daemon)?;
    let mut stopped = front.check_unused().await;
    if stopped.is_ok() {
        // The link goes first: it must not lead to a device that is another's already.
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

fn take_front(daemon: &Daemon) -> Outcome<Front> {
    let front = daemon.front.borrow_mut().take();
    front.ok_or_else(|| Failure::refused("the volume is being detached already"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_gives_the_wait_for_users_its_own_time_and_the_rest_is_announced() {
        let unit = include_str!("../../../../packaging/systemd/forebay@.service");
        assert!(unit.contains("TimeoutStopSec=90s"));
        // Whatever systemd is told besides, write-back alone must fit.
        assert!(WRITE_BACK_PATIENCE < Duration::from_secs(90));
        let rest = CLIENTS_PATIENCE * 2 + CLOSE_PATIENCE + INSISTED_PATIENCE;
        assert!(u32::try_from(rest.as_micros()).is_ok());
    }
}
