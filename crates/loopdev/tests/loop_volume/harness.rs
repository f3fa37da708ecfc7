//! A server on its own thread, and guards that leave nothing behind when a test fails.

use std::io::{Read, Write};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use forebay_device::{
    Device, DeviceError, DeviceGeometry, DeviceOp, RamDevice, Tap, TapHooks, TapRequest,
};
use forebay_frontend::requests::RequestMemory;
use forebay_linux::{DeviceOpenOptions, FdPoller, IoRing};
use forebay_loopdev::{LeftoverPolicy, LoopDetachError, LoopOptions, LoopVolume, attach_loop};
use forebay_rt::Executor;

/// Returns true if the test can run here; otherwise prints a loud note.
pub(crate) fn able(programs: &[&str]) -> bool {
    let root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    let missing = |what: &str| {
        eprintln!("SKIPPED: needs {what}");
        false
    };
    if !root {
        return missing("root");
    }
    for node in ["/dev/fuse", "/dev/loop-control"] {
        if !Path::new(node).exists() {
            return missing(node);
        }
    }
    let dirs = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"];
    for program in programs {
        if !dirs.iter().any(|dir| Path::new(dir).join(program).exists()) {
            return missing(program);
        }
    }
    true
}

/// Runs a program, which must succeed.
pub(crate) fn run(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output().expect(program);
    assert!(
        output.status.success(),
        "{program} {args:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}

/// Controls and observations of a device, shared with the test's thread.
#[derive(Clone, Default)]
pub(crate) struct DeviceControls {
    pub flushes: Arc<AtomicUsize>,
    /// Requests that touch this range fail.
    pub broken: Arc<Mutex<Range<u64>>>,
    /// Flushes print a line on standard output and are never answered.
    pub silent: bool,
    /// Flushes fail.
    pub broken_flush: Arc<Mutex<bool>>,
}

/// The controls of a device, and its support for unmapping.
struct ControlHooks {
    strings: DeviceControls,
    unmaps: bool,
}

impl ControlHooks {
    /// Returns true if the request must fail.
    fn breaks(&self, asked: &TapRequest) -> bool {
        let range = asked.range();
        let broken = self.strings.broken.lock().expect("no panic").clone();
        match asked.op() {
            DeviceOp::Flush => *self.strings.broken_flush.lock().expect("no panic"),
            DeviceOp::Discard => false,
            _ => range.start < broken.end && broken.start < range.end,
        }
    }
}

impl TapHooks for ControlHooks {
    fn geometry(&self, below: DeviceGeometry) -> DeviceGeometry {
        DeviceGeometry {
            discard_granularity: if self.unmaps { 4096 } else { 0 },
            zeroes_by_unmapping: self.unmaps,
            volatile: true,
            ..below
        }
    }

    async fn before(&self, asked: &TapRequest) -> Result<(), DeviceError> {
        if self.strings.silent && asked.op() == DeviceOp::Flush {
            println!("\nflush");
            std::future::pending::<()>().await;
        }
        if self.breaks(asked) {
            // An error number that must not reach the kernel unchanged.
            let source = std::io::Error::from_raw_os_error(libc::ENOSYS);
            return Err(DeviceError::io(asked.op(), asked.range(), source));
        }
        Ok(())
    }

    async fn after(&self, asked: &TapRequest) -> Result<(), DeviceError> {
        if asked.op() == DeviceOp::Flush {
            self.strings.flushes.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    }
}

/// A volume of `len` bytes, attached and served by a thread.
pub(crate) struct LoopServer {
    pub node: PathBuf,
    pub file: PathBuf,
    pub strings: DeviceControls,
    orders: UnixStream,
    answers: Receiver<Result<(), LoopDetachError>>,
    thread: Option<JoinHandle<()>>,
}

/// The parameters of a server.
#[derive(Clone, Copy)]
pub(crate) struct LoopServerPlan<'a> {
    pub dir: &'a Path,
    pub name: &'a str,
    pub len: u64,
    pub block_size: u32,
    pub unmaps: bool,
    pub leftovers: LeftoverPolicy,
    /// A file to serve, instead of controlled memory.
    pub disk: Option<&'a Path>,
}

impl<'a> LoopServerPlan<'a> {
    pub(crate) fn new(dir: &'a Path, name: &'a str) -> LoopServerPlan<'a> {
        LoopServerPlan {
            dir,
            name,
            len: 64 << 20,
            block_size: 4096,
            unmaps: true,
            leftovers: LeftoverPolicy::Refuse,
            disk: None,
        }
    }

    /// Attaches, or panics with the reason.
    pub(crate) fn serve(self) -> LoopServer {
        self.serve_on(DeviceControls::default())
    }

    /// Attaches a device controlled by `strings`, or panics with the reason.
    pub(crate) fn serve_on(self, strings: DeviceControls) -> LoopServer {
        let (orders, thread_orders) = UnixStream::pair().expect("a socket");
        let (tell, told) = mpsc::channel();
        let (answer, answers) = mpsc::channel();
        let (dir, name) = (self.dir.to_owned(), self.name.to_owned());
        let disk = self.disk.map(Path::to_owned);
        let thread_strings = strings.clone();
        let thread = std::thread::spawn(move || {
            let ring = IoRing::new(64).expect("a ring");
            let executor = Executor::new(ring.clone());
            let rt = executor.rt();
            executor.block_on(async move {
                let device: Rc<dyn Device> = if let Some(path) = disk {
                    let opened = forebay_linux::open(&ring, path, DeviceOpenOptions::default());
                    opened.expect("a disk").device
                } else {
                    let observed = ControlHooks {
                        strings: thread_strings,
                        unmaps: self.unmaps,
                    };
                    let ram = RamDevice::new(self.len, self.block_size);
                    Rc::new(Tap::new(ram, observed))
                };
                let memory = RequestMemory::default();
                let options = LoopOptions {
                    leftovers: self.leftovers,
                    ..LoopOptions::default()
                };
                let attached = attach_loop(&rt, &ring, device, &memory, &dir, &name, options).await;
                let mut volume = match attached {
                    Ok(volume) => volume,
                    Err(error) => return tell.send(Err(error)).expect("test waits"),
                };
                let paths = (volume.path().to_owned(), volume.file());
                tell.send(Ok(paths)).expect("test waits");
                obey(&ring, thread_orders, &mut volume, &answer).await;
            });
        });
        let (node, file) = told.recv().expect("the server lives").expect("attached");
        LoopServer {
            node,
            file,
            strings,
            orders,
            answers,
            thread: Some(thread),
        }
    }
}

async fn obey(
    ring: &Rc<IoRing>,
    orders: UnixStream,
    volume: &mut LoopVolume,
    answer: &mpsc::Sender<Result<(), LoopDetachError>>,
) {
    let poller = FdPoller::new(
        ring,
        Rc::new(OwnedFd::from(orders.try_clone().expect("a copy"))),
    );
    loop {
        poller.readable().await.expect("pollable");
        let mut order = [0];
        let n = (&orders).read(&mut order).expect("readable");
        let done = match (n, order[0]) {
            (0, _) => return,
            (_, b'e') => {
                volume.ended().await;
                volume.detach().await
            }
            _ => volume.detach().await,
        };
        let over = done.is_ok();
        let _ = answer.send(done);
        if over {
            return;
        }
    }
}

impl LoopServer {
    fn order(&mut self, order: u8) -> Result<(), LoopDetachError> {
        self.orders.write_all(&[order]).expect("the server lives");
        let answer = self.answers.recv().expect("the server answers");
        if answer.is_ok() {
            self.thread.take().expect("once").join().expect("no panic");
        }
        answer
    }

    pub(crate) fn detach(&mut self) -> Result<(), LoopDetachError> {
        self.order(b'd')
    }

    /// Waits until the service has ended by itself, then detaches.
    pub(crate) fn ended(&mut self) -> Result<(), LoopDetachError> {
        self.order(b'e')
    }

    pub(crate) fn flushes(&self) -> usize {
        self.strings.flushes.load(Ordering::SeqCst)
    }

    pub(crate) fn node(&self) -> &str {
        self.node.to_str().expect("text")
    }

    /// Reads a file of the block device's queue in sysfs.
    pub(crate) fn queue(&self, file: &str) -> String {
        let name = self
            .node
            .file_name()
            .expect("a name")
            .to_str()
            .expect("text");
        let path = format!("/sys/block/{name}/queue/{file}");
        std::fs::read_to_string(path).expect(file).trim().to_owned()
    }
}

impl Drop for LoopServer {
    fn drop(&mut self) {
        if self.thread.is_none() {
            return;
        }
        *self.strings.broken.lock().expect("no panic") = 0..0;
        *self.strings.broken_flush.lock().expect("no panic") = false;
        while let Err(error) = self.detach() {
            eprintln!("cleaning up: {error}");
            match error {
                LoopDetachError::WriteBack { .. } => {}
                _ if std::thread::panicking() => std::process::abort(),
                _ => panic!("{error}"),
            }
        }
    }
}

/// A filesystem mounted for a test, unmounted at the test's end, also after a panic.
pub(crate) struct LoopMount {
    pub at: PathBuf,
}

impl LoopMount {
    pub(crate) fn new(node: &str, at: &Path) -> LoopMount {
        std::fs::create_dir_all(at).expect("a directory");
        run("mount", &[node, at.to_str().expect("text")]);
        LoopMount { at: at.to_owned() }
    }
}

impl Drop for LoopMount {
    fn drop(&mut self) {
        let at = self.at.to_str().expect("text");
        let unmount = |args: &[&str]| Command::new("umount").args(args).output();
        let done = unmount(&[at]).is_ok_and(|output| output.status.success());
        if !done {
            let _ = unmount(&["--lazy", at]);
        }
    }
}
