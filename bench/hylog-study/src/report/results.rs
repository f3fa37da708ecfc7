//! Throughput and further results of an experiment.

use std::collections::BTreeMap;

use anyhow::Result;
use forebay_placement::cost::{greedy_utilisation, write_amplification};
use forebay_report::ReportPage;
use forebay_report::plot::{self, CurveSet, FigureFrame};

use crate::experiment::ExperimentResults;
use crate::run::StudyResult;
use crate::workload::PAGE_BYTES;

pub(super) fn write(page: &mut ReportPage, results: &ExperimentResults) -> Result<()> {
    let experiment = &results.experiment;
    page.heading(&experiment.title);
    page.paragraph(&experiment.about);
    if experiment.places.is_empty() {
        return Ok(());
    }
    let mut header = vec![experiment.axis];
    header.extend(experiment.systems.iter().map(|under| under.name()));
    page.paragraph(
        "Requests a second; in brackets, bytes written to the medium for each that users wrote. With a star: of a log \
         that was not warm yet, for want of time.",
    );
    let mut reasons = FailureReasons::default();
    let rows: Vec<Vec<String>> = (experiment.places.iter().zip(&results.found))
        .map(|(place, found)| {
            let cells = found.iter().map(|found| cell(found, &mut reasons));
            std::iter::once(place.name.clone()).chain(cells).collect()
        })
        .collect();
    page.table(&header, rows);
    reasons.write(page);
    draw(page, results)?;
    if experiment.key.starts_with("even-") {
        cleaning(page, results);
    }
    if experiment.key == "utilisation" {
        longest(page, results);
        said(page, results);
    }
    Ok(())
}

/// Compares the data that the log moved with the model.
fn cleaning(page: &mut ReportPage, results: &ExperimentResults) {
    let experiment = &results.experiment;
    page.paragraph(
        "What `lfs` did. *Density*: how full the segments are that are in use, without those kept free and without \
         headers and summaries. *Moved*: by the cleaner, for each byte that users write; *model*: the same by the model \
         (greedy, for segments of so many pages) at that density. *Worst tenth*: throughput in the worst tenth of \
         the time, as a part of the mean.",
    );
    let header = [
        "utilisation",
        "density",
        "moved",
        "model",
        "checkpoints",
        "worst tenth",
    ];
    let mut rows = Vec::new();
    for (place, found) in experiment.places.iter().zip(&results.found) {
        let logs = found.iter().filter_map(|found| found.as_ref().ok());
        for outcome in logs {
            let (Some(density), counters) = (outcome.density, &outcome.counters) else {
                continue;
            };
            let pages = place.medium.segment_bytes() / PAGE_BYTES;
            let cleaned = greedy_utilisation(density, pages as u32);
            let each = |bytes: u64| format!("{:.2}", bytes as f64 / counters.users.max(1) as f64);
            let worst = outcome.tenths.iter().copied().fold(f64::INFINITY, f64::min);
            rows.push(vec![
                place.name.clone(),
                format!("{density:.3}"),
                each(counters.moved),
                format!("{:.2}", write_amplification(cleaned) - 1.0),
                each(counters.checkpoints),
                format!("{:.2}", worst / outcome.throughput()),
            ]);
        }
    }
    page.table(&header, rows);
}

/// Reasons of missing results, each with a letter.
#[derive(Default)]
struct FailureReasons(BTreeMap<String, usize>);

impl FailureReasons {
    fn letter(&mut self, why: &str) -> String {
        let next = self.0.len();
        let n = *self.0.entry(why.to_owned()).or_insert(next);
        char::from_u32(97 + n as u32).unwrap_or('z').to_string()
    }

    fn write(&self, page: &mut ReportPage) {
        let mut all: Vec<(&usize, &String)> = self.0.iter().map(|(why, n)| (n, why)).collect();
        all.sort();
        let letter = |n: &usize| char::from_u32(97 + *n as u32).unwrap_or('z');
        let texts: Vec<String> = all
            .iter()
            .map(|(n, why)| format!("({}) {why}", letter(n)))
            .collect();
        if !texts.is_empty() {
            page.paragraph(&format!("Not measured: {}.", texts.join("; ")));
        }
    }
}

