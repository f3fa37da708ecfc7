//! The directories of configuration files, and of the files of attached volumes.
//!
//! The runtime directory contains, for a volume `NAME`:
//!
//! - `NAME.sock`: the control socket.
//! - `NAME.nbd.sock`: the socket of the NBD server.
//! - `NAME.lock`: a lock held by the only process that may attach or change the volume. The file exists only while the
//!   lock is held, or after its holder was killed.
//! - `NAME.log`: the log of the daemon.
//! - `NAME.fuse`: the mount directory of a loop device's file.
//! - `NAME.nbd`: the name of the volume's nbd device.
//! - `NAME.mounted`: the path of the directory where a filesystem is mounted.
//!
//! Beside it, `forebay-status` contains `NAME.sock`: a socket that answers only requests for the status, for members of
//! a group; see `daemon/status_socket.rs`.
//!
//! In the directory of links, `/dev/forebay`, `NAME` is a symbolic link to the block device; see
//! `link.rs`.
//!
//! The state directory, which survives a reboot, has a file for each log that failed and was abandoned (`witness.rs`),
//! and the results of scrubs (`scrub_record.rs`).

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use forebay_command_output::failure::{CommandFailure, CommandResult, FailureCode};
use forebay_control::process_state;
use forebay_volume::{ConfigFile, DeviceSpec, VolumeName, with_log};

use crate::runtime_dir;

/// Maximum length of a unix socket's path, in bytes.
const SOCKET_PATH_MAX: usize = 107;

/// Suffix of the file that contains a filesystem's mount directory.
const MOUNTED: &str = "mounted";
/// The default directory of the status sockets of root's volumes.
const SHARED_STATUS: &str = "/run/forebay-status";
/// The default directory of links to block devices.
const LINKS: &str = "/dev/forebay";

/// The directories.
#[derive(Clone, Debug)]
pub(crate) struct ProgramDirs {
    config: PathBuf,
    runtime: PathBuf,
    /// Sockets that only show the status of the system's volumes.
    shared_status: PathBuf,
    links: PathBuf,
    /// `None` if the environment does not determine it. Only a few commands need it.
    state: Option<PathBuf>,
}

