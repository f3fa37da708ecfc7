//! The process that serves a volume.
//!
//! The write cache, the NBD server, the control socket, the metrics and the page all run on one executor. `start.rs`
//! starts the service and `stop.rs` ends it. `spawn.rs` is the other side: the `attach` process that waits until its
//! background daemon is ready.

mod block_device;
mod control;
mod devices;
mod discard;
mod freeze;
mod front;
mod http;
mod intruders;
mod lengths;
mod memory;
mod metrics;
mod mount;
mod notify;
mod place;
mod replace_log;
mod resize;
mod scrub;
mod spawn;
mod start;
mod status_socket;
mod stop;
mod tune;
mod via;
mod waiting_client;

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use forebay_control::{DaemonStatus, SCHEMA};
use forebay_frontend::freeze::VolumeFreeze;
use forebay_frontend::requests::RequestMemory;
use forebay_linux::{IoRing, SignalReader};
use forebay_nbd::NbdServer;
use forebay_rt::{Event, Instant, Lock, Rt};
use forebay_volume::{
    FrontEndKind, Layer, MountOptions, OptionValues, ServedAs, VIA, VolumeError, VolumeName,
    service_options,
};

use crate::args::{AcceptArgs, TargetArgs};
use crate::dirs::ProgramDirs;
use crate::health;
use crate::lock::NameLock;
use crate::report::StatusReport;
use crate::run::on_ring;
use crate::target::VolumeTarget;
use forebay_command_output::failure::{CommandFailure, CommandResult};

use block_device::BlockDeviceSlot;
use devices::DeviceSlot;
use freeze::ServedFreeze;
use front::{FrontEnd, ServingMode};
pub(crate) use mount::mount_flags;
use scrub::ScrubSlot;
pub(crate) use spawn::{await_readiness, in_background, send_readiness, start_and_hear};

/// Time that a drain or a freeze goes on without progress while the data device fails, and time limit for abandoning
/// unreadable data.
const STUCK_PATIENCE: Duration = Duration::from_secs(30);
/// Interval between two progress reports.
const PROGRESS_EVERY: Duration = Duration::from_millis(200);

/// The environment of a front end.
#[derive(Clone, Copy)]
struct FrontEndContext<'a> {
    rt: &'a Rt,
    ring: &'a Rc<IoRing>,
    dirs: &'a ProgramDirs,
    memory: &'a RequestMemory,
    name: &'a VolumeName,
    /// The served volume.
    volume: &'a dyn Layer,
    /// Holds back changes of a mounted filesystem.
    freeze: &'a VolumeFreeze,
}

/// The NBD server, and the URI for its clients.
struct NbdService {
    server: NbdServer,
    uri: String,
}

/// A volume being served.
struct Daemon {
    rt: Rt,
    ring: Rc<IoRing>,
    dirs: ProgramDirs,
    started: Instant,
    /// The volume as it was attached.
    target: VolumeTarget,
    volume: Rc<dyn Layer>,
    devices: DeviceSlot,
    /// Memory for the data of all requests, from every front end.
    memory: RequestMemory,
    /// The NBD server, if the volume is a block device.
    nbd: Option<NbdService>,
    /// The URL of the page, if enabled.
    http: Option<String>,
    via: String,
    /// `None` while the front end is being stopped.
    front: RefCell<Option<FrontEnd>>,
    block_device: BlockDeviceSlot,
    /// The directory where a filesystem is mounted.
    mounted: Option<String>,
    /// The block device outlives this process and waits for the next daemon.
    outlived: bool,
    freeze: ServedFreeze,
    /// The newest scrub.
    scrub: ScrubSlot,
    /// Held while the volume adopts a new length, or gets another log.
    changing: Rc<Lock>,
    /// Set when a client detached the volume and everything is closed.
    detached: Cell<bool>,
    /// Set when a signal told the daemon to stop.
    stopping: Cell<bool>,
    /// Clients that wait for a drain or a detach.
    waited_for: Cell<usize>,
    changed: Event,
}

