//! A filesystem in memory, mounted by a process of its own: this program again.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::mount::{UnmountFlags, unmount};

/// Where this program is to mount one, if it is started to do that.
const MOUNT_AT: &str = "FOREBAY_TEST_MOUNT_AT";
/// How long files may be in use by processes that were killed.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);
const SIZE: u64 = 1 << 30;

/// Serves what the other tests use, when it is started for that by one of them; otherwise it has nothing to do.
#[test]
fn mounts_a_filesystem_when_another_test_starts_it_for_that() {
    if let Some(dir) = std::env::var_os(MOUNT_AT) {
        super::mount_ram::mount(SIZE, dir.into(), None).expect("mounted and unmounted");
    }
}

/// This program, to run one of its tests that does something when a variable is set.
pub(crate) fn this_program(test: &str, variable: &str, value: impl Into<OsString>) -> Command {
    let mut program = Command::new(std::env::current_exe().expect("a path"));
    program.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    program.env(variable, value.into()).stdin(Stdio::null());
    program
}

/// Says aloud that a test is left out.
pub(crate) fn skip(test: &str, why: &str) {
    let line = format!("SKIPPED: {test}: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Whether there is a program of this name.
pub(crate) fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").output();
    found.is_ok()
}

/// A filesystem that is mounted. It is unmounted and checked by [`Mounted::finish`].
pub(crate) struct Mounted {
    server: Child,
    says: BufReader<ChildStdout>,
    // Behind what uses it.
    scratch: Option<tempfile::TempDir>,
}

impl Mounted {
    /// One in memory for a test; none, said aloud, where nothing can be mounted.
    pub(crate) fn new(test: &str) -> Option<Mounted> {
        if !rustix::process::geteuid().is_root() || !Path::new("/dev/fuse").exists() {
            skip(test, "not root, or no /dev/fuse");
            return None;
        }
        let scratch = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("made");
        std::fs::create_dir(scratch.path().join("mnt")).expect("made");
        let (server, says) = serve(scratch.path());
        Some(Mounted {
            server,
            says,
            scratch: Some(scratch),
        })
    }

    /// Where it is.
    pub(crate) fn dir(&self) -> PathBuf {
        let scratch = self.scratch.as_ref().expect("there until it is dropped");
        scratch.path().join("mnt")
    }

    /// Unmounts it, and holds that nothing is wrong with it.
    pub(crate) fn finish(mut self) {
        // Processes that were killed let go of it in their own time.
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

/// Starts who mounts it, and waits until it is.
fn serve(scratch: &Path) -> (Child, BufReader<ChildStdout>) {
    let test = "harness::mounts_a_filesystem_when_another_test_starts_it_for_that";
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

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Ok(None) = self.server.try_wait()
            && std::thread::panicking()
        {
            // Its connection ends with it.
            let _ = self.server.kill();
        }
        let _ = self.server.wait();
        // Where a test ended before its time it is still there, and dead.
        let _ = unmount(self.dir(), UnmountFlags::DETACH);
        drop(self.scratch.take());
    }
}
