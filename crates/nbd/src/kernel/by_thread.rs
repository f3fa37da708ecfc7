//! Devices whose connection a thread of this process keeps, through the classic calls (`linux/nbd.h`).
//!
//! If the process is killed, the device must not block its exit. The thread in `NBD_DO_IT` waits interruptibly, so a
//! kill wakes it. On its way out the kernel shuts the socket down and ends the requests under way with an error, which
//! also ends the wait of other threads of this process. Hence the thread is a plain thread of this process, and never a
//! thread that can miss the signal.
#![allow(
    unsafe_code,
    reason = "ioctls with plain numbers as arguments, in one function"
)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use forebay_frontend::block_device::holders;
use forebay_rt::Rt;

use super::error::NbdError;
use super::note::{NbdNote, SYS_BLOCK, connection};
use crate::server::NbdExport;

const NBD_SET_SOCK: libc::c_ulong = 0xab00;
const NBD_SET_BLKSIZE: libc::c_ulong = 0xab01;
const NBD_DO_IT: libc::c_ulong = 0xab03;
const NBD_CLEAR_SOCK: libc::c_ulong = 0xab04;
const NBD_SET_SIZE_BLOCKS: libc::c_ulong = 0xab07;
const NBD_DISCONNECT: libc::c_ulong = 0xab08;
const NBD_SET_FLAGS: libc::c_ulong = 0xab0a;

/// Limit on the time from the call that starts the driver until the device has its size: number of checks, and the
/// pause between them.
const READY_LOOKS: usize = 2000;
const READY_LOOK_EVERY: Duration = Duration::from_millis(5);

/// The thread, and the note file on its device.
#[derive(Debug)]
pub(super) struct NbdKeeperThread {
    name: String,
    thread: Option<JoinHandle<()>>,
    note: NbdNote,
}

fn node(name: &str) -> PathBuf {
    Path::new("/dev").join(name)
}

/// Checks that no nbd device of a killed server of the volume `name`, recorded by a note in `runtime_dir`, is still in
/// use. Its users would not notice the end of the server, and a second device of the volume could be mounted besides.
/// (The driver removes the device after its last user closes it.)
///
/// # Errors
/// [`NbdError::Leftover`].
pub fn no_nbd_leftover(runtime_dir: &Path, name: &str) -> Result<(), NbdError> {
    match NbdNote::of(runtime_dir, name).device(SYS_BLOCK.as_ref()) {
        Some(left) => Err(NbdError::Leftover {
            device: node(&left),
            holders: holders(&left),
        }),
        None => Ok(()),
    }
}

/// Connects a free device to `export`. Also returns the server's end of its socket. The note on the device will be kept
/// in `runtime_dir`.
pub(super) fn attach_free(
    export: &NbdExport,
    flags: u16,
    runtime_dir: &Path,
    volume: &str,
) -> Result<(NbdKeeperThread, UnixStream), NbdError> {
    let mut count = 0;
    loop {
        let name = format!("nbd{count}");
        if !Path::new(SYS_BLOCK).join(&name).exists() {
            return Err(match count {
                0 => NbdError::NoDriver,
                count => NbdError::NoneFree { count },
            });
        }
        count += 1;
        if connection(SYS_BLOCK.as_ref(), &name).is_some() {
            continue;
        }
        match attach(&name, export, flags) {
            // Another program took the device first.
            Err(NbdError::Io { source, .. }) if source.raw_os_error() == Some(libc::EBUSY) => {}
            Err(error) => return Err(error),
            Ok((thread, servers)) => {
                let keeper = NbdKeeperThread {
                    name,
                    thread: Some(thread),
                    note: NbdNote::of(runtime_dir, volume),
                };
                return Ok((keeper, servers));
            }
        }
    }
}

