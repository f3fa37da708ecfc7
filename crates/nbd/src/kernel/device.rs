//! A volume as `/dev/nbdN`: attaching, detaching, and hand-off to another server.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use forebay_device::DeviceGeometry;
use forebay_frontend::block_device::{
    LOOK_EVERY, LOOKS, OwnBlockDevice, holders, lasting_holders, write_back,
};
use forebay_linux::{IoRing, SocketStream, isolated};
use forebay_rt::Rt;

use super::by_driver;
use super::by_thread::{self, NbdKeeperThread};
use super::error::NbdError;
use crate::codec::format::export_flag::{
    HAS_FLAGS, READ_ONLY, SEND_FLUSH, SEND_FUA, SEND_TRIM, SEND_WRITE_ZEROES,
};
use crate::server::{NbdExport, NbdServer, NbdSocket, NbdWire};

/// The export flags that are passed to the kernel.
const FLAGS_KNOWN: u16 =
    HAS_FLAGS | READ_ONLY | SEND_FLUSH | SEND_FUA | SEND_TRIM | SEND_WRITE_ZEROES;

/// Options for attaching.
#[derive(Clone, Copy, Debug)]
pub struct NbdOptions<'a> {
    /// Id of the volume. All attaches of a volume must use the same text, and different volumes different texts.
    pub volume: &'a str,
    /// Name of the volume.
    pub name: &'a str,
    /// Directory for the note on a device that ends with its server.
    pub runtime_dir: &'a Path,
    /// The device outlives its server, and the next server recovers it. Allowed only if acknowledged writes survive the
    /// death of the process without a flush: the users of the block device would not notice the loss. Without this
    /// option they get errors once the server ends.
    pub recoverable: bool,
}

/// The keeper of the connection.
#[derive(Debug)]
enum ConnectionKeeper {
    /// The driver, for the device with this number.
    ByDriver(u32),
    ByThread(NbdKeeperThread),
}

/// A block device `/dev/nbdN` whose requests come out of a socket.
///
/// Dropping it without [`NbdDevice::detach`] leaves the device as a killed server does.
pub struct NbdDevice {
    node: PathBuf,
    held: OwnBlockDevice,
    kept: ConnectionKeeper,
    wire: Rc<NbdSocket>,
    resumed: bool,
}

/// Attaches a `/dev/nbdN` to the default export of `server`, and waits until it has its size. If a server of this
/// volume left a device behind, recovers that device with all its waiting requests.
///
/// The caller must make sure that no other server serves the volume.
///
/// # Errors
/// See [`NbdError`]. No new device is left behind, and a leftover device is unchanged.
pub async fn attach_nbd(
    rt: &Rt,
    ring: &Rc<IoRing>,
    server: &NbdServer,
    options: NbdOptions<'_>,
) -> Result<NbdDevice, NbdError> {
    by_thread::no_nbd_leftover(options.runtime_dir, options.name)?;
    let attach = NbdAttach {
        rt,
        ring,
        server,
        options,
    };
    match by_driver::left_behind(options.volume) {
        Some(index) => attach.recover(index).await,
        None if options.recoverable => attach.connect(),
        None => attach.start_thread().await,
    }
}

/// The arguments of attaching.
struct NbdAttach<'a> {
    rt: &'a Rt,
    ring: &'a Rc<IoRing>,
    server: &'a NbdServer,
    options: NbdOptions<'a>,
}

fn pair() -> Result<(UnixStream, UnixStream), NbdError> {
    UnixStream::pair().map_err(NbdError::io("make a socket for", "/dev/nbdN"))
}

