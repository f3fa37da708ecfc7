//! Repeats the measurements of the paper's section 5.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};

use super::arguments::{BenchFolders, mebibytes};
use super::cgroup::{CgroupGuard, MachineLimits};
use super::experiments::{EXPERIMENTS, ExperimentCommand, PaperExperiment, SledsMode};
use super::levels::MeasuredTable;
use super::measure::RunMeasurement;
use super::report::{self, PaperOutcome, SizePoint};
use super::{files, measure};

/// Options of the measurement.
#[derive(clap::Args)]
pub(super) struct PaperSettings {
    #[command(flatten)]
    folders: BenchFolders,
    /// Names to measure: wc, grep, grep-first, fits-hist, fits-bin-4, fits-bin-16
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Sizes of files, as multiples of the memory
    #[arg(
        long,
        value_name = "TIMES",
        value_delimiter = ',',
        default_value = "0.5,0.75,1,1.1,1.25,1.5,2,2.5,3,4"
    )]
    sizes: Vec<f64>,
    /// Memory for program and cache, in MiB; 64 or more
    #[arg(long, value_name = "MIB", default_value = "64", value_parser = mebibytes)]
    memory: u64,
    /// Read rate of the disk, in MiB per second
    #[arg(long, value_name = "MIB/S", default_value = "100", value_parser = mebibytes)]
    rate: u64,
    /// Number of measurements of each
    #[arg(long, value_name = "N", default_value = "12", value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
}

/// Measures, and returns the report's path.
///
/// # Errors
/// If a program fails, or the files cannot be made.
pub(super) fn run(settings: &PaperSettings) -> Result<PathBuf> {
    let chosen = chosen(&settings.only)?;
    files::make_folder(&settings.folders.output)?;
    let scratch = files::scratch(&settings.folders.directory)?;
    let limits = MachineLimits {
        memory: settings.memory,
        read_bps: settings.rate,
    };
    let limited = limited(&settings.folders.directory, limits);
    let sleds = measure::this_program()?;
    let levels = MeasuredTable::measure(scratch.path(), &sleds, settings.folders.seed)?;
    let count = chosen.len() * settings.sizes.len() * 2 * (settings.runs as usize + 1);
    let progress = ProgressBar::new(count as u64).with_style(ProgressStyle::with_template(
        "{msg:<40} {wide_bar} {pos}/{len} about {eta} left",
    )?);
    let bench = PaperBench {
        settings,
        sleds,
        levels,
        input: scratch.path().join("input"),
        output: scratch.path().join("output"),
        progress,
    };
    let outcomes = chosen
        .into_iter()
        .map(|experiment| bench.outcome(experiment));
    let outcomes = outcomes.collect::<Result<Vec<_>>>()?;
    bench.progress.finish_and_clear();
    let preface = preface(settings, limited.as_ref())? + &bench.levels.report()?;
    report::write(
        &settings.folders.output,
        &preface,
        settings.memory,
        &outcomes,
    )
}

/// Enters the limits, or reports the restricted meaning of the measurements without limits.
fn limited(directory: &Path, limits: MachineLimits) -> Option<CgroupGuard> {
    CgroupGuard::enter(directory, limits)
        .inspect_err(|error| {
            eprintln!(
                "sleds bench: without limits, since {error:#}: the cache is all memory, so what \
                 follows shows that nothing gets slower, not what is gained (run as root on a disk \
                 to measure that)"
            );
        })
        .ok()
}

fn chosen(only: &[String]) -> Result<Vec<&'static PaperExperiment>> {
    for name in only {
        if !EXPERIMENTS.iter().any(|experiment| experiment.name == name) {
            let names: Vec<_> = EXPERIMENTS
                .iter()
                .map(|experiment| experiment.name)
                .collect();
            bail!(
                "there is no experiment \"{name}\"; there are {}",
                names.join(", ")
            );
        }
    }
    let wanted = |e: &&PaperExperiment| only.is_empty() || only.iter().any(|name| name == e.name);
    Ok(EXPERIMENTS.iter().filter(wanted).collect())
}

