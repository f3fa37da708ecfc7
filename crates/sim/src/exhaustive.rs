//! Everything that can happen to a scripted run, one after the other, as far as that can be counted:
//! a cut after every request, with every combination of what is kept where that is few; each request
//! of each kind failing, alone or with all that follow, in recovery, in service and in destaging.

use std::ops::Range;
use std::sync::Mutex;
use std::time::Duration;

use forebay_device::Op;
use forebay_rng::Rng;

use crate::disk::{Coin, Faults, Outage};
use crate::history::{Action, random_action};
use crate::plan::{After, Kind, Life, Looks, Plan};
use crate::world::{self, Outcome, Tally};

const DATA_BYTES: u64 = 128 << 10;
/// The longest write that is applied whole or not at all.
const ATOMIC_BYTES: u64 = 1 << 20;

/// What is tried in full.
#[derive(Clone, Debug)]
pub enum Case {
    /// Every cut of a run of this seed; what is different from an ordinary volume.
    Cuts(u64, Variant),
    /// Every request of a kind failing, of a disk (`log` or `data`), for so many requests or for
    /// good.
    Failing {
        /// Of the script.
        seed: u64,
        /// True for the log, false for the data device.
        log: bool,
        /// Which requests fail.
        op: Op,
        /// How many; none: all from the n-th on.
        requests: Option<u64>,
        /// A flush that fails loses what it was for.
        forgetful: bool,
    },
}

/// How a volume differs from an ordinary one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Variant {
    /// Not at all.
    Plain,
    /// Writes are acknowledged when they are durable.
    Durable,
    /// Large writes go past the log.
    Bypass,
    /// Blocks of 4096 bytes.
    LargeBlocks,
    /// Writes of up to 1 MiB, which span segments, and more of them than the log holds.
    Wrapping,
}

/// What trying a case came to.
#[derive(Clone, Debug, Default)]
pub struct Tried {
    /// Cases.
    pub cases: u64,
    /// What was done.
    pub tally: Tally,
    /// What must not be, with the case and a tape that can be read.
    pub violations: Vec<(String, Outcome)>,
}

/// All cases, in order, for scripts of `seed`.
pub fn cases(seed: u64) -> Vec<Case> {
    let variants = [
        Variant::Wrapping,
        Variant::Plain,
        Variant::Durable,
        Variant::Bypass,
        Variant::LargeBlocks,
    ];
    let mut cases: Vec<Case> = variants.map(|variant| Case::Cuts(seed, variant)).into();
    for log in [true, false] {
        for op in [Op::Read, Op::Write, Op::Flush, Op::Discard, Op::WriteZeroes] {
            // A log is neither discarded nor zeroed but when it is made.
            if log && matches!(op, Op::Discard | Op::WriteZeroes) {
                continue;
            }
            for requests in [Some(1), Some(5), None] {
                for forgetful in [false, true] {
                    if forgetful && op != Op::Flush {
                        continue;
                    }
                    cases.push(Case::Failing {
                        seed,
                        log,
                        op,
                        requests,
                        forgetful,
                    });
                }
            }
        }
    }
    cases
}

/// A script in which everything occurs: all kinds of requests, overlaps, pauses in which data is
/// destaged and superblocks are noted.
fn script(seed: u64, len: usize, plan: &Plan) -> Vec<Action> {
    let (rng, block, volume) = (Rng::new(seed), u64::from(plan.block), plan.data_len);
    let align = |range: Range<u64>| range.start / block * block..range.end.next_multiple_of(block);
    let action = |_| match random_action(&rng, &(0..volume), 48 << 10) {
        Action::Write { fua: false, .. } if volume > ATOMIC_BYTES && rng.one_in(8) => {
            let at = rng.below((volume - ATOMIC_BYTES) / block + 1) * block;
            let range = at..at + ATOMIC_BYTES;
            Action::Write { range, fua: false }
        }
        Action::Write { range, fua } => Action::Write {
            range: align(range),
            fua,
        },
        Action::Zero(range) => Action::Zero(align(range)),
        Action::Discard(range) => Action::Discard(align(range)),
        other => other,
    };
    (0..len).map(action).collect()
}

