//! `/dev/nbdN`: the kernel as the client of an NBD server in this process.
//!
//! The classic calls (`linux/nbd.h`): the kernel is told of the export by them, gets one end of a
//! socket pair and begins with requests; the server takes over the other end without a handshake.
//!
//! If the process is killed, the device must not keep it. The thread in `NBD_DO_IT` waits
//! interruptibly, so a kill wakes it; on its way out the kernel shuts the socket down and ends the
//! requests under way with an error, and so whatever of this process waits for one of them. Hence that
//! thread is a plain one of this process, and never one that can miss the signal. The one that writes
//! the device back before a disconnect waits where no signal reaches it; it keeps neither end of the
//! socket open ([`crate::isolated`]).
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
use std::rc::Rc;
use std::thread::JoinHandle;
use std::time::Duration;

use forebay_os::{Ring, Stream};
use forebay_rt::Rt;

use super::holders::{Holders, LOOK_EVERY, LOOKS, holders};
use super::nbd_note::{Note, SYS_BLOCK, connection};
use crate::isolated::isolated;
use crate::nbd::format::export_flag::{
    HAS_FLAGS, READ_ONLY, SEND_FLUSH, SEND_FUA, SEND_TRIM, SEND_WRITE_ZEROES,
};
use crate::nbd::{Export, Server, Socket};

const NBD_SET_SOCK: libc::c_ulong = 0xab00;
const NBD_SET_BLKSIZE: libc::c_ulong = 0xab01;
const NBD_DO_IT: libc::c_ulong = 0xab03;
const NBD_CLEAR_SOCK: libc::c_ulong = 0xab04;
const NBD_SET_SIZE_BLOCKS: libc::c_ulong = 0xab07;
const NBD_DISCONNECT: libc::c_ulong = 0xab08;
const NBD_SET_FLAGS: libc::c_ulong = 0xab0a;

/// How long the driver may take from the call that starts it until the device has its size: so many
/// times so long.
const READY_LOOKS: usize = 2000;
const READY_LOOK_EVERY: Duration = Duration::from_millis(5);

/// What of an export's flags the kernel is told.
const FLAGS_KNOWN: u16 =
    HAS_FLAGS | READ_ONLY | SEND_FLUSH | SEND_FUA | SEND_TRIM | SEND_WRITE_ZEROES;

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
    /// The device of a killed server of this volume is still in use.
    #[error("the dead block device {} is still in use: {holders}", device.display())]
    Leftover {
        /// The block device.
        device: PathBuf,
        /// Who uses it.
        holders: Holders,
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
    note: Note,
}

/// Attaches a free `/dev/nbdN` that `server` serves its default export to, for the volume `name`; when
/// this is done the device has its size. A note of it is kept in `runtime_dir`.
///
/// # Errors
/// See [`NbdError`]. With the device of a killed server of the same name still in use, nothing is
/// attached: whoever uses that one would not notice, and another could be mounted besides.
pub async fn attach_nbd(
    rt: &Rt,
    ring: &Rc<Ring>,
    server: &Server,
    runtime_dir: &Path,
    name: &str,
) -> Result<NbdDevice, NbdError> {
    no_nbd_leftover(runtime_dir, name)?;
    let note = Note::of(runtime_dir, name);
    let (mut device, socket) = attach_free(server.default_export(), note)?;
    let stream = Stream::from_fd(ring, socket.into()).map_err(|source| NbdError::Io {
        doing: "use the socket of",
        device: device.node.clone(),
        source,
    })?;
    server.connect_without_handshake(Rc::new(Socket::new(stream)));
    let len = server.default_export().geometry().len;
    if let Err(source) = device.ready(rt, len).await {
        if let Err(error) = device.detach().await {
            tracing::warn!(%error, "after a failed attach");
        }
        return Err(NbdError::Io {
            doing: "start",
            device: device.node,
            source,
        });
    }
    Ok(device)
}

/// Looks whether a killed server of the volume `name` left an nbd device, of which there is a note in
/// `runtime_dir`, and somebody has it still. (The driver clears it away when nobody has.)
///
/// # Errors
/// [`NbdError::Leftover`].
pub fn no_nbd_leftover(runtime_dir: &Path, name: &str) -> Result<(), NbdError> {
    match Note::of(runtime_dir, name).device(SYS_BLOCK.as_ref()) {
        None => Ok(()),
        Some(left) => Err(NbdError::Leftover {
            device: node(&left),
            holders: holders(&left),
        }),
    }
}

fn node(name: &str) -> PathBuf {
    Path::new("/dev").join(name)
}

/// Gives the device and the server's end of its socket.
fn attach_free(export: &Export, note: Note) -> Result<(NbdDevice, UnixStream), NbdError> {
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
        match attach(&name, export) {
            // Somebody was faster.
            Err(NbdError::Io { source, .. }) if source.raw_os_error() == Some(libc::EBUSY) => {}
            Err(error) => return Err(error),
            Ok((driver, servers)) => {
                let device = NbdDevice {
                    node: node(&name),
                    name,
                    driver: Some(driver),
                    note,
                };
                return Ok((device, servers));
            }
        }
    }
}

