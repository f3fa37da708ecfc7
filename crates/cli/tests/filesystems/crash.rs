//! The daemon is killed at random moments while users work on a filesystem.
//!
//! After each kill, the test unmounts the stale device and attaches the volume again, sometimes after another kill
//! during recovery. It mounts the filesystem (which replays its own journal), checks the filesystem, and compares the
//! files with every guarantee of `fsync`. At the end the test does this with the data image alone, unless the image is
//! a log-structured volume.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use forebay_rng::Rng;

use crate::kinds::{BTRFS, EXT4, FilesystemType, XFS};
use crate::system::TestLoop;
use crate::users::CrashUser;
use crate::world::{CliSandbox, MIB, output, signal, texts, wait_for_end};

const USERS: u64 = 3;
const ROUNDS: u64 = 20;
/// Rounds on a log-structured volume, shared among the placements.
const VOLUME_ROUNDS: u64 = 6;
const PLACEMENTS: [&str; 6] = [
    "lfs",
    "hylog",
    "wolf",
    "sepbit",
    "hylog+sepbit",
    "overwrite",
];
/// The attach command, which is sometimes killed before it completes.
const ATTACH: [&str; 4] = ["attach", "v", "--via", "loop"];
/// If no user makes progress for this time, the system hangs.
const HANGS: Duration = Duration::from_secs(60);
/// A round on a slow machine ends after this time, regardless of its progress.
const ROUND_MAX: Duration = Duration::from_secs(6);
/// Maximum acts of all users in one round: some rounds end at once, others after the log has wrapped around.
const ACTS_MAX: u64 = 700;

/// The default seed. The choices are always the same; the timing differs nevertheless.
const SEED: u64 = 1999;

/// Returns the seed of this run: a constant, `FOREBAY_SEED`, or a random number if `FOREBAY_SEED` is `fresh`.
pub(crate) fn seed(test: &str) -> u64 {
    let fresh = std::env::var("FOREBAY_SEED").is_ok_and(|asked| asked == "fresh");
    let seed = if fresh {
        getrandom::u64().unwrap() >> 32
    } else {
        from_env("FOREBAY_SEED").unwrap_or(SEED)
    };
    println!("{test}: FOREBAY_SEED={seed}");
    seed
}

pub(crate) fn from_env(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().expect("a number"))
}

#[test]
fn ext4_keeps_synced_data_when_the_daemon_is_killed() {
    // The smallest possible log, so that it often wraps around.
    let below = CrashVolume::Cache("128KiB", 5 * MIB);
    survives(
        "ext4_keeps_synced_data_when_the_daemon_is_killed",
        &EXT4,
        below,
    );
}

#[test]
fn xfs_keeps_synced_data_when_the_daemon_is_killed() {
    let below = CrashVolume::Cache("1MiB", 40 * MIB);
    survives(
        "xfs_keeps_synced_data_when_the_daemon_is_killed",
        &XFS,
        below,
    );
}

#[test]
fn btrfs_keeps_synced_data_when_the_daemon_is_killed() {
    let below = CrashVolume::Cache("256KiB", 16 * MIB);
    survives(
        "btrfs_keeps_synced_data_when_the_daemon_is_killed",
        &BTRFS,
        below,
    );
}

#[test]
fn ext4_on_a_cache_over_a_volume_keeps_synced_data_when_the_daemon_is_killed() {
    let test = "ext4_on_a_cache_over_a_volume_keeps_synced_data_when_the_daemon_is_killed";
    survives(test, &EXT4, CrashVolume::Both(33 * MIB));
}

#[test]
fn ext4_on_a_volume_keeps_synced_data_when_the_daemon_is_killed() {
    on_volumes(
        "ext4_on_a_volume_keeps_synced_data_when_the_daemon_is_killed",
        &EXT4,
    );
}

#[test]
fn xfs_on_a_volume_keeps_synced_data_when_the_daemon_is_killed() {
    on_volumes(
        "xfs_on_a_volume_keeps_synced_data_when_the_daemon_is_killed",
        &XFS,
    );
}

#[test]
fn btrfs_on_a_volume_keeps_synced_data_when_the_daemon_is_killed() {
    on_volumes(
        "btrfs_on_a_volume_keeps_synced_data_when_the_daemon_is_killed",
        &BTRFS,
    );
}

