//! A scenario as a plan: all its events, made from one number.
//!
//! All later decisions follow from the plan alone. So a plan can be reduced step by step and run again.

mod show;

use std::fmt::{Debug, Formatter};
use std::ops::Range;
use std::time::Duration;

use forebay_rng::{Rng, mix};

use crate::disk::{DiskFaults, WriteFate};
use crate::role::{DiskRole, PerDisk};
use crate::trace::TraceRequest;
use crate::workload::{ScriptBounds, WriterScript, recorded};

/// Settings and possible faults of a volume in one scenario: the part of a plan that only the system under test
/// understands.
pub trait ScenarioSettings: Clone + Debug + Send + Sync + 'static {
    /// Roles of the disks.
    type Role: DiskRole;

    /// Returns the kind of possible faults, as one word.
    fn kind(&self) -> String;

    /// Writes a readable form of the volume's settings.
    ///
    /// # Errors
    /// If the formatter fails.
    fn show(&self, f: &mut Formatter<'_>) -> std::fmt::Result;

    /// Returns true if a client's request may fail.
    fn may_fail(&self) -> bool;

    /// Returns true if a disk may return other data than was written to it.
    fn is_dishonest(&self) -> bool;

    /// Returns changes that each simplify a volume. They are tried on a scenario that is too large to understand.
    fn plainer() -> &'static [fn(&mut Self)];
}

/// End of an incarnation, unless the power is cut before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncarnationEnd {
    /// A power cut as soon as all scripts are done.
    Cut,
    /// A flush, a quiet moment, and then a power cut.
    Quiet,
    /// A flush, some seconds in which the volume is idle, and then a power cut. After the last incarnation, durable
    /// data may rot ([`crate::system::TestedSystem::rotten`]).
    Idle,
    /// The volume is closed.
    Close,
    /// The volume is drained and closed.
    Drain,
}

/// Requests of an incarnation at which the effect of a power cut is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckSchedule {
    /// One in this many requests that change data.
    OneIn(u64),
    /// All requests that change data, with several cuts each.
    Each {
        /// Maximum number of volatile blocks for which every combination of kept and dropped blocks is checked.
        combinations: u64,
        /// At one in this many requests, the recovery is cut at each of its requests, and so is the recovery after each
        /// of these cuts; 0 means never.
        recoveries: u64,
    },
}

/// Properties of a disk in one incarnation.
#[derive(Clone, Debug)]
pub struct DiskConditions {
    /// Bytes in a block. A volume may continue on devices with smaller blocks than it was made for.
    pub block: u32,
    /// Maximum latency of requests.
    pub slowest: Duration,
    /// Duration of a flush, if it differs from other requests.
    pub flush_takes: Option<Duration>,
    /// Faults of the disk.
    pub faults: DiskFaults,
}

/// A freeze: the volume holds back writes, and its disks are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedFreeze {
    /// Time at which the freeze is requested.
    pub at: Duration,
    /// Time limit after which writes continue by themselves.
    pub limit: Duration,
    /// Time of the copy. Then the volume is thawed.
    pub copy_takes: Duration,
}

impl PlannedFreeze {
    /// A freeze in the middle of a script of an exhaustive test.
    pub const EARLY: PlannedFreeze = PlannedFreeze {
        at: Duration::from_millis(5),
        limit: Duration::from_secs(10),
        copy_takes: Duration::from_millis(50),
    };

    /// Returns a freeze at a random time.
    pub fn random(rng: &Rng) -> PlannedFreeze {
        let span = |least: u64, doublings: u64| {
            Duration::from_micros(rng.below(1 << (least + rng.below(doublings))))
        };
        let limit = Duration::from_micros(1 << (10 + rng.below(17)));
        PlannedFreeze {
            at: span(6, 16),
            limit,
            copy_takes: span(8, 18).min(2 * limit),
        }
    }
}

