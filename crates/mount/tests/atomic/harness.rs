//! A filesystem in memory, mounted by a separate process that runs this program again.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::mount::{UnmountFlags, unmount};

/// Environment variable with the directory where the started program mounts the filesystem.
const MOUNT_AT: &str = "FOREBAY_TEST_MOUNT_AT";
/// Longest time for which killed processes may keep files in use.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);
const SIZE: u64 = 1 << 30;

/// Serves the filesystem for another test that starts this program. When it runs as a normal test, it does nothing.
#[test]
fn helper_mounts_a_filesystem() {
    if let Some(dir) = std::env::var_os(MOUNT_AT) {
        super::mount_ram::mount(SIZE, dir.into(), None).expect("mounted and unmounted");
    }
}

/// Returns a command that runs one test of this program, with an environment variable set.
pub(crate) fn this_program(test: &str, variable: &str, value: impl Into<OsString>) -> Command {
    let mut program = Command::new(std::env::current_exe().expect("a path"));
    program.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    program.env(variable, value.into()).stdin(Stdio::null());
    program
}

/// Reports that a test is skipped.
pub(crate) fn skip(test: &str, why: &str) {
    let line = format!("SKIPPED: {test}: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Returns true if a program of this name can be run.
pub(crate) fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output();
    found.is_ok()
}

/// A mounted filesystem. [`AtomicMount::finish`] unmounts and checks it.
pub(crate) struct AtomicMount {
    server: Child,
    says: BufReader<ChildStdout>,
    // Dropped last, after everything that uses it.
    scratch: Option<tempfile::TempDir>,
}

impl AtomicMount {
    /// Mounts a filesystem in memory for a test. `None`, with a report, if mounting is not possible.
    pub(crate) fn new(test: &str) -> Option<AtomicMount> {
        if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
            skip(test, "not root, or no /dev/fuse");
            return None;
        }
        let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("made");
        std::fs::create_dir(scratch.path().join("mnt")).expect("made");
        let (server, says) = serve(scratch.path());
        Some(AtomicMount {
            server,
            says,
            scratch: Some(scratch),
        })
    }

    /// Returns the mount point.
    pub(crate) fn dir(&self) -> PathBuf {
        let scratch = self.scratch.as_ref().expect("there until it is dropped");
        scratch.path().join("mnt")
    }

    /// Unmounts the filesystem, and asserts that it has no problems.
    pub(crate) fn finish(mut self) {
        // Processes that were killed may close their files later.
        let begun = std::time::Instant::now();
        while let Err(error) = unmount(self.dir(), UnmountFlags::empty()) {
            let is_over = begun.elapsed() > PATIENCE;
            assert!(error == rustix::io::Errno::BUSY && !is_over, "{error}");
            std::thread::yield_now();
        }
        let mut rest = String::new();
        self.says.read_to_string(&mut rest).expect("read");
        assert!(rest.contains(", 0 problems"), "{rest}");
    }
}

/// Starts the process that mounts the filesystem, and waits until it is mounted.
fn serve(scratch: &Path) -> (Child, BufReader<ChildStdout>) {
    let test = "harness::helper_mounts_a_filesystem";
    let mut program = this_program(test, MOUNT_AT, scratch.join("mnt"));
    let mut server = program.stdout(Stdio::piped()).spawn().expect("started");
    let mut says = BufReader::new(server.stdout.take().expect("piped"));
    let mut line = String::new();
    while !line.contains("mounted\n") {
        line.clear();
        let n = says.read_line(&mut line).expect("read");
        assert!(n > 0, "it ended before it was mounted");
    }
    (server, says)
}

impl Drop for AtomicMount {
    fn drop(&mut self) {
        if let Ok(None) = self.server.try_wait()
            && std::thread::panicking()
        {
            // The connection ends with its process.
            let _ = self.server.kill();
        }
        let _ = self.server.wait();
        // If the test ended early, a stale mount is left.
        let _ = unmount(self.dir(), UnmountFlags::DETACH);
        drop(self.scratch.take());
    }
}
