//! The lock that gives one process the exclusive right to a volume.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_rt::Rt;
use forebay_volume::VolumeName;
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use crate::dirs::ProgramDirs;
use forebay_command_output::failure::{CommandFailure, CommandResult, FailureCode};

/// Time until resources of a killed process are free. The kernel closes the files of an io_uring some time after the
/// process has ended.
const LETTING_GO: Duration = Duration::from_secs(5);
/// Time for a daemon to make all data durable after its filesystem was unmounted.
const ENDING: Duration = Duration::from_secs(30);
/// Interval between attempts.
const TRY_EVERY: Duration = Duration::from_millis(50);

/// A file locked by one process. It contains the process id of the holder, for messages. The file exists only while it
/// is locked, or after its holder was killed.
pub(crate) struct LockFile {
    path: PathBuf,
    file: File,
    /// Process id of the previous holder if it was killed; otherwise empty.
    predecessor: String,
}

/// Another process holds the lock.
pub(crate) struct LockHolder {
    /// The process id of the holder, as far as it is in the file.
    pub(crate) pid: String,
}

impl LockFile {
    /// Takes the lock, or returns its holder.
    ///
    /// # Errors
    /// The error of the system call.
    pub(crate) fn take(path: PathBuf) -> io::Result<Result<LockFile, LockHolder>> {
        loop {
            let mut file = File::options()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
                .open(&path)?;
            let locked = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
            let mut pid = String::new();
            let _ = file.read_to_string(&mut pid);
            let pid = pid.trim().to_owned();
            match locked {
                // The previous holder removes the file, perhaps after it was opened here. A lock on a removed file is
                // not valid.
                Ok(()) if !is_at(&file, &path) => continue,
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Ok(Err(LockHolder { pid })),
                Err(error) => return Err(error.into()),
            }
            let mut lock = LockFile {
                path,
                file,
                predecessor: pid,
            };
            lock.write(&std::process::id().to_string());
            return Ok(Ok(lock));
        }
    }

    /// Replaces the content of the file. The content is for messages only; the lock does not depend on it.
    fn write(&mut self, text: &str) {
        let _ = self.file.set_len(0);
        let _ = self.file.rewind();
        let _ = writeln!(self.file, "{text}");
    }

