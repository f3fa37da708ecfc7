//! The plan of a scenario: its recipe, its incarnations, their phases and faults.

use std::fmt::{Display, Formatter};
use std::time::Duration;

use forebay_rng::{Rng, mix};
use forebay_sim::disk::{DiskFaults, TimedFault, WriteFate};
use forebay_sim::plan::coin;

use super::recipe::{Age, Recipe};
use forebay_vsl::PlacementKind;

/// Number of consecutive seeds that begin with the same aged volume.
const OF_A_RECIPE: u64 = 8;

/// Total idle time of a scenario of a day. The power is cut before some of the idle phases, so the scenario takes about
/// a day.
const RESTS: Duration = Duration::from_secs(32 * 3600);
/// Range of the random part of an idle phase, in seconds. The fixed part is ten minutes.
const REST_SECONDS: u64 = 4 * 3600;

/// A phase of a writer's work.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum WriterPhase {
    /// Overwrites this number of blocks, most of them among the few hot blocks.
    Overwrite(u64),
    /// Overwrites only hot blocks, each this number of times on average.
    Hot(u64),
    /// Overwrites this number of fragments of up to eight sectors. The flag requests FUA.
    Pieces(u64, bool),
    /// Writes this number of batches of several fragments and trims.
    Batches(u64),
    /// Writes this number of blocks that hold no data. A full volume refuses them.
    Fill(u64),
    /// Trims this percentage of the writer's blocks in one request, with FUA or followed by a flush or a checkpoint.
    TrimHuge(u64, TrimDurability),
    /// Trims this number of single blocks and short extents.
    TrimSmall(u64),
    /// Trims this percentage of the writer's blocks, block by block in random order.
    Delete(u64),
    /// Repeatedly overwrites a few blocks until the log wraps, while in-place writes are held. Between the overwrites,
    /// the writer writes new blocks and trims them at once.
    GoRound(u64),
    /// Overwrites blocks in uniform order, long enough to compare the cost with the model.
    Steady,
    /// Does nothing for this time.
    Idle(Duration),
    /// Reads this number of blocks.
    Read(u64),
    Flush,
    Checkpoint,
    /// Changes the placement. A volume that is too full refuses the change.
    Place(PlacementKind),
}

/// The request that makes a huge trim durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TrimDurability {
    Fua,
    Flushed,
    InCheckpoint,
}

/// The time from an open to the next crash.
#[derive(Clone, Debug)]
pub(super) struct AgedIncarnation {
    pub(super) seed: u64,
    /// The phases of each writer.
    pub(super) phases: Vec<Vec<WriterPhase>>,
    /// Faults of the disk, from the end of the recovery on.
    pub(super) faults: DiskFaults,
    /// Delayed writes: some in-place writes, or a single write of any kind.
    pub(super) held: Option<HeldWrites>,
    pub(super) slowest: Duration,
    pub(super) close: bool,
    pub(super) coin: WriteFate,
}

/// Writes that take very long.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldWrites {
    pub(super) takes: Duration,
    /// Maximum number of held writes.
    pub(super) most: u64,
    /// True if only writes to places that hold data in the middle of a segment are held.
    pub(super) in_place: bool,
}

/// A scenario.
#[derive(Clone, Debug)]
pub struct AgedPlan {
    pub(super) seed: u64,
    pub(super) recipe: Recipe,
    pub(super) incarnations: Vec<AgedIncarnation>,
}

impl AgedPlan {
    /// Returns the scenario of a seed.
    pub fn of_seed(seed: u64) -> AgedPlan {
        let rng = Rng::new(mix(seed, 0xa6ed));
        let recipe = Recipe::of_seed(seed / OF_A_RECIPE);
        let count = 1 + rng.below(3);
        let incarnations = (0..count)
            .map(|n| incarnation(&recipe, &rng, mix(seed, n)))
            .collect();
        AgedPlan {
            seed,
            recipe,
            incarnations,
        }
        .with_changes()
    }
}

