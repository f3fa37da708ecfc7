//! A device as the one file of a FUSE filesystem.
//!
//! The file is as long as the device and past the page cache: what is written to it is the device's
//! business at once. (FUSE's own page cache is left out on purpose: a volume's cache belongs in the
//! volume.) With a loop device over it ([`crate::blockdev`]) it is a block device on kernels that
//! have nothing better.

mod file;
mod unaligned;

use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_device::Device;
use forebay_os::Ring;
use forebay_rt::Rt;

use crate::Memory;
use crate::fuse::{Ended, Mount, Mounted, UnmountError};

use file::File;

/// A device served as a file. Unmount it before dropping it; otherwise the dead mount stays until
/// [`crate::blockdev::cleanup_stale`] or somebody else removes it.
pub struct VolumeFile {
    file: Rc<File>,
    mounted: Mounted,
}

/// The directory that volume `name` is mounted at.
pub(crate) fn directory(runtime_dir: &Path, name: &str) -> PathBuf {
    runtime_dir.join(format!("{name}.fuse"))
}

/// The file of the filesystem mounted at `dir`.
pub(crate) fn file_in(dir: &Path) -> PathBuf {
    dir.join(file::NAME)
}

impl VolumeFile {
    /// Mounts `device` at a directory made for it, `runtime_dir/NAME.fuse`, and serves it on `rt` with
    /// buffers from `memory`.
    ///
    /// # Errors
    /// If `/dev/fuse` cannot be opened or mounted: no FUSE in the kernel, not root.
    ///
    /// # Panics
    /// If the device's geometry breaks the contract.
    pub fn mount(
        rt: &Rt,
        ring: &Rc<Ring>,
        device: Rc<dyn Device>,
        memory: &Memory,
        runtime_dir: &Path,
        name: &str,
    ) -> io::Result<VolumeFile> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let file = Rc::new(File::new(device, now.unwrap_or_default().as_secs()));
        let dir = directory(runtime_dir, name);
        let mount = Mount::in_its_own(dir, name);
        let mounted = Mounted::new(rt, ring, Rc::clone(&file), memory, mount)?;
        Ok(VolumeFile { file, mounted })
    }

    /// The file. The thread that serves it must not touch it.
    pub fn file(&self) -> PathBuf {
        file_in(self.mounted.dir())
    }

    /// Where the filesystem is mounted.
    pub fn dir(&self) -> &Path {
        self.mounted.dir()
    }

    /// How often the file is open now. A loop device over it counts as one.
    pub fn handles(&self) -> usize {
        self.file.handles()
    }

    /// True if the session has ended: nothing that is asked of the file will succeed.
    pub(crate) fn is_over(&self) -> bool {
        self.mounted.is_over()
    }

    /// While set, a loop device that is configured over the file offers no discard.
    pub(crate) fn hide_discard(&self, hidden: bool) {
        self.file.hide_discard(hidden);
    }

    /// Waits until the session is over, and says why. It is over after an unmount, by whomever.
    pub async fn ended(&mut self) -> Rc<Ended> {
        self.mounted.ended().await
    }

    /// Unmounts, waits for the requests under way, and removes the directory.
    ///
    /// # Errors
    /// See [`UnmountError`]. The volume is served on; try again.
    pub async fn unmount(&mut self) -> Result<(), UnmountError> {
        self.mounted.unmount().await
    }

    pub(crate) fn rt(&self) -> &Rt {
        self.mounted.rt()
    }
}
