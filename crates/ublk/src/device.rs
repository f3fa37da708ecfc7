//! A volume as `/dev/ublkbN`: attaching, detaching, and hand-off to another server.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::Device;
use forebay_frontend::block_device::{OwnBlockDevice, lasting_holders};
use forebay_frontend::requests::{PART_BYTES, RequestMemory};
use forebay_linux::{IoRing, isolated};
use forebay_rt::Rt;
use futures_util::future::{Either, select};
use rustix::thread::CapabilitySet;

use crate::char_device::{self, CharDevice};
use crate::codec::format::UblkDeviceInfo;
use crate::codec::wish::{UblkDeviceSpec, is_sufficient};
use crate::control::{CONTROL, UblkControl};
use crate::error::UblkError;
use crate::leftover::{StopOutcome, controlled, left_behind, name, node, remove, stop_unused};
use crate::serving::QueueServer;

/// Requests the kernel may have under way: as many as the loop driver has.
const DEPTH: u16 = 128;
/// Time limit for an ended server to close its end of the device.
const CLOSING_PATIENCE: Duration = Duration::from_secs(30);
/// Interval of checks meanwhile.
const CLOSING_EVERY: Duration = Duration::from_millis(50);

/// Options for attaching.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UblkOptions {
    /// Id of the volume. All attaches of a volume must use the same number, and different volumes different numbers.
    pub volume: u64,
    /// The device outlives its server, and the next server recovers it. Allowed only if acknowledged writes survive the
    /// death of the process without a flush: the users of the block device would not notice the loss. Without this
    /// option they get errors once the server ends.
    pub recoverable: bool,
}

/// A device served as `/dev/ublkbN`.
///
/// Dropping it without [`UblkDevice::detach`] or [`UblkDevice::hand_over`] leaves the device as a killed server does.
pub struct UblkDevice {
    rt: Rt,
    id: u32,
    node: PathBuf,
    /// `None` once the device is stopped.
    serving: Option<QueueServer<CharDevice>>,
    recoverable: bool,
    resumed: bool,
}

/// Checks that this kernel and user support [`attach_ublk`].
///
/// # Errors
/// The missing prerequisite: [`UblkError::NoDriver`], [`UblkError::Forbidden`], [`UblkError::TooOld`].
pub fn ublk_usable() -> Result<(), UblkError> {
    let control = UblkControl::open().map_err(UblkError::no_control)?;
    suitable(control.features())?;
    let mine = rustix::thread::capabilities(None);
    if mine.is_ok_and(|mine| mine.effective.contains(CapabilitySet::SYS_ADMIN)) {
        Ok(())
    } else {
        Err(UblkError::Forbidden)
    }
}

fn suitable(features: std::io::Result<u64>) -> Result<(), UblkError> {
    match features {
        Ok(features) if is_sufficient(features) => Ok(()),
        Ok(_) => Err(UblkError::TooOld),
        Err(error) => Err(match error.raw_os_error() {
            // The driver does not even support the query.
            Some(libc::EOPNOTSUPP | libc::EINVAL) => UblkError::TooOld,
            Some(libc::EPERM | libc::EACCES) => UblkError::Forbidden,
            _ => UblkError::io("ask", CONTROL)(error),
        }),
    }
}

/// Serves `device` as a ublk device on `rt`, with buffers from `memory`. If a server of this volume left a device
/// behind, recovers that device with all its waiting requests.
///
/// The caller must make sure that no other server serves the volume.
///
/// # Errors
/// See [`UblkError`]. No new device is left behind, and a leftover device is unchanged.
///
/// # Panics
/// If the device's geometry breaks the contract.
pub async fn attach_ublk(
    rt: &Rt,
    ring: &Rc<IoRing>,
    device: Rc<dyn Device>,
    memory: &RequestMemory,
    options: UblkOptions,
) -> Result<UblkDevice, UblkError> {
    controlled("ask", |control| Ok(suitable(control.features()))).await??;
    let wish = UblkDeviceSpec {
        volume: options.volume,
        recoverable: options.recoverable,
        depth: DEPTH,
        io_bytes_max: PART_BYTES as u32,
        geometry: device.geometry(),
    };
    let attach = UblkAttach {
        rt,
        ring,
        device,
        memory,
        wish,
    };
    match left_behind(rt, options.volume).await? {
        Some(left) => attach.recover(left).await,
        None => attach.add().await,
    }
}

/// The arguments of attaching.
struct UblkAttach<'a> {
    rt: &'a Rt,
    ring: &'a Rc<IoRing>,
    device: Rc<dyn Device>,
    memory: &'a RequestMemory,
    wish: UblkDeviceSpec,
}

