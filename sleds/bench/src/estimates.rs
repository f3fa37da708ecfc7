//! Measures the accuracy of estimated delivery times: compares each estimate with the time of the following read.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use forebay_rng::Rng;
use rustix::fs::{Advice, fadvise};
use sleds::{FileReader, ReadOptions, ReadPlan, delivery_time, describe, level_of};

use super::arguments::{BenchFolders, MIB, mebibytes, seconds};
use super::cgroup::{CgroupGuard, MachineLimits, UNLIMITED};
use super::files;
use super::stats::Median;
use super::{levels, measure};
use sleds_common::signals;

/// Time for which the disk is kept busy before a measurement. A control group lets an idle disk run without a limit for
/// a moment, which the simulated disk would not.
const CREDIT: Duration = Duration::from_millis(200);

/// Options of the measurement.
#[derive(clap::Args)]
pub(super) struct EstimateSettings {
    #[command(flatten)]
    folders: BenchFolders,
    /// Memory for program and cache, in MiB
    #[arg(long, value_name = "MIB", default_value = "64", value_parser = mebibytes)]
    memory: u64,
    /// Read rates of the disk, in MiB per second; 0 for no limit
    #[arg(
        long,
        value_name = "MIB/S",
        value_delimiter = ',',
        default_value = "20,50,100,200,0"
    )]
    rates: Vec<u64>,
    /// Sizes of files, as multiples of the memory
    #[arg(
        long,
        value_name = "TIMES",
        value_delimiter = ',',
        default_value = "0.5,1.5"
    )]
    sizes: Vec<f64>,
    /// Number of estimates and measurements of each; the medians are reported
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..1000))]
    runs: u32,
    /// Time to wait after a file was written, for a cache that continues to write
    #[arg(long, value_name = "SECONDS", default_value = "0", value_parser = seconds)]
    settle: Duration,
    /// Measure in this process, and print lines for the parent process
    #[arg(long, hide = true)]
    pub(super) inside: bool,
}

/// Cached part of a file before the read.
#[derive(Clone, Copy, Debug)]
enum CachedPortion {
    Nothing,
    /// As much of the end of the file as fits.
    Tail,
    /// Every second MiB, as far as it fits.
    Mixed,
    Everything,
}

const STATES: [(CachedPortion, &str); 4] = [
    (CachedPortion::Nothing, "nothing"),
    (CachedPortion::Tail, "the end"),
    (CachedPortion::Mixed, "every second MiB"),
    (CachedPortion::Everything, "everything"),
];

/// An estimate and the measured time.
struct MeasuredEstimate {
    words: String,
    /// Low, median, high, measured: seconds.
    seconds: [f64; 4],
}

impl MeasuredEstimate {
    fn error(&self) -> f64 {
        let [_, median, _, measured] = self.seconds;
        (median / measured - 1.0).abs()
    }
}

/// Measures at each rate, in a separate process with a separate table. Returns the report's path.
///
/// # Errors
/// If files cannot be made, or the disk cannot be measured.
pub(super) fn run(settings: &EstimateSettings) -> Result<PathBuf> {
    files::make_folder(&settings.folders.output)?;
    let mut lines = Vec::new();
    for rate in &settings.rates {
        lines.append(&mut measured_at(*rate, settings)?);
    }
    let text = report(settings, &lines)?;
    files::report(&settings.folders.output, "estimates.md", &text)
}

/// Starts a process that measures at one rate.
fn measured_at(rate: u64, settings: &EstimateSettings) -> Result<Vec<MeasuredEstimate>> {
    let scratch = files::scratch(&settings.folders.directory)?;
    let sizes: Vec<_> = settings.sizes.iter().map(f64::to_string).collect();
    let mut printed = tempfile::tempfile().context("cannot make a temporary file")?;
    let table = scratch.path().join("table.toml");
    let mut command = measure::command(&measure::this_program()?);
    command
        .args(["bench", "estimates", "--inside", "--dir"])
        .arg(scratch.path())
        .arg(format!("--memory={}", settings.memory / MIB))
        .arg(format!("--rates={rate}"))
        .arg(format!("--sizes={}", sizes.join(",")))
        .arg(format!("--runs={}", settings.runs))
        .arg(format!("--settle={}", settings.settle.as_secs()))
        .arg(format!("--seed={}", settings.folders.seed))
        .env(sleds::format::TABLE_VARIABLE, table)
        .stdout(printed.try_clone()?);
    let (status, _, ()) = measure::watched(command, |_| Ok(()))?;
    ensure!(status.success(), "at {rate} MiB/s: {status}");
    printed.rewind()?;
    io::read_to_string(printed)?.lines().map(parse).collect()
}