fn cell(found: &StudyResult, reasons: &mut FailureReasons) -> String {
    match found {
        Err(why) => format!("– ({})", reasons.letter(&kind_of(why))),
        Ok(outcome) => {
            let times = outcome.amplification();
            let times = times.map_or(String::new(), |times| format!(" ({times:.1})"));
            let cold = if outcome.warm { "" } else { "\\*" };
            format!("{:.0}{cold}{times}", outcome.throughput())
        }
    }
}

/// Returns a reason without the details of a single configuration.
fn kind_of(why: &str) -> String {
    if why.contains("No space left") {
        "the engine refuses so much data: it keeps a share of the medium free".into()
    } else {
        // The rest of the text differs between runs.
        why.split(": ").next().unwrap_or(why).to_owned()
    }
}

fn draw(page: &mut ReportPage, results: &ExperimentResults) -> Result<()> {
    let experiment = &results.experiment;
    let places: Vec<String> = (experiment.places.iter())
        .map(|place| place.name.clone())
        .collect();
    let rates = |under| (0..places.len()).map(move |place| results.rate(place, under));
    let curves: Vec<(String, Vec<f64>)> = (experiment.systems.iter())
        .map(|under| (under.name().to_owned(), rates(*under).collect()))
        .filter(|(_, rates): &(String, Vec<f64>)| rates.iter().any(|rate| rate.is_finite()))
        .collect();
    if curves.is_empty() {
        return Ok(());
    }
    let name = format!("{}.svg", experiment.key);
    let frame = FigureFrame {
        title: &experiment.title,
        x: experiment.axis,
        y: "requests a second",
    };
    let lines = CurveSet {
        places: &places,
        logarithmic: false,
        curves: &curves,
    };
    plot::lines(&page.figure(&name), &frame, &lines)?;
    page.show(&experiment.title, &name);
    Ok(())
}

/// Adds the longest request of each system, and its ratio to the mean.
fn longest(page: &mut ReportPage, results: &ExperimentResults) {
    let experiment = &results.experiment;
    page.paragraph("The longest request, in seconds; in brackets, as a multiple of the mean.");
    let mut header = vec![experiment.axis];
    header.extend(experiment.systems.iter().map(|under| under.name()));
    let longest = |found: &StudyResult| match found {
        Err(_) => "–".to_owned(),
        Ok(outcome) => {
            let nanos = outcome.done.read_nanos + outcome.done.write_nanos;
            let mean = nanos as f64 / 1e9 / outcome.done.requests().max(1) as f64;
            format!(
                "{:.2} ({:.0})",
                outcome.longest,
                outcome.longest / mean.max(1e-9)
            )
        }
    };
    let rows = experiment.places.iter().zip(&results.found);
    let rows = rows.map(|(place, found)| {
        let cells = found.iter().map(longest);
        std::iter::once(place.name.clone()).chain(cells).collect()
    });
    page.table(&header, rows.collect::<Vec<Vec<String>>>());
}

/// Adds the hot share over time, for systems that have a hot share.
fn said(page: &mut ReportPage, results: &ExperimentResults) {
    let experiment = &results.experiment;
    page.paragraph("### The hot share over time (slide 20)");
    page.paragraph(
        "The slides: between 35 and 45 % for TPC-C, 20 users, 4 disks, 98 % in use. Here, by the seconds since the \
         disks were empty:",
    );
    let mut any = false;
    for (place, found) in experiment.places.iter().zip(&results.found) {
        for (under, found) in experiment.systems.iter().zip(found) {
            let hot = found
                .as_ref()
                .map_or(&[][..], |outcome| &outcome.hot_shares);
            let every = hot.len().div_ceil(8).max(1);
            let texts: Vec<String> = (hot.iter().step_by(every))
                .map(|(at, share)| format!("{at:.0} s: {:.0} %", 100.0 * share))
                .collect();
            if !texts.is_empty() {
                any = true;
                let (name, texts) = (under.name(), texts.join(", "));
                page.paragraph(&format!("{}, {name}: {texts}.", place.name));
            }
        }
    }
    if !any {
        page.paragraph("Not measured: nothing that was run has a hot share.");
    }
}
