//! Where a filesystem hangs.

use std::ffi::CString;
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use super::channel::Channel;

/// The filesystem's type as `/proc/self/mountinfo` shows it.
pub(crate) const FSTYPE: &str = "fuse.forebay";

/// Where a filesystem hangs, and how.
#[derive(Clone, Debug)]
pub struct Mount {
    /// The directory.
    pub dir: PathBuf,
    /// What the system shows as its source.
    pub source: String,
    /// What may be done there.
    pub flags: MountFlags,
    /// Others than who mounts it may use it.
    pub for_all: bool,
    /// The directory is made for it, and removed with it.
    pub own_dir: bool,
}

impl Mount {
    /// In a directory of its own, which is made for it and removed with it: for root alone, for data alone.
    pub(crate) fn in_its_own(dir: PathBuf, source: &str) -> Mount {
        Mount {
            dir,
            source: source.into(),
            flags: MountFlags::NOSUID
                | MountFlags::NODEV
                | MountFlags::NOEXEC
                | MountFlags::NOATIME,
            for_all: false,
            own_dir: true,
        }
    }

    /// In a directory that is there, for everybody.
    pub fn at(dir: PathBuf, source: &str) -> Mount {
        Mount {
            dir,
            source: source.into(),
            flags: MountFlags::empty(),
            for_all: true,
            own_dir: false,
        }
    }

    /// Mounts the connection there. The kernel's INIT waits in the channel afterwards; whoever touches the filesystem
    /// before the session runs waits for it.
    pub(super) fn mount(&self, channel: &Channel) -> io::Result<()> {
        if self.own_dir {
            match rustix::fs::mkdir(&self.dir, 0o700.into()) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut options = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0,default_permissions",
            channel.fd().as_raw_fd()
        );
        if self.for_all {
            options.push_str(",allow_other");
        }
        let options = CString::new(options).expect("no zero byte");
        let mounted = rustix::mount::mount(
            &*self.source,
            &self.dir,
            FSTYPE,
            self.flags,
            options.as_c_str(),
        );
        mounted.inspect_err(|_| {
            let _ = self.remove_dir();
        })?;
        Ok(())
    }

    /// Unmounts it. `lazy` detaches it even if it is in use.
    pub(super) fn unmount(&self, lazy: bool) -> io::Result<()> {
        let flags = if lazy {
            UnmountFlags::DETACH | UnmountFlags::NOFOLLOW
        } else {
            UnmountFlags::NOFOLLOW
        };
        match rustix::mount::unmount(&self.dir, flags) {
            // Not mounted any more: somebody else was faster.
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => self.remove_dir(),
            Err(error) => Err(error.into()),
        }
    }

    fn remove_dir(&self) -> io::Result<()> {
        if !self.own_dir {
            return Ok(());
        }
        match rustix::fs::rmdir(&self.dir) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
