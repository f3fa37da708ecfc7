//! `/dev/nbdN`: the kernel as the client of an NBD server in this process.
//!
//! The classic calls (`linux/nbd.h`): the kernel gets one end of a socket pair and speaks the
//! transmission phase on it at once, without a handshake; whoever serves the other end was told
//! what to expect by [`NbdExport`].
//!
//! If the process is killed, the device must not keep it. The thread in `NBD_DO_IT` waits
//! interruptibly, so a kill wakes it; on its way out the kernel shuts the socket down and ends the
//! requests under way with an error, and so whatever of this process waits for one of them. Hence that
//! thread is a plain one of this process, and never one that can miss the signal. The one that writes
//! the device back before a disconnect waits where no signal reaches it; it keeps neither end of the
//! socket open ([`super::isolated`]).
#![allow(
    unsafe_code,
    reason = "ioctls with plain numbers as arguments, in one function"
)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;

use super::holders::{Holders, holders};
use super::isolated::isolated;

const NBD_SET_SOCK: libc::c_ulong = 0xab00;
const NBD_SET_BLKSIZE: libc::c_ulong = 0xab01;
const NBD_DO_IT: libc::c_ulong = 0xab03;
const NBD_CLEAR_SOCK: libc::c_ulong = 0xab04;
const NBD_SET_SIZE_BLOCKS: libc::c_ulong = 0xab07;
const NBD_DISCONNECT: libc::c_ulong = 0xab08;
const NBD_SET_FLAGS: libc::c_ulong = 0xab0a;

/// What the kernel is told of the export.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NbdExport {
    /// Length in bytes, a multiple of `block_size`.
    pub len: u64,
    /// Block size in bytes.
    pub block_size: u32,
    /// The transmission flags of the NBD protocol (`NBD_FLAG_SEND_FLUSH`, …).
    pub transmission_flags: u16,
}

/// Why there is no `/dev/nbdN`, or why it was not detached.
#[derive(Debug, thiserror::Error)]
pub enum NbdError {
    /// The kernel has no NBD client.
    #[error(
        "this kernel has no nbd driver (try: modprobe nbd), so there is no /dev/nbdN to attach"
    )]
    NoDriver,
    /// All there are are in use.
    #[error("all {count} nbd devices are in use (the module's nbds_max sets their number)")]
    NoneFree {
        /// How many there are.
        count: usize,
    },
    /// Somebody uses the device; nothing was undone.
    #[error("{} is in use: {holders}; nothing was undone", device.display())]
    Busy {
        /// The block device.
        device: PathBuf,
        /// Who uses it.
        holders: Holders,
    },
    /// The system refused.
    #[error("cannot {doing} {}: {source}", device.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The block device.
        device: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A block device `/dev/nbdN` whose requests come out of a socket.
#[derive(Debug)]
pub struct NbdDevice {
    name: String,
    node: PathBuf,
    driver: Option<JoinHandle<()>>,
}

/// Attaches a free `/dev/nbdN`. Gives the device and the server's end of its socket.
///
/// # Errors
/// See [`NbdError`].
pub fn attach_nbd(export: NbdExport) -> Result<(NbdDevice, UnixStream), NbdError> {
    let mut count = 0;
    loop {
        let name = format!("nbd{count}");
        let sys = Path::new("/sys/block").join(&name);
        if !sys.exists() {
            return Err(match count {
                0 => NbdError::NoDriver,
                count => NbdError::NoneFree { count },
            });
        }
        count += 1;
        // The attribute is there while a client is.
        if sys.join("pid").exists() {
            continue;
        }
        match attach(&name, export) {
            // Somebody was faster.
            Err(NbdError::Io { source, .. }) if source.raw_os_error() == Some(libc::EBUSY) => {}
            done => return done,
        }
    }
}

