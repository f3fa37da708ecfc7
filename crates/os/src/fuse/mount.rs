//! Where a filesystem hangs.
//!
//! Who is not root has `fusermount3` mount it, which is: it opens `/dev/fuse`, mounts it, and hands the descriptor over
//! on a socket (libfuse's `mount_util`). It sees to it that the user may write to the directory, and that nobody
//! becomes somebody else by what is there.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use super::fusermount;
use crate::{Mount, mounts};

/// The filesystem's type as `/proc/self/mountinfo` shows it.
pub const FUSE_TYPE: &str = "fuse.forebay";

/// Where a filesystem hangs, and how.
#[derive(Clone, Debug)]
pub struct FuseMount {
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

impl FuseMount {
    /// In a directory of its own, which is made for it and removed with it: for root alone, for data alone.
    pub fn in_its_own(dir: PathBuf, source: &str) -> FuseMount {
        FuseMount {
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
    pub fn at(dir: PathBuf, source: &str) -> FuseMount {
        FuseMount {
            dir,
            source: source.into(),
            flags: MountFlags::empty(),
            for_all: true,
            own_dir: false,
        }
    }

    /// Mounts a new connection there, and gives its descriptor, which does not block. The kernel's INIT waits in it
    /// afterwards; whoever touches the filesystem before it is served waits for that.
    ///
    /// # Errors
    /// If `/dev/fuse` cannot be opened or mounted: no FUSE in the kernel; not root, and no `fusermount3`.
    pub fn mount(&self) -> io::Result<OwnedFd> {
        if !rustix::process::geteuid().is_root() {
            let fd = fusermount::mount(&self.dir, &self.options_of_a_user())?;
            let flags = rustix::fs::fcntl_getfl(&fd)?;
            rustix::fs::fcntl_setfl(&fd, flags | OFlags::NONBLOCK)?;
            return Ok(fd);
        }
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = rustix::fs::open("/dev/fuse", flags, Mode::empty())?;
        self.mount_as_root(fd.as_fd())?;
        Ok(fd)
    }

    fn options_of_a_user(&self) -> String {
        let (_, subtype) = FUSE_TYPE.split_once('.').expect("a subtype of fuse");
        let mut options = format!(
            "fsname={},subtype={subtype},default_permissions",
            self.source
        );
        for (flag, word) in [
            (MountFlags::RDONLY, "ro"),
            (MountFlags::NOEXEC, "noexec"),
            (MountFlags::NOATIME, "noatime"),
            (MountFlags::SYNCHRONOUS, "sync"),
            (MountFlags::DIRSYNC, "dirsync"),
        ] {
            if self.flags.contains(flag) {
                options.push(',');
                options.push_str(word);
            }
        }
        if self.for_all {
            options.push_str(",allow_other");
        }
        options
    }

    fn mount_as_root(&self, fd: BorrowedFd<'_>) -> io::Result<()> {
        if self.own_dir {
            match rustix::fs::mkdir(&self.dir, 0o700.into()) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let mut options = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0,default_permissions",
            fd.as_raw_fd()
        );
        if self.for_all {
            options.push_str(",allow_other");
        }
        let options = CString::new(options).expect("no zero byte");
        let mounted = rustix::mount::mount(
            &*self.source,
            &self.dir,
            FUSE_TYPE,
            self.flags,
            options.as_c_str(),
        );
        mounted.inspect_err(|_| {
            let _ = self.remove_dir();
        })?;
        Ok(())
    }

    /// Changes what may be done there while it is mounted.
    ///
    /// # Errors
    /// What the system says: nothing is mounted there, or files are open for writing that would come to be read only.
    pub fn remount(&self, flags: MountFlags) -> io::Result<()> {
        Ok(rustix::mount::mount_remount(&self.dir, flags, c"")?)
    }

    /// Lets go of a mount of the same source in the same place whose server is gone. Who still has something open there
    /// gets errors as before. True if there was one.
    ///
    /// # Errors
    /// If it cannot be unmounted.
    pub fn clear_dead(&self) -> io::Result<bool> {
        let ours = |mount: &Mount| {
            mount.point == self.dir
                && mount.fstype == FUSE_TYPE
                && mount.source == Path::new(&self.source)
        };
        let is_there = mounts()?.iter().any(ours);
        // A dead connection says so at once; one that lives is not asked, since that could take for ever.
        let is_dead = || matches!(rustix::fs::statfs(&self.dir), Err(Errno::NOTCONN));
        if !is_there || !is_dead() {
            return Ok(false);
        }
        self.unmount(true)?;
        Ok(true)
    }

    /// The number of what is mounted there now, uppermost.
    pub fn device(&self) -> Option<(u32, u32)> {
        let mounts = mounts().unwrap_or_default();
        let there = mounts.iter().rev().find(|mount| mount.point == self.dir);
        there.map(|mount| mount.device)
    }

    /// False if what has this number is not mounted there, even below another; true if that cannot be known.
    pub fn is_there(&self, device: Option<(u32, u32)>) -> bool {
        let known = mounts().ok().zip(device);
        let is_it = |mount: &Mount, device| mount.point == self.dir && mount.device == device;
        known.is_none_or(|(all, device)| all.iter().any(|mount| is_it(mount, device)))
    }

    /// False if what has this number is mounted nowhere that we can see, as when somebody has unmounted it lazily.
    pub fn is_anywhere(&self, device: Option<(u32, u32)>) -> bool {
        let known = mounts().ok().zip(device);
        known.is_none_or(|(all, device)| all.iter().any(|mount| mount.device == device))
    }

    /// Unmounts it. `lazy` detaches it even if it is in use.
    ///
    /// # Errors
    /// What the system says, of which "busy" is that somebody uses it.
    pub fn unmount(&self, lazy: bool) -> io::Result<()> {
        if !rustix::process::geteuid().is_root() {
            return fusermount::unmount(&self.dir, lazy);
        }
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

    /// Removes the directory if it was made for it.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn remove_dir(&self) -> io::Result<()> {
        if !self.own_dir {
            return Ok(());
        }
        match rustix::fs::rmdir(&self.dir) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
