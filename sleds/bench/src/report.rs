//! Formats the results as a page of Markdown, with figures.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::experiments::{ExperimentProgram, PaperExperiment};
use super::files;
use super::measure::RunMeasurement;
use super::plot::{self, FigureCurve, FigureLayout};
use super::stats::{Mean, distribution};

/// The runs on a file of one size.
pub(super) struct SizePoint {
    /// Bytes of the file.
    pub(super) size: u64,
    pub(super) without: Vec<RunMeasurement>,
    pub(super) with: Vec<RunMeasurement>,
}

/// Result of one experiment.
pub(super) struct PaperOutcome {
    pub(super) experiment: &'static PaperExperiment,
    pub(super) points: Vec<SizePoint>,
}

const MIB: f64 = (1 << 20) as f64;

fn mean(runs: &[RunMeasurement], what: impl Fn(&RunMeasurement) -> f64) -> Mean {
    Mean::of(&runs.iter().map(what).collect::<Vec<_>>())
}

impl SizePoint {
    /// Returns the speed-up with SLEDs.
    pub(super) fn speedup(&self) -> f64 {
        mean(&self.without, |run| run.seconds).mean / mean(&self.with, |run| run.seconds).mean
    }

    /// Returns a row of the table.
    fn row(&self, cache: u64) -> String {
        let cell = |runs: &[RunMeasurement], scale: f64, what: &dyn Fn(&RunMeasurement) -> f64| {
            let value = mean(runs, what);
            format!("{:.3} ± {:.3}", value.mean / scale, value.half / scale)
        };
        let seconds = |run: &RunMeasurement| run.seconds;
        let pages = |run: &RunMeasurement| run.pages();
        format!(
            "| {:.0} | {:.2} | {} | {} | {:.2} | {} | {} |",
            self.size as f64 / MIB,
            self.size as f64 / cache as f64,
            cell(&self.without, 1.0, &seconds),
            cell(&self.with, 1.0, &seconds),
            self.speedup(),
            cell(&self.without, 1000.0, &pages),
            cell(&self.with, 1000.0, &pages),
        )
    }
}

/// Writes `report.md` and its figures into a directory.
///
/// # Errors
/// If the files cannot be written.
pub(super) fn write(
    to: &Path,
    preface: &str,
    cache: u64,
    outcomes: &[PaperOutcome],
) -> Result<PathBuf> {
    let mut page = preface.to_owned();
    for outcome in outcomes {
        section(&mut page, to, cache, outcome)?;
    }
    files::report(to, "report.md", &page)
}

fn section(page: &mut String, to: &Path, cache: u64, outcome: &PaperOutcome) -> Result<()> {
    let PaperExperiment {
        title,
        figures,
        paper,
        ..
    } = outcome.experiment;
    writeln!(page, "\n## {title} (figures {figures})\n")?;
    writeln!(page, "The paper: {paper}.")?;
    let best = |a: &&SizePoint, b: &&SizePoint| a.speedup().total_cmp(&b.speedup());
    if let Some(best) = outcome.points.iter().max_by(best) {
        let speedup = best.speedup();
        let less = (1.0 - 1.0 / speedup) * 100.0;
        let at = best.size as f64 / cache as f64;
        writeln!(
            page,
            "Here: at best {speedup:.1} times as fast ({less:.0} % less time), at {at:.2} times the cache.\n"
        )?;
    }
    writeln!(
        page,
        "| MiB | × cache | s without | s with | ratio | 1000 pages without | with |\n\
         |---|---|---|---|---|---|---|"
    )?;
    for point in &outcome.points {
        writeln!(page, "{}", point.row(cache))?;
    }
    writeln!(page)?;
    for (figure, about) in figures_of(to, outcome.experiment, cache, &outcome.points)? {
        writeln!(page, "![{about}]({figure})")?;
    }
    Ok(())
}

