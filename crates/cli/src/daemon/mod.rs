//! The process that serves one volume.
//!
//! Everything runs on the volume's one executor: the write cache, the NBD server, the control
//! socket, the metrics and the page. What starts it is in `start.rs`, how it ends in `stop.rs`; `spawn.rs` is the
//! other side, the `attach` that waits for a daemon in the background to be ready.

mod block_device;
mod control;
mod front;
mod http;
mod intruders;
mod lengths;
mod memory;
mod metrics;
mod mount;
mod notify;
mod place;
mod resize;
mod spawn;
mod start;
mod stop;
mod tune;
mod via;

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;

use forebay_control::{SCHEMA, Service};
use forebay_os::{Ring, Signals};
use forebay_rt::{Event, Instant, Lock, Rt};
use forebay_serve::Memory;
use forebay_serve::nbd::Server;
use forebay_stack::{CacheOptions, Layer, MountOptions, Name, Options, StackError, Via};

use crate::args::{AcceptArgs, ServeArgs, TargetArgs};
use crate::lock::NameLock;
use crate::target::Target;
use forebay_program::dirs::Dirs;
use forebay_program::failure::{Failure, Outcome};
use forebay_program::report::Report;
use forebay_program::run::on_ring;

use block_device::BlockDevice;
use front::{Front, How};
use intruders::Intruders;
use lengths::Lengths;
pub(crate) use mount::mount_flags;
pub(crate) use spawn::in_background;

/// Where a front end works.
#[derive(Clone, Copy)]
struct Place<'a> {
    rt: &'a Rt,
    ring: &'a Rc<Ring>,
    dirs: &'a Dirs,
    memory: &'a Memory,
    name: &'a Name,
    /// What is served.
    volume: &'a dyn Layer,
}

/// The NBD server, and what its clients are told.
struct Nbd {
    server: Server,
    uri: String,
}

/// A volume being served.
struct Daemon {
    rt: Rt,
    started: Instant,
    target: Target,
    volume: Rc<dyn Layer>,
    /// What it is on.
    media: place::Media,
    /// For the data of all requests, whichever way they come.
    memory: Memory,
    /// Serves it over NBD, if it is a block device.
    nbd: Option<Nbd>,
    /// Where the page is, if there is one.
    http: Option<String>,
    via: String,
    /// Taken out while it is being stopped.
    front: RefCell<Option<Front>>,
    block_device: BlockDevice,
    /// Where a filesystem is mounted.
    mounted: Option<String>,
    /// The block device outlives this process, and waits for the next.
    outlived: bool,
    intruders: Intruders,
    lengths: Lengths,
    /// Held while the volume takes a new length.
    resizing: Rc<Lock>,
    /// Set when a client detached the volume: everything is closed.
    detached: Cell<bool>,
    /// Set when a signal told the daemon to stop.
    stopping: Cell<bool>,
    /// Clients that wait for a drain, or for a detach.
    waited_for: Cell<usize>,
    changed: Event,
}

impl Daemon {
    /// What is known now.
    fn report(&self) -> Report {
        let intruders = self.intruders.look();
        let service = Service {
            // The superblock has the name that the volume was created with. A volume that was renamed or copied is
            // attached, and known, by another.
            name: self.target.name.to_string(),
            volume: self.volume.id(),
            schema: SCHEMA,
            program_version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            uptime_s: self.rt.now().since(self.started).as_secs_f64(),
            data: self.target.data().to_string(),
            log: self.target.tree.log().map(ToString::to_string),
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
            cut_short: self.lengths.look(),
            request_bytes: self.memory.in_use(),
            request_bytes_max: self.memory.bound(),
        };
        Report {
            service,
            status: self.volume.status(),
        }
    }

    /// False of a filesystem that is served for who still uses it, or not served any more.
    fn is_mounted(&self) -> bool {
        match &*self.front.borrow() {
            Some(Front::Mount(mount, _)) => mount.is_there(),
            _ => true,
        }
    }

    /// How the requests of a filesystem come.
    fn requests_by(&self) -> Option<String> {
        let front = self.front.borrow();
        let by_ring = front.as_ref().and_then(Front::is_by_ring)?;
        Some(if by_ring { "io_uring" } else { "/dev/fuse" }.into())
    }

    /// All NBD connections.
    fn nbd_connections(&self) -> usize {
        self.nbd.as_ref().map_or(0, |nbd| nbd.server.connections())
    }

    /// NBD connections that are our own block device's.
    fn kernel_connections(&self) -> usize {
        let front = self.front.borrow();
        usize::from(matches!(*front, Some(Front::Nbd(_)))).min(self.nbd_connections())
    }

    /// What users open.
    fn endpoint(&self) -> String {
        let device = self.block_device.name();
        let uri = || self.nbd.as_ref().map(|nbd| nbd.uri.clone());
        let device = device.or_else(|| self.mounted.clone());
        device.or_else(uri).unwrap_or_default()
    }
}

