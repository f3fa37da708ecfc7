//! Devices whose connection the driver keeps, and recovery of a device that an ended server left behind.
//!
//! When all connections of a device are gone, the driver holds back new requests for the configured time
//! ([`PATIENCE`]), and sends them over the next connection. It also resends requests that were already sent, but only
//! at its next check, every 30 seconds (`nbd_xmit_timeout` in `drivers/block/nbd.c`). So a pause can last up to 30
//! seconds beyond the start of the next server.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_device::DeviceGeometry;
use forebay_frontend::block_device::holders;
use forebay_linux::isolated;
use forebay_rt::Rt;

use super::error::NbdError;
use super::netlink::NbdControl;
use super::note::{SYS_BLOCK, connection};
use crate::codec::netlink::NbdDeviceSpec;

/// Time that requests wait for the next server. The driver has no value for "for ever", so this is practically
/// unlimited.
const PATIENCE: Duration = Duration::from_secs(30 * 24 * 3600);
/// Time limit for the kernel to close the connection of an ended server.
const CLOSING_PATIENCE: Duration = Duration::from_secs(30);
/// Interval of checks meanwhile.
const CLOSING_EVERY: Duration = Duration::from_millis(50);
/// The first Linux whose driver stores a string with each device.
const LINUX_NEEDED: (u32, u32) = (5, 14);

/// Returns the string that the driver stores with a volume's device.
fn backend(volume: &str) -> String {
    format!("forebay {volume}")
}

pub(super) fn node(index: u32) -> PathBuf {
    PathBuf::from(format!("/dev/{}", name(index)))
}

/// Returns the device's name in sysfs.
pub(super) fn name(index: u32) -> String {
    format!("nbd{index}")
}

/// Checks that this kernel and user support devices that outlive their server.
///
/// # Errors
/// The missing prerequisite: [`NbdError::NoDriver`], [`NbdError::TooOld`], [`NbdError::Io`].
pub fn nbd_usable() -> Result<(), NbdError> {
    control()?;
    let release = rustix::system::uname();
    if recent(&release.release().to_string_lossy()) {
        Ok(())
    } else {
        Err(NbdError::TooOld)
    }
}

/// Returns true if the kernel `release`, as printed by `uname -r`, stores a string with each device.
fn recent(release: &str) -> bool {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    let mut number = || numbers.next().and_then(|n| n.parse().ok()).unwrap_or(0);
    (number(), number()) >= LINUX_NEEDED
}

fn control() -> Result<NbdControl, NbdError> {
    NbdControl::open().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => NbdError::NoDriver,
        _ => NbdError::io("ask", "the nbd driver")(error),
    })
}

/// Returns the number of the device of `volume` that is connected or waits for a server; `sys` is [`SYS_BLOCK`].
fn find(sys: &Path, volume: &str) -> Option<u32> {
    let ours = backend(volume);
    let mut numbers = fs::read_dir(sys).ok()?.flatten().filter_map(|entry| {
        let name = entry.file_name();
        let number = name.to_str()?.strip_prefix("nbd")?.parse().ok()?;
        let backend = fs::read_to_string(entry.path().join("backend")).ok()?;
        (backend.trim_end() == ours).then_some(number)
    });
    numbers.next()
}

/// Returns the block device of `volume` that waits for a server, if no server serves the volume.
pub fn waiting_nbd_device(volume: &str) -> Option<PathBuf> {
    find(SYS_BLOCK.as_ref(), volume).map(node)
}

/// Returns true if a server of `volume` made the block device `device` (`/dev/nbd0`), even if this server has ended. Also
/// returns true if the device does not show its volume, or `volume` is unknown.
pub fn is_of_volume(device: &Path, volume: Option<&str>) -> bool {
    let name = device.file_name().and_then(|name| name.to_str());
    let Some(name) = name.filter(|name| name.starts_with("nbd")) else {
        return false;
    };
    let sys = Path::new(SYS_BLOCK);
    match fs::read_to_string(sys.join(name).join("backend")) {
        Ok(found) => volume.is_none_or(|volume| found.trim_end() == backend(volume)),
        Err(_) => connection(sys, name).is_some(),
    }
}

