//! The commands that execute scenarios.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use forebay_sim::exhaustive::{self, try_all};
use forebay_sim::explore::{Exploration, ExplorationResult, FoundViolation, SeedRunner, explore};
use forebay_sim::plan::ScenarioPlan;
use forebay_sim::scenario::{self, ScenarioOutcome, ScenarioTally};
use forebay_sim::shrink::shrink;
use forebay_sim::system::TestedSystem;
use forebay_sim::trace::{TraceFormat, TraceRequest};
use forebay_sim_targets::aged::{self, AgedPlan};
use forebay_sim_targets::cache::CacheTarget;
use forebay_sim_targets::files;
use forebay_sim_targets::space::SpaceTarget;

/// The system under test.
#[derive(Clone, Copy, clap::ValueEnum)]
enum SystemUnderTest {
    Cache,
    Space,
    Files,
    Aged,
    /// Aged volumes for a virtual day each
    Days,
}

impl SystemUnderTest {
    /// Returns the scenario of an aged volume.
    fn aged(self, seed: u64) -> AgedPlan {
        match self {
            SystemUnderTest::Days => AgedPlan::of_day(seed),
            _ => AgedPlan::of_seed(seed),
        }
    }
}

/// Arguments of `explore`.
#[derive(clap::Args)]
pub(crate) struct ExploreArgs {
    /// The system under test
    #[arg(long, alias = "subject", value_enum, default_value_t = SystemUnderTest::Cache)]
    system: SystemUnderTest,
    /// The first seed; the others follow. Default, also with `fresh`: a new seed, which is printed
    #[arg(long, env = "FOREBAY_SEED")]
    seed: Option<String>,
    /// Run for this number of seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Maximum number of scenarios
    #[arg(long, alias = "worlds")]
    scenarios: Option<u64>,
    /// End after this number of crash points
    #[arg(long)]
    points: Option<u64>,
    /// Number of threads
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// End after this number of violations
    #[arg(long, default_value_t = 1)]
    violations: u64,
    /// Do not end at violations: collect them, merge similar ones, and list their seeds
    #[arg(long)]
    keep_going: bool,
    /// Try all cuts and faults of scripted runs, instead of random scenarios
    #[arg(long)]
    exhaustive: bool,
    /// Writers replay this recorded trace (.ascii, .disksim, .vscsi or .srt)
    #[arg(long)]
    trace: Option<PathBuf>,
    /// Print the digest of every scenario
    #[arg(long)]
    digests: bool,
}

fn fresh_seed() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    now.as_nanos() as u64 >> 10
}

/// Returns the requested seed, or a new seed.
fn seed(asked: Option<&str>) -> Result<u64> {
    match asked {
        None | Some("fresh") => Ok(fresh_seed()),
        Some(text) => text
            .parse()
            .with_context(|| format!("{text} is neither a seed nor `fresh`")),
    }
}

/// Prints the progress of a long exploration to the standard error at intervals.
struct ExploreProgress {
    began: Instant,
    so_far: Mutex<(ScenarioTally, u64, Instant)>,
}

impl ExploreProgress {
    const EVERY: Duration = Duration::from_secs(30);

    fn new() -> ExploreProgress {
        let began = Instant::now();
        ExploreProgress {
            began,
            so_far: Mutex::new((ScenarioTally::default(), 0, began)),
        }
    }

    fn note(&self, outcome: &ScenarioOutcome) {
        let mut so_far = self.so_far.lock().expect("no panic holds it");
        let (tally, violations, last) = &mut *so_far;
        tally.add(&outcome.tally);
        *violations += u64::from(outcome.violation.is_some());
        if last.elapsed() >= ExploreProgress::EVERY {
            *last = Instant::now();
            eprintln!(
                "after {} s: scenarios {} crash_points {} violations {violations}",
                self.began.elapsed().as_secs(),
                tally.scenarios,
                tally.cycles
            );
        }
    }
}

impl ExploreArgs {
    pub(crate) fn run(&self) -> Result<ExitCode> {
        let seed = seed(self.seed.as_deref())?;
        println!("first seed {seed}");
        match (self.system, self.exhaustive) {
            (SystemUnderTest::Cache, true) => self.exhaust::<CacheTarget>(seed),
            (SystemUnderTest::Cache, false) => self.explore::<CacheTarget>(seed),
            (SystemUnderTest::Space, true) => self.exhaust::<SpaceTarget>(seed),
            (SystemUnderTest::Space, false) => self.explore::<SpaceTarget>(seed),
            (SystemUnderTest::Files, true) => bail!("files: scenarios are only chosen at random"),
            (SystemUnderTest::Files, false) => self.explore_files(seed),
            (SystemUnderTest::Aged | SystemUnderTest::Days, true) => {
                bail!("aged: scenarios are only chosen at random")
            }
            (SystemUnderTest::Aged | SystemUnderTest::Days, false) => self.explore_aged(seed),
        }
    }