impl NbdAttach<'_> {
    fn connect(self) -> Result<NbdDevice, NbdError> {
        let (kernels, servers) = pair()?;
        // Requests can come as soon as the kernel has its end.
        let wire = self.wire(servers)?;
        let export = self.server.default_export();
        let (volume, geometry) = (self.options.volume, export.geometry());
        let index = by_driver::connect(volume, &geometry, flags(export), &kernels)?;
        Ok(self.attached(ConnectionKeeper::ByDriver(index), wire, false))
    }

    async fn recover(self, index: u32) -> Result<NbdDevice, NbdError> {
        let (kernels, servers) = pair()?;
        let wire = self.wire(servers)?;
        let geometry = self.server.default_export().geometry();
        let NbdOptions {
            volume,
            recoverable,
            ..
        } = self.options;
        let rt = self.rt;
        by_driver::recover(rt, volume, index, &geometry, recoverable, &kernels).await?;
        let device = self.attached(ConnectionKeeper::ByDriver(index), wire, true);
        if by_driver::len(index) < geometry.len
            && let Err(error) = device.resize(volume, &geometry).await
        {
            tracing::warn!(%error, "the volume grew, and its block device did not");
        }
        Ok(device)
    }

    async fn start_thread(self) -> Result<NbdDevice, NbdError> {
        let export = self.server.default_export();
        let NbdOptions {
            name, runtime_dir, ..
        } = self.options;
        let (keeper, servers) = by_thread::attach_free(export, flags(export), runtime_dir, name)?;
        let wire = self.wire(servers)?;
        let len = export.geometry().len;
        let mut device = self.attached(ConnectionKeeper::ByThread(keeper), wire, false);
        let ConnectionKeeper::ByThread(keeper) = &device.kept else {
            return Ok(device);
        };
        if let Err(source) = keeper.ready(self.rt, len).await {
            if let Err(error) = device.detach().await {
                tracing::warn!(%error, "after a failed attach");
            }
            return Err(NbdError::io("start", device.path())(source));
        }
        // sysfs shows the thread only now.
        device.held = OwnBlockDevice::by(&device.node, device.kept.mark());
        Ok(device)
    }

    fn wire(&self, servers: UnixStream) -> Result<Rc<NbdSocket>, NbdError> {
        let stream = SocketStream::from_fd(self.ring, servers.into());
        let stream = stream.map_err(NbdError::io("use a socket of", "/dev/nbdN"))?;
        Ok(Rc::new(NbdSocket::new(stream)))
    }

    /// Begins to serve the device.
    fn attached(&self, kept: ConnectionKeeper, wire: Rc<NbdSocket>, resumed: bool) -> NbdDevice {
        let wired: Rc<dyn NbdWire> = Rc::clone(&wire) as Rc<dyn NbdWire>;
        self.server.connect_without_handshake(wired);
        let node = Path::new("/dev").join(kept.name());
        NbdDevice {
            held: OwnBlockDevice::by(&node, kept.mark()),
            node,
            kept,
            wire,
            resumed,
        }
    }
}

fn flags(export: &NbdExport) -> u16 {
    export.flags(false) & FLAGS_KNOWN
}

impl ConnectionKeeper {
    /// Returns the file in the device's sysfs directory that distinguishes the device from others.
    fn mark(&self) -> &'static str {
        match self {
            ConnectionKeeper::ByDriver(_) => "backend",
            ConnectionKeeper::ByThread(_) => "pid",
        }
    }

    /// Returns the device's name in sysfs.
    fn name(&self) -> String {
        match self {
            ConnectionKeeper::ByDriver(index) => by_driver::name(*index),
            ConnectionKeeper::ByThread(keeper) => keeper.name().to_owned(),
        }
    }
}

impl NbdDevice {
    /// Returns the path of the block device, `/dev/nbdN`.
    pub fn path(&self) -> &Path {
        &self.node
    }

    /// Returns a handle for checking that the block device still exists.
    pub fn held(&self) -> OwnBlockDevice {
        self.held.clone()
    }

    /// Checks that the block device is unused.
    ///
    /// # Errors
    /// [`NbdError::Busy`].
    pub async fn check_unused(&self) -> Result<(), NbdError> {
        if self.held.is_lost() {
            return Ok(());
        }
        let name = self.kept.name();
        let holders = isolated(move || lasting_holders(&name)).await;
        let holders = holders.map_err(NbdError::io("look at", &self.node))?;
        if holders.0.is_empty() {
            Ok(())
        } else {
            Err(NbdError::Busy {
                device: self.node.clone(),
                holders,
            })
        }
    }

    /// Returns true if the device was recovered from another server.
    pub fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// Returns true if the device outlives its server.
    pub fn is_recoverable(&self) -> bool {
        matches!(self.kept, ConnectionKeeper::ByDriver(_))
    }

    /// Sets the kernel's length of the device to that of `geometry`. The future borrows nothing.
    ///
    /// # Errors
    /// See [`NbdError`]; the device keeps its length.
    pub fn resize(
        &self,
        volume: &str,
        geometry: &DeviceGeometry,
    ) -> impl Future<Output = Result<(), NbdError>> + use<> {
        let (node, name, volume) = (self.node.clone(), self.kept.name(), volume.to_owned());
        let (len, blocks) = (geometry.len, geometry.len / u64::from(geometry.block_size));
        let by_driver = match &self.kept {
            ConnectionKeeper::ByDriver(index) => Some(*index),
            ConnectionKeeper::ByThread(_) => None,
        };
        let is_lost = self.held.is_lost();
        async move {
            if is_lost {
                let lost = std::io::Error::other("another program removed it");
                return Err(NbdError::io("give a new length to", &node)(lost));
            }
            let resize = move || match by_driver {
                Some(index) => by_driver::resize(index, &volume, len),
                None => by_thread::resize(&name, blocks),
            };
            let failed = NbdError::io("give a new length to", &node);
            isolated(resize).await.map_err(failed)?
        }
    }

    /// Leaves the block device to the next server of the volume. From now on requests wait for this server, and
    /// requests under way are sent to it again.
    ///
    /// # Errors
    /// [`NbdError::NotRecoverable`]; the device is then served as before.
    pub fn hand_over(&self) -> Result<(), NbdError> {
        if !self.is_recoverable() {
            return Err(NbdError::NotRecoverable {
                device: self.node.clone(),
            });
        }
        self.let_wait();
        Ok(())
    }

