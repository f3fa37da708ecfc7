//! All measurements on the virtual clock.

use std::time::Duration;

use anyhow::{Result, ensure};

use crate::bandwidth::{self, BandwidthCurve};
use crate::disks::{CacheSetup, CacheShape, virtually};
use crate::effects::{self, DestageVariant, ParameterSweep};
use crate::paper_cache::{PaperCache, PaperCacheRules};
use crate::scale::PaperScale;
use crate::users::{PHASES, ProgramPhase, phases, who};
use forebay_device::AckMode;

/// Numbers of concurrent users: those of figures 7 and 8, and a larger number. (The available text of the paper does
/// not contain the number of figure 9.)
pub(crate) const USERS: [u64; 3] = [1, 4, 16];
/// Number of users in the paper's section on the maximum possible speedup, and in figures 11 and 12.
const PAPERS_USERS: u64 = 4;
/// Times that writes may stay in memory, in ms. Among them are the defaults of the cache: 50 on a physical DCD, and 500
/// on a logical DCD (about the time that the paper allows itself).
pub(crate) const DELAYS_MS: [u64; 7] = [50, 100, 200, 500, 1000, 2000, 5000];

/// All figures measured on the virtual clock.
pub struct PaperMeasurements {
    pub(crate) scale: PaperScale,
    pub(crate) runs: Vec<ProgramRun>,
    pub(crate) curves: Vec<BandwidthCurve>,
    pub(crate) logs: Vec<ParameterSweep>,
    pub(crate) segments: Vec<ParameterSweep>,
    pub(crate) orders: Vec<DestageVariant>,
    pub(crate) thresholds: Vec<DestageVariant>,
}

/// The three programs, run by a number of users on all setups.
pub(crate) struct ProgramRun {
    pub(crate) users: u64,
    /// The plain disk, the logical DCD, the physical DCD, then the other setups.
    pub(crate) columns: Vec<RunColumn>,
    /// The logical DCD with each of [`DELAYS_MS`].
    pub(crate) delays: Vec<[ProgramPhase; 3]>,
    /// A device that completes writes at once.
    pub(crate) free: [ProgramPhase; 3],
}

/// Measurements on one of the compared setups.
pub(crate) struct RunColumn {
    pub(crate) name: String,
    pub(crate) phases: [ProgramPhase; 3],
}

/// Measures all setups. Calls `step` with the name of the next measurement; `step` returns false to stop.
///
/// # Errors
/// If `step` returns false, or a device fails. Emulated devices do not fail.
pub fn measure(scale: PaperScale, mut step: impl FnMut(&str) -> bool) -> Result<PaperMeasurements> {
    let mut next = |what: &str| -> Result<()> {
        ensure!(step(what), "stopped");
        Ok(())
    };
    let mut runs = Vec::new();
    for users in USERS {
        let who = who(users);
        next(&format!("untar, copy, remove by {who}, on a virtual clock"))?;
        runs.push(run(users, scale)?);
    }
    next("bandwidth by the size of requests")?;
    let curves = bandwidth::curves(scale)?;
    next("sizes of the log")?;
    let logs = effects::log_sizes(scale)?;
    next("sizes of segments")?;
    let segments = effects::segment_sizes(scale)?;
    next("orders of destaging")?;
    let orders = effects::orders(scale)?;
    next("idle thresholds")?;
    let thresholds = effects::thresholds(scale)?;
    Ok(PaperMeasurements {
        scale,
        runs,
        curves,
        logs,
        segments,
        orders,
        thresholds,
    })
}