fn from_env(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

impl ProgramDirs {
    /// Returns the directories that the environment selects.
    pub(crate) fn new() -> CommandResult<ProgramDirs> {
        let root = rustix::process::geteuid().is_root();
        let config = from_env("FOREBAY_CONFIG_DIR").map(PathBuf::from);
        let runtime = from_env("FOREBAY_RUNTIME_DIR").map(PathBuf::from);
        let under = |name: &str| Some(PathBuf::from(from_env(name)?).join("forebay"));
        let config = match config {
            Some(dir) => Some(dir),
            None if root => Some("/etc/forebay".into()),
            None => under("XDG_CONFIG_HOME")
                .or_else(|| Some(PathBuf::from(from_env("HOME")?).join(".config/forebay"))),
        };
        let runtime = match runtime {
            Some(dir) => dir,
            None if root => "/run/forebay".into(),
            None => match under("XDG_RUNTIME_DIR") {
                Some(dir) => dir,
                None => runtime_dir::fallback(rustix::process::geteuid().as_raw())?,
            },
        };
        let shared_status = match from_env("FOREBAY_RUNTIME_DIR") {
            Some(dir) => with_suffix(dir.into(), "-status"),
            None => SHARED_STATUS.into(),
        };
        let state = match from_env("FOREBAY_STATE_DIR").map(PathBuf::from) {
            Some(dir) => Some(dir),
            None if root => Some("/var/lib/forebay".into()),
            None => under("XDG_STATE_HOME")
                .or_else(|| Some(PathBuf::from(from_env("HOME")?).join(".local/state/forebay"))),
        };
        let links = from_env("FOREBAY_DEV_DIR").unwrap_or_else(|| LINKS.into());
        // The daemon changes its working directory.
        let absolute = |dir: PathBuf| std::path::absolute(&dir).unwrap_or(dir);
        Ok(ProgramDirs {
            config: config
                .map(absolute)
                .ok_or_else(|| unset("HOME", "FOREBAY_CONFIG_DIR"))?,
            runtime: absolute(runtime),
            shared_status: absolute(shared_status),
            links: absolute(links.into()),
            state: state.map(absolute),
        })
    }

    /// Returns the directory of the links to block devices, which may not exist.
    pub(crate) fn links(&self) -> &Path {
        &self.links
    }

    /// Returns the state directory, which may not exist.
    pub(crate) fn state(&self) -> CommandResult<&Path> {
        let state = self.state.as_deref();
        state.ok_or_else(|| unset("HOME", "FOREBAY_STATE_DIR"))
    }

    /// Returns the runtime directory; creates it if it is missing.
    pub(crate) fn make_runtime(&self) -> CommandResult<&Path> {
        make(&self.runtime, 0o700)?;
        Ok(&self.runtime)
    }

    fn runtime_file(&self, name: &VolumeName, ending: &str) -> PathBuf {
        self.runtime.join(format!("{name}.{ending}"))
    }

    /// Returns the path of the control socket.
    pub(crate) fn control_socket(&self, name: &VolumeName) -> PathBuf {
        self.runtime_file(name, "sock")
    }

    /// Returns the path of the socket that only shows the status.
    pub(crate) fn status_socket(&self, name: &VolumeName) -> PathBuf {
        self.shared_status.join(format!("{name}.sock"))
    }

    /// Returns the directory of the sockets that only show the status. Creates it if it is missing.
    pub(crate) fn make_shared_status(&self) -> io::Result<()> {
        let dir = &self.shared_status;
        fs::DirBuilder::new().recursive(true).create(dir)?;
        // Not even the group may put sockets there.
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755))
    }

    /// Returns the path of the NBD server's socket.
    pub(crate) fn nbd_socket(&self, name: &VolumeName) -> CommandResult<PathBuf> {
        let path = self.runtime_file(name, "nbd.sock");
        if path.as_os_str().len() > SOCKET_PATH_MAX {
            return Err(CommandFailure::usage(format!(
                "the socket path {} is longer than {SOCKET_PATH_MAX} bytes; choose a shorter \
                 FOREBAY_RUNTIME_DIR or name",
                path.display()
            )));
        }
        Ok(path)
    }

    /// Removes the leftovers of a daemon that ends.
    pub(crate) fn remove_sockets(&self, name: &VolumeName) {
        for ending in ["sock", "nbd.sock", MOUNTED] {
            let _ = fs::remove_file(self.runtime_file(name, ending));
        }
        // Only root can remove the socket of root's volume.
        let _ = fs::remove_file(self.status_socket(name));
    }

    /// Records the mount directory of a filesystem: after its daemon is killed, nothing else contains the path.
    pub(crate) fn note_mount(&self, name: &VolumeName, dir: &str) {
        // Without the record, the user has to name the directory.
        let _ = fs::write(self.runtime_file(name, MOUNTED), dir);
    }

    /// Returns the directory where a filesystem is mounted, or was mounted by a daemon that was killed.
    pub(crate) fn noted_mount(&self, name: &VolumeName) -> Option<PathBuf> {
        let dir = fs::read_to_string(self.runtime_file(name, MOUNTED)).ok()?;
        Some(dir.into())
    }

    /// Returns the path of the lock for attaching or changing the volume.
    pub(crate) fn lock_file(&self, name: &VolumeName) -> PathBuf {
        self.runtime_file(name, "lock")
    }

    /// Returns the path of the daemon's log.
    pub(crate) fn daemon_log(&self, name: &VolumeName) -> PathBuf {
        self.runtime_file(name, "log")
    }

    /// Returns the names with a control socket, even if no daemon answers there, and the names whose daemon was killed.
    pub(crate) fn attached_names(&self) -> Vec<VolumeName> {
        let mut names = names_in(&self.runtime, ".sock");
        // A killed `create` was not a daemon, and has no log.
        let killed = names_in(&self.runtime, ".lock").into_iter();
        names.extend(
            killed.filter(|name| self.daemon_log(name).exists() && self.ended_abruptly(name)),
        );
        // Without permission for the socket, the volume is no concern of the user.
        let shared = names_in(&self.shared_status, ".sock").into_iter();
        names.extend(shared.filter(|name| {
            rustix::fs::access(self.status_socket(name), rustix::fs::Access::WRITE_OK).is_ok()
        }));
        names.sort();
        names.dedup();
        names
    }

    /// Returns true if the last process that attached or changed the volume was killed, and no other process has done
    /// so since.
    pub(crate) fn ended_abruptly(&self, name: &VolumeName) -> bool {
        let holder = fs::read_to_string(self.lock_file(name)).unwrap_or_default();
        match holder.trim().parse() {
            Ok(pid) => !is_ours(pid),
            // The lock is free, or its holder is about to write its process id.
            Err(_) => false,
        }
    }

    /// Returns the names with a configuration file.
    pub(crate) fn described_names(&self) -> Vec<VolumeName> {
        names_in(&self.config, ".toml")
    }

    /// Returns the path of a configuration file.
    pub(crate) fn description_file(&self, name: &VolumeName) -> PathBuf {
        self.config.join(format!("{name}.toml"))
    }

    /// Reads the configuration file of a volume.
    pub(crate) fn description(&self, name: &VolumeName) -> CommandResult<ConfigFile> {
        let file = self.description_file(name);
        let content = fs::read_to_string(&file).map_err(|error| match error.kind() {
            ErrorKind::NotFound => CommandFailure::not_found(format!(
                "no volume {name}: {} does not exist; create the volume, see `forebay list`, or attach with --log PATH",
                file.display()
            )),
            _ => CommandFailure::io(format!("cannot read {}: {error}", file.display())),
        })?;
        Ok(ConfigFile::parse(&content, &file, name)?)
    }

    /// Prepares a new configuration file, so that the later write cannot fail for reasons that are detectable now.
    pub(crate) fn new_description(&self, name: &VolumeName) -> CommandResult<NewConfigFile> {
        make(&self.config, 0o755)?;
        NewConfigFile::beside(self.description_file(name), name)
    }

    /// Removes a configuration file, if it exists.
    pub(crate) fn remove_description(&self, name: &VolumeName) -> CommandResult {
        let file = self.description_file(name);
        match fs::remove_file(&file) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(CommandFailure::io(format!(
                "cannot remove {}: {error}; remove it by hand",
                file.display()
            ))),
            _ => Ok(()),
        }
    }
}

