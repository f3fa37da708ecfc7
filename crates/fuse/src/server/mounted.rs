//! A filesystem that is mounted and served.

use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use forebay_frontend::requests::{RequestLimiter, RequestMemory};
use forebay_linux::{FdPoller, IoRing, isolated};
use forebay_rt::{Event, Rt, Task};

use super::channel::FuseChannel;
use super::handler::FuseHandler;
use super::notify::KernelNotifier;
use super::request::FuseConnection;
use super::session::{self, SessionEnd, UNDER_WAY_MAX};
use crate::mounting::FuseMount;

/// A mounted filesystem. Unmount it before dropping it; otherwise a stale mount stays behind.
pub struct ServedMount {
    rt: Rt,
    serving: Option<Task<SessionEnd>>,
    ended: Option<Rc<SessionEnd>>,
    over: SessionEndEvent,
    by_ring: Rc<Cell<bool>>,
    mount: FuseMount,
    /// The system's number of the filesystem, unique among all mounted filesystems.
    device: Option<(u32, u32)>,
}

/// The end of a session, by any unmount, as an event. Clones share it.
#[derive(Clone, Default)]
pub struct SessionEndEvent(Rc<(Cell<bool>, Event)>);

impl SessionEndEvent {
    fn set(&self) {
        self.0.0.set(true);
        self.0.1.notify_all();
    }

    /// Waits for the end of the session.
    pub async fn wait(&self) {
        self.0.1.until(|| self.0.0.get().then_some(())).await;
    }
}

/// Time limit for a session to end after its mount has disappeared from the file tree. The session lasts longer only if
/// a process has a file open in the filesystem.
const GONE_PATIENCE: Duration = Duration::from_secs(2);

/// An error of unmounting a filesystem, which is still served.
#[derive(Debug, thiserror::Error)]
pub enum UnmountError {
    /// The filesystem was unmounted lazily, and a process still has a file open in it.
    #[error("{} is unmounted, but still in use; it ends when its last user closes it", dir.display())]
    StillUsed {
        /// The former mount directory.
        dir: PathBuf,
    },
    /// A process has a file open in the filesystem, or has its working directory there.
    #[error("{} is in use; nothing was undone", dir.display())]
    Busy {
        /// The mount directory.
        dir: PathBuf,
    },
    /// The system refused the operation.
    #[error("cannot unmount {}: {source}", dir.display())]
    Io {
        /// The mount directory.
        dir: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl ServedMount {
    /// Mounts the filesystem of `handler`, and serves it on `rt` with buffers from `memory`.
    ///
    /// # Errors
    /// If `/dev/fuse` cannot be opened or mounted: the kernel has no FUSE, or the process is not root.
    pub fn new<H: FuseHandler>(
        rt: &Rt,
        ring: &Rc<IoRing>,
        handler: Rc<H>,
        memory: &RequestMemory,
        mount: FuseMount,
    ) -> io::Result<ServedMount> {
        forebay_linux::io_flusher();
        let channel = FuseChannel::new(mount.mount()?);
        let watch = channel.watch().inspect_err(|_| {
            let _ = mount.unmount(true);
        })?;
        let device = mount.device();
        let connection = Rc::new(FuseConnection {
            rt: rt.clone(),
            ring: Rc::clone(ring),
            read_ahead: device.map(|(major, minor)| {
                format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb").into()
            }),
            channel,
            notifier: KernelNotifier::default(),
            memory: memory.clone(),
            under_way: RequestLimiter::new(UNDER_WAY_MAX),
            by_ring: Rc::default(),
            agreed: Cell::default(),
            waiting_entries: Cell::default(),
        });
        let by_ring = Rc::clone(&connection.by_ring);
        let (over, poller) = (SessionEndEvent::default(), FdPoller::new(ring, watch));
        let tell = over.clone();
        let serving = async move {
            let ended = session::serve(connection, handler, poller).await;
            tell.set();
            ended
        };
        Ok(ServedMount {
            rt: rt.clone(),
            serving: Some(rt.spawn(serving)),
            ended: None,
            over,
            by_ring,
            device,
            mount,
        })
    }

    /// Returns the mount directory. The thread that serves it must not access the directory.
    pub fn dir(&self) -> &Path {
        &self.mount.dir
    }

    /// Returns false once the filesystem is no longer mounted at its directory, possibly while processes still use it.
    pub fn is_there(&self) -> bool {
        self.mount.is_there(self.device)
    }

    /// Returns the runtime that serves the filesystem.
    pub fn rt(&self) -> &Rt {
        &self.rt
    }

    /// Returns true if the session has ended: all further requests to the filesystem will fail.
    pub fn is_over(&self) -> bool {
        self.serving.as_ref().is_none_or(Task::is_finished)
    }

    /// Returns true if requests come through io_uring, false if through `/dev/fuse`.
    pub fn is_by_ring(&self) -> bool {
        self.by_ring.get()
    }

    /// Returns the event of the session's end.
    pub fn over(&self) -> SessionEndEvent {
        self.over.clone()
    }

    /// Waits until the session ends, and returns the reason. Any unmount ends the session, also one by another process.
    pub async fn ended(&mut self) -> Rc<SessionEnd> {
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
    /// See [`UnmountError`]. The filesystem is still served; the caller can try again.
    pub async fn unmount(&mut self) -> Result<(), UnmountError> {
        if !self.is_over() && !self.mount.is_anywhere(self.device) {
            let (rt, dir) = (self.rt.clone(), self.mount.dir.clone());
            let ended = rt.timeout(GONE_PATIENCE, self.ended()).await;
            ended.map_err(|_| UnmountError::StillUsed { dir })?;
        }
        if self.is_over() && self.mount.device() != self.device {
            self.ended().await;
            // Another process unmounted it; a different filesystem mounted there now is not ours.
            let mount = &self.mount;
            return mount.remove_dir().map_err(|source| UnmountError::Io {
                dir: mount.dir.clone(),
                source,
            });
        }
        // Users of a filesystem that was cut off, as by `umount --force`, get only errors, so a lazy unmount is safe.
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

impl Drop for ServedMount {
    fn drop(&mut self) {
        if self.serving.is_some() {
            tracing::warn!(dir = %self.mount.dir.display(), "a FUSE filesystem was dropped while mounted");
        }
    }
}
