//! A filesystem that is mounted and served.

use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use forebay_os::{FuseMount as Mount, Poller, Ring, isolated};
use forebay_rt::{Event, Rt, Task};

use super::channel::Channel;
use super::handler::Handler;
use super::notify::Notifier;
use super::request::Connection;
use super::session::{self, Ended, UNDER_WAY_MAX};
use crate::requests::{Memory, UnderWay};

/// A mount of ours. Unmount it before dropping it; otherwise it stays behind dead.
pub struct Mounted {
    rt: Rt,
    serving: Option<Task<Ended>>,
    ended: Option<Rc<Ended>>,
    over: Over,
    by_ring: Rc<Cell<bool>>,
    mount: Mount,
    /// By what the system knows the filesystem: no other one that is mounted has this number.
    device: Option<(u32, u32)>,
}

/// Knows when a session is over, whoever unmounted it. Clones know it together.
#[derive(Clone, Default)]
pub struct Over(Rc<(Cell<bool>, Event)>);

impl Over {
    fn set(&self) {
        self.0.0.set(true);
        self.0.1.notify_all();
    }

    /// Waits for it.
    pub async fn wait(&self) {
        self.0.1.until(|| self.0.0.get().then_some(())).await;
    }
}

/// How long a session may take to end that nobody can reach any more, unless somebody has something open there.
const GONE_PATIENCE: Duration = Duration::from_secs(2);

/// Why a filesystem was not unmounted. It is still served.
#[derive(Debug, thiserror::Error)]
pub enum UnmountError {
    /// It was unmounted lazily, and something has a file open there.
    #[error("{} is unmounted, and still in use; it ends when it no longer is", dir.display())]
    StillUsed {
        /// Where it was mounted.
        dir: PathBuf,
    },
    /// Something has a file open, or its working directory there.
    #[error("{} is in use; nothing was undone", dir.display())]
    Busy {
        /// Where it is mounted.
        dir: PathBuf,
    },
    /// The system refused.
    #[error("cannot unmount {}: {source}", dir.display())]
    Io {
        /// Where it is mounted.
        dir: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Mounted {
    /// Mounts what `handler` answers for. It is served on `rt` with buffers from `memory`.
    ///
    /// # Errors
    /// If `/dev/fuse` cannot be opened or mounted: no FUSE in the kernel, not root.
    pub fn new<H: Handler>(
        rt: &Rt,
        ring: &Rc<Ring>,
        handler: Rc<H>,
        memory: &Memory,
        mount: Mount,
    ) -> io::Result<Mounted> {
        forebay_os::io_flusher();
        let channel = Channel::new(mount.mount()?);
        let watch = channel.watch().inspect_err(|_| {
            let _ = mount.unmount(true);
        })?;
        let device = mount.device();
        let connection = Rc::new(Connection {
            rt: rt.clone(),
            ring: Rc::clone(ring),
            read_ahead: device.map(|(major, minor)| {
                format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb").into()
            }),
            channel,
            notifier: Notifier::default(),
            memory: memory.clone(),
            under_way: UnderWay::new(UNDER_WAY_MAX),
            by_ring: Rc::default(),
            agreed: Cell::default(),
            waiting_entries: Cell::default(),
        });
        let by_ring = Rc::clone(&connection.by_ring);
        let (over, poller) = (Over::default(), Poller::new(ring, watch));
        let tell = over.clone();
        let serving = async move {
            let ended = session::serve(connection, handler, poller).await;
            tell.set();
            ended
        };
        Ok(Mounted {
            rt: rt.clone(),
            serving: Some(rt.spawn(serving)),
            ended: None,
            over,
            by_ring,
            device,
            mount,
        })
    }

    /// Where it is mounted. The thread that serves it must not look there.
    pub fn dir(&self) -> &Path {
        &self.mount.dir
    }

    /// False once it is not mounted there any more, which may be before the last of its users is gone.
    pub fn is_there(&self) -> bool {
        self.mount.is_there(self.device)
    }

    pub(crate) fn rt(&self) -> &Rt {
        &self.rt
    }

    /// True if the session has ended: nothing that is asked of the filesystem will succeed.
    pub fn is_over(&self) -> bool {
        self.serving.as_ref().is_none_or(Task::is_finished)
    }

    /// True if requests come by io_uring, false if they come by `/dev/fuse`.
    pub fn is_by_ring(&self) -> bool {
        self.by_ring.get()
    }

    /// Who knows when the session is over.
    pub fn over(&self) -> Over {
        self.over.clone()
    }

    /// Waits until the session is over, and says why. It is over after an unmount, by whomever.
    pub async fn ended(&mut self) -> Rc<Ended> {
        if let Some(serving) = self.serving.as_mut() {
            let ended = Rc::new(serving.await);
            self.serving = None;
            self.ended = Some(ended);
        }
        Rc::clone(self.ended.as_ref().expect("set when the session ended"))
    }

    /// Unmounts, waits for the requests under way, and removes the directory.
    ///
    /// # Errors
    /// See [`UnmountError`]. The filesystem is served on; try again.
    pub async fn unmount(&mut self) -> Result<(), UnmountError> {
        if !self.is_over() && !self.mount.is_anywhere(self.device) {
            let (rt, dir) = (self.rt.clone(), self.mount.dir.clone());
            let ended = rt.timeout(GONE_PATIENCE, self.ended()).await;
            ended.map_err(|_| UnmountError::StillUsed { dir })?;
        }
        if self.is_over() && self.mount.device() != self.device {
            self.ended().await;
            // Unmounted by somebody else; what is mounted there now, if anything, is none of ours.
            let mount = &self.mount;
            return mount.remove_dir().map_err(|source| UnmountError::Io {
                dir: mount.dir.clone(),
                source,
            });
        }
        // Who uses one that was cut off, as by `umount --force`, gets nothing but errors.
        let (mount, lazy) = (self.mount.clone(), self.is_over());
        let done = isolated(move || mount.unmount(lazy)).await;
        if let Err(source) = done.and_then(|done| done) {
            let dir = self.mount.dir.clone();
            return Err(match source.raw_os_error() {
                Some(libc::EBUSY) => UnmountError::Busy { dir },
                _ => UnmountError::Io { dir, source },
            });
        }
        self.ended().await;
        Ok(())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        if self.serving.is_some() {
            tracing::warn!(dir = %self.mount.dir.display(), "a FUSE filesystem was dropped while mounted");
        }
    }
}
