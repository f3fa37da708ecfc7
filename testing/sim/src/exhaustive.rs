//! Exhaustive tests of a scripted run, one case after the other: a cut after every request, with every combination of
//! kept blocks if they are few; and each request of each kind failing, alone or with all later ones, in recovery, in
//! service and in destaging.

use std::ops::Range;
use std::sync::Mutex;
use std::time::Duration;

use forebay_device::DeviceOp;
use forebay_rng::Rng;

use crate::disk::{DiskFaults, DiskOutage, WriteFate};
use crate::history::{ScriptAction, random_action};
use crate::plan::{CheckSchedule, DiskConditions, Incarnation, IncarnationEnd, ScenarioPlan};
use crate::role::{DiskRole, PerDisk};
use crate::scenario::{self, ScenarioOutcome, ScenarioTally};
use crate::system::TestedSystem;
use crate::workload::WriterScript;

/// Bytes of a volume with failing requests.
const LEN: u64 = 128 << 10;
/// Maximum length of a write that is applied whole or not at all.
pub const ATOMIC_BYTES: u64 = 1 << 20;

/// A case that is tested exhaustively.
#[derive(Clone, Debug)]
pub enum ExhaustiveCase<S: TestedSystem> {
    /// Every cut of a named run.
    Cuts(String, ScenarioPlan<S>),
    /// Failures of every request of a kind on a disk, for a number of requests or permanently.
    Failing(FailingRequests<S::Role>),
}

/// Requests that fail.
#[derive(Clone, Debug)]
pub struct FailingRequests<R> {
    /// Seed of the script.
    pub seed: u64,
    /// Disk whose requests fail.
    pub disk: R,
    /// Kind of the failing requests.
    pub op: DeviceOp,
    /// Number of failing requests. `None` means all from the n-th on.
    pub requests: Option<u64>,
    /// True if a failed flush, or a failed write with FUA, loses data that was not durable.
    pub forgetful: bool,
}

/// Result of testing a case.
#[derive(Clone, Debug, Default)]
pub struct ExhaustiveResult {
    /// Number of cases.
    pub cases: u64,
    /// Work done.
    pub tally: ScenarioTally,
    /// Violations, with the case and a readable tape.
    pub violations: Vec<(String, ScenarioOutcome)>,
}

/// Returns all cases, in order, for scripts of `seed`.
pub fn cases<S: TestedSystem>(seed: u64) -> Vec<ExhaustiveCase<S>> {
    let cuts = S::cut_everywhere(seed).into_iter();
    let mut cases: Vec<ExhaustiveCase<S>> = cuts
        .map(|(name, plan)| ExhaustiveCase::Cuts(name, plan))
        .collect();
    for disk in S::Role::ALL {
        for op in [
            DeviceOp::Read,
            DeviceOp::Write,
            DeviceOp::Flush,
            DeviceOp::Discard,
            DeviceOp::WriteZeroes,
        ] {
            if S::failing(*disk, op).is_none() {
                continue;
            }
            for requests in [Some(1), Some(5), None] {
                for forgetful in [false, true] {
                    // A disk may execute a write with FUA with a flush.
                    if forgetful && !matches!(op, DeviceOp::Flush | DeviceOp::Write) {
                        continue;
                    }
                    cases.push(ExhaustiveCase::Failing(FailingRequests {
                        seed,
                        disk: *disk,
                        op,
                        requests,
                        forgetful,
                    }));
                }
            }
        }
    }
    cases
}

/// Returns a script with all kinds of requests, overlaps, and pauses in which deferred work is done. In blocks of
/// `block` bytes, on a volume of `len` bytes.
fn script(seed: u64, count: usize, block: u64, len: u64) -> Vec<ScriptAction> {
    let rng = Rng::new(seed);
    let align = |range: Range<u64>| range.start / block * block..range.end.next_multiple_of(block);
    let action = |_| match random_action(&rng, &(0..len), 48 << 10) {
        ScriptAction::Write { fua: false, .. } if len > ATOMIC_BYTES && rng.one_in(8) => {
            let at = rng.below((len - ATOMIC_BYTES) / block + 1) * block;
            let range = at..at + ATOMIC_BYTES;
            ScriptAction::Write { range, fua: false }
        }
        ScriptAction::Write { range, fua } => ScriptAction::Write {
            range: align(range),
            fua,
        },
        ScriptAction::Zero(range) => ScriptAction::Zero(align(range)),
        ScriptAction::Discard(range) => ScriptAction::Discard(align(range)),
        other => other,
    };
    (0..count).map(action).collect()
}

