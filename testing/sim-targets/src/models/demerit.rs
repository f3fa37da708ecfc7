//! The difference between a model and its drive.
//!
//! The *demerit* is from Ruemmler and Wilkes, An introduction to disk drive modeling, IEEE Computer, March 1994. The
//! service times of the real drive and of the model are sorted and paired by rank. The demerit is the root of the mean
//! square of the differences. Requests are not compared individually, because a difference of a microsecond at one
//! request changes the rotational position at the next.

mod plot;
mod replay;
mod trace;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use forebay_disk_model::disk::{self, CacheChoice, DiskOp, DiskOptions, DiskSpec, EnabledCaches};

use replay::{GapMeaning, SortedServiceTimes};

/// Arguments of `demerit`.
#[derive(clap::Args)]
pub(crate) struct DemeritArgs {
    /// A model's name, or a file with a drive's table
    model: String,
    /// A measured trace
    trace: PathBuf,
    /// Meaning of the gap in a line: idle time before its request or after it [default: as in the traces of that drive]
    #[arg(long, value_enum)]
    gap: Option<GapMeaning>,
    /// Average over this number of starting phases of the rotation
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    phases: u32,
    /// Complete writes when they are in the drive's cache [default: the setting of the drive]
    #[arg(long, value_enum)]
    write_cache: Option<OnOff>,
    /// Keep read data, and read ahead [default: the setting of the drive]
    #[arg(long, value_enum)]
    read_ahead: Option<OnOff>,
    /// Draw the distributions of the service times into this SVG file
    #[arg(long)]
    plot: Option<PathBuf>,
    /// Write each request with its time on the drive and in the model (first phase) to this file
    #[arg(long)]
    requests: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OnOff {
    On,
    Off,
}

/// The mean of a figure over the starting phases, and its standard deviation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PhaseMean {
    pub(crate) mean: f64,
    pub(crate) spread: f64,
}

impl PhaseMean {
    fn of(values: &[f64]) -> PhaseMean {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let square = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n;
        PhaseMean {
            mean,
            spread: square.sqrt(),
        }
    }
}

/// Result of a comparison, in milliseconds. `None` if the trace has no such requests.
pub(crate) struct DemeritOutcome {
    pub(crate) all: PhaseMean,
    pub(crate) reads: Option<PhaseMean>,
    pub(crate) writes: Option<PhaseMean>,
    pub(crate) mean_real: f64,
    pub(crate) mean_model: PhaseMean,
}

