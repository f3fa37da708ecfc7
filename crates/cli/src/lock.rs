//! The lock that makes a volume one process's business.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_rt::Rt;
use forebay_stack::Name;
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;

use forebay_program::dirs::Dirs;
use forebay_program::failure::{Code, Failure, Outcome};

/// How long what a killed process held may stay held. The kernel closes the files of an io_uring
/// some time after the process is gone.
const LETTING_GO: Duration = Duration::from_secs(5);
/// How long a daemon whose filesystem was unmounted may take to make all durable.
const ENDING: Duration = Duration::from_secs(30);
/// How often it is tried meanwhile.
const TRY_EVERY: Duration = Duration::from_millis(50);

/// A file that one process has locked. It holds the number of that process, for messages, and exists only while it is
/// locked, or after a process that was killed.
pub(crate) struct LockFile {
    path: PathBuf,
    file: File,
    /// The number of a process that was killed with the lock, if there was one.
    predecessor: String,
}

/// Another process has the lock.
pub(crate) struct Held {
    /// The number of that process, as far as it is in the file.
    pub(crate) pid: String,
}

impl LockFile {
    /// Takes the lock, or gives who has it.
    ///
    /// # Errors
    /// What the system said.
    pub(crate) fn take(path: PathBuf) -> io::Result<Result<LockFile, Held>> {
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
                // The holder before removes the file, perhaps after it was opened here: a lock on that file is none.
                Ok(()) if !is_at(&file, &path) => continue,
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Ok(Err(Held { pid })),
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

    /// The file is for messages only; the lock does not depend on its content.
    fn write(&mut self, text: &str) {
        let _ = self.file.set_len(0);
        let _ = self.file.rewind();
        let _ = writeln!(self.file, "{text}");
    }

    /// Leaves the file as a process that was killed left it, for the next that takes the lock.
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
        // Before the lock ends: then the file may be another's.
        if !self.path.as_os_str().is_empty() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Held while a volume is attached, created or removed; ends with the process at the latest, so the lock is never
/// left over. The file is: it tells that its last holder was killed, until what that left has been taken care of.
pub(crate) struct NameLock {
    lock: LockFile,
    predecessor_died: bool,
    settled: Cell<bool>,
}

impl NameLock {
    /// Takes the lock of `name`; while `may_end` holds, waits for the process that has it. `umount` of the system returns before
    /// the daemon has made all durable and ends.
    pub(crate) async fn take_when_ended(
        dirs: &Dirs,
        name: &Name,
        rt: &Rt,
        may_end: impl Fn() -> bool,
    ) -> Outcome<NameLock> {
        let deadline = rt.now().plus(ENDING);
        loop {
            match NameLock::take(dirs, name) {
                Err(failure)
                    if failure.code == Code::Refused && rt.now() < deadline && may_end() =>
                {
                    rt.sleep(TRY_EVERY).await;
                }
                outcome => return outcome,
            }
        }
    }

    /// Takes the lock of `name`. If a daemon that was killed still has it, ends what keeps that in the kernel.
    pub(crate) fn take(dirs: &Dirs, name: &Name) -> Outcome<NameLock> {
        dirs.make_runtime()?;
        let path = dirs.lock_file(name);
        let take = || {
            let lock = LockFile::take(path.clone());
            lock.map_err(|error| Failure::io(format!("cannot lock {}: {error}", path.display())))
        };
        let mut lock = take()?;
        let mut tries = LETTING_GO.as_millis() / TRY_EVERY.as_millis();
        while let Err(Held { pid }) = &lock
            && was_killed(pid)
            && tries > 0
        {
            cut_off(dirs, name);
            tries -= 1;
            std::thread::sleep(TRY_EVERY);
            lock = take()?;
        }
        let lock = lock.map_err(|Held { pid }| {
            let by = match pid.as_str() {
                "" => String::new(),
                pid => format!(" by process {pid}"),
            };
            Failure::refused(format!(
                "the volume {name} is attached already, or being worked on{by}; see `forebay \
                 status {name}`, or detach it first"
            ))
        })?;
        let predecessor_died = !lock.predecessor.is_empty();
        Ok(NameLock {
            lock,
            predecessor_died,
            settled: Cell::new(false),
        })
    }

    /// Records that nothing is left to do after a holder that was killed: the volume was attached again, or is gone.
    pub(crate) fn settle(&self) {
        self.settled.set(true);
    }

    /// Does what may be refused because something is in use; if the last holder of this lock was
    /// killed, again and again until the kernel has let go of what that had.
    pub(crate) async fn patiently<T>(
        &self,
        rt: &Rt,
        mut what: impl AsyncFnMut() -> Outcome<T>,
    ) -> Outcome<T> {
        let deadline = rt.now().plus(LETTING_GO);
        loop {
            match what().await {
                Err(failure)
                    if failure.code == Code::Refused
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

/// Returns true if the process was killed, and is not gone: a thread of it waits in the kernel.
fn was_killed(pid: &str) -> bool {
    let Ok(pid) = pid.parse::<u32>() else {
        return false;
    };
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name before the state may have parentheses of its own.
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest);
    state.is_some_and(|rest| rest.starts_with(['Z', 'X']))
}

/// Cuts the connection of the filesystem that a daemon of this name has mounted: requests that wait for it end with errors.
/// Returns true if the filesystem is unmounted by that: it was not in use.
fn cut_off(dirs: &Dirs, name: &Name) -> bool {
    let Some(dir) = dirs.noted_mount(name) else {
        return false;
    };
    let mounts = forebay_os::mounts().unwrap_or_default();
    let is_it = |mount: &forebay_os::Mount| {
        let is_ours = mount.fstype == forebay_os::FUSE_TYPE;
        is_ours && mount.point == dir && mount.source == Path::new(name.as_str())
    };
    if !mounts.iter().any(is_it) {
        return false;
    }
    tracing::warn!(
        dir = %dir.display(),
        "a daemon was killed: requests that still wait for it end with errors"
    );
    // It may be in use, and stays mounted then.
    rustix::mount::unmount(&dir, UnmountFlags::FORCE | UnmountFlags::NOFOLLOW).is_ok()
}

/// Cuts off the filesystem of this name if its daemon was killed, of which a thread may still wait in the kernel. Returns true if that
/// has unmounted it.
pub(crate) fn cut_off_killed(dirs: &Dirs, name: &Name) -> bool {
    let pid = std::fs::read_to_string(dirs.lock_file(name)).unwrap_or_default();
    was_killed(pid.trim()) && cut_off(dirs, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(path: &Path) -> LockFile {
        // A program that another test starts has this one's files open for a moment.
        let mut tries = 0;
        loop {
            match LockFile::take(path.to_owned()).unwrap() {
                Ok(lock) => return lock,
                Err(held) if tries == 100 => panic!("held by {}", held.pid),
                Err(_) => tries += 1,
            }
            // sleeps: the system does not tell when another process closes a file.
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }

    #[test]
    fn a_lock_is_one_holders_and_its_file_goes_with_it() {
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
    fn what_a_killed_holder_left_is_there_until_it_was_taken_care_of() {
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
    fn a_process_was_killed_from_its_end_until_it_is_waited_for() {
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

    /// Who opens the file just before its holder removes it would have the lock beside who makes it anew.
    #[test]
    fn a_lock_on_a_file_that_was_removed_is_not_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("v.lock");
        let old = File::create(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(!is_at(&old, &path));
        let _lock = taken(&path);
        assert!(!is_at(&old, &path));
    }
}