impl UblkAttach<'_> {
    async fn add(self) -> Result<UblkDevice, UblkError> {
        let (wished, params) = (self.wish.info(), self.wish.params());
        let add = move |control: &UblkControl| control.add(&wished, &params);
        let info = controlled("make a device at", add).await?;
        let serving = match self.begin(&info) {
            Ok(serving) => serving,
            Err(error) => {
                remove(self.rt, info.id, UblkControl::delete).await;
                return Err(error);
            }
        };
        let (id, pid) = (info.id, std::process::id());
        let start = move |control: &UblkControl| control.start(id, pid);
        let start = controlled("start a device at", start);
        if let Err(error) = unless_lost(&serving, id, start).await {
            let stop = controlled("stop a device at", move |control| control.stop(id)).await;
            if stop.is_ok() {
                serving.ended().await;
            }
            remove(self.rt, id, UblkControl::delete).await;
            return Err(error);
        }
        Ok(self.attached(id, serving, false))
    }

    async fn recover(self, left: UblkDeviceInfo) -> Result<UblkDevice, UblkError> {
        let (id, pid) = (left.id, std::process::id());
        let as_made = controlled("query a device at", move |control| control.params(id)).await?;
        let fits = self.wish.accepts(&left, &as_made);
        fits.map_err(|why| UblkError::Unlike {
            device: node(id),
            why,
        })?;
        self.start_recovery(id).await?;
        let serving = self.begin(&left)?;
        let end = move |control: &UblkControl| control.end_recovery(id, pid);
        let end = controlled("recover a device at", end);
        if let Err(error) = unless_lost(&serving, id, end).await {
            // The leftover device stays as it was; its end closes when this process ends.
            serving.withhold();
            serving.detach();
            return Err(error);
        }
        tracing::info!(device = %node(id).display(), "recovered the device that another daemon left");
        let device = self.attached(id, serving, true);
        let (len, was) = (self.wish.geometry.len, as_made.sectors * 512);
        if len > was
            && let Err(error) = device.resize(len).await
        {
            tracing::warn!(%error, was, len, "the volume grew, and its block device did not");
        }
        Ok(device)
    }

    /// Begins the recovery. The driver returns "busy" until the kernel has closed the end of the ended server, some
    /// time after that process is gone. Before Linux 6.16 the driver returns "invalid" if another server has begun the
    /// recovery, and died before it offered all tags. If that server offered no tag, the state is the same as after a
    /// successful begin; otherwise the driver will refuse the tags.
    async fn start_recovery(&self, id: u32) -> Result<(), UblkError> {
        let deadline = self.rt.now().plus(CLOSING_PATIENCE);
        loop {
            let start = move |control: &UblkControl| control.start_recovery(id);
            match controlled("begin to recover a device at", start).await {
                Err(UblkError::Io { source, .. })
                    if source.raw_os_error() == Some(libc::EBUSY) && self.rt.now() < deadline =>
                {
                    self.rt.sleep(CLOSING_EVERY).await;
                }
                Err(UblkError::Io { source, .. })
                    if source.raw_os_error() == Some(libc::EINVAL) =>
                {
                    return Ok(());
                }
                done => return done,
            }
        }
    }

    /// Opens the server's end and offers all tags.
    fn begin(&self, info: &UblkDeviceInfo) -> Result<QueueServer<CharDevice>, UblkError> {
        let end = char_device::path(info.id);
        let port = CharDevice::open(self.ring, info.id, info.depth);
        let port = port.map_err(UblkError::io("open", end))?;
        let device = Rc::clone(&self.device);
        let serving = QueueServer::begin(self.rt, port, info.depth, device, self.memory);
        serving.ok_or(UblkError::NoMemory)
    }

    fn attached(&self, id: u32, serving: QueueServer<CharDevice>, resumed: bool) -> UblkDevice {
        UblkDevice {
            rt: self.rt.clone(),
            id,
            node: node(id),
            serving: Some(serving),
            recoverable: self.wish.recoverable,
            resumed,
        }
    }
}

/// Waits for a command that ends when all tags are offered. Returns an error instead if a tag is refused, because the
/// command would then never end. A refused tag is a fault of the driver or of this program.
async fn unless_lost(
    serving: &QueueServer<CharDevice>,
    id: u32,
    command: impl Future<Output = Result<(), UblkError>>,
) -> Result<(), UblkError> {
    match select(pin!(command), pin!(serving.lost())).await {
        Either::Left((done, _)) => done,
        Either::Right((error, _)) => {
            let refused = UblkError::io("fetch requests of", char_device::path(id));
            Err(refused(error))
        }
    }
}

impl UblkDevice {
    /// Returns the path of the block device, `/dev/ublkbN`.
    pub fn path(&self) -> &Path {
        &self.node
    }

