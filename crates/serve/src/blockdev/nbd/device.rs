//! Attaching a volume as `/dev/nbdN`, detaching it, and leaving it to another server.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use forebay_device::Geometry;
use forebay_os::{Ring, Stream};
use forebay_rt::Rt;

use super::by_driver;
use super::by_thread::{self, Keeper};
use super::error::NbdError;
use crate::blockdev::cached::write_back;
use crate::blockdev::held::Held;
use crate::blockdev::holders::{LOOK_EVERY, LOOKS, holders, lasting_holders};
use crate::nbd::format::export_flag::{
    HAS_FLAGS, READ_ONLY, SEND_FLUSH, SEND_FUA, SEND_TRIM, SEND_WRITE_ZEROES,
};
use crate::nbd::{Export, Server, Socket, Wire};
use forebay_os::isolated;

/// What of an export's flags the kernel is told.
const FLAGS_KNOWN: u16 =
    HAS_FLAGS | READ_ONLY | SEND_FLUSH | SEND_FUA | SEND_TRIM | SEND_WRITE_ZEROES;

/// How to attach.
#[derive(Clone, Copy, Debug)]
pub struct NbdOptions<'a> {
    /// Which volume it is: attaches of the same one have the same text, and others another.
    pub volume: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Where a note is kept of a device that ends with its server.
    pub runtime_dir: &'a Path,
    /// The device outlives its server, and the next one takes it up. Only for a device that keeps what
    /// it acknowledged when its process dies, whether it was flushed or not: users of the block device
    /// would not notice what is lost. Without it they get errors from then on.
    pub recoverable: bool,
}

/// What keeps the connection.
#[derive(Debug)]
enum Kept {
    /// The driver, for the device with this number.
    ByDriver(u32),
    ByThread(Keeper),
}

/// A block device `/dev/nbdN` whose requests come out of a socket.
///
/// Without [`NbdDevice::detach`] it is left as by a server that was killed.
pub struct NbdDevice {
    node: PathBuf,
    held: Held,
    kept: Kept,
    wire: Rc<Socket>,
    resumed: bool,
}

/// Attaches a `/dev/nbdN` that `server` serves its default export to; when this is done the device has its
/// size. If a server of the same volume left one behind, that is taken up again, with all that waits for
/// it.
///
/// That nobody serves the same volume now is for the caller to see to.
///
/// # Errors
/// See [`NbdError`]. Nothing new is left behind, and what was left stays as it was.
pub async fn attach_nbd(
    rt: &Rt,
    ring: &Rc<Ring>,
    server: &Server,
    options: NbdOptions<'_>,
) -> Result<NbdDevice, NbdError> {
    by_thread::no_nbd_leftover(options.runtime_dir, options.name)?;
    let attach = Attach {
        rt,
        ring,
        server,
        options,
    };
    match by_driver::left_behind(options.volume) {
        Some(index) => attach.take_up(index).await,
        None if options.recoverable => attach.connect(),
        None => attach.start_thread().await,
    }
}

/// What it takes to attach.
struct Attach<'a> {
    rt: &'a Rt,
    ring: &'a Rc<Ring>,
    server: &'a Server,
    options: NbdOptions<'a>,
}

fn pair() -> Result<(UnixStream, UnixStream), NbdError> {
    UnixStream::pair().map_err(NbdError::io("make a socket for", "/dev/nbdN"))
}

impl Attach<'_> {
    fn connect(self) -> Result<NbdDevice, NbdError> {
        let (kernels, servers) = pair()?;
        // Requests may come from the moment the kernel has its end.
        let wire = self.wire(servers)?;
        let export = self.server.default_export();
        let (volume, geometry) = (self.options.volume, export.geometry());
        let index = by_driver::connect(volume, &geometry, flags(export), &kernels)?;
        Ok(self.attached(Kept::ByDriver(index), wire, false))
    }

    async fn take_up(self, index: u32) -> Result<NbdDevice, NbdError> {
        let (kernels, servers) = pair()?;
        let wire = self.wire(servers)?;
        let geometry = self.server.default_export().geometry();
        let NbdOptions {
            volume,
            recoverable,
            ..
        } = self.options;
        let left = (volume, index);
        by_driver::take_up(self.rt, left, &geometry, recoverable, &kernels).await?;
        let device = self.attached(Kept::ByDriver(index), wire, true);
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
        let mut device = self.attached(Kept::ByThread(keeper), wire, false);
        let Kept::ByThread(keeper) = &device.kept else {
            return Ok(device);
        };
        if let Err(source) = keeper.ready(self.rt, len).await {
            if let Err(error) = device.detach().await {
                tracing::warn!(%error, "after a failed attach");
            }
            return Err(NbdError::io("start", device.path())(source));
        }
        // The thread is shown only now.
        device.held = Held::by(&device.node, device.kept.mark());
        Ok(device)
    }

    fn wire(&self, servers: UnixStream) -> Result<Rc<Socket>, NbdError> {
        let stream = Stream::from_fd(self.ring, servers.into());
        let stream = stream.map_err(NbdError::io("use a socket of", "/dev/nbdN"))?;
        Ok(Rc::new(Socket::new(stream)))
    }

    /// Begins to serve it.
    fn attached(&self, kept: Kept, wire: Rc<Socket>, resumed: bool) -> NbdDevice {
        let wired: Rc<dyn Wire> = Rc::clone(&wire) as Rc<dyn Wire>;
        self.server.connect_without_handshake(wired);
        let node = Path::new("/dev").join(kept.name());
        NbdDevice {
            held: Held::by(&node, kept.mark()),
            node,
            kept,
            wire,
            resumed,
        }
    }
}