pub(crate) fn run(args: &DemeritArgs) -> Result<()> {
    let spec = find(&args.model)?;
    let trace = trace::load(&args.trace)?;
    trace::check(&trace, &spec)
        .with_context(|| format!("{} does not fit {}", args.trace.display(), spec.name()))?;
    let gap = args.gap.unwrap_or_else(|| GapMeaning::of(&spec));
    let options = DiskOptions {
        caches: caches(args, &spec),
        ..DiskOptions::default()
    };
    let phases = (0..args.phases).map(|k| f64::from(k) / f64::from(args.phases));
    let replayed = |phase| replay::replay(&spec, DiskOptions { phase, ..options }, &trace, gap);
    let runs: Vec<Vec<f64>> = phases.map(replayed).collect();
    let measured: Vec<f64> = trace.iter().map(|r| r.service_us / 1000.0).collect();
    if let Some(path) = &args.requests {
        write(path, &trace::beside(&trace, &measured, &runs[0]))?;
    }
    let real = SortedServiceTimes::new(&trace, &measured);
    let runs: Vec<SortedServiceTimes> = runs
        .iter()
        .map(|ms| SortedServiceTimes::new(&trace, ms))
        .collect();
    let outcome = compare(&real, &runs);
    if let Some(path) = &args.plot {
        let title = format!("{} and its model", spec.name());
        write(path, &plot::draw(&title, &real, &runs[0]))?;
    }
    if args.json {
        println!("{}", json(&outcome, args.phases));
    } else {
        print!("{}", text(&outcome, args.phases));
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Returns the model with this name, or the model in this file.
pub(crate) fn find(model: &str) -> Result<DiskSpec> {
    if let Some(spec) = disk::named(model) {
        return Ok(spec);
    }
    let names: Vec<&str> = disk::names().map(|(name, _)| name).collect();
    ensure!(
        Path::new(model).is_file(),
        "no model and no file is called {model}; the models are {}",
        names.join(", ")
    );
    let text = std::fs::read_to_string(model).with_context(|| format!("cannot read {model}"))?;
    DiskSpec::parse(&text).with_context(|| format!("{model} is not a drive's table"))
}

fn caches(args: &DemeritArgs, spec: &DiskSpec) -> EnabledCaches {
    let own = spec.own_caches();
    let pick = |given: Option<OnOff>, own| given.map_or(own, |s| s == OnOff::On);
    EnabledCaches::Explicit(CacheChoice {
        immediate_report: pick(args.write_cache, own.immediate_report),
        read_ahead: pick(args.read_ahead, own.read_ahead),
    })
}

/// Returns the demerit, averaged over the runs.
pub(crate) fn compare(real: &SortedServiceTimes, runs: &[SortedServiceTimes]) -> DemeritOutcome {
    let figure = |of: &dyn Fn(&SortedServiceTimes) -> Vec<f64>| {
        let real = of(real);
        let each: Vec<f64> = runs.iter().map(|run| demerit(&real, &of(run))).collect();
        (!real.is_empty()).then(|| PhaseMean::of(&each))
    };
    let mean = |times: &SortedServiceTimes| {
        let all = times.all();
        all.iter().sum::<f64>() / all.len() as f64
    };
    DemeritOutcome {
        all: figure(&SortedServiceTimes::all).unwrap_or_default(),
        reads: figure(&|t| t.of(DiskOp::Read)),
        writes: figure(&|t| t.of(DiskOp::Write)),
        mean_real: mean(real),
        mean_model: PhaseMean::of(&runs.iter().map(mean).collect::<Vec<_>>()),
    }
}

/// Returns the root of the mean square of the differences. Both slices are sorted, and paired by rank.
fn demerit(real: &[f64], model: &[f64]) -> f64 {
    assert_eq!(real.len(), model.len(), "the same requests");
    let sum: f64 = real.iter().zip(model).map(|(r, m)| (r - m).powi(2)).sum();
    (sum / real.len() as f64).sqrt()
}

fn text(outcome: &DemeritOutcome, phases: u32) -> String {
    let ms = |f: Option<f64>| f.map_or("n/a".to_string(), |f| format!("{f:.3}"));
    let both = |f: &Option<PhaseMean>| (ms(f.map(|f| f.mean)), ms(f.map(|f| f.spread)));
    let (reads, reads_spread) = both(&outcome.reads);
    let (writes, writes_spread) = both(&outcome.writes);
    format!(
        "demerit_ms {:.3} reads_ms {reads} writes_ms {writes} mean_real_ms {:.3} \
         mean_model_ms {:.3}\n\
         spread_ms {:.3} reads_spread_ms {reads_spread} writes_spread_ms {writes_spread} \
         mean_model_spread_ms {:.3} phases {phases}\n",
        outcome.all.mean,
        outcome.mean_real,
        outcome.mean_model.mean,
        outcome.all.spread,
        outcome.mean_model.spread,
    )
}

fn json(outcome: &DemeritOutcome, phases: u32) -> serde_json::Value {
    let mean = |f: &Option<PhaseMean>| f.map(|f| f.mean);
    let spread = |f: &Option<PhaseMean>| f.map(|f| f.spread);
    serde_json::json!({
        "demerit_ms": outcome.all.mean,
        "reads_ms": mean(&outcome.reads),
        "writes_ms": mean(&outcome.writes),
        "mean_real_ms": outcome.mean_real,
        "mean_model_ms": outcome.mean_model.mean,
        "spread_ms": outcome.all.spread,
        "reads_spread_ms": spread(&outcome.reads),
        "writes_spread_ms": spread(&outcome.writes),
        "mean_model_spread_ms": outcome.mean_model.spread,
        "phases": phases,
    })
}

#[cfg(test)]
mod tests;