    /// Returns a handle for checking that the block device still exists. Its number stays reserved as long as the
    /// device is served.
    pub fn held(&self) -> OwnBlockDevice {
        OwnBlockDevice::by(&self.node, "dev")
    }

    /// Checks that the block device is unused.
    ///
    /// # Errors
    /// [`UblkError::Busy`].
    pub async fn check_unused(&self) -> Result<(), UblkError> {
        let name = name(self.id);
        let holders = isolated(move || lasting_holders(&name)).await;
        let holders = holders.map_err(UblkError::io("look at", self.node.clone()))?;
        if holders.0.is_empty() {
            Ok(())
        } else {
            Err(UblkError::Busy {
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
        self.recoverable
    }

    /// Sets the kernel's length of the device to `len` bytes. The future borrows nothing.
    ///
    /// # Errors
    /// [`UblkError::FixedLength`] if the kernel does not support this; also see [`UblkError`].
    pub fn resize(&self, len: u64) -> impl Future<Output = Result<(), UblkError>> + use<> {
        let (id, device) = (self.id, self.node.clone());
        async move {
            let update = move |control: &UblkControl| match control.update_size(id, len / 512) {
                Some(updated) => updated.map(|()| true),
                None => Ok(false),
            };
            if controlled("give a new length to a device at", update).await? {
                Ok(())
            } else {
                Err(UblkError::FixedLength { device })
            }
        }
    }

    /// Removes the block device, if it is unused. It must be served until this returns.
    ///
    /// # Errors
    /// See [`UblkError`]; the device stays attached.
    pub async fn detach(&mut self) -> Result<(), UblkError> {
        let id = self.id;
        let is_stopped = self.serving.as_ref().is_none_or(QueueServer::is_stopped);
        if !is_stopped {
            let stop = move |control: &UblkControl| stop_unused(control, id);
            let device = self.node.clone();
            match controlled("stop a device at", stop).await? {
                StopOutcome::Yes => {}
                StopOutcome::Busy(holders) => return Err(UblkError::Busy { device, holders }),
                StopOutcome::Lost(source) => return Err(UblkError::WriteBack { device, source }),
            }
        }
        if let Some(serving) = self.serving.take() {
            serving.ended().await;
            remove(&self.rt, id, UblkControl::delete).await;
        }
        Ok(())
    }

    /// Leaves the block device to the next server of the volume: from now on requests wait for this server. Returns
    /// after the requests under way have ended. If this takes too long, call [`UblkDevice::let_wait`] instead. In
    /// either case the process must end before the device can be recovered.
    ///
    /// # Errors
    /// [`UblkError::NotRecoverable`]; the device is then served as before.
    pub async fn hand_over(&self) -> Result<(), UblkError> {
        if !self.recoverable {
            return Err(UblkError::NotRecoverable {
                device: self.node.clone(),
            });
        }
        self.let_wait();
        if let Some(serving) = &self.serving {
            serving.idle().await;
        }
        Ok(())
    }

    /// Makes failed and new requests wait for the next server of the volume, if the device outlives this server.
    pub fn let_wait(&self) {
        if let Some(serving) = self.serving.as_ref().filter(|_| self.recoverable) {
            serving.withhold();
        }
    }
}

impl Drop for UblkDevice {
    fn drop(&mut self) {
        self.let_wait();
        if let Some(serving) = self.serving.take() {
            serving.detach();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};

    use super::*;

    #[test]
    fn answers_of_the_ublk_driver_map_to_distinct_errors() {
        let errno = |errno| Err(io::Error::from_raw_os_error(errno));
        assert!(suitable(Ok(0x1fe)).is_ok());
        // Features of a driver that cannot copy data yet.
        assert!(matches!(suitable(Ok(0x7e)), Err(UblkError::TooOld)));
        assert!(matches!(
            suitable(errno(libc::EOPNOTSUPP)),
            Err(UblkError::TooOld)
        ));
        assert!(matches!(
            suitable(errno(libc::EPERM)),
            Err(UblkError::Forbidden)
        ));
        assert!(matches!(
            suitable(errno(libc::EIO)),
            Err(UblkError::Io { .. })
        ));
    }

    #[test]
    fn a_kernel_without_ublk_is_refused_with_a_remedy() {
        if Path::new(CONTROL).exists() {
            let skipped =
                b"SKIPPED: a_kernel_without_ublk_is_refused_with_a_remedy: this kernel has ublk\n";
            return std::io::stderr()
                .write_all(skipped)
                .expect("standard error");
        }
        let error = ublk_usable().expect_err("no driver");
        assert!(matches!(error, UblkError::NoDriver));
        assert!(error.to_string().contains("modprobe ublk_drv"), "{error}");
    }
}
