//! A device served without a cache, as a baseline: the same front ends over the same kind of disk, on a thread of its
//! own.

use std::io::{PipeWriter, pipe};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc;
use std::thread::JoinHandle;

use forebay_device::Device;
use forebay_disk_model::Lateness;
use forebay_frontend::requests::RequestMemory;
use forebay_linux::{DeviceOpenOptions, FdPoller, IoRing, SocketListener, on_ring};
use forebay_loopdev::{LoopOptions, attach_loop};
use forebay_nbd::{ClientLimits, NbdExport, NbdServer};
use forebay_rt::Rt;
use forebay_volume::{DeviceSpec, OpenContext, open_one};

use forebay_command_output::failure::{CommandFailure, CommandResult};

/// Name of the export.
pub(crate) const EXPORT: &str = "plain";

/// Access to the device.
#[derive(Clone, Debug)]
pub enum RawAccess {
    /// By NBD at this socket.
    Socket(PathBuf),
    /// As a block device; its files are in this directory.
    Loop(PathBuf),
}

/// A server that ends when it is dropped.
pub struct RawServer {
    at: PathBuf,
    /// Pipe that is closed to end the server.
    end: Option<PipeWriter>,
    thread: Option<JoinHandle<CommandResult<Option<Lateness>>>>,
}

impl RawServer {
    /// Starts the server of a device, and waits until it serves.
    ///
    /// # Errors
    /// If the device cannot be opened or served.
    pub fn start(spec: &str, access: RawAccess) -> CommandResult<RawServer> {
        let spec: DeviceSpec = spec.parse().map_err(CommandFailure::general)?;
        let (ended, end) = pipe().map_err(CommandFailure::io)?;
        let (sender, receiver) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            forebay_linux::io_flusher();
            on_ring(|rt, ring| async move {
                let context = OpenContext {
                    rt: &rt,
                    ring: &ring,
                    options: DeviceOpenOptions::default(),
                };
                let part = open_one(context, &spec)?;
                let ended = FdPoller::new(&ring, Rc::new(OwnedFd::from(ended)));
                let ready = move |at: PathBuf| drop(sender.send(at));
                match access {
                    RawAccess::Socket(at) => {
                        by_nbd(&rt, &ring, part.device, at, ready, ended).await?;
                    }
                    RawAccess::Loop(dir) => {
                        by_loop(&rt, &ring, part.device, &dir, ready, ended).await?;
                    }
                }
                Ok(part.emulated.map(|emulated| emulated.lateness()))
            })
            .map_err(CommandFailure::io)?
        });
        let mut server = RawServer {
            at: PathBuf::new(),
            end: Some(end),
            thread: Some(thread),
        };
        // The channel closes when the thread fails.
        match receiver.recv() {
            Ok(at) => {
                server.at = at;
                Ok(server)
            }
            Err(_) => Err(server
                .end()
                .err()
                .unwrap_or_else(|| CommandFailure::general("the server did not start"))),
        }
    }

    /// Returns the socket or the block device.
    pub fn at(&self) -> &Path {
        &self.at
    }

    /// Ends the server. Returns the lateness of its answers, if it emulated a disk.
    ///
    /// # Errors
    /// The failure of the server.
    pub fn stop(mut self) -> CommandResult<Option<Lateness>> {
        self.end()
    }

    fn end(&mut self) -> CommandResult<Option<Lateness>> {
        self.end.take();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(outcome)) => outcome,
            Some(Err(_)) => Err(CommandFailure::general("the comparison's server panicked")),
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
    ring: &Rc<IoRing>,
    device: Rc<dyn Device>,
    at: PathBuf,
    ready: impl FnOnce(PathBuf),
    ended: FdPoller,
) -> CommandResult {
    let listener = SocketListener::unix(ring, &at).map_err(CommandFailure::io)?;
    let export = NbdExport::new(EXPORT, device);
    let memory = RequestMemory::default();
    let server = NbdServer::new(rt.clone(), vec![export], ClientLimits::default(), &memory);
    let server = server.map_err(CommandFailure::general)?;
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
    ring: &Rc<IoRing>,
    device: Rc<dyn Device>,
    dir: &Path,
    ready: impl FnOnce(PathBuf),
    ended: FdPoller,
) -> CommandResult {
    let (memory, options) = (RequestMemory::default(), LoopOptions::default());
    let attached = attach_loop(rt, ring, device, &memory, dir, EXPORT, options).await;
    let mut volume = attached.map_err(CommandFailure::io)?;
    ready(volume.path().to_owned());
    let _ = ended.readable().await;
    volume.detach().await.map_err(CommandFailure::io)
}
