//! Starts the service of a volume from its devices.

use std::cell::{Cell, RefCell};
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::rc::Rc;

use forebay_device::Device;
use forebay_frontend::freeze::{FreezableDevice, VolumeFreeze};
use forebay_frontend::requests::RequestMemory;
use forebay_linux::{DeviceOpenOptions, IoRing, SignalReader, SocketAddress, SocketListener};
use forebay_nbd::{ClientLimits, NbdExport, NbdServer};
use forebay_rt::{Event, Rt};
use forebay_volume::{
    AcceptedFaults, AttachedLayer, HTTP, LISTEN, Layer, MEMORY, METRICS, OpenContext, OptionValues,
    open,
};
use futures_util::future::{Either, select};

use super::block_device::BlockDeviceSlot;
use super::devices::DeviceSlot;
use super::freeze::ServedFreeze;
use super::front::{FrontEnd, ServingMode};
use super::http::{self, HttpSite};
use super::intruders;
use super::mount::MountFront;
use super::notify::notify;
use super::place::LayerPlaces;
use super::scrub::ScrubSlot;
use super::status_socket::{self, ControlAccess};
use super::{Daemon, FrontEndContext, NbdService, control, memory};
use crate::args::AcceptArgs;
use crate::dirs::ProgramDirs;
use crate::lock::NameLock;
use crate::own_file::{OwnFileWork, apart};
use crate::scrub_record::ScrubRecord;
use crate::target::VolumeTarget;
use crate::witness::FailedLogDir;
use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_command_output::result_line;

/// A daemon that serves, and notes for its user.
pub(super) struct StartedDaemon {
    pub(super) daemon: Rc<Daemon>,
    pub(super) notes: Vec<String>,
}

/// The environment in which a daemon starts.
#[derive(Clone, Copy)]
pub(super) struct StartContext<'a> {
    pub(super) rt: &'a Rt,
    pub(super) ring: &'a Rc<IoRing>,
    pub(super) dirs: &'a ProgramDirs,
    pub(super) lock: &'a NameLock,
    pub(super) options: &'a OptionValues,
    /// The selected front end, no longer `auto`.
    pub(super) how: &'a ServingMode,
}

/// Opens, recovers and serves the volume.
pub(super) async fn start(
    setting: StartContext<'_>,
    signals: &SignalReader,
    target: VolumeTarget,
    accept: AcceptArgs,
) -> CommandResult<StartedDaemon> {
    let settling = settle_description(setting.dirs.description_file(&target.name));
    setting.rt.spawn(settling).detach();
    // Sockets first: errors with them are cheap to find.
    let bind = async || DaemonSockets::bind(&setting, &target);
    let sockets = setting.lock.patiently(setting.rt, bind).await?;
    let recovering = attach(&setting, &target, accept);
    let attached = match select(pin!(recovering), pin!(signals.next())).await {
        Either::Left((attached, _)) => attached?,
        Either::Right(_) => {
            return Err(CommandFailure::general(format!(
                "stopped by a signal while recovering {}; nothing is lost, attach it again",
                target.name
            )));
        }
    };
    let volume = Rc::clone(&attached.layer);
    match serve(&setting, target, attached, sockets).await {
        Ok(started) => Ok(started),
        Err(failure) => {
            if let Err(error) = volume.close().await {
                tracing::warn!(%error, "cannot close the volume after a failed start");
            }
            Err(failure)
        }
    }
}

/// Makes the configuration file durable that the daemon uses. If a power cut restored a former file, the next attach
/// would use a former log, without the data of this one.
///
/// The file may be on the volume itself, whose clients wait for this daemon, or on a disk that does not answer. So the
/// volume does not wait for it.
async fn settle_description(file: PathBuf) {
    if let Err(error) = apart(OwnFileWork::Settle { file }).await {
        tracing::warn!(%error, "cannot make the configuration file durable");
    }
}

/// The sockets that this process listens on.
struct DaemonSockets {
    control: SocketListener,
    /// Shows the status, and permits nothing else.
    status: Option<SocketListener>,
    nbd: Vec<SocketListener>,
    /// Only for a block device.
    nbd_uri: Option<String>,
    /// The contents served over HTTP, with their listeners.
    sites: Vec<(HttpSite, SocketListener)>,
    /// The URL of the page.
    page: Option<String>,
}