fn parse(line: &str) -> Result<MeasuredEstimate> {
    let mut fields = line.split('\t');
    let words = fields.next().unwrap_or("").to_owned();
    let seconds: Result<Vec<f64>, _> = fields.map(str::parse).collect();
    let Ok(seconds) = seconds?.try_into() else {
        bail!("not a measurement: {line}");
    };
    Ok(MeasuredEstimate { words, seconds })
}

fn report(settings: &EstimateSettings, lines: &[MeasuredEstimate]) -> Result<String> {
    let mut text = String::from("# Estimated delivery times beside measured ones\n\n");
    let mut errors: Vec<f64> = lines.iter().map(MeasuredEstimate::error).collect();
    errors.sort_by(f64::total_cmp);
    let median = errors
        .get(errors.len() / 2)
        .context("nothing was measured")?;
    writeln!(
        text,
        "Memory for program and cache: {} MiB; {} estimates. **Median error: {:.0} %.** Within 25 %: \
         {}.\n",
        settings.memory / MIB,
        lines.len(),
        median * 100.0,
        errors.iter().filter(|error| **error <= 0.25).count(),
    )?;
    text += "| disk, file, cached before, plan | estimate (range), s | measured, s | ratio |\n";
    text += "|---|---:|---:|---:|\n";
    for line in lines {
        let [low, median, high, measured] = line.seconds;
        writeln!(
            text,
            "| {} | {median:.3} ({low:.3} to {high:.3}) | {measured:.3} | {:.2} |",
            line.words,
            median / measured
        )?;
    }
    Ok(text)
}

/// Measures at one rate, in this process, and prints a line for each estimate.
///
/// # Errors
/// As for [`run`].
pub(super) fn inside(settings: &EstimateSettings) -> Result<()> {
    let rate = *settings.rates.first().context("no rate")?;
    let scratch = &settings.folders.directory;
    let _limited = limited(settings, rate)?;
    let calibration = scratch.join("calibration");
    files::text(&calibration, settings.memory, settings.folders.seed)?;
    thread::sleep(settings.settle);
    let sleds = measure::this_program()?;
    levels::calibrate(&sleds, &calibration, &sleds::format::path_to_write())?;
    let inside = RateMeasurement {
        settings,
        rate,
        busy: (rate > 0).then(|| File::open(&calibration)).transpose()?,
    };
    for (n, times) in settings.sizes.iter().enumerate() {
        let bytes = (settings.memory as f64 * times) as u64;
        let path = scratch.join("input");
        files::text(&path, bytes, settings.folders.seed + n as u64)?;
        thread::sleep(settings.settle);
        inside.file(&path, bytes)?;
        fs::remove_file(&path)?;
    }
    Ok(())
}

/// Limits this process; `None` if that is not possible and the disk need not be limited.
fn limited(settings: &EstimateSettings, rate: u64) -> Result<Option<CgroupGuard>> {
    let limits = MachineLimits {
        memory: settings.memory,
        read_bps: match rate {
            0 => UNLIMITED,
            rate => rate * MIB,
        },
    };
    let limited = CgroupGuard::enter(&settings.folders.directory, limits);
    if let Err(error) = &limited {
        ensure!(rate == 0, "cannot limit the disk: {error:#}");
        eprintln!("sleds bench: memory is not limited, since {error:#}");
    }
    Ok(limited.ok())
}

/// Parameters of a measurement at one rate.
struct RateMeasurement<'a> {
    settings: &'a EstimateSettings,
    /// MiB per second; 0 for no limit.
    rate: u64,
    /// File whose reads keep a slow disk busy.
    busy: Option<File>,
}

impl RateMeasurement<'_> {
    /// Prints a line for each state and plan of one file.
    fn file(&self, path: &Path, bytes: u64) -> Result<()> {
        let (disk, _) = level_of(&File::open(path)?)?;
        let speed = match self.rate {
            0 => "not limited".to_owned(),
            rate => format!("{rate} MiB/s"),
        };
        let size = bytes / MIB;
        for (state, name) in STATES {
            // A file that does not fit would not stay cached after the read.
            if matches!(state, CachedPortion::Everything) && bytes * 4 > self.settings.memory * 3 {
                continue;
            }
            for (plan, plan_name) in [(ReadPlan::Linear, "linear"), (ReadPlan::Best, "best")] {
                let runs =
                    (0..self.settings.runs.max(1)).map(|_| self.once(path, bytes, state, plan));
                let [low, median, high, measured] = medians(&runs.collect::<Result<Vec<_>>>()?);
                println!(
                    "{disk}, {speed}, {size} MiB, {name}, {plan_name}\t{low}\t{median}\t{high}\t{measured}"
                );
            }
        }
        Ok(())
    }

    fn once(
        &self,
        path: &Path,
        bytes: u64,
        state: CachedPortion,
        plan: ReadPlan,
    ) -> Result<[f64; 4]> {
        signals::told_to_end()?;
        let file = prepare(path, bytes, self.settings, state)?;
        self.busy.as_ref().map_or(Ok(()), spend_credit)?;
        measure(&file, bytes, plan)
    }
}

