//! A mounted filesystem, hostile callers on it, and the watchdog over both.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::callers::HostileCallers;
use crate::system::{installed, root, tool};
use crate::waits;
use crate::watchdog::{DaemonWork, Watchdog, WatchdogSample, WatchdogVerdict};
use crate::world::{CliSandbox, MIB, output, signal, skip, texts};

/// Unit of processor time.
const TICK: Duration = Duration::from_millis(10);
/// Killed callers must have ended by this time after their start.
const END_PATIENCE: Duration = Duration::from_secs(300);
/// Interval between two looks.
const LOOKS: Duration = Duration::from_millis(50);

/// Callers, and the size of the device.
pub(crate) struct StageSetup {
    pub(crate) device: u64,
    /// Options of the mount.
    pub(crate) options: &'static str,
    pub(crate) seed: u64,
    pub(crate) processes: usize,
    pub(crate) threads: usize,
}

pub(crate) struct HostileStage {
    world: CliSandbox,
    pub(crate) callers: HostileCallers,
    watchdog: Watchdog,
    daemon: u32,
    begun: Instant,
    most_memory: u64,
}

impl HostileStage {
    /// Mounts a filesystem on a device (`data.img`, which is made, or a model of a disk over it) and starts callers; or
    /// skips the test with a message.
    pub(crate) fn set(
        test: &str,
        device: &str,
        cast: &StageSetup,
        patience: Duration,
    ) -> Option<HostileStage> {
        if !root() || !Path::new("/dev/fuse").exists() {
            skip(test, "not root, or no FUSE");
            return None;
        }
        if !installed(test, &["cc"]) {
            return None;
        }
        let world = CliSandbox::new();
        world.image("data.img", cast.device);
        world.ok(&["create", "--fs", "--data", device, "--name", "v", "--force"]);
        let dir = world.path("mnt");
        fs::create_dir(&dir).expect("made");
        let bounded = [
            "--memory",
            "64MiB",
            "--map-memory",
            "64MiB",
            "-o",
            cast.options,
        ];
        world.ok(&[&["mount", "v", "mnt"], &bounded[..]].concat());
        for one in dir.ancestors().take(2) {
            fs::set_permissions(one, Permissions::from_mode(0o755)).expect("opened to all");
        }
        let daemon = world.pid("v").expect("it is mounted");
        let callers = HostileCallers::start(&dir, cast.seed, cast.processes, cast.threads);
        let watchdog = Watchdog::new(patience, Duration::ZERO, work(daemon));
        let begun = Instant::now();
        Some(HostileStage {
            world,
            callers,
            watchdog,
            daemon,
            begun,
            most_memory: 0,
        })
    }

    /// Waits for a moment, and looks at all threads and at the daemon.
    pub(crate) fn look(&mut self) -> WatchdogVerdict {
        // sleeps: counters of other processes give no event to wait for
        std::thread::sleep(LOOKS);
        self.most_memory = self.most_memory.max(memory(self.daemon, "VmHWM:"));
        let sample = WatchdogSample {
            done: self.callers.done(),
            work: work(self.daemon),
        };
        self.watchdog.look(self.begun.elapsed(), &sample)
    }

    /// Goes on until `is_enough`, with processes that are killed and stopped. Fails at a hang, with a report.
    pub(crate) fn go_on(&mut self, mut is_enough: impl FnMut(&HostileStage) -> bool) {
        while !is_enough(self) {
            self.callers.check_alive();
            self.callers.disturb();
            let verdict = self.look();
            self.hold(&verdict);
        }
    }

    fn hold(&mut self, verdict: &WatchdogVerdict) {
        if matches!(verdict, WatchdogVerdict::Progress | WatchdogVerdict::Slow) {
            return;
        }
        let report = self.report();
        eprintln!("{verdict:?} after {:?}\n{report}", self.begun.elapsed());
        // Requests of threads that hang end with the connection.
        let dir = self.world.path("mnt");
        tool("umount", &["-f", dir.to_str().expect("UTF-8")]);
        self.callers.kill();
        panic!("{verdict:?}");
    }

    /// Describes the waits of callers and of the daemon, and the daemon's state.
    pub(crate) fn report(&self) -> String {
        let status = output(&mut self.world.command(&["status", "v", "--json"]));
        let status = status.map_or_else(|error| error.to_string(), |output| texts(&output).0);
        format!("{}{status}\n", self.waits())
    }

    /// Describes the waits of all threads of callers and of the daemon.
    pub(crate) fn waits(&self) -> String {
        let threads = self.callers.threads();
        let daemon = waits::report(&[self.daemon], &threads);
        daemon + &waits::report(&self.callers.pids(), &threads)
    }

    pub(crate) fn dir(&self) -> PathBuf {
        self.world.path("mnt")
    }

    pub(crate) fn stop_daemon(&self, stops: bool) {
        signal(self.daemon, if stops { "STOP" } else { "CONT" });
    }

    /// Returns the peak memory of the daemon, in bytes.
    pub(crate) fn most_memory(&self) -> u64 {
        self.most_memory
    }

    pub(crate) fn summary(&self) -> String {
        format!(
            "{} acts in {:?}, at most {} MiB of the daemon, at most {:?} between acts of a thread",
            self.callers.total(),
            self.begun.elapsed(),
            self.most_memory / MIB,
            self.watchdog.longest()
        )
    }

    /// Kills the daemon while callers act, and then the callers. Mounts the filesystem again, which ends all requests
    /// to the killed daemon, unmounts it and checks it.
    pub(crate) fn kill_and_mount_again(mut self) {
        self.world.kill("v");
        self.callers.kill();
        self.world.ok(&["mount", "v", "mnt"]);
        while !self.callers.have_ended() {
            assert!(self.begun.elapsed() < END_PATIENCE, "{}", self.waits());
            // sleeps: the end of other processes gives no event to wait for
            std::thread::sleep(LOOKS);
        }
        drop(self.callers);
        self.world.unmount("mnt");
        let found = self.world.ok(&["check", "v"]);
        assert!(!found.contains("problem"), "{found}");
    }

    /// Ends all callers, unmounts the filesystem and checks it.
    pub(crate) fn finish(mut self) {
        self.callers.request_end();
        while !self.callers.have_ended() {
            let verdict = self.look();
            self.hold(&verdict);
        }
        drop(self.callers);
        self.world.unmount("mnt");
        // Without the model of a disk, which would make the reads slow.
        let found = self.world.ok(&["check", "--data", "data.img"]);
        assert!(!found.contains("problem"), "{found}");
    }
}

fn work(pid: u32) -> DaemonWork {
    let read =
        |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).expect("the daemon runs");
    let stat = read("stat");
    let fields = stat.rsplit(") ").next().unwrap_or_default();
    let ticks = fields.split(' ').skip(11).take(2);
    let ticks: u32 = ticks
        .map(|ticks| ticks.parse::<u32>().expect("a number"))
        .sum();
    let io = read("io");
    let bytes = |name: &str| {
        let line = io.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|bytes| bytes.trim().parse::<u64>().ok())
            .expect("a number")
    };
    DaemonWork {
        processor: TICK * ticks,
        bytes: bytes("read_bytes:") + bytes("write_bytes:"),
    }
}

/// Returns the value of a line of `/proc/PID/status`, in bytes.
fn memory(pid: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).expect("the daemon runs");
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes.expect("a number") << 10
}
