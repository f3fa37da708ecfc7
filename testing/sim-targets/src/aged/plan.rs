//! What happens in a scenario: its recipe, its incarnations, their phases and faults.

use std::fmt::{Display, Formatter};
use std::time::Duration;

use forebay_rng::{Rng, mix};
use forebay_sim::disk::{DiskFaults, TimedFault, WriteFate};
use forebay_sim::plan::coin;

use super::recipe::{Age, Recipe};
use forebay_vsl::PlacementKind;

/// Scenarios with seeds next to each other that begin with the same aged volume.
const OF_A_RECIPE: u64 = 8;

/// The rests of a scenario of a day, together: the power goes before some of them, so that it takes about a day.
const RESTS: Duration = Duration::from_secs(32 * 3600);
/// A rest of a day is ten minutes and up to so many seconds long.
const REST_SECONDS: u64 = 4 * 3600;

/// What a writer does for a while.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum WriterPhase {
    /// Overwrites so many lines: most of them among the few that are hot.
    Overwrite(u64),
    /// Overwrites hot lines only, each so many times on average.
    Hot(u64),
    /// Overwrites so many pieces of one to seven sectors; with FUA if so.
    Pieces(u64, bool),
    /// Writes so many batches of several pieces and trims.
    Batches(u64),
    /// Writes so many lines that hold nothing; refused where the volume is full.
    Fill(u64),
    /// Trims so much of its lines, in percent, in one piece; with FUA, or followed by a flush or a checkpoint.
    TrimHuge(u64, TrimDurability),
    /// Trims so many single lines and short runs.
    TrimSmall(u64),
    /// Trims so much of its lines, in percent, line by line in no order.
    Delete(u64),
    /// Overwrites a few lines again and again, with new lines that are trimmed at once between, while in-place
    /// writes are held: so the log comes around to where it was.
    GoRound(u64),
    /// Overwrites lines in uniform order long enough to compare the cost with the model.
    Steady,
    /// Does nothing for so long.
    Idle(Duration),
    /// Reads so many lines.
    Read(u64),
    Flush,
    Checkpoint,
    /// Changes the placement; refused where the volume is too full for it.
    Place(PlacementKind),
}

/// How a huge trim is made durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TrimDurability {
    Fua,
    Flushed,
    InCheckpoint,
}

/// From an open to the next crash.
#[derive(Clone, Debug)]
pub(super) struct AgedIncarnation {
    pub(super) seed: u64,
    /// The phases of each writer.
    pub(super) phases: Vec<Vec<WriterPhase>>,
    /// What the disk does wrong, from the end of the recovery on.
    pub(super) faults: DiskFaults,
    /// How long writes that are held take: some in-place ones, or a single write of any kind.
    pub(super) held: Option<HeldWrites>,
    pub(super) slowest: Duration,
    pub(super) close: bool,
    pub(super) coin: WriteFate,
}

/// Writes that take very long.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldWrites {
    pub(super) takes: Duration,
    /// How many are held at once.
    pub(super) most: u64,
    /// Only writes to places that hold data in the middle of a segment.
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
    /// The scenario of a seed.
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
    /// A scenario of about a day of virtual time: one incarnation after the other, each with a rest of hours.
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
    /// Some scenarios change the placement, before any phase. By numbers of its own, so that scenarios are otherwise what
    /// they were.
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
    /// The longest that its faults may keep a request waiting.
    pub(super) fn faults_take(&self) -> Duration {
        let long = |trouble: &TimedFault| match trouble.to {
            Some(to) => to - trouble.from + trouble.takes,
            None => Duration::MAX / 4,
        };
        let troubles: Duration = self.faults.troubles.iter().map(long).sum();
        troubles + self.held.map_or(Duration::ZERO, |held| 2 * held.takes)
    }

    /// True if the disk never refuses anything.
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

/// A large trim, time to look at what it detached, and new data in its segments, without a checkpoint of the writer's.
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

/// What the disk does wrong, and how long single writes are held.
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