impl DaemonSockets {
    fn bind(setting: &StartContext<'_>, target: &VolumeTarget) -> CommandResult<DaemonSockets> {
        let StartContext {
            ring,
            dirs,
            options,
            ..
        } = setting;
        let name = &target.name;
        let bind = |address: &SocketAddress| {
            SocketListener::bind(ring, address).map_err(|error| cannot_listen(address, &error))
        };
        let own = dirs.nbd_socket(name)?;
        let (mut nbd, mut nbd_uri) = (Vec::new(), None);
        let is_block = matches!(setting.how, ServingMode::Block(_));
        if is_block {
            nbd.push(bind(&SocketAddress::Unix(own.clone()))?);
            nbd_uri = Some(uri(name.as_str(), &SocketAddress::Unix(own)));
        }
        if let Some(listen) = options.get(&LISTEN).filter(|_| is_block) {
            let listener = bind(&listen.0)?;
            // For port 0, the system chose the port.
            let address = listener
                .local_address()
                .map_or(listen.0.clone(), |address| {
                    SocketAddress::Tcp(address.to_string())
                });
            nbd_uri = Some(uri(name.as_str(), &address));
            nbd.push(listener);
        }
        let (mut sites, mut page) = (Vec::new(), None);
        let http = options.get(&HTTP);
        if let Some(http) = &http {
            let listener = bind(&http.0)?;
            page = listener.local_address().map(|at| format!("http://{at}/"));
            sites.push((HttpSite::page_at(&listener), listener));
        }
        // The page's address serves the metrics, too.
        let http = http.as_ref().map(|http| &http.0);
        if let Some(metrics) = options.get(&METRICS).filter(|at| Some(&at.0) != http) {
            sites.push((HttpSite::METRICS, bind(&metrics.0)?));
        }
        Ok(DaemonSockets {
            control: bind(&SocketAddress::Unix(dirs.control_socket(name)))?,
            // The volume is useful without this socket.
            status: status_socket::bind(ring, dirs, name).unwrap_or_else(|error| {
                let path = dirs.status_socket(name);
                tracing::warn!(
                    "no status socket for other users: {}: {error}",
                    path.display()
                );
                None
            }),
            nbd,
            nbd_uri,
            sites,
            page,
        })
    }
}

fn cannot_listen(address: &SocketAddress, error: &io::Error) -> CommandFailure {
    match error.kind() {
        // For a unix socket, the error already contains the path.
        io::ErrorKind::AddrInUse if matches!(address, SocketAddress::Unix(_)) => {
            CommandFailure::refused(error)
        }
        io::ErrorKind::AddrInUse => CommandFailure::refused(format!(
            "cannot listen at {address}: another program uses the port; choose another port, or end that program"
        )),
        _ => CommandFailure::io(format!(
            "cannot listen at {address}: {error}; choose another address"
        )),
    }
}

fn uri(name: &str, address: &SocketAddress) -> String {
    match address {
        SocketAddress::Unix(path) => format!("nbd+unix:///{name}?socket={}", path.display()),
        SocketAddress::Tcp(address) => format!("nbd://{address}/{name}"),
    }
}

async fn attach(
    setting: &StartContext<'_>,
    target: &VolumeTarget,
    accept: AcceptArgs,
) -> CommandResult<AttachedLayer> {
    let StartContext { rt, ring, lock, .. } = *setting;
    let all = async || {
        let options = DeviceOpenOptions::existing().outlasting_readers();
        Ok(open(&target.tree, OpenContext { rt, ring, options })?)
    };
    let opened = lock.patiently(rt, all).await?;
    let info = opened.own().inspect().await?;
    match &target.volume {
        Some(expected) if *expected != info.volume => {
            return Err(CommandFailure::refused(format!(
                "{} belongs to volume {} (named {}), but the configuration file of {} names volume {expected}; \
                 correct the file, or attach the present volume by its device",
                target.own(),
                info.volume,
                info.name,
                target.name
            )));
        }
        _ => {}
    }
    let accept = AcceptedFaults {
        loss: accept.accept_loss,
        changed: accept.accept_changed,
    };
    let witness = Rc::new(FailedLogDir::new(rt, setting.dirs.state()?));
    let context = target.attach_context(rt, witness, accept);
    Ok(opened.attach(context).await?)
}

