//! `/dev/forebay/NAME`: the block device of a volume by a name that stays.
//!
//! `/dev/loopN` is whichever number was free, so that two volumes that are attached in another order have each other's
//! device. The daemon of a volume makes a symbolic link beside its device, and removes the link with the device.
//!
//! - A link that a killed daemon left is replaced by the next attach, or removed by `list` once its device is another's.
//!   Which link is in use is told by a lock (`.NAME` beside the link) that ends with the process.
//! - Anything that is not such a link is another's, and stays as it is: a file, a directory, a link to elsewhere.
//! - Only links in a directory that is this user's own, and that nobody else may write, are made and removed; and none
//!   is followed.
//! - udev does not make the link, and so does not take it away either, when an event of the device before comes late. Its
//!   rule (packaging/udev) tells systemd which device the link stands for, and asks this program ([`name_of`]).

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_program::dirs::Dirs;
use forebay_serve::blockdev::{VolumeMarks, is_of_volume};
use forebay_stack::Name;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::lock::{Held, LockFile};
use crate::waiting::number_of;

/// How often a lock is tried that `list` may have for a moment, and how long is waited in between.
const TRIES: usize = 20;
const TRY_EVERY: Duration = Duration::from_millis(10);

/// The link of a volume that is attached. It goes when this is dropped.
pub(crate) struct DeviceLink {
    place: Place,
    name: Name,
    device: PathBuf,
    _lock: LockFile,
    stays: bool,
}

/// The directory of links, opened.
struct Place {
    path: PathBuf,
    dir: OwnedFd,
}

