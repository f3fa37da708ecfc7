//! The plan of a scenario.

use std::fmt::{Display, Formatter};
use std::time::Duration;

use forebay_rng::{Rng, mix};
use forebay_sim::disk::{DiskFaults, DiskOutage, WriteFate};
use forebay_sim::plan::coin;
use forebay_vsl::SpaceSettings;

/// A scenario.
#[derive(Clone, Debug)]
pub struct FilesScenario {
    /// The seed of all choices.
    pub seed: u64,
    /// Number of clients. Each client has a directory.
    pub users: u64,
    /// Segments of the disk.
    pub segments: u64,
    /// Bytes that a file without a client leaves free, if such a file exists. The volume is then soon full.
    pub left: Option<u64>,
    /// True if clients sometimes execute two concurrent operations.
    pub pairs: bool,
    /// Limit of the map's memory in bytes, if it is small.
    pub map_bytes: Option<u64>,
    /// Number of entries after which a checkpoint is made.
    pub recovery_entries: u64,
    /// The incarnations, each from one attach to the next.
    pub incarnations: Vec<FilesIncarnation>,
}

/// The time from an attach to a power cut.
#[derive(Clone, Debug)]
pub struct FilesIncarnation {
    /// Number of each client's operations.
    pub steps: u64,
    /// Number of the modifying disk request at which the power is cut.
    pub cut_at: u64,
    /// Fate of the writes that are not durable at the cut.
    pub coin: WriteFate,
    /// Average number of requests from one checked crash point to the next.
    pub looks: u64,
    /// Maximum latency of a request.
    pub slowest: Duration,
    /// Faults of the disk.
    pub faults: DiskFaults,
}

impl Display for FilesScenario {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:#?}")
    }
}

impl FilesIncarnation {
    /// Returns true if the disk executes all requests.
    pub(super) fn is_healthy(&self) -> bool {
        let DiskFaults {
            reads_fail,
            writes_fail,
            flushes_fail,
            ref outage,
            ..
        } = self.faults;
        reads_fail + writes_fail + flushes_fail == 0 && outage.is_none()
    }
}

impl FilesScenario {
    /// Returns the scenario of a seed.
    pub fn of_seed(seed: u64) -> FilesScenario {
        let rng = Rng::new(mix(seed, 0x00_f11e));
        let incarnations = 1 + rng.below(4);
        // These choices have their own random numbers, so older scenarios remain unchanged.
        let filling = Rng::new(mix(seed, 0x00_f111));
        let pairing = Rng::new(mix(seed, 0x00_7e0));
        FilesScenario {
            seed,
            users: 1 + rng.below(3),
            segments: rng.pick(&[32, 32, 48, 96]),
            pairs: pairing.coin(),
            // Sometimes enough to preallocate more than the volume keeps in reserve.
            left: filling.one_in(3).then(|| {
                if filling.one_in(4) {
                    filling.below(2 << 20)
                } else {
                    filling.below(96 << 10)
                }
            }),
            map_bytes: rng.one_in(3).then(|| 8192 << rng.below(4)),
            recovery_entries: 8 << rng.below(12),
            incarnations: (0..incarnations)
                .map(|n| incarnation(&rng, mix(seed, n + 1)))
                .collect(),
        }
    }

    pub(super) fn options(&self) -> SpaceSettings {
        let common = SpaceSettings::default();
        SpaceSettings {
            map_bytes: self.map_bytes.unwrap_or(common.map_bytes),
            check_bytes: self.map_bytes.unwrap_or(common.check_bytes),
            recovery_entries: self.recovery_entries,
            ..common
        }
    }
}

fn incarnation(rng: &Rng, seed: u64) -> FilesIncarnation {
    let steps = 4 + rng.below(120);
    let mut faults = DiskFaults {
        seed: mix(seed, 1),
        ..DiskFaults::default()
    };
    match rng.below(12) {
        0 => faults.reads_fail = 4 + rng.below(60),
        1 => faults.flushes_fail = 4 + rng.below(30),
        2 => faults.writes_fail = 4 + rng.below(60),
        3 => {
            faults.outage = Some(DiskOutage {
                from: rng.below(100),
                op: None,
                requests: rng.coin().then(|| 1 + rng.below(100)),
                reads: rng.coin(),
            });
        }
        _ => {}
    }
    faults.forgetful = rng.coin();
    let slowest = rng.pick(&[50, 50, 50, 20_000, 20_000, 2_000_000]);
    FilesIncarnation {
        steps,
        cut_at: rng.below(steps * 2),
        coin: coin(rng, seed),
        looks: 1 + rng.below(4),
        slowest: Duration::from_micros(rng.below(slowest) + 1),
        faults,
    }
}
