//! A device served without a cache, to compare with: the same front ends over the same kind of disk,
//! on a thread of its own.

use std::io::{PipeWriter, pipe};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use forebay_device::Device;
use forebay_model::Lateness;
use forebay_os::{Listener, OpenOptions, Poller, Ring};
use forebay_rt::Rt;
use forebay_serve::Memory;
use forebay_serve::blockdev::{LoopOptions, attach_loop};
use forebay_serve::nbd::{Export, Limits, Server};
use forebay_stack::{Spec, open_one};

use forebay_program::failure::{Failure, Outcome};
use forebay_program::run::on_ring;

/// The name of the export.
pub(super) const EXPORT: &str = "plain";

/// How the device is to be had.
#[derive(Clone, Debug)]
pub(super) enum Access {
    /// By NBD at this socket.
    Socket(PathBuf),
    /// As a block device; what belongs to it is in this directory.
    Loop(PathBuf),
}

/// Serves until it is dropped.
pub(super) struct RawServer {
    at: PathBuf,
    /// Closed to end the server.
    end: Option<PipeWriter>,
    thread: Option<JoinHandle<Outcome<Option<Lateness>>>>,
}

impl RawServer {
    pub(super) fn start(spec: &str, access: Access) -> Outcome<RawServer> {
        let spec: Spec = spec.parse().map_err(Failure::general)?;
        let (ended, end) = pipe().map_err(Failure::io)?;
        let (tell, told) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            forebay_os::io_flusher();
            on_ring(|rt, ring| async move {
                let part = open_one(&rt, &ring, &spec, OpenOptions::default())?;
                let ended = Poller::new(&ring, Rc::new(OwnedFd::from(ended)));
                let ready = move |at: PathBuf| drop(tell.send(at));
                match access {
                    Access::Socket(at) => by_nbd(&rt, &ring, part.device, at, ready, ended).await?,
                    Access::Loop(dir) => {
                        by_loop(&rt, &ring, part.device, &dir, ready, ended).await?
                    }
                }
                Ok(part.emulated.map(|emulated| emulated.lateness()))
            })
        });
        let mut server = RawServer {
            at: PathBuf::new(),
            end: Some(end),
            thread: Some(thread),
        };
        // The channel closes when the thread fails.
        match told.recv() {
            Ok(at) => {
                server.at = at;
                Ok(server)
            }
            Err(_) => Err(server
                .end()
                .err()
                .unwrap_or_else(|| Failure::general("the server did not start"))),
        }
    }

    /// The socket or the block device.
    pub(super) fn at(&self) -> &Path {
        &self.at
    }

    /// Ends it; returns how late its answers were, if it emulated a disk.
    pub(super) fn stop(mut self) -> Outcome<Option<Lateness>> {
        self.end()
    }

    fn end(&mut self) -> Outcome<Option<Lateness>> {
        self.end.take();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(outcome)) => outcome,
            Some(Err(_)) => Err(Failure::general("the comparison's server panicked")),
            None => Ok(None),
        }
    }
}

impl Drop for RawServer {
    fn drop(&mut self) {
        if let Err(failure) = self.end() {
            eprintln!("forebay: {failure}");
        }
    }
}

async fn by_nbd(
    rt: &Rt,
    ring: &Rc<Ring>,
    device: Rc<dyn Device>,
    at: PathBuf,
    ready: impl FnOnce(PathBuf),
    ended: Poller,
) -> Outcome {
    let listener = Listener::unix(ring, &at).map_err(Failure::io)?;
    let export = Export::new(EXPORT, device);
    let memory = Memory::default();
    let server = Server::new(rt.clone(), vec![export], Limits::default(), &memory);
    let server = server.map_err(Failure::general)?;
    let accepting = server.clone();
    let task = rt.spawn(async move { accepting.listen(&listener).await });
    ready(at);
    let _ = ended.readable().await;
    server.shutdown().await;
    let _ = task.await;
    Ok(())
}

async fn by_loop(
    rt: &Rt,
    ring: &Rc<Ring>,
    device: Rc<dyn Device>,
    dir: &Path,
    ready: impl FnOnce(PathBuf),
    ended: Poller,
) -> Outcome {
    let (memory, options) = (Memory::default(), LoopOptions::default());
    let attached = attach_loop(rt, ring, device, &memory, dir, EXPORT, options).await;
    let mut volume = attached.map_err(Failure::io)?;
    ready(volume.path().to_owned());
    let _ = ended.readable().await;
    volume.detach().await.map_err(Failure::io)
}
