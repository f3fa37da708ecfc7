//! Where the filesystem hangs: a directory of its own, made for it and removed with it.

use std::ffi::CString;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags};

use super::channel::Channel;

/// The filesystem's type as `/proc/self/mountinfo` shows it.
pub(crate) const FSTYPE: &str = "fuse.forebay";

/// Makes `dir` and mounts the connection there. The kernel's INIT waits in the channel afterwards;
/// whoever touches the filesystem before the session runs waits for it.
pub(crate) fn mount(channel: &Channel, dir: &Path, name: &str) -> io::Result<()> {
    match rustix::fs::mkdir(dir, 0o700.into()) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let options = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0,default_permissions",
        channel.fd().as_raw_fd()
    );
    let options = CString::new(options).expect("no zero byte");
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC | MountFlags::NOATIME;
    rustix::mount::mount(name, dir, FSTYPE, flags, options.as_c_str()).inspect_err(|_| {
        let _ = rustix::fs::rmdir(dir);
    })?;
    Ok(())
}

/// Unmounts and removes `dir`. `lazy` detaches it even if it is in use.
pub(crate) fn unmount(dir: &Path, lazy: bool) -> io::Result<()> {
    let flags = if lazy {
        UnmountFlags::DETACH | UnmountFlags::NOFOLLOW
    } else {
        UnmountFlags::NOFOLLOW
    };
    match rustix::mount::unmount(dir, flags) {
        // Not mounted any more: somebody else was faster.
        Ok(()) | Err(Errno::INVAL | Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    match rustix::fs::rmdir(dir) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