    /// Executes one scenario after the other.
    fn explore<S: TestedSystem>(&self, seed: u64) -> Result<ExitCode> {
        let trace = read_trace(self.trace.as_deref())?;
        let planner = |seed| plan::<S>(seed, trace.as_deref());
        let found = self.scenarios(seed, &|seed| scenario::run(&planner(seed), false));
        if let Some(first) = found.first().filter(|_| !self.keep_going) {
            tell(&planner(first.seeds[0]), first.digest);
        }
        Ok(ended(&found))
    }

    fn explore_files(&self, seed: u64) -> Result<ExitCode> {
        if self.trace.is_some() {
            bail!("files: traces are of devices");
        }
        let found = self.scenarios(seed, &|seed| {
            files::run(&files::FilesScenario::of_seed(seed))
        });
        if let Some(first) = found.first().filter(|_| !self.keep_going) {
            println!("{}", files::FilesScenario::of_seed(first.seeds[0]));
        }
        Ok(ended(&found))
    }

    fn explore_aged(&self, seed: u64) -> Result<ExitCode> {
        if self.trace.is_some() {
            bail!("aged: traces are of devices");
        }
        let found = self.scenarios(seed, &|seed| aged::run(&self.system.aged(seed)));
        if let Some(first) = found.first().filter(|_| !self.keep_going) {
            println!("{}", self.system.aged(first.seeds[0]));
        }
        Ok(ended(&found))
    }

    fn scenarios(&self, seed: u64, scenario: SeedRunner<'_>) -> ExplorationResult {
        let what = Exploration {
            scenario,
            seed,
            time: Duration::from_secs(self.seconds),
            scenarios: self.scenarios,
            points: self.points,
            jobs: self.jobs,
            violations: [self.violations, u64::MAX][usize::from(self.keep_going)],
        };
        let progress = ExploreProgress::new();
        let found = explore(&what, &|seed, outcome| {
            if self.digests {
                println!("{seed} {:016x}", outcome.digest);
            }
            progress.note(outcome);
            // A killed run loses the results at the end.
            if let Some(violation) = &outcome.violation {
                eprintln!("seed {seed}: {violation}");
            }
        });
        found.found.values().for_each(list);
        found
    }
}

