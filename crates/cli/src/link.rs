//! `/dev/forebay/NAME`: a stable name for the block device of a volume.
//!
//! `/dev/loopN` has whichever number was free: two volumes that are attached in another order swap their device names.
//! The daemon of a volume makes a symbolic link to its device, and removes the link together with the device.
//!
//! - A link left by a killed daemon is replaced by the next attach. `list` removes it once its device belongs to
//!   something else. A lock (`.NAME` beside the link), which ends with the process, shows that a link is in use.
//! - Anything else in the place of a link stays as it is: a file, a directory, or a link to elsewhere.
//! - Links are made and removed only in a directory that this user owns and no other user may write. No link is
//!   followed.
//! - udev does not make the link. Otherwise a late event of the previous device could remove the link. The rule in
//!   packaging/udev tells systemd which device the link stands for, and asks this program ([`name_of`]).

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::dirs::ProgramDirs;
use forebay_volume::VolumeName;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::lock::{LockFile, LockHolder};
use crate::waiting::number_of;

/// Attempts to take a lock that `list` may hold for a moment, and the interval between attempts.
const TRIES: usize = 20;
const TRY_EVERY: Duration = Duration::from_millis(10);

/// The link of an attached volume. Dropping this value removes the link.
pub(crate) struct DeviceLink {
    place: LinkDir,
    name: VolumeName,
    device: PathBuf,
    _lock: LockFile,
    stays: bool,
}

/// The directory of links, opened.
struct LinkDir {
    path: PathBuf,
    dir: OwnedFd,
}

/// The present entry in the place of a link.
enum LinkEntry {
    Nothing,
    /// A link to a block device of a kind that Forebay makes.
    Link(PathBuf),
    /// Something else, described as text.
    Foreign(&'static str),
}

impl DeviceLink {
    /// Makes the link of `name` to `device`, and replaces a stale link.
    ///
    /// # Errors
    /// The reason why the link is missing, in one sentence. The device can be used without it.
    pub(crate) fn make(
        dirs: &ProgramDirs,
        name: &VolumeName,
        device: &Path,
    ) -> Result<DeviceLink, String> {
        let wanted = dirs.links().join(name.as_str());
        let cannot = |why: &dyn std::fmt::Display| {
            format!(
                "no link {}: {why}; use {}, a name that another device may have after the next attach",
                wanted.display(),
                device.display()
            )
        };
        let place = LinkDir::make(dirs.links()).map_err(|why| cannot(&why))?;
        let lock = lock(&place, name).map_err(|why| cannot(&why))?;
        if let LinkEntry::Foreign(what) = place.there(name) {
            return Err(cannot(&format_args!(
                "{what} of that name exists, which is not Forebay's: remove it, and attach again"
            )));
        }
        let link = DeviceLink {
            place,
            name: name.clone(),
            device: device.to_owned(),
            _lock: lock,
            stays: false,
        };
        link.show().map_err(|error| cannot(&error))?;
        Ok(link)
    }

    /// Returns the path of the link.
    pub(crate) fn path(&self) -> PathBuf {
        self.place.path.join(self.name.as_str())
    }

    /// Returns true if the link leads to the device.
    pub(crate) fn is_there(&self) -> bool {
        matches!(self.place.there(&self.name), LinkEntry::Link(to) if to == self.device)
    }

    /// Removes the link before its device disappears.
    pub(crate) fn hide(&self) {
        if self.is_there() {
            self.place.remove(&self.name);
        }
    }

