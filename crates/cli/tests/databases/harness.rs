//! A filesystem on an image, mounted, whose daemon can be killed.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use forebay_rng::Rng;

use crate::system::root;
use crate::world::{MIB, World, output, signal, skip, wait_for_end, wait_until};

const SIZE: u64 = 1024 * MIB;
const MOUNT: [&str; 3] = ["mount", "v", "mnt"];

/// This program, to run one of its tests that does something when a variable is set.
pub(crate) fn this_program(test: &str, variable: &str, value: impl Into<OsString>) -> Command {
    let mut program = Command::new(std::env::current_exe().expect("a path"));
    program.args([test, "--exact", "--nocapture", "--test-threads=1"]);
    program.env(variable, value.into()).stdin(Stdio::null());
    program
}

/// How often what is done at random is done.
pub(crate) fn rounds(usual: u64) -> u64 {
    let rounds = std::env::var("FOREBAY_ROUNDS");
    rounds.map_or(usual, |rounds| rounds.parse().expect("a number"))
}

/// For the moment in which something is killed to be any.
pub(crate) fn for_a_moment(rng: &Rng) {
    // sleeps: the kill comes at a random moment, not when somebody has just ended something
    std::thread::sleep(Duration::from_micros(rng.below(3000)));
}

/// A filesystem that is mounted. It is unmounted and checked by [`Mounted::finish`].
pub(crate) struct Mounted {
    world: World,
}

impl Mounted {
    /// One for a test; none, said aloud, where nothing can be mounted.
    pub(crate) fn new(test: &str) -> Option<Mounted> {
        if !root() || !Path::new("/dev/fuse").exists() {
            skip(test, "not root, or no FUSE");
            return None;
        }
        let world = World::new();
        world.image("data.img", SIZE);
        world.ok(&["create", "--fs", "--data", "data.img", "--name", "v"]);
        fs::create_dir(world.path("mnt")).expect("made");
        world.ok(&MOUNT);
        Some(Mounted { world })
    }

    /// Kills its daemon.
    pub(crate) fn kill(&self) {
        self.world.kill("v");
    }

    /// Mounts it again after that: sometimes at the second try only, when the daemon was killed at the first.
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

    /// Where it is.
    pub(crate) fn dir(&self) -> PathBuf {
        self.world.path("mnt")
    }

    /// Unmounts it, and holds that nothing is wrong with it.
    pub(crate) fn finish(self) {
        self.world.unmount("mnt");
        let found = self.world.ok(&["check", "v"]);
        assert!(!found.contains("problem"), "{found}");
    }
}
