//! Mount point of a FUSE filesystem.
//!
//! For users other than root, the setuid program `fusermount3` mounts it: the program opens `/dev/fuse`, mounts the
//! filesystem, and passes the descriptor on a socket (libfuse's `mount_util`). It checks that the user may write to the
//! directory, and forces mount options that prevent a privilege escalation through the mounted files.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use forebay_linux::{MountEntry, mounts};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use super::dead::is_dead;
use super::fusermount;

/// The filesystem's type as `/proc/self/mountinfo` shows it.
pub const FUSE_TYPE: &str = "fuse.forebay";

/// Mount point of a filesystem, with its mount options.
#[derive(Clone, Debug)]
pub struct FuseMount {
    /// The directory.
    pub dir: PathBuf,
    /// The source that the system shows.
    pub source: String,
    /// Mount flags.
    pub flags: MountFlags,
    /// True if users other than the mounting user may use the mount.
    pub for_all: bool,
    /// True if the directory is created for the mount, and removed with it.
    pub own_dir: bool,
}

impl FuseMount {
    /// Returns a mount in a directory that is created for it and removed with it. Only root can use it, and only for
    /// data.
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

    /// Returns a mount in an existing directory, for all users.
    pub fn at(dir: PathBuf, source: &str) -> FuseMount {
        FuseMount {
            dir,
            source: source.into(),
            flags: MountFlags::empty(),
            for_all: true,
            own_dir: false,
        }
    }

    /// Mounts a new connection there, and returns its descriptor, in non-blocking mode. The kernel's INIT is then
    /// queued on the descriptor. Processes that access the filesystem before it is served block until then.
    ///
    /// # Errors
    /// If `/dev/fuse` cannot be opened or mounted: the kernel lacks FUSE, or the user is not root and `fusermount3` is
    /// missing.
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

    /// Changes the flags of the mount.
    ///
    /// # Errors
    /// Those of the system: nothing is mounted there, or a mount with files open for writing would become read-only.
    pub fn remount(&self, flags: MountFlags) -> io::Result<()> {
        Ok(rustix::mount::mount_remount(&self.dir, flags, c"")?)
    }

    /// Unmounts a stale mount of the same source in the same place, whose server has ended. Processes with open files
    /// there get errors as before. Returns true if a stale mount was found.
    ///
    /// # Errors
    /// If it cannot be unmounted.
    pub fn clear_dead(&self) -> io::Result<bool> {
        let ours = |mount: &MountEntry| {
            mount.point == self.dir
                && mount.fstype == FUSE_TYPE
                && mount.source == Path::new(&self.source)
        };
        let is_there = mounts()?.iter().any(ours);
        // A stale mount answers immediately. A working mount is not asked, since the answer could take forever.
        if !is_there || !is_dead(&self.dir) {
            return Ok(false);
        }
        self.unmount(true)?;
        Ok(true)
    }

    /// Returns the device number of the uppermost mount there now.
    pub fn device(&self) -> Option<(u32, u32)> {
        let mounts = mounts().unwrap_or_default();
        let there = mounts.iter().rev().find(|mount| mount.point == self.dir);
        there.map(|mount| mount.device)
    }

    /// Returns false if the filesystem with this device number is not mounted there, not even below another mount; true
    /// if that is unknown.
    pub fn is_there(&self, device: Option<(u32, u32)>) -> bool {
        let known = mounts().ok().zip(device);
        let is_it = |mount: &MountEntry, device| mount.point == self.dir && mount.device == device;
        known.is_none_or(|(all, device)| all.iter().any(|mount| is_it(mount, device)))
    }

    /// Returns false if the filesystem with this device number is not mounted anywhere visible, for example after a
    /// lazy unmount; true if that is unknown.
    pub fn is_anywhere(&self, device: Option<(u32, u32)>) -> bool {
        let known = mounts().ok().zip(device);
        known.is_none_or(|(all, device)| all.iter().any(|mount| mount.device == device))
    }

    /// Unmounts the filesystem. `lazy` detaches it even if it is in use.
    ///
    /// # Errors
    /// Those of the system; "busy" means that a process uses it.
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
            // Another process has unmounted it.
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => self.remove_dir(),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the directory if it was created for the mount.
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
