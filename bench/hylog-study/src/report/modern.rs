//! Write amplification on modern devices, and published figures.

use forebay_report::ReportPage;

use crate::experiment::{ExperimentPoint, ExperimentResults, WorkloadSpec};
use crate::oracle::{self, OracleShape};
use crate::plan::modern::{FLASH, PUBLISHED, ZONES};
use crate::run::StudyOutcome;
use crate::workload::{Skew, SyntheticWorkload};

/// Adds the tables of an experiment, if any.
pub(super) fn write(page: &mut ReportPage, results: &ExperimentResults) {
    match results.experiment.key {
        "raid" => rows_of_parity(page, results),
        ZONES => zones(page, results),
        FLASH => flash(page, results),
        PUBLISHED => published(page, results),
        _ => {}
    }
}

/// Returns all measured outcomes, with the names of point and system.
fn measured(results: &ExperimentResults) -> Vec<(&str, &str, &StudyOutcome)> {
    let mut all = Vec::new();
    let experiment = &results.experiment;
    for (place, found) in experiment.places.iter().zip(&results.found) {
        for (under, found) in experiment.systems.iter().zip(found) {
            if let Ok(outcome) = found {
                all.push((place.name.as_str(), under.name(), outcome));
            }
        }
    }
    all
}

/// Formats a ratio with two decimals. Without a divisor, the text is a dash.
fn ratio(part: u64, whole: u64) -> String {
    match whole {
        0 => "–".into(),
        whole => format!("{:.2}", part as f64 / whole as f64),
    }
}

/// Adds a table with a row for each measured outcome that has cells.
fn table(
    page: &mut ReportPage,
    results: &ExperimentResults,
    header: &[&str],
    cells: impl Fn(&StudyOutcome) -> Option<Vec<String>>,
) {
    let mut names = vec![results.experiment.axis, "system"];
    names.extend(header);
    let row = |(place, system, outcome): (&str, &str, &StudyOutcome)| {
        let mut row = vec![place.to_owned(), system.to_owned()];
        row.extend(cells(outcome)?);
        Some(row)
    };
    let rows: Vec<Vec<String>> = measured(results).into_iter().filter_map(row).collect();
    if !rows.is_empty() {
        page.table(&names, rows);
    }
}

fn rows_of_parity(page: &mut ReportPage, results: &ExperimentResults) {
    page.paragraph(
        "Of the data that reached the array with parity, the part that was written in whole rows, for which nothing is read. \
         A segment is as long as the array's rows allow, and begins with a row; what is not whole are the ends of \
         records that were sent before a row was full.",
    );
    table(page, results, &["whole rows"], |outcome| {
        let below = &outcome.counters.below;
        let data = below.row + below.part;
        (data > 0).then(|| vec![format!("{:.0} %", 100.0 * below.row as f64 / data as f64)])
    });
}

fn zones(page: &mut ReportPage, results: &ExperimentResults) {
    page.paragraph(
        "What the zones counted. *Refused*: writes against their order. *Partly written*: the most zones that were neither \
         empty nor full at one time, beside which a drive's limit on open zones is to be held.",
    );
    let header = ["resets", "refused", "partly written"];
    table(page, results, &header, |outcome| {
        let below = &outcome.counters.below;
        let counts = [below.resets, below.refused, below.partly_written_max];
        (below.partly_written_max > 0).then(|| counts.map(|count| count.to_string()).into())
    });
}

fn flash(page: &mut ReportPage, results: &ExperimentResults) {
    page.paragraph(
        "Write amplification. *Log*: written by the log for each byte that users wrote. *Drive*: programmed by the chips for each byte \
         that was written to the drive. *Total*: programmed for each byte that users wrote. *Collected*: the part of what was \
         programmed that the drive's collection moved.",
    );
    let header = ["log", "drive", "total", "collected"];
    table(page, results, &header, |outcome| {
        let (counters, below) = (&outcome.counters, &outcome.counters.below);
        let log = counters.medium();
        Some(vec![
            ratio(log, counters.users),
            ratio(below.programmed, below.host),
            ratio(below.programmed, counters.users),
            ratio(below.moved, below.programmed),
        ])
    });
}

/// Published figures, each as system, traces and settings, figure, and source.
const PUBLISHED_FIGURES: [[&str; 4]; 4] = [
    [
        "MiDAS (Oh et al., FAST 2024)",
        "fio, Zipf 1.0: 8 GB in 2048 segments of 4 MiB, written 28 times over; simulation",
        "2.30",
        "example run in the README of github.com/sungkyun123/MiDAS-Simulation",
    ],
    [
        "MiDAS",
        "a drive of 8 GB filled by the same workload; the prototype's code, in memory",
        "2.52",
        "example run in the README of github.com/dgist-datalab/MiDAS",
    ],
    [
        "MiDAS",
        "simulations and an SSD prototype, workloads of its paper",
        "25 % less than the techniques that it is compared with",
        "abstract",
    ],
    [
        "SepBIT (Wang et al., FAST 2022)",
        "volumes of Alibaba Cloud and Tencent Cloud",
        "less than the techniques that it is compared with; the abstract has no figure",
        "abstract",
    ],
];

/// Number of times that the data is overwritten in the simulation of pages without an engine.
const TIMES: usize = 8;

fn published(page: &mut ReportPage, results: &ExperimentResults) {
    page.paragraph(
        "*Density*: how full the segments in use are, without those kept free and without headers and summaries: the \
         utilisation that cleaning has to do with. *Moved*: by the cleaner, for each byte that users write. *Checkpoints*: \
         written by those.",
    );
    let header = ["density", "moved", "checkpoints"];
    table(page, results, &header, |outcome| {
        let counters = &outcome.counters;
        Some(vec![
            format!("{:.3}", outcome.density?),
            ratio(counters.moved, counters.users),
            ratio(counters.checkpoints, counters.users),
        ])
    });
    page.paragraph(
        "What others published. Only the first two have a workload that is near one of ours, the row of Zipf 1.0. Even those \
         should not be compared by number: they are lower than what the oracle needs below, so fio's writes must be \
         more skewed (fio refuses an exponent of exactly 1).",
    );
    let rows = PUBLISHED_FIGURES.map(|row| row.map(str::to_owned).to_vec());
    page.table(&["system", "on", "found", "source"], rows.to_vec());
    for place in &results.experiment.places {
        if let WorkloadSpec::Drawn(skew, reads) = place.what {
            pages_alone(page, place, skew, reads);
        }
    }
}

/// Adds a point's write amplification in a simulation of pages without an engine, as in papers on placement.
fn pages_alone(page: &mut ReportPage, place: &ExperimentPoint, skew: Skew, reads: u64) {
    let (medium, utilisation) = (&place.medium, place.utilisation);
    let found = [false, true].map(|knows| {
        let shape = OracleShape::new(medium.segments as u32, medium.segment_bytes(), knows);
        let data = oracle::data(&shape, utilisation);
        let mut workload = SyntheticWorkload::new(skew, data, reads, 1);
        let written = oracle::writes(&mut workload, TIMES * data as usize);
        oracle::amplification(shape, data, &written)
    });
    let [log, limit] = found.map(|found| format!("{found:.2}"));
    page.paragraph(&format!(
        "{} in a simulation of pages without an engine (the limit below says how): {log} with one log for users and one for \
         what is moved, and {limit} for the oracle.",
        place.name
    ));
}