impl Daemon {
    /// Returns a report of the present state.
    fn report(&self) -> StatusReport {
        let devices = self.devices.now();
        let intruders = devices.intruders.look();
        let service = DaemonStatus {
            // The superblock has the name from `create`. A volume that was renamed or copied is attached under another
            // name.
            name: self.target.name.to_string(),
            volume: self.volume.id(),
            schema: SCHEMA,
            program_version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            uptime_s: self.rt.now().since(self.started).as_secs_f64(),
            data: devices.tree.data().to_string(),
            log: devices.tree.log().map(ToString::to_string),
            via: self.via.clone(),
            device: self.block_device.name(),
            kernel_device: self.block_device.kernel_name(),
            no_device: self.block_device.what_is_wrong(),
            mounted: self.is_mounted().then(|| self.mounted.clone()).flatten(),
            requests_by: self.requests_by(),
            nbd_uri: self.nbd.as_ref().map(|nbd| nbd.uri.clone()),
            http: self.http.clone(),
            nbd_connections: self.nbd_connections() as u64,
            foreign_loop_devices: intruders.len() as u64,
            foreign_loops: intruders,
            cut_short: devices.lengths.look(),
            freeze_left_s: self.freeze.gate.seconds_left(),
            held_writes: self.freeze.gate.held_writes(),
            request_bytes: self.memory.in_use(),
            request_bytes_max: self.memory.bound(),
            ..DaemonStatus::default()
        };
        health::filled_in(StatusReport {
            service,
            scrub: self.scrub.status(&self.rt),
            status: self.volume.status(),
        })
    }

    /// Returns false for a filesystem that is no longer mounted, even if files in it are still open.
    fn is_mounted(&self) -> bool {
        match &*self.front.borrow() {
            Some(FrontEnd::Mount(mount, _)) => mount.is_there(),
            _ => true,
        }
    }

    /// Names the interface through which the requests of a filesystem come.
    fn requests_by(&self) -> Option<String> {
        let front = self.front.borrow();
        let by_ring = front.as_ref().and_then(FrontEnd::is_by_ring)?;
        Some(if by_ring { "io_uring" } else { "/dev/fuse" }.into())
    }

    /// Returns the number of NBD connections.
    fn nbd_connections(&self) -> usize {
        self.nbd.as_ref().map_or(0, |nbd| nbd.server.connections())
    }

    /// Returns the number of NBD connections of our own block device.
    fn kernel_connections(&self) -> usize {
        let front = self.front.borrow();
        usize::from(matches!(*front, Some(FrontEnd::Nbd(_)))).min(self.nbd_connections())
    }

    /// Returns the name that users open.
    fn endpoint(&self) -> String {
        let device = self.block_device.name();
        let uri = || self.nbd.as_ref().map(|nbd| nbd.uri.clone());
        let device = device.or_else(|| self.mounted.clone());
        device.or_else(uri).unwrap_or_default()
    }
}

/// Attaches a volume and serves it until told to stop.
pub(crate) fn in_foreground(args: ServingArgs) -> CommandResult {
    if args.daemon {
        // Leave the session of the terminal: its signals are not for the daemon.
        let _ = rustix::process::setsid();
    }
    let (daemon, ready) = (args.daemon, Rc::new(Cell::new(false)));
    let is_reported = Rc::clone(&ready);
    let served = on_ring(move |rt, ring| serve(rt, ring, args, ready));
    // Only now: pending tasks of the executor kept devices open and locked beyond the end of the service.
    let served = served.and_then(|(lock, ended)| {
        drop(lock);
        ended
    });
    match served {
        Err(failure) if daemon && !is_reported.get() => {
            spawn::report_failure(&failure);
            // The parent process prints the failure.
            std::process::exit(failure.code as i32);
        }
        served => served,
    }
}

