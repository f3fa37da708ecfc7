//! A device as the one file of a FUSE filesystem.
//!
//! The file is as long as the device, and bypasses the page cache: a write reaches the device at once. FUSE's own page
//! cache is left out on purpose, because a volume's cache belongs in the volume. With a loop device on top
//! ([`attach_loop`](crate::attach_loop)), the file becomes a block device on kernels without a better driver.

mod file;
mod unaligned;

use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_device::Device;
use forebay_frontend::requests::RequestMemory;
use forebay_fuse::{FuseMount, ServedMount, SessionEnd, UnmountError};
use forebay_linux::IoRing;
use forebay_rt::Rt;

use file::ServedFile;

/// A device served as a file. Unmount it before dropping it. Otherwise the stale mount remains until
/// [`cleanup_stale`](crate::cleanup_stale) or the administrator removes it.
pub struct VolumeFile {
    file: Rc<ServedFile>,
    mounted: ServedMount,
}

/// Returns the mount directory of volume `name`.
pub(crate) fn directory(runtime_dir: &Path, name: &str) -> PathBuf {
    runtime_dir.join(format!("{name}.fuse"))
}

/// Returns the path of the file in the filesystem mounted at `dir`.
pub(crate) fn file_in(dir: &Path) -> PathBuf {
    dir.join(file::NAME)
}

impl VolumeFile {
    /// Mounts `device` at the new directory `runtime_dir/NAME.fuse`, and serves it on `rt` with buffers from `memory`.
    ///
    /// # Errors
    /// If `/dev/fuse` cannot be opened or mounted: the kernel has no FUSE, or the process is not root.
    ///
    /// # Panics
    /// If the device's geometry breaks the contract.
    pub fn mount(
        rt: &Rt,
        ring: &Rc<IoRing>,
        device: Rc<dyn Device>,
        memory: &RequestMemory,
        runtime_dir: &Path,
        name: &str,
    ) -> io::Result<VolumeFile> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let file = Rc::new(ServedFile::new(device, now.unwrap_or_default().as_secs()));
        let dir = directory(runtime_dir, name);
        let mount = FuseMount::in_its_own(dir, name);
        let mounted = ServedMount::new(rt, ring, Rc::clone(&file), memory, mount)?;
        Ok(VolumeFile { file, mounted })
    }

    /// Returns the path of the file. The thread that serves the file must not access it.
    pub fn file(&self) -> PathBuf {
        file_in(self.mounted.dir())
    }

    /// Returns the mount directory.
    pub fn dir(&self) -> &Path {
        self.mounted.dir()
    }

    /// Returns the number of open handles of the file. A loop device on top counts as one handle.
    pub fn handles(&self) -> usize {
        self.file.handles()
    }

    /// Returns true if the session has ended: all further requests to the file will fail.
    pub(crate) fn is_over(&self) -> bool {
        self.mounted.is_over()
    }

    /// Hides discard while `hidden` is set: a loop device configured over the file then offers no discard.
    pub(crate) fn hide_discard(&self, hidden: bool) {
        self.file.hide_discard(hidden);
    }

    /// Waits until the session ends, and returns the reason. Any unmount ends the session, also one by another process.
    pub async fn ended(&mut self) -> Rc<SessionEnd> {
        self.mounted.ended().await
    }

    /// Unmounts, waits for the requests under way, and removes the directory.
    ///
    /// # Errors
    /// See [`UnmountError`]. The volume is still served; the caller can try again.
    pub async fn unmount(&mut self) -> Result<(), UnmountError> {
        self.mounted.unmount().await
    }

    pub(crate) fn rt(&self) -> &Rt {
        self.mounted.rt()
    }
}