/// Creates a device that outlives its server, from one end of `socket`, and returns its number.
pub(super) fn connect(
    volume: &str,
    geometry: &DeviceGeometry,
    flags: u16,
    socket: &UnixStream,
) -> Result<u32, NbdError> {
    nbd_usable()?;
    let wished = NbdDeviceSpec {
        len: geometry.len,
        block_size: geometry.block_size,
        flags,
        backend: &backend(volume),
        patience: PATIENCE.as_secs(),
    };
    let connected = control()?.connect(&wished, socket.as_fd());
    connected.map_err(NbdError::io("make a device of", "the nbd driver"))
}

/// Returns the number of the device that an ended server of `volume` left behind.
pub(super) fn left_behind(volume: &str) -> Option<u32> {
    find(SYS_BLOCK.as_ref(), volume)
}

/// Checks that this program can serve a leftover device with these settings; `sys` is [`SYS_BLOCK`].
///
/// # Errors
/// The reason for the refusal, as text.
fn serves(
    sys: &Path,
    index: u32,
    geometry: &DeviceGeometry,
    recoverable: bool,
) -> Result<(), String> {
    if !recoverable {
        let text = "data acknowledged with --ack memory would be lost silently if the daemon were killed \
                    again; attach it with another --ack";
        return Err(text.into());
    }
    let dir = sys.join(name(index));
    let number = |file: &str| {
        let text = fs::read_to_string(dir.join(file)).unwrap_or_default();
        text.trim().parse::<u64>().unwrap_or(0)
    };
    let (len, block) = (number("size") * 512, number("queue/logical_block_size"));
    // A volume that grew may serve a device of the old length; the device gets the new length once it is served.
    if len > geometry.len {
        return Err(format!(
            "it has {len} bytes, and the volume only {}",
            geometry.len
        ));
    }
    if block != u64::from(geometry.block_size) {
        return Err(format!(
            "it has blocks of {block} bytes, and the volume of {}",
            geometry.block_size
        ));
    }
    Ok(())
}

/// Gives a leftover device a new connection, one end of `socket`.
pub(super) async fn recover(
    rt: &Rt,
    volume: &str,
    index: u32,
    geometry: &DeviceGeometry,
    recoverable: bool,
    socket: &UnixStream,
) -> Result<(), NbdError> {
    let fits = serves(SYS_BLOCK.as_ref(), index, geometry, recoverable);
    fits.map_err(|why| NbdError::Unlike {
        device: node(index),
        why,
    })?;
    let mut control = control()?;
    let deadline = rt.now().plus(CLOSING_PATIENCE);
    loop {
        match control.reconnect(index, &backend(volume), socket.as_fd()) {
            // The driver has not noticed yet that the previous connection is gone.
            Err(error) if error.raw_os_error() == Some(libc::ENOSPC) && rt.now() < deadline => {
                rt.sleep(CLOSING_EVERY).await;
            }
            Err(error) => return Err(NbdError::io("take up", node(index))(error)),
            Ok(()) => {
                tracing::info!(device = %node(index).display(), "recovered the device that another daemon left");
                return Ok(());
            }
        }
    }
}

/// Returns the length of a device, in bytes.
pub(super) fn len(index: u32) -> u64 {
    let size = Path::new(SYS_BLOCK).join(name(index)).join("size");
    let sectors = fs::read_to_string(size).unwrap_or_default();
    sectors.trim().parse::<u64>().unwrap_or(0) * 512
}

/// Sets the kernel's length of the device to `len` bytes. A thread that serves the device must not call this: the
/// driver waits for the requests under way.
pub(super) fn resize(index: u32, volume: &str, len: u64) -> Result<(), NbdError> {
    let resized = control()?.resize(index, &backend(volume), len);
    resized.map_err(NbdError::io("give a new length to", node(index)))
}

