//! Where things are: descriptions of volumes, and what belongs to the attached ones.
//!
//! In the runtime directory a volume `NAME` has: `NAME.sock`, the control socket; `NAME.nbd.sock`,
//! the NBD server's; `NAME.lock`, held by the one process that may attach or change the volume;
//! `NAME.log`, what its daemon logs; `NAME.fuse`, where a loop device's file is mounted; `NAME.nbd`,
//! which nbd device it is; `NAME.mounted`, where a filesystem is mounted.
//!
//! `NAME.lock` is there only while it is held, or after a process that was killed with it.
//!
//! In the directory of links, `/dev/forebay`, `NAME` is a symbolic link to the block device; see `crates/cli/src/link.rs`.
//!
//! In the state directory, which outlasts a reboot, there is one file for each log that failed and was
//! given up; see `crates/cli/src/witness.rs`.

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use forebay_stack::{Description, Name};

use crate::failure::{Code, Failure, Outcome};

/// Longest path of a unix socket.
const SOCKET_PATH_MAX: usize = 107;

/// How the file is called that says where a filesystem is mounted.
const MOUNTED: &str = "mounted";
/// Where links to block devices are, unless the environment has another directory.
const LINKS: &str = "/dev/forebay";

/// The directories.
#[derive(Clone, Debug)]
pub struct Dirs {
    config: PathBuf,
    runtime: PathBuf,
    links: PathBuf,
    /// Only few commands need it.
    state: Option<PathBuf>,
}

fn from_env(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

impl Dirs {
    /// As the environment says.
    pub fn new() -> Outcome<Dirs> {
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
            Some(dir) => Some(dir),
            None if root => Some("/run/forebay".into()),
            None => under("XDG_RUNTIME_DIR"),
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
        Ok(Dirs {
            config: config
                .map(absolute)
                .ok_or_else(|| unset("HOME", "FOREBAY_CONFIG_DIR"))?,
            runtime: runtime
                .map(absolute)
                .ok_or_else(|| unset("XDG_RUNTIME_DIR", "FOREBAY_RUNTIME_DIR"))?,
            links: absolute(links.into()),
            state: state.map(absolute),
        })
    }

    /// The directory of the links to block devices, whether or not it is there.
    pub fn links(&self) -> &Path {
        &self.links
    }

    /// The state directory, whether or not it is there.
    pub fn state(&self) -> Outcome<&Path> {
        let state = self.state.as_deref();
        state.ok_or_else(|| unset("HOME", "FOREBAY_STATE_DIR"))
    }

    /// The runtime directory, made if it is not there.
    pub fn make_runtime(&self) -> Outcome<&Path> {
        make(&self.runtime, 0o700)?;
        Ok(&self.runtime)
    }

    fn runtime_file(&self, name: &Name, ending: &str) -> PathBuf {
        self.runtime.join(format!("{name}.{ending}"))
    }

    /// The control socket.
    pub fn control_socket(&self, name: &Name) -> PathBuf {
        self.runtime_file(name, "sock")
    }

    /// The NBD server's socket.
    pub fn nbd_socket(&self, name: &Name) -> Outcome<PathBuf> {
        let path = self.runtime_file(name, "nbd.sock");
        if path.as_os_str().len() > SOCKET_PATH_MAX {
            return Err(Failure::usage(format!(
                "the socket path {} is longer than {SOCKET_PATH_MAX} bytes; choose a shorter \
                 FOREBAY_RUNTIME_DIR or name",
                path.display()
            )));
        }
        Ok(path)
    }

    /// Removes what a daemon that ends would leave behind.
    pub fn remove_sockets(&self, name: &Name) {
        for ending in ["sock", "nbd.sock", MOUNTED] {
            let _ = fs::remove_file(self.runtime_file(name, ending));
        }
    }

    /// Notes where a filesystem is mounted: when its daemon is killed, nobody else says so.
    pub fn note_mount(&self, name: &Name, dir: &str) {
        // Without the note the directory has to be named.
        let _ = fs::write(self.runtime_file(name, MOUNTED), dir);
    }

    /// Where a filesystem is, or was, mounted by a daemon that did not end as it should.
    pub fn noted_mount(&self, name: &Name) -> Option<PathBuf> {
        let dir = fs::read_to_string(self.runtime_file(name, MOUNTED)).ok()?;
        Some(dir.into())
    }

    /// The lock of whoever attaches or changes the volume.
    pub fn lock_file(&self, name: &Name) -> PathBuf {
        self.runtime_file(name, "lock")
    }

    /// What the daemon logs.
    pub fn daemon_log(&self, name: &Name) -> PathBuf {
        self.runtime_file(name, "log")
    }

    /// Names with a control socket, whether or not somebody answers there; and names whose daemon was killed.
    pub fn attached_names(&self) -> Vec<Name> {
        let mut names = names_in(&self.runtime, ".sock");
        // What was killed while it created a volume was no daemon, and has no log.
        let killed = names_in(&self.runtime, ".lock").into_iter();
        names.extend(
            killed.filter(|name| self.daemon_log(name).exists() && self.ended_abruptly(name)),
        );
        names.sort();
        names.dedup();
        names
    }

    /// True if the last process that attached or changed the volume was killed, and no other has done so since.
    pub fn ended_abruptly(&self, name: &Name) -> bool {
        let holder = fs::read_to_string(self.lock_file(name)).unwrap_or_default();
        match holder.trim().parse() {
            Ok(pid) => !is_ours(pid),
            // Nobody holds it, or who does is about to write its number.
            Err(_) => false,
        }
    }

    /// Names with a description.
    pub fn described_names(&self) -> Vec<Name> {
        names_in(&self.config, ".toml")
    }

    /// The description's file.
    pub fn description_file(&self, name: &Name) -> PathBuf {
        self.config.join(format!("{name}.toml"))
    }

    /// Reads a volume's description.
    pub fn description(&self, name: &Name) -> Outcome<Description> {
        let file = self.description_file(name);
        let content = fs::read_to_string(&file).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Failure::not_found(format!(
                "there is no volume {name}: {} does not exist; create the volume, see `forebay \
                 list`, or attach with --log PATH",
                file.display()
            )),
            _ => Failure::io(format!("cannot read {}: {error}", file.display())),
        })?;
        Ok(Description::parse(&content, &file, name)?)
    }

    /// Prepares a description, so that writing it cannot fail for reasons that are known before.
    pub fn new_description(&self, name: &Name) -> Outcome<NewDescription> {
        make(&self.config, 0o755)?;
        let file = self.description_file(name);
        let temporary = self.config.join(format!(".{name}.toml.new"));
        let made = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o644)
            .open(&temporary);
        let content = made.map_err(|error| cannot_write(&temporary, &error))?;
        Ok(NewDescription {
            file,
            temporary,
            content,
        })
    }

    /// Removes a description, if there is one.
    pub fn remove_description(&self, name: &Name) -> Outcome {
        let file = self.description_file(name);
        match fs::remove_file(&file) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(Failure::io(format!(
                "cannot remove {}: {error}; remove it by hand",
                file.display()
            ))),
            _ => Ok(()),
        }
    }
}