impl AgedPlan {
    /// Returns a scenario of about a day of virtual time: many incarnations, each with an idle phase of up to hours.
    pub fn of_day(seed: u64) -> AgedPlan {
        let rng = Rng::new(mix(seed, 0xda7));
        let recipe = Recipe::of_seed(seed / OF_A_RECIPE);
        let (mut incarnations, mut left) = (Vec::new(), RESTS);
        while !left.is_zero() {
            let n = incarnations.len() as u64;
            let mut next = incarnation(&recipe, &rng, mix(seed, n));
            let rest = Duration::from_secs(600 + rng.below(REST_SECONDS)).min(left);
            let phases = &mut next.phases[0];
            let at = rng.below(phases.len() as u64 + 1) as usize;
            phases.insert(at, WriterPhase::Idle(rest));
            incarnations.push(next);
            left -= rest;
        }
        AgedPlan {
            seed,
            recipe,
            incarnations,
        }
        .with_changes()
    }
}

impl AgedPlan {
    /// Adds changes of the placement before any phase, in some scenarios. These choices have their own random numbers,
    /// so all other choices of a seed remain unchanged.
    fn with_changes(mut self) -> AgedPlan {
        let rng = Rng::new(mix(self.seed, 0x7e_3e12));
        if !rng.one_in(6) {
            return self;
        }
        self.recipe.changes = true;
        let writers = self.incarnations.iter_mut().map(|one| &mut one.phases);
        for phases in writers.flatten() {
            if phases.is_empty() || rng.coin() {
                continue;
            }
            for _ in 0..1 + rng.below(3) {
                let at = rng.below(phases.len() as u64 + 1) as usize;
                phases.insert(at, WriterPhase::Place(rng.pick(&PlacementKind::ALL)));
            }
        }
        self
    }
}

impl AgedIncarnation {
    /// Returns the longest time for which the faults may delay a request.
    pub(super) fn faults_take(&self) -> Duration {
        let long = |trouble: &TimedFault| match trouble.to {
            Some(to) => to - trouble.from + trouble.takes,
            None => Duration::MAX / 4,
        };
        let troubles: Duration = self.faults.troubles.iter().map(long).sum();
        troubles + self.held.map_or(Duration::ZERO, |held| 2 * held.takes)
    }

    /// Returns true if the disk never fails a request.
    pub(super) fn refuses_nothing(&self) -> bool {
        self.faults.refuse_nothing()
    }
}

fn incarnation(recipe: &Recipe, rng: &Rng, seed: u64) -> AgedIncarnation {
    let lines = recipe.mappable_lines();
    let goes_round = recipe.goes_round() && !rng.one_in(4);
    let writers = if goes_round || recipe.age != Age::Crowd && rng.coin() {
        1
    } else {
        recipe.writers as u64
    };
    let phases = (0..recipe.writers as u64).map(|writer| {
        if writer >= writers {
            Vec::new()
        } else if goes_round {
            go_round(rng)
        } else {
            phases(recipe, rng, lines / writers)
        }
    });
    let (faults, held) = if goes_round {
        (DiskFaults::default(), None)
    } else {
        faults(rng, seed)
    };
    let close = rng.one_in(4);
    AgedIncarnation {
        seed,
        phases: phases.collect(),
        faults,
        held,
        slowest: Duration::from_micros(rng.pick(&[20, 100, 400, 2000])),
        close,
        coin: coin(rng, seed),
    }
}

fn go_round(rng: &Rng) -> Vec<WriterPhase> {
    let round = || WriterPhase::GoRound(4 + rng.below(10));
    vec![
        round(),
        WriterPhase::Read(100),
        round(),
        WriterPhase::Checkpoint,
        round(),
    ]
}

fn phases(recipe: &Recipe, rng: &Rng, lines: u64) -> Vec<WriterPhase> {
    let mut phases = Vec::new();
    if recipe.age == Age::Crowd {
        return vec![WriterPhase::Overwrite(lines), WriterPhase::Flush];
    }
    if recipe.age == Age::Cold && rng.coin() {
        return vec![WriterPhase::Hot(1 + rng.below(12)), WriterPhase::Flush];
    }
    if rng.one_in(4) || recipe.age == Age::Sparse && rng.coin() {
        return trim_and_reuse(rng, lines);
    }
    for _ in 0..2 + rng.below(5) {
        let some = lines / (4 << rng.below(5)) + 1;
        phases.push(match rng.below(16) {
            0..=3 => WriterPhase::Overwrite(2 * some),
            4..=5 => WriterPhase::Pieces(some, rng.coin()),
            6 => WriterPhase::Batches(some / 8 + 1),
            7 => WriterPhase::Fill(some),
            8 => WriterPhase::TrimHuge(10 + rng.below(80), durable(rng)),
            9 => WriterPhase::TrimSmall(some / 2 + 1),
            10 => WriterPhase::Delete(1 + rng.below(30)),
            11 => WriterPhase::Idle(Duration::from_millis(1 << rng.below(20))),
            12 => WriterPhase::Read(some / 2 + 1),
            13 => WriterPhase::Flush,
            14 => WriterPhase::Checkpoint,
            _ => {
                if recipe.age == Age::Uniform {
                    WriterPhase::Steady
                } else {
                    WriterPhase::Overwrite(4 * some)
                }
            }
        });
    }
    if rng.coin() {
        phases.push(WriterPhase::Flush);
    }
    phases
}

