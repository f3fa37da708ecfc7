//! The leftover block device of a volume whose server has ended.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_frontend::block_device::{DeviceHolders, LOOK_EVERY, LOOKS, holders, write_back};
use forebay_linux::isolated;
use forebay_rt::Rt;

use crate::codec::format::UblkDeviceInfo;
use crate::codec::wish::{LeftoverAction, verdict};
use crate::control::{CONTROL, UblkControl};
use crate::error::UblkError;

/// Time limit for a killed server to end. Before Linux 6.16 the driver needs half a minute to notice the death of a
/// server that held all possible requests.
const DYING_PATIENCE: Duration = Duration::from_secs(45);
/// Interval of checks meanwhile.
const DYING_EVERY: Duration = Duration::from_millis(100);
/// Time limit for removing an unused device.
const REMOVE_PATIENCE: Duration = Duration::from_secs(5);

/// Returns the path of the block device of device `id`.
pub(super) fn node(id: u32) -> PathBuf {
    Path::new("/dev").join(name(id))
}

/// Returns the name of the block device of device `id`.
pub(super) fn name(id: u32) -> String {
    format!("ublkb{id}")
}

/// Runs `work` with the control device, on a thread that serves nothing.
pub(super) async fn controlled<T, F>(doing: &'static str, work: F) -> Result<T, UblkError>
where
    T: Send + 'static,
    F: FnOnce(&UblkControl) -> io::Result<T> + Send + 'static,
{
    let done = isolated(move || UblkControl::open().map(|control| work(&control))).await;
    let done = done.map_err(UblkError::io(doing, CONTROL))?;
    let done = done.map_err(UblkError::no_control)?;
    done.map_err(UblkError::io(doing, CONTROL))
}

/// Returns all devices of `volume`. The id is not 0, unlike that of most other programs' devices.
fn find(control: &UblkControl, volume: u64) -> io::Result<Vec<UblkDeviceInfo>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/dev")? {
        let Ok(name) = entry?.file_name().into_string() else {
            continue;
        };
        let id = name.strip_prefix("ublkc").and_then(|id| id.parse().ok());
        // A device that cannot be queried, or no longer exists, does not belong to us.
        if let Some(Ok(info)) = id.map(|id| control.info(id))
            && info.volume == volume
        {
            found.push(info);
        }
    }
    Ok(found)
}

/// Returns the device of `volume` that waits for a server. Removes other leftovers, and waits for a dying server.
///
/// # Errors
/// If another server is alive, or the block device ended with its server and is in use.
pub(super) async fn left_behind(rt: &Rt, volume: u64) -> Result<Option<UblkDeviceInfo>, UblkError> {
    let deadline = rt.now().plus(DYING_PATIENCE);
    let mut removed = Vec::new();
    loop {
        let find = move |control: &UblkControl| find(control, volume);
        let mut found = controlled("look for devices at", find).await?;
        found.retain(|info| !removed.contains(&info.id));
        let Some(info) = found.first() else {
            return Ok(None);
        };
        match verdict(info.state) {
            LeftoverAction::TakeUp => return Ok(Some(*info)),
            LeftoverAction::Remove => {
                let holders = holders(&name(info.id));
                if holders.are_lasting() {
                    let device = node(info.id);
                    return Err(UblkError::Dead { device, holders });
                }
                remove(rt, info.id, UblkControl::delete_later).await;
                removed.push(info.id);
            }
            LeftoverAction::Wait if rt.now() < deadline => rt.sleep(DYING_EVERY).await,
            LeftoverAction::Wait => {
                return Err(UblkError::Served {
                    device: node(info.id),
                    pid: info.server_pid,
                });
            }
        }
    }
}

/// Removes a device that no longer has a block device. If removing takes long or fails, the device remains, which is
/// harmless.
pub(super) async fn remove(rt: &Rt, id: u32, how: fn(&UblkControl, u32) -> io::Result<()>) {
    let removing = controlled("remove a device at", move |control: &UblkControl| {
        how(control, id)
    });
    match rt.timeout(REMOVE_PATIENCE, removing).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, id, "cannot remove a ublk device"),
        Err(_) => tracing::warn!(id, "a ublk device is slow to disappear"),
    }
}

/// The result of stopping a device.
pub(super) enum StopOutcome {
    Yes,
    /// The device is in use and unchanged.
    Busy(DeviceHolders),
    /// The device is unchanged: its page cache could not be written back, and this data is lost.
    Lost(io::Error),
}

/// Removes block device `id` if it is unused, after a wait for processes that only probe it. A thread that serves the
/// device must not call this.
pub(super) fn stop_unused(control: &UblkControl, id: u32) -> io::Result<StopOutcome> {
    let mut looks = 0;
    loop {
        match try_stop_unused(control, id)? {
            StopOutcome::Busy(holders) if !holders.are_lasting() && looks < LOOKS => {
                looks += 1;
                std::thread::sleep(LOOK_EVERY);
            }
            done => return Ok(done),
        }
    }
}