    /// Puts the link in its place, atomically for concurrent readers.
    ///
    /// # Errors
    /// The error of the system call.
    pub(crate) fn show(&self) -> io::Result<()> {
        if let LinkEntry::Foreign(_) = self.place.there(&self.name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let (dir, new) = (&self.place.dir, format!(".{}~", self.name));
        // We hold the lock, so a temporary link is left from a killed process.
        let _ = rustix::fs::unlinkat(dir, &new, AtFlags::empty());
        rustix::fs::symlinkat(&self.device, dir, &new)?;
        rustix::fs::renameat(dir, &new, dir, self.name.as_str())?;
        notify_udev(&self.device);
        Ok(())
    }

    /// Leaves the link to the next daemon, together with the device.
    pub(crate) fn leave(&mut self) {
        self.stays = true;
    }
}

impl Drop for DeviceLink {
    fn drop(&mut self) {
        if !self.stays {
            self.hide();
        }
    }
}

/// Takes the lock of the link of `name`, which `list` may hold for a moment.
fn lock(place: &LinkDir, name: &VolumeName) -> Result<LockFile, String> {
    let path = place.path.join(format!(".{name}"));
    let mut holder = String::new();
    for _ in 0..TRIES {
        match LockFile::take(path.clone()) {
            Ok(Ok(lock)) => return Ok(lock),
            Ok(Err(LockHolder { pid })) => holder = pid,
            Err(error) => return Err(format!("cannot lock {}: {error}", path.display())),
        }
        std::thread::sleep(TRY_EVERY);
    }
    Err(format!(
        "process {holder} holds it, for another volume of that name"
    ))
}

impl LinkDir {
    /// Opens the directory; creates it if it is missing.
    fn make(path: &Path) -> Result<LinkDir, String> {
        match fs::DirBuilder::new().mode(0o755).create(path) {
            // Other users may follow links, whatever the umask of this process is.
            Ok(()) => open_up(path).map_err(|error| cannot("open", path, &error))?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(cannot("make", path, &error)),
        }
        LinkDir::open(path)
    }

    /// Opens the directory if this user owns it and no other user may write to it.
    fn open(path: &Path) -> Result<LinkDir, String> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let dir = File::options()
            .read(true)
            .custom_flags(flags.bits().cast_signed())
            .open(path);
        let dir = dir.map_err(|error| cannot("open", path, &error))?;
        let metadata = dir.metadata();
        let metadata = metadata.map_err(|error| cannot("look at", path, &error))?;
        let me = rustix::process::geteuid().as_raw();
        if metadata.uid() != me || metadata.mode() & 0o022 != 0 {
            return Err(format!(
                "{} belongs to user {} with mode {:o}, and must belong to user {me} and be writable by no other user",
                path.display(),
                metadata.uid(),
                metadata.mode() & 0o777
            ));
        }
        Ok(LinkDir {
            path: path.to_owned(),
            dir: dir.into(),
        })
    }

    fn there(&self, name: &VolumeName) -> LinkEntry {
        match rustix::fs::readlinkat(&self.dir, name.as_str(), Vec::new()) {
            Ok(target) => {
                let target = PathBuf::from(std::ffi::OsStr::from_bytes(target.as_bytes()));
                if is_device(&target) {
                    LinkEntry::Link(target)
                } else {
                    LinkEntry::Foreign("a link to elsewhere")
                }
            }
            Err(Errno::NOENT) => LinkEntry::Nothing,
            Err(_) => LinkEntry::Foreign("something else"),
        }
    }