fn durable(rng: &Rng) -> TrimDurability {
    rng.pick(&[
        TrimDurability::Fua,
        TrimDurability::Flushed,
        TrimDurability::InCheckpoint,
    ])
}

/// Returns a large trim, time to examine the detached nodes, and new data in the freed segments. The writer requests no
/// checkpoint between the trim and the new data.
fn trim_and_reuse(rng: &Rng, lines: u64) -> Vec<WriterPhase> {
    let mut phases = Vec::new();
    if rng.coin() {
        phases.push(WriterPhase::Overwrite(1 + rng.below(lines / 8 + 1)));
    }
    if rng.coin() {
        phases.push(WriterPhase::Checkpoint);
    }
    let part = 40 + rng.below(60);
    phases.push(WriterPhase::TrimHuge(part, durable(rng)));
    phases.push(WriterPhase::Idle(Duration::from_millis(1 << rng.below(12))));
    phases.push(WriterPhase::Fill(lines * (20 + rng.below(80)) / 100));
    if !rng.one_in(4) {
        phases.push(WriterPhase::Flush);
    }
    phases
}

/// Returns the disk's faults, and the delay of single writes.
fn faults(rng: &Rng, seed: u64) -> (DiskFaults, Option<HeldWrites>) {
    let mut faults = DiskFaults {
        seed: mix(seed, 1),
        ..DiskFaults::default()
    };
    let from = Duration::from_micros(rng.below(1 << (10 + rng.below(14))));
    let long = match rng.below(6) {
        0..=3 => Duration::from_millis(300 + rng.below(3000)),
        4 => Duration::from_secs(10 + rng.below(600)),
        _ => Duration::from_secs(3600 + rng.below(7200)),
    };
    let trouble = TimedFault {
        from,
        to: Some(from + long),
        range: None,
        reads: false,
        changes: false,
        one_in: 1 + rng.below(1 + rng.below(4)),
        takes: Duration::ZERO,
        fails: true,
    };
    let trouble = match rng.below(12) {
        0..=2 => TimedFault {
            reads: true,
            ..trouble
        },
        3 => TimedFault {
            changes: true,
            reads: rng.coin(),
            ..trouble
        },
        4 => TimedFault {
            changes: true,
            reads: true,
            takes: Duration::from_millis(1 << rng.below(10)),
            to: Some(from + long.min(Duration::from_secs(30))),
            fails: false,
            ..trouble
        },
        5 => {
            let held = HeldWrites {
                takes: long,
                most: 1,
                in_place: rng.coin(),
            };
            return (faults, Some(held));
        }
        _ => return (faults, None),
    };
    faults.forgetful = rng.coin();
    faults.troubles.push(trouble);
    (faults, None)
}

impl Display for AgedPlan {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "scenario {}: {:?}", self.seed, self.recipe)?;
        for (n, incarnation) in self.incarnations.iter().enumerate() {
            let end = if incarnation.close { "closed" } else { "cut" };
            let (slowest, coin) = (incarnation.slowest, incarnation.coin);
            write!(f, "  {n}: requests take up to {slowest:?}, ")?;
            writeln!(f, "{end} at the end, {coin:?} of unflushed blocks")?;
            for trouble in &incarnation.faults.troubles {
                writeln!(f, "    {trouble:?}")?;
            }
            if let Some(held) = incarnation.held {
                writeln!(f, "    {held:?}")?;
            }
            for (writer, phases) in incarnation.phases.iter().enumerate() {
                writeln!(f, "    writer {writer}: {phases:?}")?;
            }
        }
        Ok(())
    }
}
