//! `forebay-bench dfs`: speed of the filesystem, beside other filesystems on images on the same disk.
//!
//! The places are measured alternately, round after round, so that other load of the machine affects all of them.
//! Ratios are computed within a round, and the report shows medians over the rounds.

mod copying;
mod databases;
mod places;
mod report;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_command_output::result_line;
use forebay_file_loads::apps::{App, AppAmount};
use forebay_file_loads::names::{self, SourceTree};
use forebay_file_loads::random::{self, RandomOp};
use forebay_file_loads::{TimeTaken, forget_caches, measured};
use forebay_report::Circumstances;
use forebay_scratch::place::ScratchDir;
use forebay_scratch::stop::{UserStop, stoppable};
use forebay_scratch::system::can_mount;

use crate::args::DfsArgs;
use crate::forebay;

use databases::DatabaseMeasurements;
use places::{BenchPlace, all, need};

/// Operations on names, in this order.
const NAMES: [&str; 8] = [
    "create",
    "stat",
    "unlink",
    "create, fsync each",
    "untar",
    "find",
    "find, nothing cached",
    "rm -r",
];

/// Amount of the measurements.
struct DfsBenchScale {
    rounds: u32,
    /// Bytes of each image, and of the file of small random requests.
    image: u64,
    file: u64,
    threads: &'static [u64],
    lasts: Duration,
    /// Numbers of small files, of small files that are each made durable, and of files of the tree.
    names: [u64; 3],
    apps: AppAmount,
    databases: databases::DatabaseAmount,
}

impl DfsBenchScale {
    fn of(quick: bool) -> DfsBenchScale {
        if quick {
            DfsBenchScale {
                rounds: 1,
                image: 1 << 30,
                file: 256 << 20,
                threads: &[1, 8, 64],
                lasts: Duration::from_millis(300),
                names: [3_000, 100, 1_000],
                apps: AppAmount::Quick,
                databases: databases::DatabaseAmount::of(quick),
            }
        } else {
            DfsBenchScale {
                rounds: 3,
                image: 4 << 30,
                file: 1 << 30,
                threads: &[1, 2, 4, 8, 16, 32, 64],
                lasts: Duration::from_secs(1),
                names: [100_000, 2_000, 20_000],
                apps: AppAmount::Full,
                databases: databases::DatabaseAmount::of(quick),
            }
        }
    }
}

/// One measurement in one place: the count and the time in each round.
type PlaceRounds = Vec<(u64, TimeTaken)>;

/// All measurements, by subject and place.
#[derive(Default)]
struct DfsMeasurements {
    /// By direction (true for writes) and threads.
    random: BTreeMap<(bool, u64), BTreeMap<&'static str, PlaceRounds>>,
    /// By the index in [`NAMES`].
    names: BTreeMap<usize, BTreeMap<&'static str, PlaceRounds>>,
    /// By the index in [`App::ALL`].
    apps: BTreeMap<usize, BTreeMap<&'static str, PlaceRounds>>,
    databases: DatabaseMeasurements,
}

/// Runs `forebay-bench dfs`.
///
/// # Errors
/// If the user is not root, a measurement or a write fails, or a signal came.
pub(crate) fn run(args: DfsArgs, dir: Option<PathBuf>) -> CommandResult {
    let report = stoppable(move |stop| work(&args, dir.as_deref(), &stop))?;
    result_line!("{}", report.display());
    Ok(())
}

