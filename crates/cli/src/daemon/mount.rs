//! Mounts a filesystem.

use std::fmt::Display;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use crate::client;
use crate::dirs::{ProgramDirs, mount_point};
use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_control::ConnectError;
use forebay_fuse::{FUSE_TYPE, FuseMount, ServedMount, UnmountError};
use forebay_linux::isolated;
use forebay_mount::{
    AccessTimes, FilesystemBacking, MountSettings, MountedFiles, RequestClass, RequestObserver,
};
use forebay_volume::{
    FilesystemCounters, MOUNT, MOUNT_OPTIONS, MountOptions, OptionValues, ServedAs, VolumeName,
};
use rustix::io::Errno;
use rustix::mount::MountFlags;

use super::place::medium;
use super::{FrontEndContext, MountRequest};
use crate::target::VolumeTarget;

/// The directory and options for mounting a filesystem.
#[derive(Clone)]
pub(super) struct MountPlan {
    dir: PathBuf,
    options: MountOptions,
    /// The device or file that holds the filesystem.
    medium: Option<FilesystemBacking>,
}

/// Returns the plan for mounting the target if it is a filesystem.
///
/// # Errors
/// If a filesystem should become a block device, or the reverse; if the directory is not given, or is not a directory.
pub(super) fn wanted(
    target: &VolumeTarget,
    wish: Option<MountRequest>,
    options: &OptionValues,
) -> CommandResult<Option<MountPlan>> {
    let name = &target.name;
    let wish = match (target.tree.kind().served_as, wish) {
        (ServedAs::Files, Some(wish)) => wish,
        (ServedAs::Files, None) => {
            return Err(CommandFailure::usage(format!(
                "{name} is a filesystem, not a block device: mount it with: forebay mount {name} DIR"
            )));
        }
        (ServedAs::BlockDevice, Some(_)) => {
            return Err(CommandFailure::usage(format!(
                "{name} is a block device, not a filesystem: attach it with `forebay attach {name}`, and mount the \
                 filesystem on it"
            )));
        }
        (ServedAs::BlockDevice, None) => return Ok(None),
    };
    let described = options.get(&MOUNT).map(|dir| dir.0);
    let dir = wish.dir.or(described).ok_or_else(|| {
        CommandFailure::usage(format!(
            "no mount directory for {name}: give one with forebay mount {name} DIR, or `mount = \"DIR\"` in its \
             configuration file"
        ))
    })?;
    let dir = mount_point(&dir);
    can_be_mounted_on(name, &dir)?;
    let options = wish.options.or(options.get(&MOUNT_OPTIONS));
    let options = options.unwrap_or_default();
    let medium = medium(target.own());
    Ok(Some(MountPlan {
        dir,
        options,
        medium,
    }))
}

/// Returns true if the daemon of a filesystem may still have it mounted. The daemon runs for a moment after `umount`.
pub(super) fn is_mounted(dirs: &ProgramDirs, name: &VolumeName) -> bool {
    let status = match client::try_connect(dirs, name).map(|mut client| client.status()) {
        // The daemon no longer listens, or exited during the request.
        Err(ConnectError::NotAttached | ConnectError::Dead) | Ok(Err(_)) => return false,
        Ok(Ok(status)) => status,
        Err(ConnectError::Failed(_)) => return true,
    };
    if !status.service.is_filesystem() {
        return true;
    }
    let Some(dir) = status.service.mounted else {
        return false;
    };
    let is_it = |mount: &forebay_linux::MountEntry| {
        let is_of = mount.fstype == FUSE_TYPE && mount.source == Path::new(name.as_str());
        is_of && mount.point == Path::new(&dir)
    };
    forebay_linux::mounts().map_or(true, |all| all.iter().any(is_it))
}

/// Checks the directory before anything is recovered.
fn can_be_mounted_on(name: &VolumeName, dir: &Path) -> CommandResult {
    let cannot = |why: &dyn Display| format!("cannot mount {name} at {}: {why}", dir.display());
    match std::fs::metadata(dir) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(CommandFailure::usage(cannot(&"it is not a directory"))),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(CommandFailure::not_found(
            cannot(&"the directory does not exist; make it"),
        )),
        // Left by a killed daemon.
        Err(error) if error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()) => Ok(()),
        Err(error) => Err(CommandFailure::io(cannot(&error))),
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
    mounted: ServedMount,
}

impl MountFront {
    /// Mounts the filesystem. First removes a stale mount of the same filesystem in the same place, left by a killed
    /// daemon.
    ///
    /// # Errors
    /// If the filesystem cannot be mounted there.
    pub(super) async fn start(
        place: FrontEndContext<'_>,
        plan: &MountPlan,
    ) -> CommandResult<(MountFront, bool)> {
        let (fs, counted) = place.volume.files().expect("a filesystem");
        let name = place.name.as_str();
        let is_root = rustix::process::geteuid().is_root();
        let mut mount = FuseMount::at(plan.dir.clone(), name);
        mount.flags = mount_flags(&plan.options);
        mount.for_all = plan.options.for_all.unwrap_or(is_root);
        let dead = mount.clone();
        let looked = isolated(move || dead.clear_dead());
        let cannot = |error: std::io::Error| {
            let at = plan.dir.display();
            CommandFailure::io(format!("cannot mount {name} at {at}: {error}"))
        };
        let cleared = looked.await.and_then(|done| done).map_err(cannot)?;
        let (access_times, directory_access_times) = plan.options.noted();
        let settings = MountSettings {
            access_times,
            directory_access_times,
            sync: plan.options.sync,
            parallel_direct: plan.options.parallel_direct,
            sync_names: plan.options.sync || plan.options.dir_sync,
            observer: Some(Rc::new(CountingObserver(counted))),
            medium: plan.medium.clone(),
            freeze: Some(place.freeze.clone()),
        };
        let files = Rc::new(MountedFiles::new(fs, settings));
        let mounted = ServedMount::new(place.rt, place.ring, files, place.memory, mount);
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
    pub(super) fn over(&self) -> forebay_fuse::SessionEndEvent {
        self.mounted.over()
    }

    /// Unmounts the filesystem unless it is in use.
    ///
    /// # Errors
    /// If the filesystem is in use, or the system refuses.
    pub(super) async fn stop(&mut self) -> CommandResult {
        self.mounted.unmount().await.map_err(|error| match error {
            UnmountError::Busy { dir } => CommandFailure::refused(format!(
                "{} is in use: a process has a file open there, or its working directory",
                dir.display()
            )),
            UnmountError::StillUsed { dir } => CommandFailure::refused(format!(
                "{} is unmounted already, but still in use: a process has a file open there, or its working \
                 directory; the filesystem is released when the last such process closes it",
                dir.display()
            )),
            error @ UnmountError::Io { .. } => CommandFailure::io(error),
        })
    }
}

/// Counts the requests to a filesystem.
struct CountingObserver(Rc<FilesystemCounters>);

impl RequestObserver for CountingObserver {
    fn record(&self, what: RequestClass, bytes: u64, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.0.record(what, bytes, ns);
    }

    fn failed(&self, is_full: bool) {
        self.0.failed(is_full);
    }
}