/// The directory by its one name, as far as that can be told without asking what is mounted there.
pub fn mount_point(what: &Path) -> PathBuf {
    let whole = std::path::absolute(what).unwrap_or_else(|_| what.into());
    let above = whole.parent().and_then(|above| above.canonicalize().ok());
    match (above, whole.file_name()) {
        (Some(above), Some(name)) => {
            let dir = above.join(name);
            match dir.is_symlink() {
                true => dir.canonicalize().unwrap_or(dir),
                false => dir,
            }
        }
        _ => whole,
    }
}

/// A description about to be written. Dropped, it leaves nothing behind.
pub struct NewDescription {
    file: PathBuf,
    temporary: PathBuf,
    content: fs::File,
}

impl NewDescription {
    /// Puts it in place; returns where.
    pub fn write(mut self, description: &Description) -> Outcome<PathBuf> {
        let mut put = || -> io::Result<()> {
            self.content.write_all(description.to_toml().as_bytes())?;
            self.content.sync_all()?;
            fs::rename(&self.temporary, &self.file)?;
            match self.file.parent() {
                Some(dir) => fs::File::open(dir)?.sync_all(),
                None => Ok(()),
            }
        };
        put().map_err(|error| cannot_write(&self.file, &error))?;
        Ok(self.file.clone())
    }
}

impl Drop for NewDescription {
    fn drop(&mut self) {
        // Gone already if it was put in place.
        let _ = fs::remove_file(&self.temporary);
    }
}

/// True if `pid` is a process of this program that has not ended. Numbers of processes are used again.
fn is_ours(pid: u32) -> bool {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.contains("forebay") && !matches!(state_of(pid), None | Some('Z' | 'X'))
}

/// The state of a process, as the kernel abbreviates it; `None` if there is no such process.
pub(crate) fn state_of(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before may have anything in it.
    stat.rsplit(") ").next()?.chars().next()
}

fn unset(variable: &str, instead: &str) -> Failure {
    Failure::usage(format!(
        "the environment variable {variable} is not set; set it, or {instead}"
    ))
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    Failure::io(format!(
        "cannot write {}: {error}; make its directory writable, or set FOREBAY_CONFIG_DIR",
        path.display()
    ))
}

fn make(dir: &Path, mode: u32) -> Outcome {
    let made = fs::DirBuilder::new().recursive(true).mode(mode).create(dir);
    made.map_err(|error| {
        Failure::new(
            Code::Io,
            format!(
                "cannot make the directory {}: {error}; make it, or set FOREBAY_CONFIG_DIR and \
                 FOREBAY_RUNTIME_DIR",
                dir.display()
            ),
        )
    })
}

fn names_in(dir: &Path, ending: &str) -> Vec<Name> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<Name> = entries
        .filter_map(|entry| {
            let file = entry.file_name().into_string().ok()?;
            // `a.nbd.sock` yields `a.nbd`, which is no name.
            file.strip_suffix(ending)?.parse().ok()
        })
        .collect();
    names.sort();
    names
}
