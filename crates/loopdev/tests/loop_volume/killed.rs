//! A server killed during its work, and the fate of its leftovers.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use forebay_frontend::block_device::DeviceHolder;
use forebay_loopdev::{CleanupError, LeftoverPolicy, RemovedLeftovers, cleanup_stale};

use crate::harness::{DeviceControls, LoopMount, LoopServerPlan, able, run};

const DIR: &str = "FOREBAY_TEST_SERVE_IN";
const SILENT: &str = "FOREBAY_TEST_SILENT";
const NAME: &str = "killed";

/// Not a test of its own: the tests here start it in another process, and kill that process.
#[test]
fn serve_until_killed() {
    // Run as an ordinary test, it has nothing to serve.
    let Some(dir) = std::env::var_os(DIR) else {
        return;
    };
    let strings = DeviceControls {
        silent: std::env::var_os(SILENT).is_some(),
        ..DeviceControls::default()
    };
    let silent = strings.silent;
    let mut server = LoopServerPlan::new(Path::new(&dir), NAME).serve_on(strings);
    println!("\nserving {}", server.node());
    if silent {
        server.detach().expect("never");
    }
    loop {
        std::thread::park();
    }
}

/// A server process. Dropping it kills the process and removes its leftovers.
struct VictimServer {
    child: Child,
    node: String,
    dir: PathBuf,
}

impl VictimServer {
    /// Starts a server, and waits until it has attached.
    fn start(dir: &Path) -> VictimServer {
        let (mut victim, mut lines) = VictimServer::spawn(dir, false);
        let node = lines.find_map(|line| line.strip_prefix("serving ").map(str::to_owned));
        victim.node = node.expect("it serves");
        victim
    }

