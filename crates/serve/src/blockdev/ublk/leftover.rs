//! What a server that is gone left of a volume's block device.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_rt::Rt;
use forebay_ublk::format::DeviceInfo;
use forebay_ublk::wish::{Verdict, verdict};

use super::control::{CONTROL, Control};
use super::error::UblkError;
use crate::blockdev::cached::write_back;
use crate::blockdev::holders::{LOOK_EVERY, LOOKS, holders};
use forebay_os::isolated;

/// How long a server that was killed may take to be gone. Before Linux 6.16 it takes the driver half a
/// minute to notice if the server had all requests there can be.
const DYING_PATIENCE: Duration = Duration::from_secs(45);
/// How often is looked meanwhile.
const DYING_EVERY: Duration = Duration::from_millis(100);
/// How long removing a device may take that nobody uses.
const REMOVE_PATIENCE: Duration = Duration::from_secs(5);

/// The block device of device `id`.
pub(super) fn node(id: u32) -> PathBuf {
    Path::new("/dev").join(name(id))
}

/// Its name.
pub(super) fn name(id: u32) -> String {
    format!("ublkb{id}")
}

/// Does `work` with the control device, on a thread that serves nothing.
pub(super) async fn controlled<T, F>(doing: &'static str, work: F) -> Result<T, UblkError>
where
    T: Send + 'static,
    F: FnOnce(&Control) -> io::Result<T> + Send + 'static,
{
    let done = isolated(move || Control::open().map(|control| work(&control))).await;
    let done = done.map_err(UblkError::io(doing, CONTROL))?;
    let done = done.map_err(UblkError::no_control)?;
    done.map_err(UblkError::io(doing, CONTROL))
}

/// All devices of `volume`. It is not 0, as it is with devices of most other programs.
fn find(control: &Control, volume: u64) -> io::Result<Vec<DeviceInfo>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/dev")? {
        let Ok(name) = entry?.file_name().into_string() else {
            continue;
        };
        let id = name.strip_prefix("ublkc").and_then(|id| id.parse().ok());
        // One that is not told of, or is gone by now, is somebody else's.
        if let Some(Ok(info)) = id.map(|id| control.info(id))
            && info.volume == volume
        {
            found.push(info);
        }
    }
    Ok(found)
}

/// The device of `volume` that waits for a server. What is left of others is removed, and a server that
/// is dying waited for.
///
/// # Errors
/// If another server is alive, or the block device ended with its server and is in use.
pub(super) async fn left_behind(rt: &Rt, volume: u64) -> Result<Option<DeviceInfo>, UblkError> {
    let deadline = rt.now().plus(DYING_PATIENCE);
    let mut removed = Vec::new();
    loop {
        let find = move |control: &Control| find(control, volume);
        let mut found = controlled("look for devices at", find).await?;
        found.retain(|info| !removed.contains(&info.id));
        let Some(info) = found.first() else {
            return Ok(None);
        };
        match verdict(info.state) {
            Verdict::TakeUp => return Ok(Some(*info)),
            Verdict::Remove => {
                let holders = holders(&name(info.id));
                if holders.are_lasting() {
                    let device = node(info.id);
                    return Err(UblkError::Dead { device, holders });
                }
                remove(rt, info.id, Control::delete_later).await;
                removed.push(info.id);
            }
            Verdict::Wait if rt.now() < deadline => rt.sleep(DYING_EVERY).await,
            Verdict::Wait => {
                return Err(UblkError::Served {
                    device: node(info.id),
                    pid: info.server_pid,
                });
            }
        }
    }
}

/// Removes a device that has no block device any more. If that takes long, or fails, it is left: it
/// does nothing.
pub(super) async fn remove(rt: &Rt, id: u32, how: fn(&Control, u32) -> io::Result<()>) {
    let removing = controlled("remove a device at", move |control: &Control| {
        how(control, id)
    });
    match rt.timeout(REMOVE_PATIENCE, removing).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, id, "cannot remove a ublk device"),
        Err(_) => tracing::warn!(id, "a ublk device takes long to go"),
    }
}

/// What came of stopping a device.
pub(super) enum Stopped {
    Yes,
    /// It was left as it is: these use it.
    Busy(crate::blockdev::Holders),
    /// It was left as it is: what the page cache had of it could not be written back, and is lost.
    Lost(io::Error),
}