/// What is in the place of a link.
enum There {
    Nothing,
    /// A link to a block device of a kind that we make.
    Link(PathBuf),
    /// Something else, in words.
    Foreign(&'static str),
}

impl DeviceLink {
    /// Makes the link of `name` to `device`, in place of one that is left over.
    ///
    /// # Errors
    /// Why there is no link, in one sentence. The device can be used without it.
    pub(crate) fn make(dirs: &Dirs, name: &Name, device: &Path) -> Result<DeviceLink, String> {
        let wanted = dirs.links().join(name.as_str());
        let cannot = |why: &dyn std::fmt::Display| {
            format!(
                "no link {}: {why}; use {}, a name that another device may have after the next attach",
                wanted.display(),
                device.display()
            )
        };
        let place = Place::make(dirs.links()).map_err(|why| cannot(&why))?;
        let lock = lock(&place, name).map_err(|why| cannot(&why))?;
        if let There::Foreign(what) = place.there(name) {
            return Err(cannot(&format_args!(
                "{what} of that name is there, which is not Forebay's: remove it, and attach again"
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

    /// The path of the link.
    pub(crate) fn path(&self) -> PathBuf {
        self.place.path.join(self.name.as_str())
    }

    /// True if the link leads to the device.
    pub(crate) fn is_there(&self) -> bool {
        matches!(self.place.there(&self.name), There::Link(to) if to == self.device)
    }

    /// Takes the link away, before its device goes.
    pub(crate) fn hide(&self) {
        if self.is_there() {
            self.place.remove(&self.name);
        }
    }

    /// Puts the link in its place, at once for whoever looks.
    ///
    /// # Errors
    /// What the system said.
    pub(crate) fn show(&self) -> io::Result<()> {
        if let There::Foreign(_) = self.place.there(&self.name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let (dir, new) = (&self.place.dir, format!(".{}~", self.name));
        // The lock is ours: whoever began one was killed.
        let _ = rustix::fs::unlinkat(dir, &new, AtFlags::empty());
        rustix::fs::symlinkat(&self.device, dir, &new)?;
        rustix::fs::renameat(dir, &new, dir, self.name.as_str())?;
        tell_udev(&self.device);
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

/// Takes the lock of the link of `name`, which `list` may have for a moment.
fn lock(place: &Place, name: &Name) -> Result<LockFile, String> {
    let path = place.path.join(format!(".{name}"));
    let mut holder = String::new();
    for _ in 0..TRIES {
        match LockFile::take(path.clone()) {
            Ok(Ok(lock)) => return Ok(lock),
            Ok(Err(Held { pid })) => holder = pid,
            Err(error) => return Err(format!("cannot lock {}: {error}", path.display())),
        }
        std::thread::sleep(TRY_EVERY);
    }
    Err(format!(
        "another volume of that name, of process {holder}, has it"
    ))
}

impl Place {
    /// Opens the directory, made if it is missing.
    fn make(path: &Path) -> Result<Place, String> {
        match fs::DirBuilder::new().mode(0o755).create(path) {
            // Whatever the mask of this process is, others may follow links.
            Ok(()) => open_up(path).map_err(|error| cannot("open", path, &error))?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(cannot("make", path, &error)),
        }
        Place::open(path)
    }

    /// Opens the directory, if it is this user's alone.
    fn open(path: &Path) -> Result<Place, String> {
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
                "{} belongs to user {} with mode {:o}, and must be user {me}'s and writable to nobody else",
                path.display(),
                metadata.uid(),
                metadata.mode() & 0o777
            ));
        }
        Ok(Place {
            path: path.to_owned(),
            dir: dir.into(),
        })
    }

    fn there(&self, name: &Name) -> There {
        match rustix::fs::readlinkat(&self.dir, name.as_str(), Vec::new()) {
            Ok(target) => {
                let target = PathBuf::from(std::ffi::OsStr::from_bytes(target.as_bytes()));
                match is_device(&target) {
                    true => There::Link(target),
                    false => There::Foreign("a link to elsewhere"),
                }
            }
            Err(Errno::NOENT) => There::Nothing,
            Err(_) => There::Foreign("something else"),
        }
    }

    fn remove(&self, name: &Name) {
        let removed = rustix::fs::unlinkat(&self.dir, name.as_str(), AtFlags::empty());
        if let Err(error) = removed {
            tracing::warn!(%error, link = %self.path.join(name.as_str()).display(), "cannot remove a link");
        }
    }
}

/// Has udev look at the device again: its rule finds the link now, or no longer. Without udev nobody has to be told.
fn tell_udev(device: &Path) {
    let runs = Path::new("/run/udev/control").exists();
    if let Some(name) = kernel_name(device).filter(|_| runs) {
        let event = Path::new("/sys/class/block").join(name).join("uevent");
        if let Err(error) = fs::write(&event, "change") {
            tracing::warn!(%error, event = %event.display(), "cannot tell udev of the link");
        }
    }
}

/// True if the device is the volume's; `id` is that of the volume, if it is known.
fn is_its_own(device: &Path, name: &Name, id: Option<&str>) -> bool {
    is_of_volume(
        device,
        &VolumeMarks {
            name: name.as_str(),
            id,
            number: id.map(number_of),
        },
    )
}

fn open_up(path: &Path) -> io::Result<()> {
    let mode = Mode::from_raw_mode(0o755);
    Ok(rustix::fs::chmodat(CWD, path, mode, AtFlags::empty())?)
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> String {
    format!("cannot {what} {}: {error}", path.display())
}

/// True of `/dev/loopN`, `/dev/ublkbN` and `/dev/nbdN`.
fn is_device(target: &Path) -> bool {
    let Some(name) = kernel_name(target) else {
        return false;
    };
    ["loop", "ublkb", "nbd"].iter().any(|kind| {
        let number = name.strip_prefix(kind);
        number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    })
}

/// `loop0` of `/dev/loop0`.
fn kernel_name(device: &Path) -> Option<&str> {
    let name = device.file_name()?.to_str()?;
    (device.parent() == Some(Path::new("/dev"))).then_some(name)
}

/// The id of a volume, if it is described.
fn id_of(dirs: &Dirs, name: &Name) -> Option<String> {
    dirs.description(name).ok()?.volume
}

/// Removes the links of daemons that were killed, if their devices are not those of their volumes any more.
pub(crate) fn remove_stale(dirs: &Dirs) {
    // Where this user may not make links, none are left over.
    let Ok(place) = Place::open(dirs.links()) else {
        return;
    };
    for name in names(&place.path) {
        let There::Link(device) = place.there(&name) else {
            continue;
        };
        if is_its_own(&device, &name, id_of(dirs, &name).as_deref()) {
            continue;
        }
        // Held by a daemon that lives.
        let path = place.path.join(format!(".{name}"));
        let Ok(Ok(_lock)) = LockFile::take(path) else {
            continue;
        };
        if matches!(place.there(&name), There::Link(now) if now == device) {
            place.remove(&name);
        }
    }
}

/// The link of `name`, if it leads to `device`.
pub(crate) fn of(dirs: &Dirs, name: &Name, device: &Path) -> Option<PathBuf> {
    let link = dirs.links().join(name.as_str());
    let leads_there = fs::read_link(&link).is_ok_and(|to| to == device);
    leads_there.then_some(link)
}

/// The name of the volume that has `device` (`/dev/loop0`, or `loop0`) by its link, for udev.
pub(crate) fn name_of(dirs: &Dirs, device: &Path) -> Option<Name> {
    let device = Path::new("/dev").join(device.file_name()?);
    let place = Place::open(dirs.links()).ok()?;
    let links_there = |name: &Name| matches!(place.there(name), There::Link(to) if to == device);
    let name = names(&place.path).into_iter().find(links_there)?;
    is_its_own(&device, &name, id_of(dirs, &name).as_deref()).then_some(name)
}

fn names(dir: &Path) -> Vec<Name> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    // Locks begin with a dot, and so may a name.
    let names = names.filter(|name| !name.starts_with('.'));
    names.filter_map(|name| name.parse().ok()).collect()
}