/// The volume below the filesystem.
#[derive(Clone, Copy)]
enum CrashVolume {
    /// The cache, with segments of this length, and a log of this many bytes.
    Cache(&'static str, u64),
    /// The cache over a log-structured volume, with a log of this many bytes.
    Both(u64),
    /// A log-structured volume, with this placement, and this number of rounds.
    Volume(&'static str, u64),
}

impl CrashVolume {
    fn rounds(self) -> u64 {
        match self {
            CrashVolume::Cache(..) | CrashVolume::Both(_) => {
                from_env("FOREBAY_ROUNDS").unwrap_or(ROUNDS)
            }
            CrashVolume::Volume(_, rounds) => rounds,
        }
    }

    fn create(self, world: &CliSandbox, kind: &FilesystemType) {
        let create = ["create", "--name", "v", "--data", "data.img"];
        let len = kind.data_bytes.to_string();
        match self {
            CrashVolume::Cache(segment, log_bytes) => {
                world.image("data.img", kind.data_bytes);
                world.image("log.img", log_bytes);
                let log = ["--log", "log.img", "--segment", segment];
                world.ok(&[&create[..], &log].concat());
            }
            CrashVolume::Both(log_bytes) => {
                world.image("data.img", kind.data_bytes / 4 * 5);
                world.image("log.img", log_bytes);
                let volume = ["--volume", "vsl", "--size", &len, "--log", "log.img"];
                let segment = ["--segment", "256KiB"];
                world.ok(&[&create[..], &volume, &segment].concat());
            }
            CrashVolume::Volume(placement, _) => {
                // Little more than the filesystem, so that the cleaner soon has work.
                world.image("data.img", kind.data_bytes / 4 * 5);
                let volume = ["--volume", "vsl", "--placement", placement, "--size", &len];
                let segment = ["--segment", "256KiB"];
                world.ok(&[&create[..], &volume, &segment].concat());
            }
        }
    }
}

/// Runs the test on each placement; the rounds are shared among the placements.
fn on_volumes(test: &str, kind: &FilesystemType) {
    let rounds = from_env("FOREBAY_ROUNDS").unwrap_or(VOLUME_ROUNDS);
    let placements = PLACEMENTS.into_iter().zip(0..);
    for (placement, n) in placements {
        let here = (rounds + PLACEMENTS.len() as u64 - 1 - n) / PLACEMENTS.len() as u64;
        if here > 0 {
            let name = format!("{test}, {placement}");
            survives(&name, kind, CrashVolume::Volume(placement, here));
        }
    }
}

fn survives(test: &str, kind: &FilesystemType, below: CrashVolume) {
    if !kind.can_test(test) {
        return;
    }
    let seed = seed(test);
    let numbers = Rng::new(seed);
    let world = CliSandbox::new();
    below.create(&world, kind);
    let at = world.path("mnt");
    let device = world.attach_loop();
    kind.make(&device);
    let mut mount = kind.mount(&device, &at);
    let mut users: Vec<CrashUser> = (0..USERS)
        .map(|n| CrashUser::new(kind, at.join(format!("user{n}")), numbers.next()))
        .collect();
    for round in 0..below.rounds() {
        let killed = Arc::new(AtomicBool::new(false));
        for user in &mut users {
            user.begin(&killed).expect("a healthy filesystem works");
        }
        users = work_until_killed(&world, users, &killed, &numbers);
        // The filesystem has lost its device, and may report an error.
        let _ = mount.unmount();
        let checked = world.run(&["check", "v"]);
        assert!(
            matches!(checked.status.code(), Some(0 | 1)),
            "round {round}, seed {seed}: {:?}",
            texts(&checked)
        );
        if numbers.below(3) == 0 {
            kill_in_recovery(&world, &ATTACH, &numbers);
        }
        let device = world.attach_loop();
        kind.mount(&device, &at).unmount().expect("it unmounts");
        kind.check(&device);
        mount = kind.mount(&device, &at);
        keep_promises(&users, &format!("round {round}, seed {seed}"));
    }
    mount.unmount().expect("it unmounts");
    world.detach();
    match below {
        CrashVolume::Cache(..) => alone(&world, kind, &users, seed),
        CrashVolume::Both(_) | CrashVolume::Volume(..) => _ = world.ok(&["check", "v"]),
    }
}

#[track_caller]
pub(crate) fn keep_promises(users: &[CrashUser], when: &str) {
    let broken: Vec<String> = users.iter().flat_map(CrashUser::broken).collect();
    let promised: usize = users.iter().map(CrashUser::promised).sum();
    println!("{when}: {promised} promises");
    let shown = broken[..broken.len().min(20)].join("\n");
    assert!(
        broken.is_empty(),
        "{when}: {} of {promised} broken:\n{shown}",
        broken.len()
    );
}

/// Checks the data image without the daemon.
fn alone(world: &CliSandbox, kind: &FilesystemType, users: &[CrashUser], seed: u64) {
    let device = TestLoop::over(&world.path("data.img")).expect("a loop device");
    kind.check(&device.0);
    let mount = kind.mount(&device.0, &world.path("mnt"));
    keep_promises(users, &format!("the data image alone, seed {seed}"));
    drop(mount);
}

/// Makes all users work at once, kills the daemon, and returns the users with their guarantees.
pub(crate) fn work_until_killed(
    world: &CliSandbox,
    users: Vec<CrashUser>,
    killed: &AtomicBool,
    numbers: &Rng,
) -> Vec<CrashUser> {
    let (acted, acts) = mpsc::channel();
    let (end, ended) = mpsc::channel();
    let count = users.len();
    for mut user in users {
        let (acted, end) = (acted.clone(), end.clone());
        std::thread::spawn(move || {
            // An error means that the daemon has ended.
            while user.act().is_ok() {
                let _ = acted.send(());
            }
            let _ = end.send(user);
        });
    }
    drop(acted);
    // Few acts are as probable as many.
    let few = 1 << numbers.below(10);
    wait_for_acts(&acts, numbers.below(few.min(ACTS_MAX)));
    let draining = (numbers.below(3) == 0).then(|| {
        let mut drain = world.command(&["drain", "v"]);
        std::thread::spawn(move || output(&mut drain))
    });
    // sleeps: the kill comes at a random moment, not when an operation has just ended.
    std::thread::sleep(Duration::from_micros(numbers.below(30_000)));
    killed.store(true, Ordering::SeqCst);
    world.kill("v");
    if let Some(draining) = draining {
        // The drain may have completed, or lost its daemon. It must not wait forever.
        draining.join().unwrap().expect("drain ends");
    }
    let next = |_| {
        ended
            .recv_timeout(HANGS)
            .expect("nobody hangs on a dead device")
    };
    (0..count).map(next).collect()
}

fn wait_for_acts(acts: &Receiver<()>, wanted: u64) {
    let until = Instant::now() + ROUND_MAX;
    for done in 0..wanted {
        match acts.recv_timeout(HANGS) {
            Ok(()) if Instant::now() < until => {}
            Ok(()) => break,
            Err(RecvTimeoutError::Timeout) => panic!("after {done} acts, everything hangs"),
            Err(RecvTimeoutError::Disconnected) => panic!("after {done} acts, everything fails"),
        }
    }
}

/// Found by the tests above: the thread that made the loop device waited forever for an answer of its own dead process,
/// and every access to the mount waited with it.
#[test]
fn a_daemon_killed_during_attach_ends_and_the_next_attach_works() {
    let test = "a_daemon_killed_during_attach_ends_and_the_next_attach_works";
    if !crate::system::can_serve_loop(test) {
        return;
    }
    let numbers = Rng::new(seed(test));
    let world = CliSandbox::with_volume();
    for _ in 0..10 {
        kill_in_recovery(&world, &ATTACH, &numbers);
    }
    world.attach_loop();
    world.detach();
}

/// Starts an attach, and kills its daemon before it completes.
pub(crate) fn kill_in_recovery(world: &CliSandbox, attach: &[&str], numbers: &Rng) {
    let before = world.pid("v");
    let mut attach = world.command(attach);
    let attaching = std::thread::spawn(move || output(&mut attach));
    let mut pid = None;
    crate::world::wait_until("a daemon is there", || {
        pid = world.pid("v").filter(|&pid| Some(pid) != before);
        pid.is_some() || attaching.is_finished()
    });
    // sleeps: the kill comes at a random moment.
    std::thread::sleep(Duration::from_micros(numbers.below(40_000)));
    if let Some(pid) = pid {
        signal(pid, "KILL");
        wait_for_end(pid);
    }
    attaching.join().unwrap().expect("attach ends");
}
