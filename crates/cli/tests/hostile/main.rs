//! Hostile but unprivileged callers on a mounted filesystem, and a watchdog that tells a hang from slowness.
//!
//! `FOREBAY_HOSTILE_MINUTES` makes 2,000 threads act for this time. `FOREBAY_SEED` is as in the tests of filesystems.

mod callers;
mod stage;
mod waits;
mod watchdog;

#[path = "../cli/system.rs"]
mod system;
#[path = "../cli/world.rs"]
mod world;

use std::process::Command;
use std::time::{Duration, Instant};

use stage::{HostileStage, StageSetup};
use watchdog::WatchdogVerdict;
use world::{MIB, output};

/// Without progress for this time, the system hangs, unless the daemon works.
const PATIENCE: Duration = Duration::from_secs(60);
/// The patience in tests of the watchdog itself.
const LITTLE_PATIENCE: Duration = Duration::from_secs(10);
/// Acts of the short form.
const ACTS: u64 = 20_000;
/// Bound of the daemon's memory: 64 MiB for requests, 64 MiB for the map, 128 MiB for transactions of one user, and the
/// rest of the program.
const MEMORY: u64 = 512 * MIB;

/// Returns the seed of this run: a constant, `FOREBAY_SEED`, or a fresh number.
fn seed() -> u64 {
    match std::env::var("FOREBAY_SEED").as_deref() {
        Err(_) => 21,
        Ok("fresh") => getrandom::u64().expect("random bytes"),
        Ok(seed) => seed.parse().expect("FOREBAY_SEED is a number or `fresh`"),
    }
}

#[test]
fn hostile_callers_neither_hang_nor_damage_the_mount_nor_exhaust_memory() {
    act(
        "hostile_callers_neither_hang_nor_damage_the_mount_nor_exhaust_memory",
        "rw",
    );
}

#[test]
fn callers_with_parallel_direct_writes_hang_nothing() {
    act(
        "callers_with_parallel_direct_writes_hang_nothing",
        "parallel_direct",
    );
}

fn act(test: &str, options: &'static str) {
    let minutes = std::env::var("FOREBAY_HOSTILE_MINUTES").ok();
    let minutes: Option<u64> = minutes.map(|minutes| minutes.parse().expect("a number"));
    let (processes, threads) = if minutes.is_some() {
        (20, 100)
    } else {
        (4, 25)
    };
    let cast = StageSetup {
        device: 256 * MIB,
        options,
        seed: seed(),
        processes,
        threads,
    };
    let Some(mut stage) = HostileStage::set(test, "data.img", &cast, PATIENCE) else {
        return;
    };
    eprintln!("{test}: FOREBAY_SEED={}", cast.seed);
    let (begun, mut reported) = (Instant::now(), 0);
    stage.go_on(|stage| {
        let most = stage.most_memory();
        assert!(most <= MEMORY, "{} MiB: {}", most / MIB, stage.report());
        let Some(minutes) = minutes else {
            return stage.callers.total() >= ACTS;
        };
        let now = begun.elapsed().as_secs() / 60;
        if now > reported {
            reported = now;
            eprintln!("{}", stage.summary());
        }
        now >= minutes
    });
    eprintln!("{}", stage.summary());
    stage.finish();
}

const FEW: StageSetup = StageSetup {
    device: 64 * MIB,
    options: "rw",
    seed: 22,
    processes: 2,
    threads: 4,
};

#[test]
fn the_watchdog_finds_a_hang_when_the_daemon_is_stopped() {
    let test = "the_watchdog_finds_a_hang_when_the_daemon_is_stopped";
    let Some(mut stage) = HostileStage::set(test, "data.img", &FEW, LITTLE_PATIENCE) else {
        return;
    };
    stage.go_on(|stage| stage.callers.total() > 100);
    stage.stop_daemon(true);
    while stage.look() != WatchdogVerdict::Hang {}
    let report = stage.waits();
    stage.stop_daemon(false);
    assert!(report.contains("forebay (-), T (stopped)"), "{report}");
    assert!(report.contains("request_wait_answer"), "{report}");
    let before = stage.callers.total();
    while stage.callers.total() == before {
        let _ = stage.look();
    }
    stage.finish();
}

#[test]
fn the_watchdog_reports_a_slow_disk_as_slow() {
    let (test, disk) = (
        "the_watchdog_reports_a_slow_disk_as_slow",
        "model:dec_rz26:data.img",
    );
    let Some(mut stage) = HostileStage::set(test, disk, &FEW, LITTLE_PATIENCE) else {
        return;
    };
    stage.go_on(|stage| stage.callers.total() > 1500);
    eprintln!("{}", stage.summary());
    stage.finish();
}

/// Found under databases and hostile callers: a thread of the killed daemon waited in the kernel for a page that only
/// the daemon could have written back. So the connection stayed open, its users hung, and so did the next mount.
#[test]
fn after_a_daemon_kill_under_load_callers_end_and_the_filesystem_mounts_again() {
    let test = "after_a_daemon_kill_under_load_callers_end_and_the_filesystem_mounts_again";
    let rounds = std::env::var("FOREBAY_ROUNDS");
    let rounds: u64 = rounds.map_or(3, |rounds| rounds.parse().expect("a number"));
    for round in 0..rounds {
        let cast = StageSetup {
            device: 128 * MIB,
            options: "rw",
            seed: seed() + round,
            processes: 3,
            threads: 30,
        };
        let Some(mut stage) = HostileStage::set(test, "data.img", &cast, PATIENCE) else {
            return;
        };
        stage.go_on(|stage| stage.callers.total() > 3000 + 1000 * round);
        stage.kill_and_mount_again();
    }
}

/// Found by the hostile callers: a process hung until it was killed. All processes that waited for its file's lock hung
/// too.
#[test]
fn a_file_can_be_mapped_during_direct_writes_of_the_same_process() {
    map_beside_direct_writes("rw", 0);
}

#[test]
fn a_file_with_parallel_direct_writes_cannot_be_mapped() {
    map_beside_direct_writes("parallel_direct", 3);
}

/// Runs `mapped_direct.c` on a mount with these options. The program must end with this exit code.
fn map_beside_direct_writes(options: &'static str, code: i32) {
    let cast = StageSetup { options, ..FEW };
    let Some(stage) = HostileStage::set("mapped_direct", "data.img", &cast, PATIENCE) else {
        return;
    };
    let scratch = tempfile::tempdir().expect("made");
    let (program, file) = (scratch.path().join("program"), stage.dir().join("file"));
    callers::build_mapped_direct(&program);
    std::fs::write(&file, vec![0; 1 << 20]).expect("written");
    // A program that hangs is killed, and is an error.
    let run = output(Command::new(&program).arg(&file)).expect("it ends");
    assert!(
        run.status.code() == Some(code) && run.stderr.is_empty(),
        "{run:?}"
    );
    stage.finish();
}