fn run(users: u64, scale: PaperScale) -> Result<ProgramRun> {
    let on = |setup: CacheSetup| {
        virtually(move |rt| async move {
            let opened = setup.open(&rt).await?;
            phases(&rt, opened, users, scale.every()).await
        })
    };
    let mut columns = Vec::new();
    for shape in CacheShape::REAL {
        columns.push(RunColumn {
            name: shape.name().into(),
            phases: on(CacheSetup::of(shape))?,
        });
    }
    for shape in [CacheShape::Logical, CacheShape::Physical] {
        let setup = CacheSetup {
            acknowledge: AckMode::Durable,
            ..CacheSetup::of(shape)
        };
        columns.push(RunColumn {
            name: format!("{}, each write durable", shape.name()),
            phases: on(setup)?,
        });
    }
    let at_once = PaperCacheRules {
        wait: Duration::ZERO,
        ..PaperCacheRules::PAPER
    };
    for (name, rules) in [
        ("", PaperCacheRules::PAPER),
        (", each segment at once", at_once),
    ] {
        columns.push(RunColumn {
            name: format!("the paper's own, modelled (logical){name}"),
            phases: papers(users, rules, scale)?,
        });
    }
    let delays = DELAYS_MS.map(|ms| {
        on(CacheSetup {
            max_delay: Duration::from_millis(ms),
            ..CacheSetup::of(CacheShape::Logical)
        })
    });
    Ok(ProgramRun {
        users,
        columns,
        delays: delays.into_iter().collect::<Result<_>>()?,
        free: on(CacheSetup::of(CacheShape::Free))?,
    })
}

/// Runs the programs on the model of the paper's own cache.
fn papers(users: u64, rules: PaperCacheRules, scale: PaperScale) -> Result<[ProgramPhase; 3]> {
    virtually(move |rt| async move {
        let opened = PaperCache::open(&rt, CacheSetup::of(CacheShape::Logical), rules)?;
        phases(&rt, opened, users, scale.every()).await
    })
}

impl PaperMeasurements {
    /// Iterates over each program of each number of users.
    pub(crate) fn programs(&self) -> impl Iterator<Item = (&ProgramRun, usize)> {
        let programs = |run| (0..PHASES.len()).map(move |program| (run, program));
        self.runs.iter().flat_map(programs)
    }

    /// Returns the run with the paper's number of users.
    pub(crate) fn papers_run(&self) -> Option<&ProgramRun> {
        self.runs.iter().find(|run| run.users == PAPERS_USERS)
    }
}

impl ProgramRun {
    pub(crate) fn plain(&self) -> &[ProgramPhase; 3] {
        &self.columns[0].phases
    }

    /// Returns the logical and the physical DCD.
    pub(crate) fn caches(&self) -> &[RunColumn] {
        &self.columns[1..3]
    }

    /// Returns the time of a program on a device that completes writes at once. No cache is faster, except by chance:
    /// reads may arrive in a better order.
    pub(crate) fn least(&self, program: usize) -> f64 {
        self.free[program].seconds
    }

    /// Returns the minimum time of a program as the paper estimates it: unchanged reading and computing, and all
    /// written data at `rate` bytes per second.
    pub(crate) fn papers_least(&self, program: usize, rate: f64) -> f64 {
        self.least(program) + self.plain()[program].written() as f64 / rate
    }

    /// Returns the speedup over the plain disk of a program that takes `seconds`.
    pub(crate) fn speedup(&self, program: usize, seconds: f64) -> f64 {
        self.plain()[program].seconds / seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::response::{UfsRequest, UfsRequestKind};

    #[test]
    fn the_maximum_of_the_paper_adds_the_transfer_time_to_the_time_with_free_writes() {
        let request = |kind| UfsRequest {
            kind,
            bytes: 1_000_000,
            ms: 1.0,
        };
        let phases = |seconds: f64| {
            [seconds, 2.0 * seconds, 3.0 * seconds].map(|seconds| ProgramPhase {
                seconds,
                requests: [
                    UfsRequestKind::Read,
                    UfsRequestKind::Write,
                    UfsRequestKind::WriteBehind,
                ]
                .map(request)
                .to_vec(),
                ..ProgramPhase::default()
            })
        };
        let run = ProgramRun {
            users: 1,
            columns: vec![RunColumn {
                name: "plain disk".into(),
                phases: phases(30.0),
            }],
            delays: Vec::new(),
            free: phases(1.0),
        };
        assert_eq!((run.least(1), run.papers_least(1, 1e6)), (2.0, 4.0));
        assert_eq!(run.speedup(1, 4.0), 15.0);
    }
}
