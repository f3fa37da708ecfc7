//! The leftovers of a killed server, and their removal.
//!
//! When the server dies, its connection closes and every request to the filesystem fails with `ENOTCONN`. But the mount
//! stays, and with it the loop device, which answers everything with an I/O error, and perhaps a filesystem mounted
//! from the loop device. They are recognised by the kernel's data: the mount by its directory and type, the loop device
//! by the file under it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use forebay_frontend::block_device::{DeviceHolder, DeviceHolders, LOOK_EVERY, LOOKS, holders};
use forebay_fuse::{FUSE_TYPE, is_dead};
use forebay_linux::{MountEntry, mounts};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::driver::{self, LoopAccess, LoopDevice};
use crate::volume_file::{directory, file_in};

/// A live server answers within this time.
const PATIENCE: Duration = Duration::from_secs(5);

/// Handling of leftovers that are still in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeftoverPolicy {
    /// Leaves everything unchanged and reports the users.
    Refuse,
    /// Detaches filesystems that are mounted from the device from the file tree (as `umount --lazy` does). Programs
    /// that use them get errors until they close their files.
    Detach,
}

/// The removed leftovers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RemovedLeftovers {
    /// Mount directories of the detached filesystems.
    pub detached: Vec<PathBuf>,
    /// Cleared loop devices.
    pub loops: Vec<PathBuf>,
    /// The removed FUSE mount.
    pub mount: Option<PathBuf>,
}

impl fmt::Display for RemovedLeftovers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RemovedLeftovers {
            detached,
            loops,
            mount,
        } = self;
        let kinds = [("filesystem at", detached), ("loop device", loops)];
        let named = kinds.into_iter().flat_map(|(kind, paths)| {
            let texts = paths.iter();
            texts.map(move |path| format!("{kind} {}", path.display()))
        });
        let mount = mount.iter();
        let mount = mount.map(|dir| format!("mount {}", dir.display()));
        f.write_str(&named.chain(mount).collect::<Vec<_>>().join(", "))
    }
}

/// An error of removing leftovers.
#[derive(Debug, thiserror::Error)]
pub enum CleanupError {
    /// They are not leftovers: a live server serves them.
    #[error("{} is being served by another process", dir.display())]
    Served {
        /// The mount directory.
        dir: PathBuf,
    },
    /// The server does not answer.
    #[error(
        "{0} is mounted and its server does not answer; end it, or cut it off with: umount --force {0}",
        dir.display()
    )]
    Hangs {
        /// The mount directory.
        dir: PathBuf,
    },
    /// A different filesystem is mounted at the directory.
    #[error("{} is a mount point of type {fstype}, not ours to remove", dir.display())]
    Foreign {
        /// The mount directory.
        dir: PathBuf,
        /// The type of the mounted filesystem.
        fstype: String,
    },
    /// The block device without a server is still in use.
    #[error("the stale block device {} is still in use: {holders}", device.display())]
    InUse {
        /// The block device.
        device: PathBuf,
        /// Its users.
        holders: DeviceHolders,
    },
    /// The system refused the operation.
    #[error("cannot remove {}: {source}", what.display())]
    Io {
        /// The affected path.
        what: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

fn io_error(what: &Path) -> impl Fn(io::Error) -> CleanupError {
    move |source| CleanupError::Io {
        what: what.to_owned(),
        source,
    }
}

/// Returns true if a server of the volume `name` made the block device `device` (`/dev/loop0`), even if this server has
/// ended.
pub fn is_of_volume(device: &Path, name: &str) -> bool {
    let device = device.file_name().and_then(|device| device.to_str());
    let device = device.filter(|device| device.starts_with("loop"));
    let file = device.and_then(driver::backing_file);
    // The runtime directory does not matter.
    file.is_some_and(|file| file.ends_with(file_in(&directory(Path::new(""), name))))
}

/// Removes the leftovers of a killed server of volume `name`: filesystems mounted from its loop device (only with
/// [`LeftoverPolicy::Detach`]), the loop device, the FUSE mount, and its directory.
///
/// May wait for the disk and for other servers, so a thread that serves must not call this.
///
/// # Errors
/// See [`CleanupError`]. Mounts and devices with a live server are not touched.
pub fn cleanup_stale(
    runtime_dir: &Path,
    name: &str,
    in_use: LeftoverPolicy,
) -> Result<RemovedLeftovers, CleanupError> {
    let dir = directory(runtime_dir, name);
    let file = file_in(&dir);
    let mut mounts = mounts().map_err(io_error(&dir))?;
    mounts.retain(|mount| mount.point == dir);
    for mount in &mounts {
        if mount.fstype != FUSE_TYPE {
            return Err(CleanupError::Foreign {
                dir,
                fstype: mount.fstype.clone(),
            });
        }
    }
    if !mounts.is_empty() {
        check_dead(&dir)?;
    }
    let mut cleaned = RemovedLeftovers::default();
    for device in driver::in_use().map_err(io_error(&dir))? {
        let is_ours = || is_over(&device, &file, &mounts);
        if is_ours() {
            clear(&device, is_ours, in_use, &mut cleaned)?;
        }
    }
    for _ in &mounts {
        unmount(&dir, in_use).map_err(io_error(&dir))?;
        cleaned.mount = Some(dir.clone());
    }
    match rustix::fs::rmdir(&dir) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(io_error(&dir)(error.into())),
    }
    Ok(cleaned)
}