    /// Makes further requests wait for the next server of the volume, if the device outlives this server. Requests
    /// under way are executed, but not answered.
    pub fn let_wait(&self) {
        if self.is_recoverable() {
            self.wire.shutdown();
        }
    }

    /// Writes back the device's cached data and disconnects the device. The server's end must be served until this
    /// returns.
    ///
    /// # Errors
    /// See [`NbdError`]; the device stays attached.
    pub async fn detach(&mut self) -> Result<(), NbdError> {
        let (node, name) = (self.node.clone(), self.kept.name());
        let by_driver = match &self.kept {
            ConnectionKeeper::ByDriver(index) => Some(*index),
            ConnectionKeeper::ByThread(_) => None,
        };
        // A device that another program disconnected (`nbd-client -d`) may belong to that program now.
        if !self.held.is_lost() {
            isolated(move || disconnect(&name, &node, by_driver))
                .await
                .map_err(NbdError::io("detach", &self.node))??;
        }
        let ConnectionKeeper::ByThread(keeper) = &mut self.kept else {
            return Ok(());
        };
        if let Some(thread) = keeper.take_thread() {
            let joined = isolated(move || thread.join().is_ok()).await;
            joined.map_err(NbdError::io("wait for the end of", &self.node))?;
        }
        keeper.forget();
        Ok(())
    }
}

impl Drop for NbdDevice {
    fn drop(&mut self) {
        // The connection is still served, and would be until the volume is closed under it.
        self.let_wait();
    }
}

/// Writes back and disconnects an unused device; `by_driver` is its number if the driver keeps the connection. The
/// write-back waits uninterruptibly, so this thread holds neither end of the socket open ([`forebay_linux::isolated`]). If
/// the process is killed meanwhile, the awaited requests fail, or the next server executes them.
fn disconnect(name: &str, node: &Path, by_driver: Option<u32>) -> Result<(), NbdError> {
    let mut looks = 0;
    loop {
        match try_disconnect(name, node, by_driver) {
            Err(NbdError::Busy { holders, .. }) if !holders.are_lasting() && looks < LOOKS => {
                looks += 1;
                std::thread::sleep(LOOK_EVERY);
            }
            done => return done,
        }
    }
}

fn try_disconnect(name: &str, node: &Path, by_driver: Option<u32>) -> Result<(), NbdError> {
    let busy = |holders| NbdError::Busy {
        device: node.to_owned(),
        holders,
    };
    // An exclusive open succeeds even if other processes have the device open without `O_EXCL`.
    let users = holders(name);
    if !users.0.is_empty() {
        return Err(busy(users));
    }
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
        Err(error) => return Err(NbdError::io("open", node)(error)),
    };
    write_back(&dev).map_err(|source| NbdError::WriteBack {
        device: node.to_owned(),
        source,
    })?;
    match by_driver {
        Some(index) => by_driver::disconnect(index),
        None => by_thread::disconnect(&dev).map_err(NbdError::io("disconnect", node)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use forebay_device::RamDevice;

    use super::*;

    /// While a device is being detached, the detaching task owns it, and drops it if the daemon is told to stop at
    /// once. Its requests were then answered with errors.
    #[test]
    fn a_dropped_device_keeps_its_requests_for_the_next_server() {
        let ring = Rc::new(IoRing::new(8).expect("an io_uring"));
        let (mut kernels, servers) = UnixStream::pair().unwrap();
        kernels.set_nonblocking(true).unwrap();
        let stream = SocketStream::from_fd(&ring, servers.into()).unwrap();
        let wire = Rc::new(NbdSocket::new(stream));
        let device = NbdDevice {
            node: "/dev/nbd0".into(),
            held: OwnBlockDevice::by("/dev/nbd0".as_ref(), "backend"),
            kept: ConnectionKeeper::ByDriver(0),
            wire: Rc::clone(&wire),
            resumed: false,
        };
        let read = kernels.read(&mut [0]).map_err(|error| error.kind());
        assert_eq!(read, Err(std::io::ErrorKind::WouldBlock));
        // The server still holds the wire.
        drop(device);
        let read = kernels.read(&mut [0]).map_err(|error| error.kind());
        assert_eq!(read, Ok(0));
    }

    #[test]
    fn only_flags_that_the_kernel_supports_are_sent() {
        let export = NbdExport::new("disk", Rc::new(RamDevice::new(1 << 20, 512)));
        let known = HAS_FLAGS | SEND_FLUSH | SEND_FUA | SEND_TRIM | SEND_WRITE_ZEROES;
        assert_eq!(flags(&export), known);
        assert_eq!(
            flags(&export.read_only(true)),
            HAS_FLAGS | READ_ONLY | SEND_FLUSH | SEND_FUA
        );
    }
}
