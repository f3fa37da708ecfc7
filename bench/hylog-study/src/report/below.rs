//! The configurations below a target, with their measurements.

use forebay_report::ReportPage;

use super::compared::{AUTO, ComparedPoint, ComparedSystems, HYLOG, WITH_SEPBIT, compared};
use crate::experiment::ExperimentResults;
use crate::run::StudyOutcome;

pub(super) fn write(page: &mut ReportPage, results: &[ExperimentResults]) {
    page.heading("Configurations below a target");
    page.paragraph(
        "The worst come first. *Hot*: the share of the pages that is logged at the end. The next four columns are bytes for \
         each byte that users write: all bytes that the log writes, among them *moved* data and *checkpoints*, and bytes \
         written *in place*. Reads and writes: their mean latencies in ms, and those of the best system. \
         docs/design/study.md gives the reasons.",
    );
    table(page, "HyLog below its target", results, &HYLOG);
    table(
        page,
        "HyLog with SepBIT's classes below HyLog",
        results,
        &WITH_SEPBIT,
    );
    table(page, "`auto` below its target", results, &AUTO);
}

fn table(
    page: &mut ReportPage,
    title: &str,
    results: &[ExperimentResults],
    systems: &ComparedSystems,
) {
    page.paragraph(&format!("### {title}"));
    let all = compared(results, systems);
    let missed = all.iter().filter(|point| point.ratio < systems.target);
    let rows: Vec<Vec<String>> = missed.map(row).collect();
    if rows.is_empty() {
        page.paragraph("None.");
        return;
    }
    let header = [
        "configuration",
        "ratio",
        "best",
        "hot",
        "log",
        "moved",
        "checkpoints",
        "in place",
        "reads",
        "writes",
    ];
    page.table(&header, rows);
}

fn row(point: &ComparedPoint<'_>) -> Vec<String> {
    let (outcome, (best, best_outcome)) = (point.outcome, point.best);
    let counters = &outcome.counters;
    let each = |bytes: u64| format!("{:.2}", bytes as f64 / counters.users.max(1) as f64);
    let hot = outcome.hot_shares.last();
    let latencies = |latency: fn(&StudyOutcome) -> f64| {
        format!("{:.1}, {:.1}", latency(outcome), latency(best_outcome))
    };
    vec![
        point.name.clone(),
        format!("{:.3}", point.ratio),
        best.name().to_owned(),
        hot.map_or("–".to_owned(), |(_, share)| {
            format!("{:.0} %", 100.0 * share)
        }),
        each(counters.log),
        each(counters.moved),
        each(counters.checkpoints),
        each(counters.in_place),
        latencies(read_ms),
        latencies(write_ms),
    ]
}

fn read_ms(outcome: &StudyOutcome) -> f64 {
    outcome.done.read_nanos as f64 / 1e6 / outcome.done.reads.max(1) as f64
}

fn write_ms(outcome: &StudyOutcome) -> f64 {
    outcome.done.write_nanos as f64 / 1e6 / outcome.done.writes.max(1) as f64
}
