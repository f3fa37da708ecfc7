//! Mounts a filesystem.

use std::fmt::Display;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use forebay_mount::{AccessTimes, Did, Files, Medium, Observer, Settings};
use forebay_os::{FUSE_TYPE, isolated};
use forebay_program::client::{Absent, Client};
use forebay_program::dirs::{Dirs, mount_point};
use forebay_program::failure::{Failure, Outcome};
use forebay_serve::fuse::{Mount, Mounted, UnmountError};
use forebay_stack::{Asked, Counted, Kind, MountOptions, Name, Options};
use rustix::io::Errno;
use rustix::mount::MountFlags;

use super::place::medium;
use super::{MountWish, Place};
use crate::target::Target;

/// The directory and options for mounting a filesystem.
#[derive(Clone)]
pub(super) struct MountPlan {
    dir: PathBuf,
    options: MountOptions,
    /// The device or file that holds the filesystem.
    medium: Option<Medium>,
}

/// Returns the plan for mounting the target if it is a filesystem.
///
/// # Errors
/// If a filesystem should become a block device, or the reverse; if the directory is not given, or is not a directory.
pub(super) fn wanted(
    target: &Target,
    wish: Option<MountWish>,
    options: &Options,
) -> Outcome<Option<MountPlan>> {
    let name = &target.name;
    let wish = match (target.tree.kind(), wish) {
        (Kind::Files, Some(wish)) => wish,
        (Kind::Files, None) => {
            return Err(Failure::usage(format!(
                "{name} is a filesystem and no block device: mount it with: forebay mount {name} DIR"
            )));
        }
        (_, Some(_)) => {
            return Err(Failure::usage(format!(
                "{name} is a block device and no filesystem: attach it with `forebay attach {name}`, and mount what is \
                 on it"
            )));
        }
        (_, None) => return Ok(None),
    };
    let described = options.mount.as_ref().map(|dir| dir.0.clone());
    let dir = wish.dir.or(described).ok_or_else(|| {
        Failure::usage(format!(
            "say where to mount {name}: forebay mount {name} DIR, or `mount = \"DIR\"` in its description"
        ))
    })?;
    let dir = mount_point(&dir);
    can_be_mounted_on(name, &dir)?;
    let options = wish.options.or(options.mount_options).unwrap_or_default();
    let medium = medium(target.own());
    Ok(Some(MountPlan {
        dir,
        options,
        medium,
    }))
}

/// Returns true if the daemon of a filesystem may still have it mounted. The daemon runs for a moment after `umount`.
pub(super) fn is_mounted(dirs: &Dirs, name: &Name) -> bool {
    let status = match Client::try_connect(dirs, name).map(|mut client| client.status()) {
        // The daemon no longer listens, or exited during the request.
        Err(Absent::NotAttached | Absent::Dead) | Ok(Err(_)) => return false,
        Ok(Ok(status)) => status,
        Err(Absent::Failed(_)) => return true,
    };
    if !status.service.is_filesystem() {
        return true;
    }
    let Some(dir) = status.service.mounted else {
        return false;
    };
    let is_it = |mount: &forebay_os::Mount| {
        let is_of = mount.fstype == FUSE_TYPE && mount.source == Path::new(name.as_str());
        is_of && mount.point == Path::new(&dir)
    };
    forebay_os::mounts().map_or(true, |all| all.iter().any(is_it))
}

/// Checks the directory before anything is recovered.
fn can_be_mounted_on(name: &Name, dir: &Path) -> Outcome {
    let cannot = |why: &dyn Display| format!("cannot mount {name} at {}: {why}", dir.display());
    match std::fs::metadata(dir) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(Failure::usage(cannot(&"it is no directory"))),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(Failure::not_found(cannot(
            &"there is no such directory; make it",
        ))),
        // Left by a killed daemon.
        Err(error) if error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()) => Ok(()),
        Err(error) => Err(Failure::io(cannot(&error))),
    }
}