/// Checks that the filesystem has no server, with a request that only a server can answer.
fn check_dead(dir: &Path) -> Result<(), CleanupError> {
    let (tell, told) = mpsc::channel();
    let asked = dir.to_owned();
    // If the server hangs, the calling thread hangs too, so use a separate thread.
    std::thread::Builder::new()
        .name("forebay-probe".into())
        .spawn(move || tell.send(is_dead(&asked)))
        .map_err(io_error(dir))?;
    let dir = dir.to_owned();
    match told.recv_timeout(PATIENCE) {
        Ok(true) => Ok(()),
        Ok(false) => Err(CleanupError::Served { dir }),
        Err(_) => Err(CleanupError::Hangs { dir }),
    }
}

/// Returns true if loop device `name` is over `file`, which may have been in one of `mounts`. After a lazy unmount the
/// kernel no longer has the file's whole path, but the name recorded in the loop device stays.
fn is_over(name: &str, file: &Path, mounts: &[MountEntry]) -> bool {
    let Some(path) = driver::backing_file(name) else {
        return false;
    };
    if path == file {
        return true;
    }
    // Do not even open the devices of other programs.
    if path.file_name() != file.file_name() {
        return false;
    }
    let status = LoopDevice::open(name, LoopAccess::Look).and_then(|dev| dev.status());
    let Ok(Some(status)) = status else {
        return false;
    };
    let (major, minor) = (
        rustix::fs::major(status.file_device),
        rustix::fs::minor(status.file_device),
    );
    let in_mount = mounts.iter().any(|mount| mount.device == (major, minor));
    in_mount || status.file_name == driver::file_name(file)
}

fn clear(
    name: &str,
    is_ours: impl Fn() -> bool,
    in_use: LeftoverPolicy,
    cleaned: &mut RemovedLeftovers,
) -> Result<(), CleanupError> {
    let device = driver::node(name);
    // A cleared loop device can be reused by any program under the same number. While the device is open here it keeps
    // its file, so all following checks and operations apply to the device that was found.
    let dev = LoopDevice::open(name, LoopAccess::Look).map_err(io_error(&device))?;
    if !is_ours() {
        return Ok(());
    }
    let mut users = match in_use {
        LeftoverPolicy::Refuse => lasting_users(name, |users| users.0.is_empty()),
        LeftoverPolicy::Detach => holders(name),
    };
    if in_use == LeftoverPolicy::Detach {
        for holder in users.0.iter().rev() {
            if let DeviceHolder::Mounted(at) = holder {
                let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
                rustix::mount::unmount(at, flags).map_err(|error| io_error(at)(error.into()))?;
                cleaned.detached.push(at.clone());
            }
        }
        users = holders(name);
    }
    // A process that has the failed device open is no obstacle to a lazy clear; other users are.
    let obstacle = !users.0.is_empty() && (in_use == LeftoverPolicy::Refuse || users.are_lasting());
    if obstacle {
        return Err(CleanupError::InUse {
            device,
            holders: users,
        });
    }
    dev.clear().map_err(io_error(&device))?;
    drop(dev);
    // The device is cleared when the processes that opened it meanwhile have closed it. Its later owner does not
    // matter.
    if in_use == LeftoverPolicy::Refuse {
        let users = lasting_users(name, |_| !is_ours());
        if is_ours() {
            return Err(CleanupError::InUse {
                holders: users,
                device,
            });
        }
    }
    cleaned.loops.push(device);
    Ok(())
}

/// Returns the users of a device. Looks again for a while, since processes that only probe the device close it soon,
/// until a lasting user is found or `is_enough` returns true.
fn lasting_users(name: &str, is_enough: impl Fn(&DeviceHolders) -> bool) -> DeviceHolders {
    for _ in 0..LOOKS {
        let users = holders(name);
        if is_enough(&users) || users.are_lasting() {
            return users;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    holders(name)
}

fn unmount(dir: &Path, in_use: LeftoverPolicy) -> io::Result<()> {
    let unmount = |flags| rustix::mount::unmount(dir, flags | UnmountFlags::NOFOLLOW);
    match unmount(UnmountFlags::empty()) {
        // A detached loop device may hold the file until its last user closes it.
        Err(Errno::BUSY) if in_use == LeftoverPolicy::Detach => unmount(UnmountFlags::DETACH)?,
        done => done?,
    }
    Ok(())
}