fn attach(name: &str, export: NbdExport) -> Result<(NbdDevice, UnixStream), NbdError> {
    let node = Path::new("/dev").join(name);
    let failed = |doing| {
        let device = node.clone();
        move |source| NbdError::Io {
            doing,
            device,
            source,
        }
    };
    let dev = File::options()
        .read(true)
        .write(true)
        .open(&node)
        .map_err(failed("open"))?;
    let (kernels, servers) = UnixStream::pair().map_err(failed("make a socket for"))?;
    let kernels = OwnedFd::from(kernels);
    let blocks = export.len / u64::from(export.block_size);
    let setup = |request, argument| ioctl(&dev, request, argument);
    setup(NBD_SET_SOCK, kernels.as_raw_fd() as libc::c_ulong)
        .and_then(|()| setup(NBD_SET_BLKSIZE, export.block_size.into()))
        .and_then(|()| setup(NBD_SET_SIZE_BLOCKS, blocks))
        .and_then(|()| setup(NBD_SET_FLAGS, export.transmission_flags.into()))
        .map_err(failed("set up"))?;
    let thread = std::thread::Builder::new().name("forebay-nbd".into());
    // The call lasts as long as the connection.
    let run = move || {
        let ended = ioctl(&dev, NBD_DO_IT, 0);
        tracing::debug!(?ended, "nbd connection ends");
        let _ = ioctl(&dev, NBD_CLEAR_SOCK, 0);
    };
    let driver = thread.spawn(run).map_err(failed("start a thread for"))?;
    let device = NbdDevice {
        name: name.to_owned(),
        node,
        driver: Some(driver),
    };
    Ok((device, servers))
}

fn ioctl(dev: &File, request: libc::c_ulong, argument: libc::c_ulong) -> io::Result<()> {
    // SAFETY: all of these requests take a number, never a pointer.
    let result = unsafe { libc::ioctl(dev.as_raw_fd(), request, argument) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

impl NbdDevice {
    /// The block device, `/dev/nbdN`.
    pub fn path(&self) -> &Path {
        &self.node
    }

    /// Writes back what the device has cached and disconnects it. The server's end must be served
    /// until this is done.
    ///
    /// # Errors
    /// See [`NbdError`]; the device stays attached.
    pub async fn detach(&mut self) -> Result<(), NbdError> {
        let (name, node) = (self.name.clone(), self.node.clone());
        let io = |doing| {
            let device = self.node.clone();
            move |source| NbdError::Io {
                doing,
                device,
                source,
            }
        };
        isolated(move || disconnect(&name, &node))
            .await
            .map_err(io("detach"))??;
        if let Some(driver) = self.driver.take() {
            let joined = isolated(move || driver.join().is_ok()).await;
            joined.map_err(io("wait for the end of"))?;
        }
        Ok(())
    }
}

fn disconnect(name: &str, node: &Path) -> Result<(), NbdError> {
    let io = |doing| {
        move |source| NbdError::Io {
            doing,
            device: node.to_owned(),
            source,
        }
    };
    let exclusive = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_EXCL)
        .open(node);
    let dev = match exclusive {
        Ok(dev) => dev,
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
            return Err(NbdError::Busy {
                device: node.to_owned(),
                holders: holders(name),
            });
        }
        Err(error) => return Err(io("open")(error)),
    };
    dev.sync_all().map_err(io("write back"))?;
    ioctl(&dev, NBD_DISCONNECT, 0).map_err(io("disconnect"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_nbd_is_refused_in_clear_words() {
        if Path::new("/sys/block/nbd0").exists() {
            eprintln!("SKIPPED: this kernel has nbd");
            return;
        }
        let export = NbdExport {
            len: 1 << 20,
            block_size: 512,
            transmission_flags: 1,
        };
        let error = attach_nbd(export).expect_err("no driver");
        assert!(matches!(error, NbdError::NoDriver));
        assert!(error.to_string().contains("no nbd driver"), "{error}");
    }
}
