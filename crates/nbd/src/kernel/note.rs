//! The note file on the `/dev/nbdN` that a killed server of a volume left behind.
//!
//! The kernel does not show the export of an nbd device. Of a connection it shows only the thread that keeps it
//! (`/sys/block/nbdN/pid`), as long as any process has the device open, even after the thread has ended. So attaching a
//! device records the device's name and the thread in the runtime directory. If the device still has the recorded
//! thread, it is the one left behind. With another thread, the device has been attached anew since, by us or by another
//! program.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The kernel's directory of block devices.
pub(super) const SYS_BLOCK: &str = "/sys/block";

/// The note on one volume's device.
#[derive(Debug)]
pub(super) struct NbdNote(PathBuf);

/// Returns the thread that keeps the connection of an nbd device; `None` without a connection. `sys` is [`SYS_BLOCK`].
pub(super) fn connection(sys: &Path, device: &str) -> Option<String> {
    let pid = fs::read_to_string(sys.join(device).join("pid")).ok()?;
    Some(pid.trim().to_owned())
}

impl NbdNote {
    /// Returns the note of a volume, which need not exist.
    pub(super) fn of(runtime_dir: &Path, volume: &str) -> NbdNote {
        NbdNote(runtime_dir.join(format!("{volume}.nbd")))
    }

    /// Records `device` as the volume's device.
    pub(super) fn write(&self, sys: &Path, device: &str) -> io::Result<()> {
        let thread = connection(sys, device)
            .ok_or_else(|| io::Error::other("it has no connection any more"))?;
        fs::write(&self.0, format!("{device} {thread}\n"))
    }

    /// Returns the recorded device, if it still has the recorded connection.
    pub(super) fn device(&self, sys: &Path) -> Option<String> {
        let text = fs::read_to_string(&self.0).ok()?;
        let (device, thread) = text.trim().split_once(' ')?;
        let same = connection(sys, device).is_some_and(|now| now == thread);
        same.then(|| device.to_owned())
    }

    /// Removes the note.
    pub(super) fn remove(&self) {
        // A note that remains is harmless: it names a connection that is gone.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a directory that looks like `/sys/block`, with connections of `nbd0` and `nbd1`.
    fn sys() -> tempfile::TempDir {
        let sys = tempfile::tempdir().unwrap();
        for (device, thread) in [("nbd0", "100"), ("nbd1", "101")] {
            fs::create_dir(sys.path().join(device)).unwrap();
            fs::write(sys.path().join(device).join("pid"), format!("{thread}\n")).unwrap();
        }
        sys
    }

    #[test]
    fn the_recorded_nbd_device_is_found_again() {
        let (run, sys) = (tempfile::tempdir().unwrap(), sys());
        let note = NbdNote::of(run.path(), "v");
        assert_eq!(note.device(sys.path()), None);
        note.write(sys.path(), "nbd1").unwrap();
        let note = NbdNote::of(run.path(), "v");
        assert_eq!(note.device(sys.path()).as_deref(), Some("nbd1"));
        assert_eq!(NbdNote::of(run.path(), "w").device(sys.path()), None);
        note.remove();
        assert_eq!(note.device(sys.path()), None);
    }

    #[test]
    fn a_free_or_reattached_nbd_device_is_not_a_leftover() {
        let (run, sys) = (tempfile::tempdir().unwrap(), sys());
        let note = NbdNote::of(run.path(), "v");
        note.write(sys.path(), "nbd1").unwrap();
        fs::write(sys.path().join("nbd1/pid"), "102\n").unwrap();
        assert_eq!(note.device(sys.path()), None);
        fs::remove_file(sys.path().join("nbd1/pid")).unwrap();
        assert_eq!(note.device(sys.path()), None);
        assert!(note.write(sys.path(), "nbd1").is_err());
    }
}