/// Takes block device `id` away if nobody uses it, and lets those who merely look finish. Not for a
/// thread that serves it.
pub(super) fn stop_unused(control: &Control, id: u32) -> io::Result<Stopped> {
    let mut looks = 0;
    loop {
        match try_stop_unused(control, id)? {
            Stopped::Busy(holders) if !holders.are_lasting() && looks < LOOKS => {
                looks += 1;
                std::thread::sleep(LOOK_EVERY);
            }
            done => return Ok(done),
        }
    }
}

/// Holding it exclusively keeps mounts and other claims away, in whatever namespace they are.
///
/// What a user wrote through the page cache was written back when the last one closed the device. Should
/// somebody have opened it between the looks, that is written back too; but no flush is sent, which
/// could keep this thread, and with it the dead process's end of the device, if we are killed meanwhile.
/// Whoever closes the volume flushes it.
fn try_stop_unused(control: &Control, id: u32) -> io::Result<Stopped> {
    let (name, busy) = (name(id), |error: &io::Error| {
        error.raw_os_error() == Some(libc::EBUSY)
    });
    let users = holders(&name);
    if !users.0.is_empty() {
        return Ok(Stopped::Busy(users));
    }
    // Not for writing: when that is closed udev probes the device.
    let exclusive = || {
        let mut options = File::options();
        options.read(true).custom_flags(libc::O_EXCL).open(node(id))
    };
    let claim = match exclusive() {
        Ok(claim) => claim,
        Err(error) if busy(&error) => return Ok(Stopped::Busy(holders(&name))),
        Err(error) => return Err(error),
    };
    if let Err(error) = write_back(&claim) {
        return Ok(Stopped::Lost(error));
    }
    drop(claim);
    match control.try_stop(id) {
        Some(Ok(())) => Ok(Stopped::Yes),
        Some(Err(error)) if busy(&error) => Ok(Stopped::Busy(holders(&name))),
        Some(Err(error)) => Err(error),
        None => {
            let _claim = match exclusive() {
                Ok(claim) => claim,
                Err(error) if busy(&error) => return Ok(Stopped::Busy(holders(&name))),
                Err(error) => return Err(error),
            };
            control.stop(id)?;
            Ok(Stopped::Yes)
        }
    }
}

/// The volume of device `id`, if this user may know.
pub(in crate::blockdev) fn volume_of(id: u32) -> Option<u64> {
    let info = Control::open().ok()?.info(id).ok()?;
    Some(info.volume)
}

/// The block device of `volume` that waits for a server, if there is one and this user may know.
pub fn waiting_ublk_device(volume: u64) -> Option<PathBuf> {
    let control = Control::open().ok()?;
    let found = find(&control, volume).ok()?;
    let waiting = found
        .iter()
        .find(|info| verdict(info.state) == Verdict::TakeUp)?;
    Some(node(waiting.id))
}

/// Sees to it that no block device of `volume` waits for a server, before it is served in another way:
/// what nobody uses is removed.
///
/// # Errors
/// [`UblkError::Waiting`] if somebody uses it, who would go on with another volume than the one that is
/// served.
pub async fn clear_ublk_leftover(rt: &Rt, volume: u64) -> Result<(), UblkError> {
    let left = match left_behind(rt, volume).await {
        // Where there is no driver nothing was left; and what is for root only, root has left.
        Err(UblkError::NoDriver | UblkError::Forbidden) => return Ok(()),
        left => left?,
    };
    let Some(DeviceInfo { id, .. }) = left else {
        return Ok(());
    };
    let stopped = controlled("stop a device at", move |control| stop_unused(control, id)).await?;
    match stopped {
        Stopped::Yes => {
            remove(rt, id, Control::delete_later).await;
            tracing::info!(device = %node(id).display(), "removed what a killed daemon left");
            Ok(())
        }
        Stopped::Busy(holders) => Err(UblkError::Waiting {
            device: node(id),
            holders,
        }),
        Stopped::Lost(source) => Err(UblkError::WriteBack {
            device: node(id),
            source,
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn without_a_driver_nothing_was_left() {
        if Path::new(CONTROL).exists() {
            let skipped = b"SKIPPED: without_a_driver_nothing_was_left: this kernel has ublk\n";
            return std::io::stderr()
                .write_all(skipped)
                .expect("standard error");
        }
        let ring = forebay_os::Ring::new(8).expect("an io_uring");
        let executor = forebay_rt::Executor::new(ring);
        let rt = executor.rt();
        let cleared = executor.block_on(async move { clear_ublk_leftover(&rt, 7).await });
        cleared.expect("nothing to do");
    }
}