/// Stops the block device if it is unused. Holding the device exclusively prevents mounts and other claims in all
/// namespaces.
///
/// The page cache was written back when the last user closed the device. If a process opened the device between the
/// checks, its data is written back too. But no flush is sent: a flush could block this thread, and with it the
/// process's end of the device, if the process is killed meanwhile. Closing the volume flushes it.
fn try_stop_unused(control: &UblkControl, id: u32) -> io::Result<StopOutcome> {
    let (name, busy) = (name(id), |error: &io::Error| {
        error.raw_os_error() == Some(libc::EBUSY)
    });
    let users = holders(&name);
    if !users.0.is_empty() {
        return Ok(StopOutcome::Busy(users));
    }
    // Not open for writing, because udev probes the device after a writer closes it.
    let exclusive = || {
        let mut options = File::options();
        options.read(true).custom_flags(libc::O_EXCL).open(node(id))
    };
    let claim = match exclusive() {
        Ok(claim) => claim,
        Err(error) if busy(&error) => return Ok(StopOutcome::Busy(holders(&name))),
        Err(error) => return Err(error),
    };
    if let Err(error) = write_back(&claim) {
        return Ok(StopOutcome::Lost(error));
    }
    drop(claim);
    match control.try_stop(id) {
        Some(Ok(())) => Ok(StopOutcome::Yes),
        Some(Err(error)) if busy(&error) => Ok(StopOutcome::Busy(holders(&name))),
        Some(Err(error)) => Err(error),
        None => {
            let _claim = match exclusive() {
                Ok(claim) => claim,
                Err(error) if busy(&error) => return Ok(StopOutcome::Busy(holders(&name))),
                Err(error) => return Err(error),
            };
            control.stop(id)?;
            Ok(StopOutcome::Yes)
        }
    }
}

/// Returns true if a server of `volume` made the block device `device` (`/dev/ublkb0`), even if this server has ended.
/// Also returns true if the device does not show its volume, or `volume` is unknown.
pub fn is_of_volume(device: &Path, volume: Option<u64>) -> bool {
    let name = device.file_name().and_then(|name| name.to_str());
    let number = |name: &str| name.strip_prefix("ublkb")?.parse().ok();
    let Some((name, number)) = name.and_then(|name| Some((name, number(name)?))) else {
        return false;
    };
    Path::new("/sys/block").join(name).exists()
        && match (volume_of(number), volume) {
            (Some(found), Some(volume)) => found == volume,
            _ => true,
        }
}

/// Returns the volume of device `id`, if this user may query the device.
fn volume_of(id: u32) -> Option<u64> {
    let info = UblkControl::open().ok()?.info(id).ok()?;
    Some(info.volume)
}

/// Returns the block device of `volume` that waits for a server, if it exists and this user may query it.
pub fn waiting_ublk_device(volume: u64) -> Option<PathBuf> {
    let control = UblkControl::open().ok()?;
    let found = find(&control, volume).ok()?;
    let waiting = found
        .iter()
        .find(|info| verdict(info.state) == LeftoverAction::TakeUp)?;
    Some(node(waiting.id))
}

/// Makes sure that no block device of `volume` waits for a server, before another front end serves the volume. Removes
/// an unused device.
///
/// # Errors
/// [`UblkError::Waiting`] if the device is in use: its users would later continue on a volume that has changed.
pub async fn clear_ublk_leftover(rt: &Rt, volume: u64) -> Result<(), UblkError> {
    let left = match left_behind(rt, volume).await {
        // Without the driver no device can be left, and only root can have left a device that is restricted to root.
        Err(UblkError::NoDriver | UblkError::Forbidden) => return Ok(()),
        left => left?,
    };
    let Some(UblkDeviceInfo { id, .. }) = left else {
        return Ok(());
    };
    let stopped = controlled("stop a device at", move |control| stop_unused(control, id)).await?;
    match stopped {
        StopOutcome::Yes => {
            remove(rt, id, UblkControl::delete_later).await;
            tracing::info!(device = %node(id).display(), "removed the device that a killed daemon left");
            Ok(())
        }
        StopOutcome::Busy(holders) => Err(UblkError::Waiting {
            device: node(id),
            holders,
        }),
        StopOutcome::Lost(source) => Err(UblkError::WriteBack {
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
    fn without_the_ublk_driver_no_leftover_exists() {
        if Path::new(CONTROL).exists() {
            let skipped =
                b"SKIPPED: without_the_ublk_driver_no_leftover_exists: this kernel has ublk\n";
            return std::io::stderr()
                .write_all(skipped)
                .expect("standard error");
        }
        let ring = forebay_linux::IoRing::new(8).expect("an io_uring");
        let executor = forebay_rt::Executor::new(ring);
        let rt = executor.rt();
        let cleared = executor.block_on(async move { clear_ublk_leftover(&rt, 7).await });
        cleared.expect("nothing to do");
    }
}
