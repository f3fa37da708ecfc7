//! The lock that makes a volume one process's business.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use forebay_rt::Rt;
use forebay_stack::Name;
use rustix::fs::FlockOperation;
use rustix::io::Errno;

use forebay_program::dirs::Dirs;
use forebay_program::failure::{Code, Failure, Outcome};

/// How long what a killed process held may stay held. The kernel closes the files of an io_uring
/// some time after the process is gone.
const LETTING_GO: Duration = Duration::from_secs(5);
/// How long a daemon whose filesystem was unmounted may take to make all durable.
const ENDING: Duration = Duration::from_secs(30);
/// How often it is tried meanwhile.
const TRY_EVERY: Duration = Duration::from_millis(50);

/// Held while a volume is attached, created or removed; ends with the process at the latest, so it
/// is never left over.
///
/// The file holds the number of the process, for error messages, and is emptied in the end: so it
/// also tells whether the last holder ended abruptly.
pub(crate) struct NameLock {
    file: File,
    predecessor_died: bool,
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

    /// Takes the lock of `name`.
    pub(crate) fn take(dirs: &Dirs, name: &Name) -> Outcome<NameLock> {
        dirs.make_runtime()?;
        let path = dirs.lock_file(name);
        let cannot = |error: &dyn std::fmt::Display| {
            Failure::io(format!("cannot lock {}: {error}", path.display()))
        };
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .map_err(|error| cannot(&error))?;
        let locked = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
        let mut pid = String::new();
        let _ = file.read_to_string(&mut pid);
        let pid = pid.trim();
        match locked {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let by = match pid {
                    "" => String::new(),
                    pid => format!(" by process {pid}"),
                };
                return Err(Failure::refused(format!(
                    "the volume {name} is attached already, or being worked on{by}; see `forebay \
                     status {name}`, or detach it first"
                )));
            }
            Err(error) => return Err(cannot(&error)),
        }
        let predecessor_died = !pid.is_empty();
        // What is written is for messages only; the lock does not depend on it.
        let _ = file.set_len(0);
        let _ = file.rewind();
        let _ = writeln!(file, "{}", std::process::id());
        Ok(NameLock {
            file,
            predecessor_died,
        })
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
        let _ = self.file.set_len(0);
    }
}