    fn spawn(dir: &Path, silent: bool) -> (VictimServer, impl Iterator<Item = String>) {
        let mut command = Command::new(std::env::current_exe().expect("itself"));
        command
            .args(["--exact", "killed::serve_until_killed", "--nocapture"])
            .env(DIR, dir)
            .stdout(Stdio::piped());
        if silent {
            command.env(SILENT, "1");
        }
        let mut child = command.spawn().expect("started");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let victim = VictimServer {
            node: String::new(),
            child,
            dir: dir.to_owned(),
        };
        (victim, lines.map_while(Result::ok))
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for VictimServer {
    fn drop(&mut self) {
        self.kill();
        if let Err(error) = cleanup_stale(&self.dir, NAME, LeftoverPolicy::Detach) {
            eprintln!("cleaning up: {error}");
        }
    }
}

#[test]
fn leftovers_of_a_killed_server_are_cleared_at_the_next_attach() {
    if !able(&[]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let mut victim = VictimServer::start(dir.path());
    let node = File::options()
        .read(true)
        .write(true)
        .open(&victim.node)
        .expect("open");
    node.write_all_at(&[1; 1 << 20], 0)
        .expect("into the page cache");
    victim.kill();
    let mut block = [0; 4096];
    let error = node.read_exact_at(&mut block, 8 << 20).expect_err("dead");
    assert_eq!(error.raw_os_error(), Some(libc::EIO));
    drop(node);
    let mut server = LoopServerPlan::new(dir.path(), NAME).serve();
    let node = File::open(&server.node).expect("open");
    node.read_exact_at(&mut block, 8 << 20).expect("alive");
    drop(node);
    server.detach().expect("idle");
}

/// Programs that probe block devices open a device without a server too, and close it soon.
#[test]
fn cleanup_waits_for_a_probe_of_the_stale_device() {
    if !able(&[]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let mut victim = VictimServer::start(dir.path());
    let look = File::open(&victim.node).expect("open");
    victim.kill();
    let looks = std::thread::spawn(move || {
        // sleeps: the test needs a device that stays open for a while.
        std::thread::sleep(Duration::from_millis(300));
        drop(look);
    });
    let cleaned = cleanup_stale(dir.path(), NAME, LeftoverPolicy::Refuse).expect("waited");
    assert_eq!(cleaned.loops, [PathBuf::from(&victim.node)]);
    looks.join().expect("no panic");
}

/// Any program can get the name of a cleared device at once.
#[test]
fn a_program_that_reuses_the_name_of_a_cleared_device_is_not_a_holder() {
    if !able(&["losetup"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let other = tempfile::NamedTempFile::new().expect("a file");
    other.as_file().set_len(1 << 20).expect("set");
    let mut victim = VictimServer::start(dir.path());
    let node = victim.node.clone();
    let look = File::open(&node).expect("open");
    victim.kill();
    let next = std::thread::spawn(move || {
        // sleeps: the device must be cleared while it is open here.
        std::thread::sleep(Duration::from_millis(200));
        drop(look);
        let name = node.clone();
        let set_up = move || {
            let mut losetup = Command::new("losetup");
            losetup.arg(&name).arg(other.path()).stderr(Stdio::null());
            losetup.status().expect("losetup").success()
        };
        // Between the checks of the thread that waits for the end of the device.
        (0..50).any(|_| set_up()).then_some(node)
    });
    let cleaned = cleanup_stale(dir.path(), NAME, LeftoverPolicy::Refuse);
    if let Some(node) = next.join().expect("no panic") {
        run("losetup", &["--detach", &node]);
    }
    assert_eq!(cleaned.expect("gone").loops, [PathBuf::from(&victim.node)]);
}

#[test]
fn a_filesystem_mounted_on_a_stale_device_is_reported_and_detached_only_on_request() {
    if !able(&["mkfs.ext4"]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let at = tempfile::tempdir().expect("a directory");
    let mut victim = VictimServer::start(dir.path());
    run("mkfs.ext4", &["-q", "-F", &victim.node]);
    let mounted = LoopMount::new(&victim.node, at.path());
    std::fs::write(at.path().join("file"), "content").expect("written");
    victim.kill();
    let error = cleanup_stale(dir.path(), NAME, LeftoverPolicy::Refuse).expect_err("mounted");
    let CleanupError::InUse { device, holders } = &error else {
        panic!("{error}")
    };
    assert_eq!(device, Path::new(&victim.node));
    assert_eq!(holders.0, [DeviceHolder::Mounted(at.path().into())]);
    let cleaned = cleanup_stale(dir.path(), NAME, LeftoverPolicy::Detach).expect("on request");
    let expected = RemovedLeftovers {
        detached: vec![at.path().into()],
        loops: vec![victim.node.clone().into()],
        mount: Some(dir.path().join("killed.fuse")),
    };
    assert_eq!(cleaned, expected);
    drop(mounted);
    let again = cleanup_stale(dir.path(), NAME, LeftoverPolicy::Refuse).expect("nothing to do");
    assert_eq!(again, RemovedLeftovers::default());
}

#[test]
fn cleanup_without_leftovers_does_nothing() {
    if !able(&[]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let cleaned =
        cleanup_stale(dir.path(), "never", LeftoverPolicy::Refuse).expect("nothing to do");
    assert_eq!(cleaned, RemovedLeftovers::default());
}

/// Detaching waits for a flush, on a thread of the process that must answer the flush. If this thread held the
/// connection, the process could not end.
#[test]
fn a_server_killed_while_it_waits_for_its_own_answer_ends_at_once() {
    if !able(&[]) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let (mut victim, mut lines) = VictimServer::spawn(dir.path(), true);
    lines.find(|line| line == "flush").expect("it detaches");
    victim.kill();
    let cleaned = cleanup_stale(dir.path(), NAME, LeftoverPolicy::Refuse).expect("dead");
    assert_eq!(cleaned.loops.len(), 1);
    assert_eq!(cleaned.mount, Some(dir.path().join("killed.fuse")));
}