/// Disconnects a device; its waiting requests fail. A thread that serves the device must not call this.
pub(super) fn disconnect(index: u32) -> Result<(), NbdError> {
    let ended = control()?.disconnect(index);
    ended.map_err(NbdError::io("disconnect", node(index)))
}

/// Makes sure that no block device of `volume` waits for a server, before another front end serves the volume. Removes
/// an unused device.
///
/// # Errors
/// [`NbdError::Waiting`] if the device is in use: its users would later continue on a volume that has changed.
pub async fn clear_nbd_leftover(volume: &str) -> Result<(), NbdError> {
    let Some(index) = left_behind(volume) else {
        return Ok(());
    };
    let cleared = isolated(move || {
        let holders = holders(&name(index));
        if holders.0.is_empty() {
            disconnect(index)
        } else {
            Err(NbdError::Waiting {
                device: node(index),
                holders,
            })
        }
    });
    cleared
        .await
        .map_err(NbdError::io("disconnect", node(index)))??;
    tracing::info!(device = %node(index).display(), "removed the device that a killed daemon left");
    Ok(())
}

#[cfg(test)]
mod tests {
    use forebay_device::{Device, RamDevice};

    use super::*;

    /// Creates a directory that looks like `/sys/block`, with `nbd3` of the volume `x`.
    fn sys() -> tempfile::TempDir {
        let sys = tempfile::tempdir().unwrap();
        for (device, file, text) in [
            ("nbd1", "size", "0\n"),
            ("nbd2", "backend", "forebay xy\n"),
            ("nbd3", "backend", "forebay x\n"),
            ("nbd3", "size", "2048\n"),
            ("nbd3", "queue/logical_block_size", "512\n"),
            ("sda", "backend", "forebay x\n"),
        ] {
            let file = sys.path().join(device).join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        sys
    }

    #[test]
    fn the_device_of_a_volume_is_found_by_its_backend_string() {
        let sys = sys();
        assert_eq!(find(sys.path(), "x"), Some(3));
        assert_eq!(find(sys.path(), "y"), None);
        assert_eq!(find("/nonexistent".as_ref(), "x"), None);
    }

    #[test]
    fn a_leftover_nbd_device_is_recovered_only_with_the_same_geometry_and_recoverable_data() {
        let sys = sys();
        let like = RamDevice::new(1 << 20, 512).geometry();
        assert_eq!(serves(sys.path(), 3, &like, true), Ok(()));
        let grown = RamDevice::new(2 << 20, 512).geometry();
        assert_eq!(serves(sys.path(), 3, &grown, true), Ok(()));
        for (len, block, recoverable, why) in [
            (1 << 20, 512, false, "--ack"),
            (1 << 19, 512, true, "1048576 bytes"),
            (1 << 20, 4096, true, "blocks of 512"),
        ] {
            let geometry = RamDevice::new(len, block).geometry();
            let said = serves(sys.path(), 3, &geometry, recoverable).unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn kernels_whose_nbd_driver_has_no_backend_string_are_too_old() {
        for release in ["5.14.0", "6.1.0-18-amd64", "7.3-rc1", "10.0"] {
            assert!(recent(release), "{release}");
        }
        for release in ["5.13.19", "4.19.0-26-amd64", "5", "", "x"] {
            assert!(!recent(release), "{release}");
        }
    }

    #[test]
    fn a_kernel_without_nbd_is_refused_with_a_remedy() {
        if Path::new("/sys/block/nbd0").exists() {
            let skipped =
                b"SKIPPED: a_kernel_without_nbd_is_refused_with_a_remedy: this kernel has nbd\n";
            return std::io::Write::write_all(&mut std::io::stderr(), skipped)
                .expect("standard error");
        }
        let error = nbd_usable().expect_err("no driver");
        assert!(matches!(error, NbdError::NoDriver), "{error}");
        assert!(error.to_string().contains("modprobe nbd"), "{error}");
    }
}