    fn remove(&self, name: &VolumeName) {
        let removed = rustix::fs::unlinkat(&self.dir, name.as_str(), AtFlags::empty());
        if let Err(error) = removed {
            tracing::warn!(%error, link = %self.path.join(name.as_str()).display(), "cannot remove a link");
        }
    }
}

/// Makes udev examine the device again: the link has appeared or disappeared. Does nothing on a system without udev.
fn notify_udev(device: &Path) {
    let runs = Path::new("/run/udev/control").exists();
    if let Some(name) = kernel_name(device).filter(|_| runs) {
        let event = Path::new("/sys/class/block").join(name).join("uevent");
        if let Err(error) = fs::write(&event, "change") {
            tracing::warn!(%error, event = %event.display(), "cannot notify udev of the link");
        }
    }
}

/// Returns true if the device belongs to the volume; `id` is the volume's id, if it is known.
fn is_its_own(device: &Path, name: &VolumeName, id: Option<&str>) -> bool {
    forebay_loopdev::is_of_volume(device, name.as_str())
        || forebay_nbd::is_of_volume(device, id)
        || forebay_ublk::is_of_volume(device, id.map(number_of))
}

fn open_up(path: &Path) -> io::Result<()> {
    let mode = Mode::from_raw_mode(0o755);
    Ok(rustix::fs::chmodat(CWD, path, mode, AtFlags::empty())?)
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> String {
    format!("cannot {what} {}: {error}", path.display())
}

/// Returns true for `/dev/loopN`, `/dev/ublkbN` and `/dev/nbdN`.
fn is_device(target: &Path) -> bool {
    let Some(name) = kernel_name(target) else {
        return false;
    };
    ["loop", "ublkb", "nbd"].iter().any(|kind| {
        let number = name.strip_prefix(kind);
        number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    })
}

/// Returns `loop0` for `/dev/loop0`.
fn kernel_name(device: &Path) -> Option<&str> {
    let name = device.file_name()?.to_str()?;
    (device.parent() == Some(Path::new("/dev"))).then_some(name)
}

/// Returns the id of the volume from its configuration file, if present.
fn id_of(dirs: &ProgramDirs, name: &VolumeName) -> Option<String> {
    dirs.description(name).ok()?.volume
}

/// Removes the links of killed daemons whose devices no longer belong to their volumes.
pub(crate) fn remove_stale(dirs: &ProgramDirs) {
    // In a directory where this user may not make links, no link of this user can be stale.
    let Ok(place) = LinkDir::open(dirs.links()) else {
        return;
    };
    for name in names(&place.path) {
        let LinkEntry::Link(device) = place.there(&name) else {
            continue;
        };
        if is_its_own(&device, &name, id_of(dirs, &name).as_deref()) {
            continue;
        }
        // A running daemon holds this lock.
        let path = place.path.join(format!(".{name}"));
        let Ok(Ok(_lock)) = LockFile::take(path) else {
            continue;
        };
        if matches!(place.there(&name), LinkEntry::Link(now) if now == device) {
            place.remove(&name);
        }
    }
}

/// Returns the link of `name` if it leads to `device`.
pub(crate) fn of(dirs: &ProgramDirs, name: &VolumeName, device: &Path) -> Option<PathBuf> {
    let link = dirs.links().join(name.as_str());
    let leads_there = fs::read_link(&link).is_ok_and(|to| to == device);
    leads_there.then_some(link)
}

/// Returns the name of the volume that has `device` (`/dev/loop0`, or `loop0`) by its link, for udev.
pub(crate) fn name_of(dirs: &ProgramDirs, device: &Path) -> Option<VolumeName> {
    let device = Path::new("/dev").join(device.file_name()?);
    let place = LinkDir::open(dirs.links()).ok()?;
    let links_there =
        |name: &VolumeName| matches!(place.there(name), LinkEntry::Link(to) if to == device);
    let name = names(&place.path).into_iter().find(links_there)?;
    is_its_own(&device, &name, id_of(dirs, &name).as_deref()).then_some(name)
}

fn names(dir: &Path) -> Vec<VolumeName> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    // The lock files begin with a dot. A volume name may begin with a dot too, and is skipped.
    let names = names.filter(|name| !name.starts_with('.'));
    names.filter_map(|name| name.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_devices_do_not_belong_to_a_volume() {
        let name: VolumeName = "v".parse().unwrap();
        for device in [
            "/dev/loop4000",
            "/dev/nbd4000",
            "/dev/ublkb4000",
            "/dev/sda",
            "/",
        ] {
            assert!(!is_its_own(device.as_ref(), &name, None), "{device}");
        }
    }
}
