//! The commands that live through worlds.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use forebay_sim::exhaustive::{self, try_all};
use forebay_sim::explore::{Exploration, explore};
use forebay_sim::plan::Plan;
use forebay_sim::world::{self, Tally};

/// Arguments of `explore`.
#[derive(clap::Args)]
pub(crate) struct Explore {
    /// The first seed; the others follow. Without: one nobody knows, printed
    #[arg(long, env = "FOREBAY_SEED")]
    seed: Option<u64>,
    /// For so many seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// At most so many worlds
    #[arg(long)]
    worlds: Option<u64>,
    /// On so many threads
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Ends after so many violations
    #[arg(long, default_value_t = 1)]
    violations: usize,
    /// Tries everything that can happen to scripted runs, instead of worlds at random
    #[arg(long)]
    exhaustive: bool,
    /// Prints every world's digest
    #[arg(long)]
    digests: bool,
}

fn fresh_seed() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    now.as_nanos() as u64 >> 10
}

impl Explore {
    pub(crate) fn run(&self) -> Result<ExitCode> {
        let seed = self.seed.unwrap_or_else(fresh_seed);
        println!("first seed {seed}");
        if self.exhaustive {
            return self.exhaust(seed);
        }
        let what = Exploration {
            seed,
            time: Duration::from_secs(self.seconds),
            worlds: self.worlds,
            jobs: self.jobs,
            violations: self.violations,
        };
        let found = explore(&what, &|seed, outcome| {
            if self.digests {
                println!("{seed} {:016x}", outcome.digest);
            }
        });
        for (seed, outcome) in &found.violations {
            if let Some(violation) = &outcome.violation {
                println!("seed {seed} digest {:016x}: {violation}", outcome.digest);
            }
        }
        println!("{found}");
        Ok(match found.violations.is_empty() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        })
    }
}

impl Explore {
    /// One script after the other, until the time is up or something is wrong.
    fn exhaust(&self, seed: u64) -> Result<ExitCode> {
        let began = Instant::now();
        let mut tally = Tally::default();
        let (mut scripts, mut cases) = (0, 0);
        let mut violations = Vec::new();
        while began.elapsed() < Duration::from_secs(self.seconds) && violations.is_empty() {
            let tried = try_all(
                &exhaustive::cases(seed.wrapping_add(2 * scripts)),
                self.jobs,
            );
            tally.add(&tried.tally);
            cases += tried.cases;
            scripts += 1;
            violations = tried.violations;
        }
        let mut out = std::io::stdout().lock();
        for (name, outcome) in &violations {
            for line in &outcome.lines {
                writeln!(out, "{line}")?;
            }
            writeln!(out, "{name}: {}", outcome.violation.as_ref().expect("one"))?;
        }
        let (worlds, crash_points, virtual_s) =
            (tally.worlds, tally.cycles, tally.virtual_time.as_secs());
        writeln!(
            out,
            "scripts {scripts} cases {cases} worlds {worlds} crash_points {crash_points} \
             cuts_in_recovery {} faults_injected {} virtual_time_s {virtual_s} violations {}",
            tally.cuts_in_recovery,
            tally.faults,
            violations.len()
        )?;
        Ok(match violations.is_empty() {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        })
    }
}

/// Arguments of `replay`.
#[derive(clap::Args)]
pub(crate) struct Replay {
    /// The world's seed
    seed: u64,
}

impl Replay {
    pub(crate) fn run(&self) -> Result<ExitCode> {
        let plan = Plan::of_seed(self.seed);
        let outcome = world::run(&plan, true);
        let mut out = std::io::stdout().lock();
        for line in &outcome.lines {
            writeln!(out, "{line}")?;
        }
        writeln!(out, "seed {} digest {:016x}", self.seed, outcome.digest)?;
        Ok(match outcome.violation {
            None => ExitCode::SUCCESS,
            Some(violation) => {
                writeln!(out, "{violation}")?;
                ExitCode::FAILURE
            }
        })
    }
}