/// An incarnation: from an attach to the next crash.
#[derive(Clone, Debug)]
pub struct Incarnation<R> {
    /// Seed of the disks' random choices.
    pub seed: u64,
    /// Script of each writer.
    pub scripts: Vec<WriterScript>,
    /// Request that changes data at which the power is cut.
    pub cut_at: u64,
    /// Time at which the volume is closed, with requests in flight.
    pub stop_at: Option<Duration>,
    /// Time from which an administrator searches for unreadable data, and declares it lost once.
    pub abandons_at: Option<Duration>,
    /// Freeze of the volume, in which its disks are copied.
    pub freeze: Option<PlannedFreeze>,
    /// Time at which an administrator replaces a device of the volume in use
    /// ([`crate::system::TestedSystem::replace_device`]).
    pub replaces_at: Option<Duration>,
    /// True if the process dies without a power cut. The disks keep the contents of their caches, which a power cut in
    /// the next incarnation may lose.
    pub killed: bool,
    /// End of the incarnation when all scripts are done.
    pub after: IncarnationEnd,
    /// Effect of the cut at the end.
    pub coin: WriteFate,
    /// Requests at which the effect of a cut is checked.
    pub looks: CheckSchedule,
    /// Properties of the disks.
    pub disks: PerDisk<R, DiskConditions>,
}

/// A scenario.
#[derive(Clone, Debug)]
pub struct ScenarioPlan<S: ScenarioSettings> {
    /// The number from which the plan was made.
    pub seed: u64,
    /// Settings of the volume.
    pub volume: S,
    /// Block size of all disks when the volume is made, in bytes.
    pub block: u32,
    /// Bytes of the volume.
    pub len: u64,
    /// Regions of the writers.
    pub regions: Vec<Range<u64>>,
    /// The clock leaps forward at one in this many waits.
    pub clock_leaps: Option<u64>,
    /// One in this many writes is sent twice concurrently, as by a client after a timeout.
    pub resends: Option<u64>,
    /// Incarnations, one after the other.
    pub incarnations: Vec<Incarnation<S::Role>>,
}

impl<R: DiskRole> Incarnation<R> {
    /// Returns the time at which all disks work again, if they have faults that end by the clock.
    pub fn well_again(&self) -> Option<Duration> {
        let all = || self.disks.iter().map(|(_, disk)| &disk.faults);
        let all_well = all().all(DiskFaults::refuse_nothing);
        let ends = all().map(DiskFaults::end);
        let end = ends.reduce(|one, other| Some(one?.max(other?)))??;
        (!all_well).then_some(end)
    }
}

impl<S: ScenarioSettings> ScenarioPlan<S> {
    /// Freezes the volume in some incarnations. These choices have their own random numbers, so all other choices
    /// remain unchanged.
    pub fn add_freezes(&mut self) {
        let rng = Rng::new(mix(self.seed, 0xf4_ee_2e));
        for incarnation in &mut self.incarnations {
            incarnation.freeze = rng.one_in(4).then(|| PlannedFreeze::random(&rng));
        }
    }

    /// Returns this scenario with writers that follow a recorded trace.
    #[must_use]
    pub fn following(mut self, trace: &[TraceRequest]) -> ScenarioPlan<S> {
        let rng = Rng::new(mix(self.seed, 0x07_2a_ce));
        for incarnation in &mut self.incarnations {
            for (region, script) in self.regions.iter().zip(&mut incarnation.scripts) {
                let bounds = ScriptBounds {
                    region: region.clone(),
                    volume: self.len,
                    block: self.block.into(),
                };
                let len = 20 + rng.below(100) as usize;
                *script = recorded::script(&rng, &bounds, trace, len);
            }
        }
        self
    }
}

/// Returns one to four adjacent regions, with borders in the middle of 4 KiB blocks if the block size allows this.
pub fn regions(rng: &Rng, len: u64, block: u64) -> Vec<Range<u64>> {
    let count = rng.pick(&[1, 1, 2, 3, 4]);
    let mut borders = vec![0];
    for n in 1..count {
        let around = len * n / count;
        borders.push((around + rng.below(8) * 512) / block * block);
    }
    borders.push(len);
    borders.windows(2).map(|pair| pair[0]..pair[1]).collect()
}

/// Returns a random effect of a cut.
pub fn coin(rng: &Rng, seed: u64) -> WriteFate {
    match rng.below(8) {
        0 => WriteFate::Keep,
        1 | 2 => WriteFate::Drop,
        3 | 4 => WriteFate::Writes(mix(seed, rng.next())),
        _ => WriteFate::Blocks(mix(seed, rng.next())),
    }
}