/// Returns the medians of each of the four numbers.
fn medians(runs: &[[f64; 4]]) -> [f64; 4] {
    std::array::from_fn(|nth| {
        let values: Vec<f64> = runs.iter().map(|run| run[nth]).collect();
        Median::of(&values).median
    })
}

/// Reads from the disk, past the page cache, whose content must not change.
fn spend_credit(mut file: &File) -> Result<()> {
    // Too short to change the table's observations.
    const BYTES: u64 = 2 * MIB;
    let begun = Instant::now();
    let mut at = 0;
    while begun.elapsed() < CREDIT {
        file.seek(SeekFrom::Start(at))?;
        let options = ReadOptions {
            plan: ReadPlan::Best,
            ..ReadOptions::default()
        };
        let mut reader = FileReader::before(file, at + BYTES, options)?;
        while reader.next_piece()?.is_some() {}
        at = (at + BYTES) % (file.metadata()?.len() / BYTES * BYTES).max(BYTES);
    }
    Ok(())
}

/// Estimates and reads. Returns low, median, high and measured seconds.
fn measure(file: &File, bytes: u64, plan: ReadPlan) -> Result<[f64; 4]> {
    let estimate = delivery_time(&describe(file)?, plan)
        .known()
        .context("nothing is known of a part of the file")?;
    let options = ReadOptions {
        plan,
        ..ReadOptions::default()
    };
    let begun = Instant::now();
    let mut reader = FileReader::new(file, options)?;
    let mut read = 0;
    while let Some(piece) = reader.next_piece()? {
        read += piece.data.len() as u64;
    }
    let measured = begun.elapsed().as_secs_f64();
    ensure!(read == bytes, "read {read} bytes of {bytes}");
    Ok([estimate.low, estimate.median, estimate.high, measured])
}

/// Brings the cache into a state, and returns the file, opened again.
fn prepare(
    path: &Path,
    bytes: u64,
    settings: &EstimateSettings,
    state: CachedPortion,
) -> Result<File> {
    let file = File::open(path)?;
    fadvise(&file, 0, None, Advice::DontNeed)?;
    let mib = bytes / MIB;
    let room = (bytes / 2).min(settings.memory * 2 / 5) / MIB;
    match state {
        CachedPortion::Nothing => {}
        // To the end, like any program that reads to the end.
        CachedPortion::Tail => files::read_part(&file, (mib - room) * MIB, bytes)?,
        CachedPortion::Everything => files::read_part(&file, 0, bytes)?,
        CachedPortion::Mixed => {
            // Read-ahead would cache more than requested.
            fadvise(&file, 0, None, Advice::Random)?;
            let first = Rng::new(settings.folders.seed).below(2);
            for n in 0..room {
                let at = (first + n * 2) * MIB;
                files::read_part(&file, at, at + MIB)?;
            }
        }
    }
    // The advice about reading belongs to the open file.
    File::open(path).map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_every_number_is_used() {
        let runs = [
            [1.0, 9.0, 5.0, 2.0],
            [3.0, 7.0, 5.0, 9.0],
            [2.0, 8.0, 6.0, 1.0],
        ];
        assert_eq!(medians(&runs), [2.0, 8.0, 5.0, 2.0]);
    }

    #[test]
    fn the_report_gives_the_median_of_the_errors() {
        let settings = EstimateSettings {
            folders: BenchFolders::default(),
            memory: 64 * MIB,
            rates: vec![100],
            sizes: vec![1.0],
            runs: 1,
            settle: Duration::ZERO,
            inside: false,
        };
        let lines =
            ["a\t1\t2\t3\t2", "b\t1\t3\t4\t2", "c\t1\t1.8\t4\t2"].map(|l| parse(l).unwrap());
        let text = report(&settings, &lines).unwrap();
        assert!(
            text.contains("**Median error: 10 %.** Within 25 %: 2."),
            "{text}"
        );
        assert!(
            text.contains("| b | 3.000 (1.000 to 4.000) | 2.000 | 1.50 |"),
            "{text}"
        );
    }
}