/// Starts the thread. Also returns the server's end of its socket.
fn attach(
    name: &str,
    export: &NbdExport,
    flags: u16,
) -> Result<(JoinHandle<()>, UnixStream), NbdError> {
    let node = node(name);
    let dev = File::options().read(true).write(true).open(&node);
    let dev = dev.map_err(NbdError::io("open", &node))?;
    let pair = UnixStream::pair();
    let (kernels, servers) = pair.map_err(NbdError::io("make a socket for", &node))?;
    let kernels = OwnedFd::from(kernels);
    let geometry = export.geometry();
    let blocks = geometry.len / u64::from(geometry.block_size);
    let setup = |request, argument| ioctl(&dev, request, argument);
    setup(NBD_SET_SOCK, kernels.as_raw_fd() as libc::c_ulong)
        .and_then(|()| setup(NBD_SET_BLKSIZE, geometry.block_size.into()))
        .and_then(|()| setup(NBD_SET_SIZE_BLOCKS, blocks))
        .and_then(|()| setup(NBD_SET_FLAGS, flags.into()))
        .map_err(NbdError::io("set up", &node))?;
    let thread = std::thread::Builder::new().name("forebay-nbd".into());
    // The call lasts as long as the connection.
    let run = move || {
        let ended = ioctl(&dev, NBD_DO_IT, 0);
        tracing::debug!(?ended, "nbd connection ends");
        let _ = ioctl(&dev, NBD_CLEAR_SOCK, 0);
    };
    let thread = thread.spawn(run);
    let thread = thread.map_err(NbdError::io("start a thread for", &node))?;
    Ok((thread, servers))
}

fn ioctl(dev: &File, request: libc::c_ulong, argument: libc::c_ulong) -> io::Result<()> {
    // SAFETY: all of these requests take a number, never a pointer.
    let result = unsafe { libc::ioctl(dev.as_raw_fd(), request, argument) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Sets the kernel's length of device `name` to `blocks` blocks. As with
/// [`by_driver::resize`](super::by_driver::resize), a thread that serves the device must not call this.
pub(super) fn resize(name: &str, blocks: u64) -> Result<(), NbdError> {
    let node = node(name);
    let dev = File::options().read(true).write(true).open(&node);
    let dev = dev.map_err(NbdError::io("open", &node))?;
    ioctl(&dev, NBD_SET_SIZE_BLOCKS, blocks).map_err(NbdError::io("give a new length to", &node))
}

/// Ends the connection of an open device.
pub(super) fn disconnect(dev: &File) -> io::Result<()> {
    ioctl(dev, NBD_DISCONNECT, 0)
}

impl NbdKeeperThread {
    /// Returns the device's name in sysfs.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Waits until the driver has given the device its length, which happens some time after the call, and writes the
    /// note.
    pub(super) async fn ready(&self, rt: &Rt, len: u64) -> io::Result<()> {
        let sys = Path::new(SYS_BLOCK);
        let size = sys.join(&self.name).join("size");
        let sectors = (len / 512).to_string();
        // The size alone could be that of a previous connection.
        let is_ready = || {
            connection(sys, &self.name).is_some()
                && std::fs::read_to_string(&size).is_ok_and(|found| found.trim() == sectors)
        };
        let mut looks = 0;
        while !is_ready() {
            if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
                return Err(io::Error::other("the driver ended the connection at once"));
            }
            if looks == READY_LOOKS {
                return Err(io::ErrorKind::TimedOut.into());
            }
            looks += 1;
            rt.sleep(READY_LOOK_EVERY).await;
        }
        self.note.write(sys, &self.name)
    }

    /// Returns the thread, which ends with the connection, for joining it where blocking is allowed.
    pub(super) fn take_thread(&mut self) -> Option<JoinHandle<()>> {
        self.thread.take()
    }

    /// Removes the note: the device no longer exists.
    pub(super) fn forget(&self) {
        self.note.remove();
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use forebay_device::RamDevice;

    use super::*;

    #[test]
    fn a_kernel_without_nbd_has_no_free_device() {
        if Path::new("/sys/block/nbd0").exists() {
            let skipped =
                b"SKIPPED: a_kernel_without_nbd_has_no_free_device: this kernel has nbd\n";
            return std::io::Write::write_all(&mut std::io::stderr(), skipped)
                .expect("standard error");
        }
        let export = NbdExport::new("disk", Rc::new(RamDevice::new(1 << 20, 512)));
        let error = attach_free(&export, 0, "/nonexistent".as_ref(), "disk").expect_err("none");
        assert!(matches!(error, NbdError::NoDriver));
    }
}