/// State shared by all runs.
struct PaperBench<'a> {
    settings: &'a PaperSettings,
    /// Path of this program.
    sleds: PathBuf,
    levels: MeasuredTable,
    /// Input file, and path of an output image.
    input: PathBuf,
    output: PathBuf,
    progress: ProgressBar,
}

impl PaperBench<'_> {
    /// Makes all runs of an experiment.
    fn outcome(&self, experiment: &'static PaperExperiment) -> Result<PaperOutcome> {
        let mut points = Vec::new();
        for times in &self.settings.sizes {
            let bytes = (self.settings.memory as f64 * times) as u64;
            let title = format!("{}, {} MiB", experiment.name, bytes >> 20);
            self.progress.set_message(title);
            points.push(self.point(experiment, bytes)?);
        }
        Ok(PaperOutcome { experiment, points })
    }

    /// Makes all runs on a file of one size.
    fn point(&self, experiment: &PaperExperiment, size: u64) -> Result<SizePoint> {
        let seed = self.settings.folders.seed;
        if experiment.kind.reads_an_image() {
            files::image(&self.input, size, seed)?;
        } else {
            files::text(&self.input, size, seed)?;
        }
        let (without, plain) = self.runs(experiment, SledsMode::Without)?;
        let (with, ours) = self.runs(experiment, SledsMode::With)?;
        fs::remove_file(&self.input)?;
        ensure!(
            plain == ours,
            "{}: the results differ at {size} bytes",
            experiment.name
        );
        Ok(SizePoint {
            size,
            without,
            with,
        })
    }

    /// Makes the runs of one way, and returns numbers for the output of the last run. The runs follow each other, so
    /// that each finds the cache in the state that the previous run left. The first run, which found another state, is
    /// not counted (section 5.1).
    fn runs(
        &self,
        experiment: &PaperExperiment,
        way: SledsMode,
    ) -> Result<(Vec<RunMeasurement>, OutputDigests)> {
        let said = tempfile::tempfile().context("cannot make a temporary file")?;
        // The measurement is about reading. In other locales GNU's `wc` decodes every character slowly.
        let env = [
            ("LC_ALL", OsStr::new("C")),
            (sleds::format::TABLE_VARIABLE, self.levels.path.as_os_str()),
        ];
        let mut runs = Vec::new();
        for n in 0..=self.settings.runs as usize {
            let (sleds, kind) = (&self.sleds, experiment.kind);
            let ExperimentCommand { program, args } =
                kind.words(way, sleds, &self.input, &self.output, n);
            let run = measure::run(&program, &args, &env, &said)?;
            if n > 0 {
                runs.push(run);
            }
            self.progress.inc(1);
        }
        let printed = measure::printed(&said)?;
        let mut written = None;
        if self.output.exists() {
            written = Some(measure::digest(&File::open(&self.output)?)?);
            fs::remove_file(&self.output)?;
        }
        Ok((runs, (printed, written)))
    }
}

/// Digests of a program's output, and of the image that it wrote.
type OutputDigests = (u64, Option<u64>);

fn preface(settings: &PaperSettings, limited: Option<&CgroupGuard>) -> Result<String> {
    let mut text = String::from("# The measurements of the paper, again\n\n");
    writeln!(
        text,
        "*Latency Management in Storage Systems* (OSDI 2000), section 5, repeated by `sleds bench \
         paper`. \"Without\" is the system's own `wc` and `grep`, and `sleds fits --plan linear`; \
         \"with\" is `sleds`. Each value is the mean of {} runs with a warm cache, after one that \
         does not count, with its 90 % confidence interval, \
         in the C locale. Both ways gave the same results in every \
         case.\n",
        settings.runs
    )?;
    match limited {
        Some(limited) => writeln!(
            text,
            "Memory (cache and program): {} MiB. Disk {}: limited to {:.0} MiB/s of reads.",
            settings.memory >> 20,
            limited.disk,
            settings.rate as f64 / f64::from(1 << 20)
        )?,
        None => writeln!(
            text,
            "**Memory and disk were not limited**: all files fit into the cache, and nothing can be \
             gained; the figures show what SLEDs cost where they cannot help. \"Cache\" below is \
             {} MiB.",
            settings.memory >> 20
        )?,
    }
    text += &measure::machine();
    Ok(text)
}