/// Prints the results, and returns the exit code.
fn ended(found: &ExplorationResult) -> ExitCode {
    println!("{found}");
    if found.found.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Prints a violation, and the seeds of its scenarios.
fn list(found: &FoundViolation) {
    let (seed, digest) = (found.seeds[0], found.digest);
    println!("seed {seed} digest {digest:016x}: {}", found.violation);
    println!("    {} such, of the seeds {:?}", found.count, found.seeds);
}

/// Time limit for making a scenario smaller.
const SHRINK: Duration = Duration::from_secs(30);
/// Maximum number of printed lines of a tape, unless all lines are requested.
const LINES: usize = 60;

fn read_trace(path: Option<&Path>) -> Result<Option<Vec<TraceRequest>>> {
    let Some(path) = path else {
        return Ok(None);
    };
    let name = path.display();
    let format = TraceFormat::of_name(&path.to_string_lossy());
    let format =
        format.with_context(|| format!("{name} is not .ascii, .disksim, .vscsi or .srt"))?;
    let bytes = std::fs::read(path).with_context(|| format!("{name} cannot be read"))?;
    Ok(Some(format.read(&bytes, usize::MAX)?))
}

fn plan<S: TestedSystem>(seed: u64, trace: Option<&[TraceRequest]>) -> ScenarioPlan<S> {
    let plan = S::plan(seed);
    match trace {
        Some(trace) => plan.following(trace),
        None => plan,
    }
}

/// Prints a smaller scenario with the same violation, and its end.
fn tell<S: TestedSystem>(plan: &ScenarioPlan<S>, digest: u64) {
    let smaller = shrink(plan, SHRINK);
    println!("\nthe same in a smaller scenario:\n{smaller}");
    let mut lines = scenario::run(&smaller, true).lines;
    // Of all checks of crash points, only the check that found the violation matters.
    let end = lines.split_off(lines.len().saturating_sub(6));
    lines.retain(|line| {
        !["--- a look", "    as after", "    cut at"]
            .iter()
            .any(|look| line.starts_with(look))
    });
    lines.extend(end);
    let from = lines.len().saturating_sub(LINES);
    lines[from..].iter().for_each(|line| println!("{line}"));
    let seed = plan.seed;
    println!("\nseed {seed}, digest {digest:016x}; all of it: forebay-sim replay {seed}");
}

impl ExploreArgs {
    /// Executes one script after the other, until the time ends or a violation occurs.
    fn exhaust<S: TestedSystem>(&self, seed: u64) -> Result<ExitCode> {
        let began = Instant::now();
        let mut tally = ScenarioTally::default();
        let (mut scripts, mut cases) = (0, 0);
        let mut violations = Vec::new();
        let progress = ExploreProgress::new();
        while began.elapsed() < Duration::from_secs(self.seconds)
            && (violations.is_empty() || self.keep_going)
            && self.points.is_none_or(|points| tally.cycles < points)
        {
            let tried = try_all(
                &exhaustive::cases::<S>(seed.wrapping_add(2 * scripts)),
                self.jobs,
            );
            tally.add(&tried.tally);
            cases += tried.cases;
            scripts += 1;
            violations.extend(tried.violations);
            progress.note(&ScenarioOutcome {
                tally: tried.tally,
                ..ScenarioOutcome::default()
            });
        }
        let mut out = std::io::stdout().lock();
        for (name, outcome) in &violations {
            let from = outcome.lines.len().saturating_sub(LINES);
            for line in &outcome.lines[from..] {
                writeln!(out, "{line}")?;
            }
            writeln!(out, "{name}: {}", outcome.violation.as_ref().expect("one"))?;
        }
        let (scenarios, crash_points, virtual_s) =
            (tally.scenarios, tally.cycles, tally.virtual_time.as_secs());
        writeln!(
            out,
            "scripts {scripts} cases {cases} scenarios {scenarios} crash_points {crash_points} \
             cuts_in_recovery {} faults_injected {} virtual_time_s {virtual_s} violations {}",
            tally.cuts_in_recovery,
            tally.faults,
            violations.len()
        )?;
        Ok(if violations.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}

/// Arguments of `replay`.
#[derive(clap::Args)]
pub(crate) struct ReplayArgs {
    /// The seed of the scenario
    seed: u64,
    /// The system under test
    #[arg(long, alias = "subject", value_enum, default_value_t = SystemUnderTest::Cache)]
    system: SystemUnderTest,
    /// First make the scenario as small as possible while the violation stays
    #[arg(long)]
    shrunk: bool,
    /// Time limit in seconds for making the scenario smaller
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Writers replay this recorded trace (.ascii, .disksim, .vscsi or .srt)
    #[arg(long)]
    trace: Option<PathBuf>,
}

impl ReplayArgs {
    pub(crate) fn run(&self) -> Result<ExitCode> {
        match self.system {
            SystemUnderTest::Cache => self.replay::<CacheTarget>(),
            SystemUnderTest::Space => self.replay::<SpaceTarget>(),
            SystemUnderTest::Files => self.replay_files(),
            SystemUnderTest::Aged | SystemUnderTest::Days => self.replay_aged(),
        }
    }

    fn replay<S: TestedSystem>(&self) -> Result<ExitCode> {
        let trace = read_trace(self.trace.as_deref())?;
        let mut plan = plan::<S>(self.seed, trace.as_deref());
        if self.shrunk {
            plan = shrink(&plan, Duration::from_secs(self.seconds));
        }
        let outcome = scenario::run(&plan, true);
        let mut out = std::io::stdout().lock();
        writeln!(out, "{plan}")?;
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

    fn replay_files(&self) -> Result<ExitCode> {
        if self.shrunk || self.trace.is_some() {
            bail!("files: scenarios cannot be shrunk yet, and traces are of devices");
        }
        let scenario = files::FilesScenario::of_seed(self.seed);
        println!("{scenario}");
        Ok(self.replayed(&files::run_aloud(&scenario)))
    }

    fn replay_aged(&self) -> Result<ExitCode> {
        if self.shrunk || self.trace.is_some() {
            bail!("aged: scenarios cannot be shrunk yet, and traces are of devices");
        }
        let plan = self.system.aged(self.seed);
        println!("{plan}");
        let outcome = aged::run_aloud(&plan);
        outcome.lines.iter().for_each(|line| println!("{line}"));
        Ok(self.replayed(&outcome))
    }

    fn replayed(&self, outcome: &ScenarioOutcome) -> ExitCode {
        println!("seed {} digest {:016x}", self.seed, outcome.digest);
        match &outcome.violation {
            None => ExitCode::SUCCESS,
            Some(violation) => {
                println!("{violation}");
                ExitCode::FAILURE
            }
        }
    }
}