/// Returns the directory by its canonical path. Does not access the directory itself, which may be a mount whose daemon
/// does not answer.
pub(crate) fn mount_point(what: &Path) -> PathBuf {
    let whole = std::path::absolute(what).unwrap_or_else(|_| what.into());
    let above = whole.parent().and_then(|above| above.canonicalize().ok());
    match (above, whole.file_name()) {
        (Some(above), Some(name)) => {
            let dir = above.join(name);
            if dir.is_symlink() {
                dir.canonicalize().unwrap_or(dir)
            } else {
                dir
            }
        }
        _ => whole,
    }
}

/// Makes a configuration file durable as it is now, if it exists. A program that changed it may have been killed before
/// that, and an editor may not have asked for it.
///
/// # Errors
/// If the file or its directory cannot be made durable.
pub(crate) fn settle(file: &Path) -> io::Result<()> {
    let file = match file.canonicalize() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    fs::File::open(&file)?.sync_all()?;
    sync_parent(&file)
}

/// Checks that the configuration file of the volume can name another log. Changes nothing.
pub(crate) fn check_log(file: &Path, name: &VolumeName, log: &DeviceSpec) -> CommandResult {
    described_with(file, name, log).map(drop)
}

/// Names another log in the configuration file of the volume, and keeps the rest of the file. The change is durable on
/// return.
pub(crate) fn name_log(file: &Path, name: &VolumeName, log: &DeviceSpec) -> CommandResult {
    let (new, text) = described_with(file, name, log)?;
    new.put(&text).map(drop)
}