fn work(args: &DfsArgs, dir: Option<&Path>, stop: &UserStop) -> CommandResult<PathBuf> {
    can_mount().map_err(CommandFailure::general)?;
    let program = forebay::program(args.places.forebay.as_deref())?;
    let circumstances = Circumstances::begin();
    let scale = DfsBenchScale::of(args.quick);
    let scratch = ScratchDir::new(dir, false, need(scale.image))?;
    let places = all(&program, &scratch, scale.image, scale.file, stop)?;
    let mut measured = DfsMeasurements::default();
    for place in &places.0 {
        if let Some(file) = &place.file {
            random::fill(file, scale.file).map_err(|error| failed(place, "blocks", &error))?;
        }
    }
    for round in 1..=scale.rounds {
        eprintln!(
            "forebay-bench: random requests, round {round} of {}",
            scale.rounds
        );
        random_round(&places.0, &scale, &mut measured, stop)?;
    }
    for place in &places.0 {
        if let (Some(_), Some(file)) = (&place.dir, &place.file) {
            std::fs::remove_file(file).map_err(CommandFailure::io)?;
        }
    }
    for round in 1..=scale.rounds {
        for place in &places.0 {
            let Some(dir) = &place.dir else { continue };
            stop.check()?;
            eprintln!("forebay-bench: names, round {round}, {}", place.name);
            let took = names_round(dir, &scale);
            let took = took.map_err(|error| failed(place, "names", &error))?;
            for (n, one) in took.into_iter().enumerate() {
                let rounds = measured.names.entry(n).or_default();
                rounds.entry(place.name).or_default().push(one);
            }
        }
        for (n, app) in App::ALL.into_iter().enumerate() {
            for place in places.0.iter().filter(|place| place.file.is_some()) {
                let Some(dir) = &place.dir else { continue };
                stop.check()?;
                eprintln!(
                    "forebay-bench: {}, round {round}, {}",
                    app.name(),
                    place.name
                );
                let took = one_app(dir, app, scale.apps);
                let took = took.map_err(|error| failed(place, app.name(), &error))?;
                let rounds = measured.apps.entry(n).or_default();
                rounds.entry(place.name).or_default().push((1, took));
            }
        }
    }
    let (amount, rounds) = (&scale.databases, scale.rounds);
    measured.databases = databases::measure(&scratch, &places.0, amount, rounds, stop)?;
    report::write(&args.places.output, &circumstances, &scale, &measured)
        .map_err(|error| CommandFailure::io(format!("{error:#}")))
}

fn failed(place: &BenchPlace, what: &str, error: &io::Error) -> CommandFailure {
    CommandFailure::io(format!("{}: {what}: {error}", place.name))
}

fn random_round(
    places: &[BenchPlace],
    scale: &DfsBenchScale,
    measured: &mut DfsMeasurements,
    stop: &UserStop,
) -> CommandResult {
    for threads in scale.threads {
        for what in [RandomOp::Write, RandomOp::Read] {
            for place in places {
                let Some(file) = &place.file else { continue };
                stop.check()?;
                let done = random::blocks(file, scale.file, what, *threads, scale.lasts);
                let done = done.map_err(|error| failed(place, "blocks", &error))?;
                let of = measured.random.entry((what == RandomOp::Write, *threads));
                let rounds = of.or_default().entry(place.name).or_default();
                rounds.push((done.blocks, done.took));
            }
        }
    }
    Ok(())
}

/// Measures all of [`NAMES`], in a directory of its own.
fn names_round(dir: &Path, scale: &DfsBenchScale) -> io::Result<Vec<(u64, TimeTaken)>> {
    let dir = dir.join("names");
    std::fs::create_dir(&dir)?;
    let [small, durable, files] = scale.names;
    let (tree, at) = (SourceTree::of(files), dir.join("tree"));
    let mut all = Vec::new();
    let mut step = |count: u64, work: &dyn Fn() -> io::Result<()>| -> io::Result<()> {
        let ((), took) = measured(work)?;
        all.push((count, took));
        // Background writes of one operation must not burden the next operation.
        names::sync(&dir)
    };
    step(small, &|| names::make(&dir, small))?;
    step(small, &|| names::look(&dir, small))?;
    step(small, &|| names::remove(&dir, small))?;
    step(durable, &|| names::make_durable(&dir, durable))?;
    std::fs::create_dir(&at)?;
    step(files, &|| tree.unpack(&at))?;
    step(files, &|| tree.find(&at))?;
    forget_caches();
    step(files, &|| tree.find(&at))?;
    step(files, &|| tree.remove(&at))?;
    std::fs::remove_dir_all(dir)?;
    Ok(all)
}

fn one_app(dir: &Path, app: App, amount: AppAmount) -> io::Result<TimeTaken> {
    let dir = dir.join("application");
    std::fs::create_dir(&dir)?;
    let took = app.run(&dir, amount);
    std::fs::remove_dir_all(&dir)?;
    names::sync(dir.parent().unwrap_or(&dir))?;
    took
}