fn life(seed: u64, block: u32, actions: Vec<Action>, looks: Looks) -> Life {
    let script = crate::workload::Script {
        actions,
        rules: Vec::new(),
    };
    Life {
        seed,
        blocks: (block, block),
        scripts: vec![script],
        stop_at: None,
        killed: false,
        cut_at: u64::MAX,
        after: After::Cut,
        coin: Coin::Blocks(seed),
        looks,
        slowest: (Duration::from_micros(300), Duration::from_micros(300)),
        flush_takes: None,
        log: Faults::default(),
        data: Faults::default(),
    }
}

fn plan(seed: u64, kind: Kind) -> Plan {
    Plan {
        seed,
        kind,
        block: 512,
        data_len: DATA_BYTES,
        regions: std::iter::once(0..DATA_BYTES).collect(),
        durable_writes: false,
        max_delay: Duration::from_millis(5),
        bypass: None,
        map_memory: None,
        used_log: false,
        clock_leaps: None,
        resends: None,
        flood: false,
        lives: Vec::new(),
    }
}

/// A run that is cut everywhere.
fn cuts(seed: u64, variant: Variant) -> Plan {
    let mut plan = plan(seed, Kind::Calm);
    match variant {
        Variant::Plain => {}
        Variant::Durable => plan.durable_writes = true,
        Variant::Bypass => plan.bypass = Some(8 << 10),
        Variant::LargeBlocks => plan.block = 4096,
        Variant::Wrapping => {
            plan.data_len = ATOMIC_BYTES + (64 << 10);
            plan.regions = std::iter::once(0..plan.data_len).collect();
        }
    }
    let looks = Looks::Each {
        combinations: 6,
        recoveries: 23,
    };
    let actions = script(seed, 70, &plan);
    let mut whole = life(seed, plan.block, actions, looks);
    whole.after = After::Drain;
    plan.lives = vec![whole];
    plan
}

/// A log with something in it is taken up, used and drained, while requests fail from the n-th on.
fn failing(case: &Case, n: u64) -> Option<Plan> {
    let Case::Failing {
        seed,
        log,
        op,
        requests,
        forgetful,
    } = *case
    else {
        return None;
    };
    let kind = match (log, op) {
        (true, Op::Read) => Kind::LogReadsFail,
        (true, _) => Kind::LogFails,
        (false, _) => Kind::DataFails,
    };
    let mut plan = plan(seed, kind);
    let quiet = Looks::OneIn(u64::MAX);
    let mut before = life(seed, plan.block, script(seed, 12, &plan), quiet);
    before.coin = Coin::Keep;
    let mut after = life(
        seed + 1,
        plan.block,
        script(seed + 1, 40, &plan),
        Looks::OneIn(8),
    );
    after.after = After::Drain;
    let reads = op == Op::Read;
    let faults = Faults {
        outage: Some(Outage {
            from: n,
            op: Some(op),
            requests,
            reads,
        }),
        forgetful,
        ..Faults::default()
    };
    if log {
        after.log = faults
    } else {
        after.data = faults
    }
    plan.lives = vec![before, after];
    Some(plan)
}

fn try_plan(name: String, plan: &Plan, tried: &mut Tried) -> Outcome {
    let outcome = world::run(plan, false);
    tried.tally.add(&outcome.tally);
    if outcome.violation.is_some() {
        tried.violations.push((name, world::run(plan, true)));
    }
    outcome
}

/// Tries a case in full.
pub fn try_case(case: &Case) -> Tried {
    let mut tried = Tried {
        cases: 1,
        ..Tried::default()
    };
    match case {
        Case::Cuts(seed, variant) => {
            try_plan(format!("{case:?}"), &cuts(*seed, *variant), &mut tried);
        }
        Case::Failing { .. } => {
            for n in 0.. {
                let plan = failing(case, n).expect("such a case");
                let outcome = try_plan(format!("{case:?} from request {n} on"), &plan, &mut tried);
                // Past the last request of its kind.
                if outcome.tally.faults == 0 || !tried.violations.is_empty() {
                    break;
                }
            }
        }
    }
    tried
}

/// Tries all cases, on so many threads, until something is found.
pub fn try_all(cases: &[Case], jobs: usize) -> Tried {
    let (next, all) = (Mutex::new(cases.iter()), Mutex::new(Tried::default()));
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