/// Attaches a volume and serves it until told to stop.
pub(crate) fn in_foreground(args: ServingArgs) -> Outcome {
    if args.daemon {
        // Out of the terminal's reach: its signals are not for us.
        let _ = rustix::process::setsid();
    }
    let (daemon, ready) = (args.daemon, Rc::new(Cell::new(false)));
    let told = Rc::clone(&ready);
    let served = on_ring(move |rt, ring| serve(rt, ring, args, ready));
    // Only now: tasks that the executor still had kept devices open, and locked, beyond the end of what is served.
    let served = served.and_then(|(lock, ended)| {
        drop(lock);
        ended
    });
    match served {
        Err(failure) if daemon && !told.get() => {
            spawn::tell_failed(&failure);
            // Whoever started us prints it.
            std::process::exit(failure.code as i32);
        }
        served => served,
    }
}

/// What is to be served, and how.
pub(crate) struct ServingArgs {
    pub(crate) target: TargetArgs,
    pub(crate) serve: ServeArgs,
    pub(crate) accept: AcceptArgs,
    /// In the background: whoever started this waits to be told.
    pub(crate) daemon: bool,
    /// Of a filesystem: where it is mounted and how, as far as that is said.
    pub(crate) mount: Option<MountWish>,
}

/// Where a filesystem is to be mounted and how, as far as that is said.
pub(crate) struct MountWish {
    pub(crate) dir: Option<PathBuf>,
    pub(crate) options: Option<MountOptions>,
}

/// Serves a volume until that ends. Gives the lock of its name, to be held until all that was open is closed, and how it ended.
async fn serve(
    rt: Rt,
    ring: Rc<Ring>,
    args: ServingArgs,
    ready: Rc<Cell<bool>>,
) -> Outcome<(NameLock, Outcome)> {
    // Before any other thread is started, which would not hold the signals back.
    let signals = Signals::new(&ring).map_err(Failure::io)?;
    forebay_os::io_flusher();
    forebay_os::outlive_file_limit();
    forebay_os::give_memory_back();
    forebay_os::hold_memory();
    let dirs = Dirs::new()?;
    let target = Target::find(&args.target, &dirs, &rt, &ring).await?;
    let may_end = || args.mount.is_some() && !mount::is_mounted(&dirs, &target.name);
    let lock = NameLock::take_when_ended(&dirs, &target.name, &rt, may_end).await?;
    let ended = serve_locked((rt, ring), (dirs, &lock), target, (args, ready), signals).await;
    Ok((lock, ended))
}

/// The same, once the name is locked.
async fn serve_locked(
    (rt, ring): (Rt, Rc<Ring>),
    (dirs, lock): (Dirs, &NameLock),
    mut target: Target,
    (args, ready): (ServingArgs, Rc<Cell<bool>>),
    signals: Signals,
) -> Outcome {
    let (options, cache) = options(&args);
    let options = options.or(target.options.clone());
    target.tree = target.tree.with(cache).map_err(StackError::from)?;
    let (how, choice) = match mount::wanted(&target, args.mount, &options)? {
        Some(mount) => (How::Mount(mount), None),
        None => {
            let (via, choice) = front::choose(options.via.unwrap_or_default())?;
            (How::Block(via), choice)
        }
    };
    if matches!(how, How::Block(Via::Ublk | Via::Nbd)) {
        // Its users do not notice that a daemon dies, and must miss nothing then.
        target.tree = target.tree.surviving_kill();
    }
    let setting = start::Setting {
        rt: &rt,
        ring: &ring,
        dirs: &dirs,
        lock,
        options: &options,
        how: &how,
    };
    let mut started = start::start(setting, &signals, target, args.accept).await?;
    started.notes.extend(choice);
    lock.settle();
    let told = if args.daemon {
        spawn::tell_ready(&dirs, &started)
    } else {
        start::announce(&started);
        Ok(())
    };
    ready.set(told.is_ok());
    let daemon = started.daemon;
    let ended = match told {
        Ok(()) => stop::run(&daemon, &signals).await,
        Err(failure) => stop::stop(&daemon, &signals).await.and(Err(failure)),
    };
    dirs.remove_sockets(&daemon.target.name);
    ended
}

/// How to serve a volume, and how its uppermost layer is set.
fn options(args: &ServingArgs) -> (Options, CacheOptions) {
    let serve = &args.serve;
    let options = Options {
        via: serve.via,
        listen: serve.listen.clone(),
        metrics: serve.metrics.clone(),
        http: serve.http.clone(),
        memory: serve.memory,
        ..Options::default()
    };
    let cache = CacheOptions {
        durability: serve.durability,
        max_delay: serve.max_delay,
        patience: serve.patience,
        bypass: serve.bypass,
        map_memory: serve.map_memory,
        discard: serve.discard,
        spare: serve.spare,
    };
    (options, cache)
}