    /// Restores the file as the killed process left it, for the next holder of the lock.
    fn leave(&mut self) {
        let predecessor = std::mem::take(&mut self.predecessor);
        self.write(&predecessor);
        self.path = PathBuf::new();
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let (here, there) = (file.metadata(), std::fs::symlink_metadata(path));
    let (Ok(here), Ok(there)) = (here, there) else {
        return false;
    };
    (here.dev(), here.ino()) == (there.dev(), there.ino())
}

impl Drop for LockFile {
    fn drop(&mut self) {
        // Remove the file before the lock ends: afterwards it may belong to another process.
        if !self.path.as_os_str().is_empty() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The lock of a volume's name, held while the volume is attached, created or removed. The lock ends with its process
/// at the latest. The lock file may remain: it shows that its last holder was killed, until the volume is recovered.
pub(crate) struct NameLock {
    lock: LockFile,
    predecessor_died: bool,
    settled: Cell<bool>,
}

impl NameLock {
    /// Takes the lock of `name`. While `may_end` returns true, waits for the present holder: `umount` of the system
    /// returns before the daemon has made all data durable and has exited.
    pub(crate) async fn take_when_ended(
        dirs: &ProgramDirs,
        name: &VolumeName,
        rt: &Rt,
        may_end: impl Fn() -> bool,
    ) -> CommandResult<NameLock> {
        let deadline = rt.now().plus(ENDING);
        loop {
            match NameLock::take(dirs, name) {
                Err(failure)
                    if failure.code == FailureCode::Refused && rt.now() < deadline && may_end() =>
                {
                    rt.sleep(TRY_EVERY).await;
                }
                outcome => return outcome,
            }
        }
    }

    /// Takes the lock of `name`. If a killed daemon still holds it, ends the kernel's requests that keep it open.
    pub(crate) fn take(dirs: &ProgramDirs, name: &VolumeName) -> CommandResult<NameLock> {
        dirs.make_runtime()?;
        let path = dirs.lock_file(name);
        let take = || {
            let lock = LockFile::take(path.clone());
            lock.map_err(|error| {
                CommandFailure::io(format!("cannot lock {}: {error}", path.display()))
            })
        };
        let mut lock = take()?;
        let mut tries = LETTING_GO.as_millis() / TRY_EVERY.as_millis();
        while let Err(LockHolder { pid }) = &lock
            && was_killed(pid)
            && tries > 0
        {
            cut_off(dirs, name);
            tries -= 1;
            std::thread::sleep(TRY_EVERY);
            lock = take()?;
        }
        let lock = lock.map_err(|LockHolder { pid }| {
            let by = match pid.as_str() {
                "" => String::new(),
                pid => format!(" by process {pid}"),
            };
            CommandFailure::refused(format!(
                "the volume {name} is attached already, or in use by another command{by}; see `forebay status \
                 {name}`, or detach it first"
            ))
        })?;
        let predecessor_died = !lock.predecessor.is_empty();
        Ok(NameLock {
            lock,
            predecessor_died,
            settled: Cell::new(false),
        })
    }

    /// Records that nothing is left to recover after a killed holder: the volume was attached again, or is gone.
    pub(crate) fn settle(&self) {
        self.settled.set(true);
    }

    /// Runs an operation that may be refused because a resource is in use. If the previous holder of this lock was
    /// killed, retries until the kernel has released the resources of that process.
    pub(crate) async fn patiently<T>(
        &self,
        rt: &Rt,
        mut what: impl AsyncFnMut() -> CommandResult<T>,
    ) -> CommandResult<T> {
        let deadline = rt.now().plus(LETTING_GO);
        loop {
            match what().await {
                Err(failure)
                    if failure.code == FailureCode::Refused
                        && self.predecessor_died
                        && rt.now() < deadline =>
                {
                    tracing::debug!("left by a killed process: {failure}");
                    rt.sleep(TRY_EVERY).await;
                }
                outcome => return outcome,
            }
        }
    }
}

impl Drop for NameLock {
    fn drop(&mut self) {
        if self.predecessor_died && !self.settled.get() {
            self.lock.leave();
        }
    }
}

/// Returns true if the process was killed but still exists, because one of its threads waits in the kernel.
fn was_killed(pid: &str) -> bool {
    let Ok(pid) = pid.parse::<u32>() else {
        return false;
    };
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The process name before the state may contain parentheses.
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
    state.is_some_and(|rest| rest.starts_with(['Z', 'X']))
}

/// Cuts the connection of the filesystem that a daemon of this name has mounted. Requests that wait for the daemon end
/// with errors. Returns true if this unmounted the filesystem, since it was not in use.
fn cut_off(dirs: &ProgramDirs, name: &VolumeName) -> bool {
    let Some(dir) = dirs.noted_mount(name) else {
        return false;
    };
    let mounts = forebay_linux::mounts().unwrap_or_default();
    let is_it = |mount: &forebay_linux::MountEntry| {
        let is_ours = mount.fstype == forebay_fuse::FUSE_TYPE;
        is_ours && mount.point == dir && mount.source == Path::new(name.as_str())
    };
    if !mounts.iter().any(is_it) {
        return false;
    }
    tracing::warn!(
        dir = %dir.display(),
        "a daemon was killed: its pending requests end with errors"
    );
    // If the filesystem is in use, it stays mounted.
    rustix::mount::unmount(&dir, UnmountFlags::FORCE | UnmountFlags::NOFOLLOW).is_ok()
}

/// Cuts off the filesystem of this name if its daemon was killed and one of its threads may still wait in the kernel.
/// Returns true if this unmounted the filesystem.
pub(crate) fn cut_off_killed(dirs: &ProgramDirs, name: &VolumeName) -> bool {
    let pid = std::fs::read_to_string(dirs.lock_file(name)).unwrap_or_default();
    was_killed(pid.trim()) && cut_off(dirs, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(path: &Path) -> LockFile {
        // A child process of another test holds a copy of this file descriptor for a moment.
        let mut tries = 0;
        loop {
            match LockFile::take(path.to_owned()).unwrap() {
                Ok(lock) => return lock,
                Err(held) if tries == 100 => panic!("held by {}", held.pid),
                Err(_) => tries += 1,
            }
            // sleeps: the system does not notify us when another process closes a file.
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    #[test]
    fn a_lock_has_one_holder_and_its_file_is_removed_on_release() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("v.lock");
        let lock = taken(&path);
        let held = LockFile::take(path.clone()).unwrap().err();
        let own = std::process::id().to_string();
        assert_eq!(held.map(|held| held.pid), Some(own));
        drop(lock);
        assert!(!path.exists());
        assert!(taken(&path).predecessor.is_empty());
    }

    #[test]
    fn the_lock_file_of_a_killed_holder_remains_until_it_is_settled() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("v.lock");
        std::fs::write(&path, "4711\n").unwrap();
        for settled in [false, true] {
            let lock = taken(&path);
            assert_eq!(lock.predecessor, "4711");
            drop(NameLock {
                lock,
                predecessor_died: true,
                settled: Cell::new(settled),
            });
            assert_eq!(path.exists(), !settled);
        }
    }

    #[test]
    fn an_ended_process_counts_as_killed_until_it_is_reaped() {
        let own = std::process::id().to_string();
        for pid in ["", "nobody", "0", own.as_str()] {
            assert!(!was_killed(pid), "{pid:?}");
        }
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let pid = child.id().to_string();
        assert!(!was_killed(&pid));
        child.kill().unwrap();
        let ended = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        let it = rustix::process::Pid::from_child(&child);
        rustix::process::waitid(rustix::process::WaitId::Pid(it), ended).unwrap();
        assert!(was_killed(&pid));
        child.wait().unwrap();
        assert!(!was_killed(&pid));
    }

    /// A process that opens the file just before its holder removes it must not get the lock. Otherwise it would share
    /// the lock with the process that creates the file anew.
    #[test]
    fn a_lock_on_a_removed_file_is_not_valid() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("v.lock");
        let old = File::create(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(!is_at(&old, &path));
        let _lock = taken(&path);
        assert!(!is_at(&old, &path));
    }
}
