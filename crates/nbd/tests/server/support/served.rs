//! A server on its own thread, behind a real socket, and the tools that connect to it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::rc::Rc;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, Waker};
use std::thread::JoinHandle;

use forebay_frontend::requests::RequestMemory;
use forebay_linux::{IoRing, SocketAddress, SocketListener};
use forebay_nbd::{ClientLimits, NbdExport, NbdServer};
use forebay_rng::Rng;
use forebay_rt::{Driver, Executor};
use tempfile::TempDir;

/// A stop signal from another thread.
#[derive(Default)]
struct ServerStop(Mutex<(bool, Option<Waker>)>);

impl ServerStop {
    fn now(&self) {
        let mut state = self.0.lock().unwrap();
        state.0 = true;
        if let Some(waker) = state.1.take() {
            waker.wake();
        }
    }

    async fn wait(&self) {
        std::future::poll_fn(|cx| {
            let mut state = self.0.lock().unwrap();
            if state.0 {
                return Poll::Ready(());
            }
            state.1 = Some(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

pub(crate) struct ServedExports {
    dir: TempDir,
    stop: Arc<ServerStop>,
    thread: Option<JoinHandle<()>>,
}

impl ServedExports {
    /// Serves the exports that `make` creates. The closure that `make` returns is called when all connections are
    /// closed.
    pub(crate) fn new<F: FnOnce()>(
        make: impl FnOnce(&Rc<IoRing>) -> (Vec<NbdExport>, F) + Send + 'static,
    ) -> ServedExports {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let stop = Arc::new(ServerStop::default());
        let (address, stopped) = (SocketAddress::Unix(dir.path().join("s")), Arc::clone(&stop));
        let (is_listening, listening) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let ring = IoRing::new(256).expect("an io_uring");
            let executor = Executor::new(Rc::clone(&ring) as Rc<dyn Driver>);
            let rt = executor.rt();
            let (exports, at_end) = make(&ring);
            let server = NbdServer::new(
                rt.clone(),
                exports,
                ClientLimits::default(),
                &RequestMemory::default(),
            )
            .unwrap();
            let listener = SocketListener::bind(&ring, &address).unwrap();
            is_listening.send(()).unwrap();
            executor.block_on(async move {
                let accepting = server.clone();
                let accepting = rt.spawn(async move { accepting.listen(&listener).await });
                stopped.wait().await;
                server.shutdown().await;
                accepting.await.unwrap();
            });
            at_end();
        });
        listening.recv().expect("the server listens");
        let thread = Some(thread);
        ServedExports { dir, stop, thread }
    }

    /// Serves one export alone.
    pub(crate) fn one(
        make: impl FnOnce(&Rc<IoRing>) -> NbdExport + Send + 'static,
    ) -> ServedExports {
        ServedExports::new(|ring| (vec![make(ring)], || ()))
    }

    /// Returns the URI of `export`.
    pub(crate) fn uri(&self, export: &str) -> String {
        let socket = self.dir.path().join("s");
        format!("nbd+unix:///{export}?socket={}", socket.display())
    }

    /// Returns the test's own directory.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Returns a path in the test's directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Shuts the server down and waits for its end.
    pub(crate) fn finish(mut self) {
        self.stop.now();
        let thread = self.thread.take().unwrap();
        thread.join().expect("the server ends well");
    }
}

impl Drop for ServedExports {
    fn drop(&mut self) {
        self.stop.now();
    }
}

/// Returns a command for the program `name`. If the program is missing, prints a loud note that the test is skipped.
pub(crate) fn tool(name: &str) -> Option<Command> {
    let path = std::env::var_os("PATH")?;
    if std::env::split_paths(&path).any(|dir| dir.join(name).is_file()) {
        return Some(Command::new(name));
    }
    eprintln!("SKIPPED: {name} is not installed; this is not tested");
    None
}

/// Runs `command`, which must succeed, and returns its output.
pub(crate) fn output(command: &mut Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let (out, err) = (
        String::from_utf8_lossy(&stdout),
        String::from_utf8_lossy(&stderr),
    );
    assert!(status.success(), "{command:?}: {status}\n{out}\n{err}");
    format!("{out}{err}")
}

/// Writes a file of `len` bytes, half noise and half zeroes. The content depends only on the seed.
pub(crate) fn write_noise(path: &Path, len: usize, seed: u64) {
    let (mut data, rng) = (vec![0; len], Rng::new(seed));
    for chunk in data.chunks_mut(64 << 10).step_by(2) {
        rng.fill(chunk);
    }
    std::fs::write(path, data).unwrap();
}