fn flags(export: &Export) -> u16 {
    export.flags(false) & FLAGS_KNOWN
}

impl Kept {
    /// The file in the directory of the device that tells it from those of others.
    fn mark(&self) -> &'static str {
        match self {
            Kept::ByDriver(_) => "backend",
            Kept::ByThread(_) => "pid",
        }
    }

    /// The device as sysfs has it.
    fn name(&self) -> String {
        match self {
            Kept::ByDriver(index) => by_driver::name(*index),
            Kept::ByThread(keeper) => keeper.name().to_owned(),
        }
    }
}

impl NbdDevice {
    /// The block device, `/dev/nbdN`.
    pub fn path(&self) -> &Path {
        &self.node
    }

    /// The block device, to look whether it is still there.
    pub fn held(&self) -> Held {
        self.held.clone()
    }

    /// Looks whether anybody uses the block device.
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
        match holders.0.is_empty() {
            true => Ok(()),
            false => Err(NbdError::Busy {
                device: self.node.clone(),
                holders,
            }),
        }
    }

    /// True if it was taken up as another server left it.
    pub fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// True if it outlives its server.
    pub fn is_recoverable(&self) -> bool {
        matches!(self.kept, Kept::ByDriver(_))
    }

    /// Tells the kernel that the volume is as long as `geometry` says. The future borrows nothing.
    ///
    /// # Errors
    /// See [`NbdError`]; the device keeps its length.
    pub fn resize(
        &self,
        volume: &str,
        geometry: &Geometry,
    ) -> impl Future<Output = Result<(), NbdError>> + use<> {
        let (node, name, volume) = (self.node.clone(), self.kept.name(), volume.to_owned());
        let (len, blocks) = (geometry.len, geometry.len / u64::from(geometry.block_size));
        let by_driver = match &self.kept {
            Kept::ByDriver(index) => Some(*index),
            Kept::ByThread(_) => None,
        };
        let is_lost = self.held.is_lost();
        async move {
            if is_lost {
                let lost = std::io::Error::other("it was taken away by another program");
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

    /// Leaves the block device to the next server of the volume: from now on requests wait for that one,
    /// and those that are under way are sent to it again.
    ///
    /// # Errors
    /// [`NbdError::NotRecoverable`]; then it is served as before.
    pub fn hand_over(&self) -> Result<(), NbdError> {
        if !self.is_recoverable() {
            return Err(NbdError::NotRecoverable {
                device: self.node.clone(),
            });
        }
        self.let_wait();
        Ok(())
    }

    /// From now on requests wait for the next server of the volume, if the device outlives this one.
    /// What is under way is carried out, and not answered.
    pub fn let_wait(&self) {
        if self.is_recoverable() {
            self.wire.shutdown();
        }
    }

    /// Writes back what the device has cached and disconnects it. The server's end must be served
    /// until this is done.
    ///
    /// # Errors
    /// See [`NbdError`]; the device stays attached.
    pub async fn detach(&mut self) -> Result<(), NbdError> {
        let (node, name) = (self.node.clone(), self.kept.name());
        let by_driver = match &self.kept {
            Kept::ByDriver(index) => Some(*index),
            Kept::ByThread(_) => None,
        };
        // One that another program disconnected (`nbd-client -d`) may be that program's now.
        if !self.held.is_lost() {
            isolated(move || disconnect(&name, &node, by_driver))
                .await
                .map_err(NbdError::io("detach", &self.node))??;
        }
        let Kept::ByThread(keeper) = &mut self.kept else {
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
        // Its connection is served still, and would be until the volume is closed under it.
        self.let_wait();
    }
}

/// Writes back and disconnects a device that nobody uses; the driver keeps its connection if its number is
/// given. That waits where no signal reaches it, so it keeps neither end of the socket open
/// ([`forebay_os::isolated`]): if the process is killed meanwhile, what it waits for fails, or is carried out by
/// the next server.
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
    // An exclusive open does not mind those who have it open in the ordinary way.
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

    /// While a device is being detached it belongs to that, and goes with it if the daemon is told to end
    /// at once. Its requests were answered with errors then.
    #[test]
    fn a_device_that_is_dropped_waits_for_the_next_server() {
        let ring = Rc::new(Ring::new(8).expect("an io_uring"));
        let (mut kernels, servers) = UnixStream::pair().unwrap();
        kernels.set_nonblocking(true).unwrap();
        let stream = Stream::from_fd(&ring, servers.into()).unwrap();
        let wire = Rc::new(Socket::new(stream));
        let device = NbdDevice {
            node: "/dev/nbd0".into(),
            held: Held::by("/dev/nbd0".as_ref(), "backend"),
            kept: Kept::ByDriver(0),
            wire: Rc::clone(&wire),
            resumed: false,
        };
        let read = kernels.read(&mut [0]).map_err(|error| error.kind());
        assert_eq!(read, Err(std::io::ErrorKind::WouldBlock));
        // The server has the wire still.
        drop(device);
        let read = kernels.read(&mut [0]).map_err(|error| error.kind());
        assert_eq!(read, Ok(0));
    }

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
}