/// Starts the thread that serves as the driver's; gives the server's end of its socket besides.
fn attach(name: &str, export: &Export) -> Result<(JoinHandle<()>, UnixStream), NbdError> {
    let node = node(name);
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
    let geometry = export.geometry();
    let blocks = geometry.len / u64::from(geometry.block_size);
    let flags = flags(export);
    let setup = |request, argument| ioctl(&dev, request, argument);
    setup(NBD_SET_SOCK, kernels.as_raw_fd() as libc::c_ulong)
        .and_then(|()| setup(NBD_SET_BLKSIZE, geometry.block_size.into()))
        .and_then(|()| setup(NBD_SET_SIZE_BLOCKS, blocks))
        .and_then(|()| setup(NBD_SET_FLAGS, flags.into()))
        .map_err(failed("set up"))?;
    let thread = std::thread::Builder::new().name("forebay-nbd".into());
    // The call lasts as long as the connection.
    let run = move || {
        let ended = ioctl(&dev, NBD_DO_IT, 0);
        tracing::debug!(?ended, "nbd connection ends");
        let _ = ioctl(&dev, NBD_CLEAR_SOCK, 0);
    };
    let driver = thread.spawn(run).map_err(failed("start a thread for"))?;
    Ok((driver, servers))
}

fn flags(export: &Export) -> u16 {
    export.flags(false) & FLAGS_KNOWN
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

    /// Waits until the driver has made the device as long as it is to be, which it does some time after it
    /// was told to, and makes the note.
    async fn ready(&self, rt: &Rt, len: u64) -> io::Result<()> {
        let sys = Path::new(SYS_BLOCK);
        let size = sys.join(&self.name).join("size");
        let sectors = (len / 512).to_string();
        // It may still have the size of a connection before this one.
        let is_ready = || {
            connection(sys, &self.name).is_some()
                && std::fs::read_to_string(&size).is_ok_and(|found| found.trim() == sectors)
        };
        let mut looks = 0;
        while !is_ready() {
            if self.driver.as_ref().is_none_or(JoinHandle::is_finished) {
                return Err(io::Error::other(
                    "the driver gave the connection up at once",
                ));
            }
            if looks == READY_LOOKS {
                return Err(io::ErrorKind::TimedOut.into());
            }
            looks += 1;
            rt.sleep(READY_LOOK_EVERY).await;
        }
        self.note.write(sys, &self.name)
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
        self.note.remove();
        Ok(())
    }
}

fn disconnect(name: &str, node: &Path) -> Result<(), NbdError> {
    let mut looks = 0;
    loop {
        match try_disconnect(name, node) {
            Err(NbdError::Busy { holders, .. }) if !holders.are_lasting() && looks < LOOKS => {
                looks += 1;
                std::thread::sleep(LOOK_EVERY);
            }
            done => return done,
        }
    }
}

fn try_disconnect(name: &str, node: &Path) -> Result<(), NbdError> {
    let busy = |holders| NbdError::Busy {
        device: node.to_owned(),
        holders,
    };
    // An exclusive open does not mind those who have it open in the ordinary way.
    let users = holders(name);
    if !users.0.is_empty() {
        return Err(busy(users));
    }
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
            return Err(busy(holders(name)));
        }
        Err(error) => return Err(io("open")(error)),
    };
    dev.sync_all().map_err(io("write back"))?;
    ioctl(&dev, NBD_DISCONNECT, 0).map_err(io("disconnect"))
}

#[cfg(test)]
mod tests {
    use forebay_device::RamDevice;

    use super::*;

    #[test]
    fn the_kernel_is_told_what_it_knows_of() {
        let export = Export::new("disk", Rc::new(RamDevice::new(1 << 20, 512)));
        let known = HAS_FLAGS | SEND_FLUSH | SEND_FUA | SEND_TRIM | SEND_WRITE_ZEROES;
        assert_eq!(flags(&export), known);
        assert_eq!(
            flags(&export.read_only(true)),
            HAS_FLAGS | READ_ONLY | SEND_FLUSH | SEND_FUA
        );
    }

    #[test]
    fn a_kernel_without_nbd_is_refused_in_clear_words() {
        if Path::new("/sys/block/nbd0").exists() {
            eprintln!("SKIPPED: this kernel has nbd");
            return;
        }
        let export = Export::new("disk", Rc::new(RamDevice::new(1 << 20, 512)));
        let note = Note::of("/nonexistent".as_ref(), "disk");
        let error = attach_free(&export, note).expect_err("no driver");
        assert!(matches!(error, NbdError::NoDriver));
        assert!(error.to_string().contains("no nbd driver"), "{error}");
    }
}
