//! An NBD server over an image without a cache, to compare with: the same front end over the same
//! kind of file, on a thread of its own.

use std::io::{PipeWriter, pipe};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::thread::JoinHandle;

use forebay_os::{Listener, OpenOptions, Poller};
use forebay_serve::nbd::{Export, Limits, Server};

use crate::failure::{Failure, Outcome};
use crate::run::on_ring;

/// The name of the export.
pub(super) const EXPORT: &str = "direct";

/// Serves until it is dropped.
pub(super) struct RawServer {
    socket: PathBuf,
    /// Closed to end the server.
    end: Option<PipeWriter>,
    thread: Option<JoinHandle<Outcome>>,
}

impl RawServer {
    pub(super) fn start(image: &Path, socket: PathBuf) -> Outcome<RawServer> {
        let (ended, end) = pipe().map_err(Failure::io)?;
        let (ready_reader, ready) = pipe().map_err(Failure::io)?;
        let (image, at) = (image.to_owned(), socket.clone());
        let thread = std::thread::spawn(move || {
            on_ring(|rt, ring| async move {
                let opened = forebay_os::open(&ring, &image, OpenOptions::default())?;
                let listener = Listener::unix(&ring, &at).map_err(Failure::io)?;
                let export = Export::new(EXPORT, opened.device);
                let server = Server::new(rt.clone(), vec![export], Limits::default())
                    .map_err(Failure::general)?;
                let accepting = server.clone();
                let task = rt.spawn(async move { accepting.listen(&listener).await });
                drop(ready);
                let poller = Poller::new(&ring, Rc::new(ended.into()));
                let _ = poller.readable().await;
                server.shutdown().await;
                let _ = task.await;
                Ok(())
            })
        });
        // The end of the pipe comes when it is ready, and when it has failed.
        let _ = std::io::Read::read(&mut { ready_reader }, &mut [0]);
        let mut server = RawServer {
            socket,
            end: Some(end),
            thread: Some(thread),
        };
        if server.socket.exists() {
            return Ok(server);
        }
        Err(server
            .stop()
            .err()
            .unwrap_or_else(|| Failure::general("the server did not start")))
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    fn stop(&mut self) -> Outcome {
        self.end.take();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(outcome)) => outcome,
            Some(Err(_)) => Err(Failure::general("the comparison's server panicked")),
            None => Ok(()),
        }
    }
}

impl Drop for RawServer {
    fn drop(&mut self) {
        if let Err(failure) = self.stop() {
            eprintln!("forebay: {failure}");
        }
    }
}