/// The volume to serve, and the options for serving it.
pub(crate) struct ServingArgs {
    pub(crate) target: TargetArgs,
    /// Options of the command line, which override those of the configuration file.
    pub(crate) options: OptionValues,
    pub(crate) accept: AcceptArgs,
    /// Set for a background daemon, whose parent waits for a message.
    pub(crate) daemon: bool,
    /// For a filesystem: its directory and mount options, as far as given.
    pub(crate) mount: Option<MountRequest>,
}

/// The requested directory and mount options of a filesystem, as far as given.
pub(crate) struct MountRequest {
    pub(crate) dir: Option<PathBuf>,
    pub(crate) options: Option<MountOptions>,
}

/// A volume to serve, and the lock of its name.
struct LockedTarget<'a> {
    target: VolumeTarget,
    lock: &'a NameLock,
}

/// Serves a volume until the service ends. Returns the lock of its name, which must be held until all files are closed,
/// and the result of the service.
async fn serve(
    rt: Rt,
    ring: Rc<IoRing>,
    args: ServingArgs,
    ready: Rc<Cell<bool>>,
) -> CommandResult<(NameLock, CommandResult)> {
    // Before any other thread starts: a thread started earlier would not block the signals.
    let signals = SignalReader::new(&ring).map_err(CommandFailure::io)?;
    forebay_linux::io_flusher();
    forebay_linux::outlive_file_limit();
    forebay_linux::give_memory_back();
    forebay_linux::hold_memory();
    let dirs = ProgramDirs::new()?;
    let target = VolumeTarget::find(&args.target, &dirs, &rt, &ring).await?;
    let may_end = || args.mount.is_some() && !mount::is_mounted(&dirs, &target.name);
    let lock = NameLock::take_when_ended(&dirs, &target.name, &rt, may_end).await?;
    let locked = LockedTarget {
        target,
        lock: &lock,
    };
    let ended = serve_locked(rt, ring, dirs, locked, args, ready, signals).await;
    Ok((lock, ended))
}

/// Serves a volume whose name is locked.
async fn serve_locked(
    rt: Rt,
    ring: Rc<IoRing>,
    dirs: ProgramDirs,
    locked: LockedTarget<'_>,
    args: ServingArgs,
    ready: Rc<Cell<bool>>,
    signals: SignalReader,
) -> CommandResult {
    let LockedTarget { mut target, lock } = locked;
    // An option of the service, unless a layer has it.
    let service = [ServedAs::BlockDevice, ServedAs::Files];
    let service = args
        .options
        .only(service.into_iter().flat_map(service_options));
    let layers = args.options.minus(&service);
    let options = service.or(&target.service);
    target.tree = target.tree.with(&layers).map_err(VolumeError::from)?;
    let (how, choice) = if let Some(mount) = mount::wanted(&target, args.mount, &options)? {
        (ServingMode::Mount(mount), None)
    } else {
        let (via, choice) = front::choose(options.get(&VIA).unwrap_or_default())?;
        (ServingMode::Block(via), choice)
    };
    if matches!(
        how,
        ServingMode::Block(FrontEndKind::Ublk | FrontEndKind::Nbd)
    ) {
        // Users of such a device do not notice when the daemon dies, so no acknowledged write may be lost then.
        target.tree = target.tree.surviving_kill();
    }
    let setting = start::StartContext {
        rt: &rt,
        ring: &ring,
        dirs: &dirs,
        lock,
        options: &options,
        how: &how,
    };
    let warnings = std::mem::take(&mut target.warnings);
    let mut started = start::start(setting, &signals, target, args.accept).await?;
    started.notes.extend(warnings.into_iter().chain(choice));
    lock.settle();
    let reported = if args.daemon {
        spawn::report_ready(&dirs, &started)
    } else {
        start::announce(&started);
        Ok(())
    };
    ready.set(reported.is_ok());
    let daemon = started.daemon;
    let ended = match reported {
        Ok(()) => stop::run(&daemon, &signals).await,
        Err(failure) => stop::stop(&daemon, &signals).await.and(Err(failure)),
    };
    dirs.remove_sockets(&daemon.target.name);
    ended
}