async fn serve(
    setting: &StartContext<'_>,
    target: VolumeTarget,
    attached: AttachedLayer,
    sockets: DaemonSockets,
) -> CommandResult<StartedDaemon> {
    let StartContext { rt, ring, dirs, .. } = *setting;
    let (volume, mut notes) = (attached.layer, attached.notes);
    let memory = request_memory(setting.options);
    let freeze = VolumeFreeze::new(rt);
    let blocks = freezable(&*volume, &freeze).map(|device| {
        let server = nbd_server(rt, target.name.as_str(), &volume, &device, &memory);
        server.map(|server| (device, server))
    });
    let blocks = blocks.transpose()?;
    let page = sockets.page.as_ref();
    notes.extend(page.map(|page| format!("status page: {page}")));
    let place = FrontEndContext {
        rt,
        ring,
        dirs,
        memory: &memory,
        name: &target.name,
        volume: &*volume,
        freeze: &freeze,
    };
    let start = async || front_end(setting.how, place, blocks.as_ref()).await;
    let front = setting.lock.patiently(rt, start).await?;
    notes.extend(front.note());
    let device = BlockDeviceSlot::new(front.held(), dirs, &target.name);
    notes.extend(device.what_is_wrong());
    let record = ScrubRecord::of(rt, dirs, &volume.id());
    let nbd = blocks.zip(sockets.nbd_uri);
    let nbd = nbd.map(|((_, server), uri)| NbdService { server, uri });
    let daemon = Rc::new(Daemon {
        rt: rt.clone(),
        ring: Rc::clone(ring),
        dirs: dirs.clone(),
        started: rt.now(),
        freeze: ServedFreeze::new(freeze),
        scrub: ScrubSlot::new(record).await,
        changing: Rc::default(),
        devices: DeviceSlot::new(target.tree.clone()),
        target,
        volume,
        memory,
        nbd,
        http: sockets.page,
        via: front.via().into(),
        block_device: device,
        mounted: front.mounted(),
        outlived: front.is_outlived(),
        front: RefCell::new(Some(front)),
        detached: Cell::new(false),
        stopping: Cell::new(false),
        waited_for: Cell::new(0),
        changed: Event::new(),
    });
    listen(&daemon, sockets.nbd, sockets.sites);
    let full = control::listen(Rc::clone(&daemon), sockets.control, ControlAccess::Full);
    rt.spawn(full).detach();
    if let Some(status) = sockets.status {
        let listening = control::listen(Rc::clone(&daemon), status, ControlAccess::StatusOnly);
        rt.spawn(listening).detach();
    }
    Ok(StartedDaemon { daemon, notes })
}

/// Starts the front end of a volume. `blocks` is the volume as a block device, if it is one.
async fn front_end(
    how: &ServingMode,
    place: FrontEndContext<'_>,
    blocks: Option<&(Rc<dyn Device>, NbdServer)>,
) -> CommandResult<FrontEnd> {
    match (how, blocks) {
        (ServingMode::Block(via), Some((device, server))) => {
            FrontEnd::start(place, *via, device, server).await
        }
        (ServingMode::Mount(plan), _) => {
            let started = MountFront::start(place, plan).await;
            started.map(|(mount, cleared)| FrontEnd::Mount(Box::new(mount), cleared))
        }
        (ServingMode::Block(_), None) => Err(CommandFailure::general(
            "a filesystem is not a block device",
        )),
    }
}

/// Returns the volume's device behind its freeze: the only place between the volume and its front ends.
fn freezable(volume: &dyn Layer, freeze: &VolumeFreeze) -> Option<Rc<dyn Device>> {
    let device = volume.device()?;
    Some(Rc::new(FreezableDevice::new(device, freeze.clone())))
}

/// Returns the memory for the data of requests.
fn request_memory(options: &OptionValues) -> RequestMemory {
    match options.get(&MEMORY) {
        Some(forebay_volume::MemoryLimit(bound)) => RequestMemory::new(bound.0),
        None => RequestMemory::default(),
    }
}

/// Accepts clients, and watches the devices, as long as the daemon runs.
fn listen(daemon: &Rc<Daemon>, nbd: Vec<SocketListener>, sites: Vec<(HttpSite, SocketListener)>) {
    let rt = &daemon.rt;
    for listener in nbd {
        let Some(server) = daemon.nbd.as_ref().map(|nbd| nbd.server.clone()) else {
            break;
        };
        rt.spawn(async move {
            if let Err(error) = server.listen(&listener).await {
                tracing::error!(%error, "the NBD server accepts no more connections");
            }
        })
        .detach();
    }
    rt.spawn(intruders::watch(Rc::clone(daemon))).detach();
    rt.spawn(memory::give_back(Rc::clone(daemon))).detach();
    for (site, listener) in sites {
        rt.spawn(http::listen(Rc::clone(daemon), listener, site))
            .detach();
    }
}

fn nbd_server(
    rt: &Rt,
    name: &str,
    volume: &Rc<dyn Layer>,
    device: &Rc<dyn Device>,
    memory: &RequestMemory,
) -> CommandResult<NbdServer> {
    let export = NbdExport::new(name, Rc::clone(device))
        .description(format!("Forebay volume {name}"))
        .status(Rc::new(LayerPlaces::new(Rc::clone(volume))))
        .fast_zeroes(volume.fast_zeroes());
    let server = NbdServer::new(rt.clone(), vec![export], ClientLimits::default(), memory);
    server.map_err(CommandFailure::general)
}

/// Reports that the volume is served, on standard output and to the service manager.
pub(super) fn announce(started: &StartedDaemon) {
    let endpoint = started.daemon.endpoint();
    for note in &started.notes {
        tracing::info!("{note}");
    }
    result_line!("{endpoint}");
    let name = &started.daemon.target.name;
    notify(&[
        sd_notify::NotifyState::Ready,
        sd_notify::NotifyState::Status(&format!("{name} is served as {endpoint}")),
    ]);
}