/// Returns the mount flags for the kernel.
pub(crate) fn mount_flags(options: &MountOptions) -> MountFlags {
    let mut flags = MountFlags::empty();
    for (said, flag) in [
        (options.read_only, MountFlags::RDONLY),
        (options.no_suid, MountFlags::NOSUID),
        (options.no_dev, MountFlags::NODEV),
        (options.no_exec, MountFlags::NOEXEC),
        (
            options.access_times == AccessTimes::Never,
            MountFlags::NOATIME,
        ),
        (
            options.access_times == AccessTimes::Always,
            MountFlags::STRICTATIME,
        ),
        (options.no_dir_atime, MountFlags::NODIRATIME),
        (options.sync, MountFlags::SYNCHRONOUS),
        (options.dir_sync, MountFlags::DIRSYNC),
    ] {
        flags.set(flag, said);
    }
    flags
}

/// A mounted filesystem.
pub(super) struct MountFront {
    mounted: Mounted,
}

impl MountFront {
    /// Mounts the filesystem. First removes a stale mount of the same filesystem in the same place, left by a killed
    /// daemon.
    ///
    /// # Errors
    /// If the filesystem cannot be mounted there.
    pub(super) async fn start(place: Place<'_>, plan: &MountPlan) -> Outcome<(MountFront, bool)> {
        let (fs, counted) = place.volume.files().expect("a filesystem");
        let name = place.name.as_str();
        let is_root = rustix::process::geteuid().is_root();
        let mut mount = Mount::at(plan.dir.clone(), name);
        mount.flags = mount_flags(&plan.options);
        mount.for_all = plan.options.for_all.unwrap_or(is_root);
        let dead = mount.clone();
        let looked = isolated(move || dead.clear_dead());
        let cannot = |error: std::io::Error| {
            let at = plan.dir.display();
            Failure::io(format!("cannot mount {name} at {at}: {error}"))
        };
        let cleared = looked.await.and_then(|done| done).map_err(cannot)?;
        let (access_times, directory_access_times) = plan.options.noted();
        let settings = Settings {
            access_times,
            directory_access_times,
            sync: plan.options.sync,
            parallel_direct: plan.options.parallel_direct,
            sync_names: plan.options.sync || plan.options.dir_sync,
            observer: Some(Rc::new(Watching(counted))),
            medium: plan.medium.clone(),
        };
        let files = Rc::new(Files::new(fs, settings));
        let mounted = Mounted::new(place.rt, place.ring, files, place.memory, mount);
        let mounted = mounted.map_err(cannot)?;
        place
            .dirs
            .note_mount(place.name, &plan.dir.display().to_string());
        Ok((MountFront { mounted }, cleared))
    }

    /// Returns the directory where the filesystem is mounted.
    pub(super) fn dir(&self) -> String {
        self.mounted.dir().display().to_string()
    }

    /// Returns true if requests come through io_uring.
    pub(super) fn is_by_ring(&self) -> bool {
        self.mounted.is_by_ring()
    }

    /// Returns false once the filesystem is no longer mounted there, even if files in it are still open.
    pub(super) fn is_there(&self) -> bool {
        self.mounted.is_there()
    }

    /// Returns a handle that waits until the filesystem is no longer mounted.
    pub(super) fn over(&self) -> forebay_serve::fuse::Over {
        self.mounted.over()
    }

    /// Unmounts the filesystem unless it is in use.
    ///
    /// # Errors
    /// If the filesystem is in use, or the system refuses.
    pub(super) async fn stop(&mut self) -> Outcome {
        self.mounted.unmount().await.map_err(|error| match error {
            UnmountError::Busy { dir } => Failure::refused(format!(
                "{} is in use: a file there is open, or is somebody's working directory",
                dir.display()
            )),
            UnmountError::StillUsed { dir } => Failure::refused(format!(
                "{} is unmounted already, and still in use: a file there is open, or is somebody's working directory; \
                 it is let go of with the last of them",
                dir.display()
            )),
            error @ UnmountError::Io { .. } => Failure::io(error),
        })
    }
}

/// Counts the requests to a filesystem.
struct Watching(Rc<Counted>);

impl Observer for Watching {
    fn did(&self, what: Did, bytes: u64, took: Duration) {
        let asked = match what {
            Did::Read => Asked::Read,
            Did::Write => Asked::Write,
            Did::Sync => Asked::Sync,
            Did::Change => Asked::Change,
            Did::Look => Asked::Look,
        };
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.0.did(asked, bytes, ns);
    }

    fn failed(&self, is_full: bool) {
        self.0.failed(is_full);
    }
}
