//! A filesystem on an image, mounted, whose daemon can be killed.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use forebay_rng::Rng;

use crate::system::root;
use crate::world::{CliSandbox, MIB, output, signal, skip, wait_for_end, wait_until};

const SIZE: u64 = 1024 * MIB;
const MOUNT: [&str; 3] = ["mount", "v", "mnt"];

/// Returns a command that runs a test of this program. The test acts only if the variable is set.
pub(crate) fn this_program(test: &str, variable: &str, value: impl Into<OsString>) -> Command {
    let mut program = Command::new(std::env::current_exe().expect("a path"));
    program.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    program.env(variable, value.into()).stdin(Stdio::null());
    program
}

/// Returns the number of rounds of a random test.
pub(crate) fn rounds(usual: u64) -> u64 {
    let rounds = std::env::var("FOREBAY_ROUNDS");
    rounds.map_or(usual, |rounds| rounds.parse().expect("a number"))
}

/// Waits for a short random time, so that a kill can hit any moment.
pub(crate) fn for_a_moment(rng: &Rng) {
    // sleeps: the kill comes at a random moment, not when an operation has just ended
    std::thread::sleep(Duration::from_micros(rng.below(3000)));
}

/// A mounted filesystem. [`DatabaseMount::finish`] unmounts and checks it.
pub(crate) struct DatabaseMount {
    world: CliSandbox,
}

impl DatabaseMount {
    /// Returns a filesystem for a test; prints a skip message and returns `None` if nothing can be mounted.
    pub(crate) fn new(test: &str) -> Option<DatabaseMount> {
        if !root() || !Path::new("/dev/fuse").exists() {
            skip(test, "not root, or no FUSE");
            return None;
        }
        let world = CliSandbox::new();
        world.image("data.img", SIZE);
        world.ok(&["create", "--fs", "--data", "data.img", "--name", "v"]);
        fs::create_dir(world.path("mnt")).expect("made");
        world.ok(&MOUNT);
        Some(DatabaseMount { world })
    }

    /// Kills the daemon of the filesystem.
    pub(crate) fn kill(&self) {
        self.world.kill("v");
    }

    /// Mounts the filesystem again after a kill. Sometimes kills the daemon during the first attempt.
    pub(crate) fn mount_again(&self, rng: &Rng) {
        if rng.below(4) == 0 {
            self.kill_in_recovery(rng);
        }
        self.world.ok(&MOUNT);
    }

    fn kill_in_recovery(&self, rng: &Rng) {
        let before = self.world.pid("v");
        let mut mount = self.world.command(&MOUNT);
        let mounting = std::thread::spawn(move || output(&mut mount));
        let mut pid = None;
        wait_until("a daemon is there", || {
            pid = self.world.pid("v").filter(|&pid| Some(pid) != before);
            pid.is_some() || mounting.is_finished()
        });
        for_a_moment(rng);
        if let Some(pid) = pid {
            signal(pid, "KILL");
            wait_for_end(pid);
        }
        mounting.join().expect("no panic").expect("it ends");
    }

    /// Returns the mount directory.
    pub(crate) fn dir(&self) -> PathBuf {
        self.world.path("mnt")
    }

    /// Unmounts the filesystem, and checks that it has no problem.
    pub(crate) fn finish(self) {
        self.world.unmount("mnt");
        let found = self.world.ok(&["check", "v"]);
        assert!(!found.contains("problem"), "{found}");
    }
}