/// The figures of an experiment: their files, and their titles.
struct PaperFigures<'a> {
    to: &'a Path,
    experiment: &'a PaperExperiment,
    drawn: Vec<(String, String)>,
}

impl PaperFigures<'_> {
    fn draw(
        &mut self,
        which: &str,
        about: &str,
        frame: &FigureLayout<'_>,
        curves: &[FigureCurve],
    ) -> Result<()> {
        let file = format!("{}-{which}.svg", self.experiment.name);
        plot::draw(&self.to.join(&file), frame, curves)?;
        let about = format!("{}: {about}", self.experiment.title);
        self.drawn.push((file, about));
        Ok(())
    }

    fn over_size<'a>(&self, y: &'a str, level: Option<f64>) -> FigureLayout<'a> {
        FigureLayout {
            title: self.experiment.title,
            x: "file size, MiB",
            y,
            level,
            steps: false,
        }
    }

    /// Draws the distribution of times for a file size at which the cache holds much of the file, but not all.
    fn distribution(&mut self, cache: u64, points: &[SizePoint]) -> Result<()> {
        let distance = |point: &&SizePoint| (point.size as f64 / cache as f64 - 1.5).abs();
        let nearest = |a: &&SizePoint, b: &&SizePoint| distance(a).total_cmp(&distance(b));
        let Some(point) = points.iter().min_by(nearest) else {
            return Ok(());
        };
        let title = format!(
            "{}, {:.0} MiB",
            self.experiment.title,
            point.size as f64 / MIB
        );
        let frame = FigureLayout {
            title: &title,
            x: "time, s",
            y: "share of runs that took at most this",
            level: None,
            steps: true,
        };
        let curves = curves([steps(&point.without), steps(&point.with)]);
        self.draw("cdf", "distribution of the times", &frame, &curves)
    }
}

fn figures_of(
    to: &Path,
    experiment: &PaperExperiment,
    cache: u64,
    points: &[SizePoint],
) -> Result<Vec<(String, String)>> {
    let mut figures = PaperFigures {
        to,
        experiment,
        drawn: Vec::new(),
    };
    let frame = figures.over_size("time, s", None);
    let times = pair(points, |run| run.seconds);
    figures.draw("time", "time against size", &frame, &times)?;
    let frame = figures.over_size("pages read", None);
    let pages = pair(points, RunMeasurement::pages);
    figures.draw("pages", "pages read against size", &frame, &pages)?;
    let ratio = |point: &SizePoint| {
        let size = point.size as f64 / MIB;
        (size, Mean::exactly(point.speedup()))
    };
    let ratios = FigureCurve {
        name: "time without / with SLEDs",
        points: points.iter().map(ratio).collect(),
    };
    let frame = figures.over_size("ratio", Some(1.0));
    figures.draw("ratio", "ratio of the times", &frame, &[ratios])?;
    if experiment.kind == ExperimentProgram::GrepFirst {
        figures.distribution(cache, points)?;
    }
    Ok(figures.drawn)
}

fn pair(points: &[SizePoint], what: fn(&RunMeasurement) -> f64) -> [FigureCurve; 2] {
    let means = |runs: fn(&SizePoint) -> &Vec<RunMeasurement>| {
        let at = |point: &SizePoint| (point.size as f64 / MIB, mean(runs(point), what));
        points.iter().map(at).collect()
    };
    curves([means(|point| &point.without), means(|point| &point.with)])
}

fn curves([without, with]: [Vec<(f64, Mean)>; 2]) -> [FigureCurve; 2] {
    [("without SLEDs", without), ("with SLEDs", with)]
        .map(|(name, points)| FigureCurve { name, points })
}

fn steps(runs: &[RunMeasurement]) -> Vec<(f64, Mean)> {
    let seconds: Vec<f64> = runs.iter().map(|run| run.seconds).collect();
    let point = |(x, mean)| (x, Mean::exactly(mean));
    distribution(&seconds).into_iter().map(point).collect()
}
