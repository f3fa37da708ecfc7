//! A short run of the simulator with fixed scenarios, so that the success of other work does not depend on chance.
//! `FOREBAY_SEED=fresh` adds new scenarios, and `FOREBAY_SEED=N` repeats the scenarios of that seed.

use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::time::Duration;

use forebay_sim::exhaustive::{cases, try_all};
use forebay_sim::explore::{Exploration, SeedRunner, explore, of_seed};
use forebay_sim::scenario;
use forebay_sim::system::TestedSystem;
use forebay_sim::trace::TraceFormat;
use forebay_sim_targets::cache::CacheTarget;

/// The first seed of the second series of scenarios, by default.
const FIXED: u64 = 1999;

fn say(line: &str) {
    // Bypasses the runner's capture, because the seed of a successful run is also useful.
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

fn scenarios(seed: u64, scenarios: Option<u64>, time: Duration) {
    scenarios_of(&of_seed::<CacheTarget>, seed, scenarios, time);
}

fn scenarios_of(scenario: SeedRunner<'_>, seed: u64, scenarios: Option<u64>, time: Duration) {
    let what = Exploration {
        scenario,
        seed,
        time,
        scenarios,
        points: None,
        jobs: 2,
        violations: 1,
    };
    let found = explore(&what, &|_, _| ());
    say(&format!("from seed {seed}: {found}"));
    if let Some(first) = found.first() {
        let (seed, violation) = (first.seeds[0], &first.violation);
        panic!("seed {seed}: {violation}\nforebay-sim replay {seed} tells more");
    }
}

#[test]
fn scenarios_of_fixed_seeds_keep_every_guarantee() {
    scenarios(1, Some(150), Duration::from_secs(600));
}

#[test]
fn scenarios_of_a_requested_seed_keep_every_guarantee() {
    let seed = match std::env::var("FOREBAY_SEED").as_deref() {
        // A new hasher begins with random keys.
        Ok("fresh") => RandomState::new().hash_one(0u8) >> 16,
        Ok(seed) => seed.parse().expect("FOREBAY_SEED is a number or `fresh`"),
        Err(_) => FIXED,
    };
    scenarios(seed, Some(300), Duration::from_secs(600));
}

/// Returns the path of external measurements, if they exist.
fn shared(file: &str) -> Option<std::path::PathBuf> {
    let from = std::env::var_os("FOREBAY_SHARED").map(std::path::PathBuf::from);
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let beside = here.ancestors().map(|dir| dir.join("shared"));
    let mut places = from.into_iter().chain(beside).map(|dir| dir.join(file));
    places.find(|path| path.exists())
}

#[test]
fn scenarios_of_recorded_traces_keep_every_guarantee() {
    for name in [
        "oltp-financial1-like.ascii",
        "postmark.disksim",
        "cloudphysics.vscsi",
    ] {
        let Some(path) = shared(&format!("data/traces/{name}")) else {
            say(&format!(
                "SKIPPED: recorded traces: there is no data/traces/{name}"
            ));
            continue;
        };
        let format = TraceFormat::of_name(name).expect("a name that tells");
        let trace = format
            .read(&std::fs::read(path).expect("a file"), 20_000)
            .expect("a trace");
        let scenario = |seed| scenario::run(&CacheTarget::plan(seed).following(&trace), false);
        scenarios_of(&scenario, 1, Some(12), Duration::from_secs(60));
    }
}

#[test]
fn all_crash_points_and_faults_of_a_scripted_run_keep_every_guarantee() {
    let tried = try_all(&cases::<CacheTarget>(7), 2);
    let tally = tried.tally;
    say(&format!("exhaustive: {} cases, {tally:?}", tried.cases));
    assert!(tally.cycles > 5000 && tally.cuts_in_recovery > 500 && tally.faults > 1000);
    if let Some((name, outcome)) = tried.violations.first() {
        let from = outcome.lines.len().saturating_sub(60);
        let violation = outcome.violation.as_ref().expect("a violation");
        panic!("{name}: {violation}\n{}", outcome.lines[from..].join("\n"));
    }
}

#[test]
fn equal_seeds_give_equal_runs() {
    for seed in 0..24 {
        let plan = CacheTarget::plan(seed);
        let (once, again) = (scenario::run(&plan, false), scenario::run(&plan, false));
        assert_eq!(once, again, "seed {seed}");
        // Recording a tape must not change the scenario.
        assert_eq!(
            scenario::run(&plan, true).digest,
            once.digest,
            "seed {seed}"
        );
    }
}

/// Checks that differences between processes (hashes, addresses) do not influence a scenario.
#[test]
fn the_same_seed_gives_the_same_scenario_in_another_process() {
    let digests = || {
        let out = std::process::Command::new(env!("CARGO_BIN_EXE_forebay-sim"))
            .args([
                "explore",
                "--seed",
                "500",
                "--scenarios",
                "12",
                "--seconds",
                "600",
                "--digests",
            ])
            .output()
            .expect("forebay-sim runs");
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stdout)
        );
        let text = String::from_utf8(out.stdout).expect("text");
        let digests: Vec<String> = text.lines().skip(1).take(12).map(str::to_owned).collect();
        assert_eq!(digests.len(), 12);
        digests
    };
    let once = digests();
    assert_eq!(once, digests());
    let here: Vec<String> = (500..512)
        .map(|seed| {
            let digest = scenario::run(&CacheTarget::plan(seed), false).digest;
            format!("{seed} {digest:016x}")
        })
        .collect();
    assert_eq!(once, here);
}
