//! Which `/dev/nbdN` a killed server of a volume left behind.
//!
//! An nbd device does not say what it serves. All that the kernel shows of a connection is the thread
//! that keeps it (`/sys/block/nbdN/pid`), for as long as anybody has the device open, also when that
//! thread is dead. So whoever attaches a device notes its name and that thread in the runtime directory.
//! A device that still has the thread of the note is the one that was left; with another it has been
//! attached anew since, by us or by others.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What the kernel shows of block devices.
pub(in crate::blockdev) const SYS_BLOCK: &str = "/sys/block";

/// The note on one volume's device.
#[derive(Debug)]
pub(super) struct Note(PathBuf);

/// The thread that keeps the connection of an nbd device, if it has one; `sys` is [`SYS_BLOCK`].
pub(in crate::blockdev) fn connection(sys: &Path, device: &str) -> Option<String> {
    let pid = fs::read_to_string(sys.join(device).join("pid")).ok()?;
    Some(pid.trim().to_owned())
}

impl Note {
    /// The note of a volume, whether or not it was made.
    pub(super) fn of(runtime_dir: &Path, volume: &str) -> Note {
        Note(runtime_dir.join(format!("{volume}.nbd")))
    }

    /// Notes that the volume is `device` now.
    pub(super) fn write(&self, sys: &Path, device: &str) -> io::Result<()> {
        let thread = connection(sys, device)
            .ok_or_else(|| io::Error::other("it has no connection any more"))?;
        fs::write(&self.0, format!("{device} {thread}\n"))
    }

    /// The device in the note, if its connection is the same still.
    pub(super) fn device(&self, sys: &Path) -> Option<String> {
        let text = fs::read_to_string(&self.0).ok()?;
        let (device, thread) = text.trim().split_once(' ')?;
        let same = connection(sys, device).is_some_and(|now| now == thread);
        same.then(|| device.to_owned())
    }

    /// Says that there is nothing to be noted any more.
    pub(super) fn remove(&self) {
        // One that stays names a connection that is gone.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory that looks like `/sys/block`, with connections of `nbd0` and `nbd1`.
    fn sys() -> tempfile::TempDir {
        let sys = tempfile::tempdir().unwrap();
        for (device, thread) in [("nbd0", "100"), ("nbd1", "101")] {
            fs::create_dir(sys.path().join(device)).unwrap();
            fs::write(sys.path().join(device).join("pid"), format!("{thread}\n")).unwrap();
        }
        sys
    }

    #[test]
    fn the_device_that_was_left_is_found_again() {
        let (run, sys) = (tempfile::tempdir().unwrap(), sys());
        let note = Note::of(run.path(), "v");
        assert_eq!(note.device(sys.path()), None);
        note.write(sys.path(), "nbd1").unwrap();
        let note = Note::of(run.path(), "v");
        assert_eq!(note.device(sys.path()).as_deref(), Some("nbd1"));
        assert_eq!(Note::of(run.path(), "w").device(sys.path()), None);
        note.remove();
        assert_eq!(note.device(sys.path()), None);
    }

    #[test]
    fn a_device_that_is_free_or_has_been_attached_by_another_since_is_no_leftover() {
        let (run, sys) = (tempfile::tempdir().unwrap(), sys());
        let note = Note::of(run.path(), "v");
        note.write(sys.path(), "nbd1").unwrap();
        fs::write(sys.path().join("nbd1/pid"), "102\n").unwrap();
        assert_eq!(note.device(sys.path()), None);
        fs::remove_file(sys.path().join("nbd1/pid")).unwrap();
        assert_eq!(note.device(sys.path()), None);
        assert!(note.write(sys.path(), "nbd1").is_err());
    }
}