/// Returns the configuration file of the volume with another log, not written yet, and its text.
fn described_with(
    file: &Path,
    name: &VolumeName,
    log: &DeviceSpec,
) -> CommandResult<(NewConfigFile, String)> {
    // The administrator may keep the file in another place, behind a symbolic link.
    let file = file.canonicalize().unwrap_or(file.to_owned());
    let failed = |error: &dyn std::fmt::Display| {
        CommandFailure::io(format!("cannot change {}: {error}", file.display()))
    };
    let before = fs::read_to_string(&file).map_err(|error| failed(&error))?;
    let after = with_log(&before, log).map_err(|error| failed(&error))?;
    ConfigFile::parse(&after, &file, name)?;
    let permissions = fs::metadata(&file).map_err(|error| failed(&error))?;
    let new = NewConfigFile::beside(file.clone(), name)?;
    let kept = new.content.set_permissions(permissions.permissions());
    kept.map_err(|error| failed(&error))?;
    Ok((new, after))
}

/// A configuration file about to be written. Leaves nothing behind if it is dropped before.
pub(crate) struct NewConfigFile {
    file: PathBuf,
    temporary: PathBuf,
    content: fs::File,
}

impl NewConfigFile {
    /// Creates a temporary file in the directory of `file`.
    fn beside(file: PathBuf, name: &VolumeName) -> CommandResult<NewConfigFile> {
        let temporary = file.with_file_name(format!(".{name}.toml.new"));
        let made = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o644)
            .open(&temporary);
        let content = made.map_err(|error| cannot_write(&temporary, &error))?;
        Ok(NewConfigFile {
            file,
            temporary,
            content,
        })
    }

    /// Puts the file in place; returns its path.
    pub(crate) fn write(self, description: &ConfigFile) -> CommandResult<PathBuf> {
        self.put(&description.to_toml())
    }

    /// Puts the file with this content in place, durably; returns its path.
    fn put(mut self, text: &str) -> CommandResult<PathBuf> {
        let mut put = || -> io::Result<()> {
            self.content.write_all(text.as_bytes())?;
            self.content.sync_all()?;
            fs::rename(&self.temporary, &self.file)?;
            sync_parent(&self.file)
        };
        put().map_err(|error| cannot_write(&self.file, &error))?;
        Ok(self.file.clone())
    }
}

impl Drop for NewConfigFile {
    fn drop(&mut self) {
        // The temporary file no longer exists if it was put in place.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// Makes the names in the directory of `file` durable.
fn sync_parent(file: &Path) -> io::Result<()> {
    match file.parent() {
        Some(dir) => fs::File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}

/// Returns true if `pid` is a running process of this program. The system reuses process ids.
fn is_ours(pid: u32) -> bool {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.contains("forebay") && !matches!(process_state(pid), None | Some('Z' | 'X'))
}

fn unset(variable: &str, instead: &str) -> CommandFailure {
    CommandFailure::usage(format!(
        "the environment variable {variable} is not set; set it, or {instead}"
    ))
}

fn cannot_write(path: &Path, error: &io::Error) -> CommandFailure {
    CommandFailure::io(format!(
        "cannot write {}: {error}; make its directory writable, or set FOREBAY_CONFIG_DIR",
        path.display()
    ))
}

fn make(dir: &Path, mode: u32) -> CommandResult {
    let made = fs::DirBuilder::new().recursive(true).mode(mode).create(dir);
    made.map_err(|error| {
        CommandFailure::new(
            FailureCode::Io,
            format!(
                "cannot make the directory {}: {error}; make it, or set FOREBAY_CONFIG_DIR and \
                 FOREBAY_RUNTIME_DIR",
                dir.display()
            ),
        )
    })
}

fn with_suffix(dir: PathBuf, suffix: &str) -> PathBuf {
    let mut path = dir.into_os_string();
    path.push(suffix);
    path.into()
}

fn names_in(dir: &Path, ending: &str) -> Vec<VolumeName> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<VolumeName> = entries
        .filter_map(|entry| {
            let file = entry.file_name().into_string().ok()?;
            // `a.nbd.sock` yields `a.nbd`, which is not a valid name.
            file.strip_suffix(ending)?.parse().ok()
        })
        .collect();
    names.sort();
    names
}