fn incarnation<R: DiskRole>(
    seed: u64,
    block: u32,
    actions: Vec<ScriptAction>,
    looks: CheckSchedule,
) -> Incarnation<R> {
    let script = WriterScript {
        actions,
        rules: Vec::new(),
    };
    let disk = DiskConditions {
        block,
        slowest: Duration::from_micros(300),
        flush_takes: None,
        faults: DiskFaults::default(),
    };
    Incarnation {
        seed,
        scripts: vec![script],
        stop_at: None,
        abandons_at: None,
        freeze: None,
        replaces_at: None,
        killed: false,
        cut_at: u64::MAX,
        after: IncarnationEnd::Cut,
        coin: WriteFate::Blocks(seed),
        looks,
        disks: PerDisk::of(|_| disk.clone()),
    }
}

fn plan<S: TestedSystem>(seed: u64, volume: S, block: u32, len: u64) -> ScenarioPlan<S> {
    ScenarioPlan {
        seed,
        volume,
        block,
        len,
        regions: std::iter::once(0..len).collect(),
        clock_leaps: None,
        resends: None,
        incarnations: Vec::new(),
    }
}

/// Returns a run that is cut everywhere, for [`TestedSystem::cut_everywhere`]: one incarnation of a volume of `len` bytes in
/// blocks of `block`, drained at its end.
pub fn cuts<S: TestedSystem>(seed: u64, volume: S, block: u32, len: u64) -> ScenarioPlan<S> {
    let looks = CheckSchedule::Each {
        combinations: 6,
        recoveries: 23,
    };
    let actions = script(seed, 70, block.into(), len);
    let mut plan = plan(seed, volume, block, len);
    plan.incarnations = vec![Incarnation {
        after: IncarnationEnd::Drain,
        ..incarnation(seed, block, actions, looks)
    }];
    plan
}

/// Returns a run that attaches a volume with data, uses and drains it, while requests fail from the n-th on.
fn failing<S: TestedSystem>(case: &FailingRequests<S::Role>, n: u64) -> ScenarioPlan<S> {
    let (seed, block) = (case.seed, 512);
    let actions = |seed, count| script(seed, count, block.into(), LEN);
    let quiet = CheckSchedule::OneIn(u64::MAX);
    let before = Incarnation {
        coin: WriteFate::Keep,
        ..incarnation(seed, block, actions(seed, 12), quiet)
    };
    let mut after = Incarnation {
        after: IncarnationEnd::Drain,
        ..incarnation(
            seed + 1,
            block,
            actions(seed + 1, 40),
            CheckSchedule::OneIn(8),
        )
    };
    after.disks[case.disk].faults = DiskFaults {
        outage: Some(DiskOutage {
            from: n,
            op: Some(case.op),
            requests: case.requests,
            reads: case.op == DeviceOp::Read,
        }),
        forgetful: case.forgetful,
        ..DiskFaults::default()
    };
    let volume = S::failing(case.disk, case.op).expect("a disk that is asked for such");
    let mut plan = plan(seed, volume, block, LEN);
    plan.incarnations = vec![before, after];
    plan
}

fn try_plan<S: TestedSystem>(
    name: String,
    plan: &ScenarioPlan<S>,
    tried: &mut ExhaustiveResult,
) -> ScenarioOutcome {
    let outcome = scenario::run(plan, false);
    tried.tally.add(&outcome.tally);
    if outcome.violation.is_some() {
        tried.violations.push((name, scenario::run(plan, true)));
    }
    outcome
}

/// Tests a case exhaustively.
pub fn try_case<S: TestedSystem>(case: &ExhaustiveCase<S>) -> ExhaustiveResult {
    let mut tried = ExhaustiveResult {
        cases: 1,
        ..ExhaustiveResult::default()
    };
    match case {
        ExhaustiveCase::Cuts(name, plan) => {
            try_plan(format!("cuts of {name}"), plan, &mut tried);
        }
        ExhaustiveCase::Failing(which) => {
            for n in 0.. {
                let plan = failing::<S>(which, n);
                let name = format!("{which:?} from request {n} on");
                let outcome = try_plan(name, &plan, &mut tried);
                // Beyond the last request of its kind.
                if outcome.tally.faults == 0 || !tried.violations.is_empty() {
                    break;
                }
            }
        }
    }
    tried
}

/// Tests all cases on `jobs` threads, until a violation is found.
pub fn try_all<S: TestedSystem>(cases: &[ExhaustiveCase<S>], jobs: usize) -> ExhaustiveResult {
    let (next, all) = (
        Mutex::new(cases.iter()),
        Mutex::new(ExhaustiveResult::default()),
    );
    let take = || next.lock().expect("no panic holds it").next();
    std::thread::scope(|threads| {
        for _ in 0..jobs {
            threads.spawn(|| {
                while let Some(case) = take() {
                    let tried = try_case(case);
                    let mut all = all.lock().expect("no panic holds it");
                    all.cases += tried.cases;
                    all.tally.add(&tried.tally);
                    all.violations.extend(tried.violations);
                }
            });
        }
    });
    all.into_inner().expect("no panic holds it")
}
