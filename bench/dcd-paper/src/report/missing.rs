//! The part of the maximum that a logical DCD does not reach, and the reasons.

use anyhow::Result;
use forebay_report::ReportPage;
use forebay_report::plot::{self, CurveSet, FigureFrame};

use crate::arm::RequestTotals;
use crate::measured::{DELAYS_MS, PaperMeasurements, ProgramRun};
use crate::users::{PHASES, ProgramPhase, who};

/// Users and programs (copy and remove) for which a curve is drawn.
const DRAWN: [(u64, usize); 4] = [(1, 1), (1, 2), (4, 1), (4, 2)];
/// Delays for which the activity of the disk is shown.
const SHOWN_MS: [u64; 2] = [50, 500];

/// Adds the activity of the disk of a logical DCD.
pub(super) fn arm(page: &mut ReportPage, measured: &PaperMeasurements) {
    page.paragraph("### Where the rest goes");
    page.paragraph(
        "A logical DCD has one arm. Each write to the log takes it away from who reads: for the ways to the log \
         and back, for a part of a turn, and with it what the drive was reading ahead. What was written goes to the \
         log as a whole when the first of it has waited for as long as it may (`--max-delay`), or when it is 256 KiB; so \
         the fewer such writes there are, the longer it may wait: 500 ms by itself here, where a log on a disk of \
         its own has 50 ms. Above 70 % of the log in use, destaging does not \
         wait for users to be idle. What the disk did while a program ran on a logical DCD, in seconds without \
         waiting for each other, and in how many requests of how much together:",
    );
    let header = [
        "users, program",
        "writes may wait",
        "until done",
        "with free writes",
        "reads at home",
        "reads from the log",
        "writes to the log",
        "writes home",
    ];
    let rows = measured.programs().flat_map(|(run, program)| {
        let shown = DELAYS_MS.iter().zip(&run.delays);
        let shown = shown.filter(|(ms, _)| SHOWN_MS.contains(*ms));
        shown.map(move |(ms, phases)| arm_row(run, program, *ms, &phases[program]))
    });
    page.table(&header, rows);
}

fn arm_row(run: &ProgramRun, program: usize, ms: u64, phase: &ProgramPhase) -> Vec<String> {
    let spent = &phase.spent;
    let part = |part: &RequestTotals| {
        let megabytes = part.bytes as f64 / 1e6;
        format!("{:.1} ({}, {megabytes:.1} MB)", part.seconds, part.requests)
    };
    let mut row = vec![
        format!("{}, {}", who(run.users), PHASES[program]),
        format!("{ms} ms"),
        format!("{:.1}", phase.seconds),
        format!("{:.1}", run.least(program)),
    ];
    let parts = [
        &spent.reads,
        &spent.log_reads,
        &spent.log_writes,
        &spent.writes,
    ];
    row.extend(parts.map(part));
    row
}

/// Adds the gain of longer delays of writes.
pub(super) fn delays(page: &mut ReportPage, measured: &PaperMeasurements) -> Result<()> {
    page.paragraph("### How long writes may wait");
    page.paragraph(
        "The share of the maximum (writes free) that a logical DCD reaches with each `--max-delay`. The paper's \
         driver kept writes for up to some hundreds of milliseconds. What no delay gives back is mostly the way of the \
         data itself to the log, over the same arm; with 16 users, whose data the log does not hold, that of destaging, \
         too.",
    );
    let mut header = vec!["users, program".to_owned()];
    header.extend(DELAYS_MS.map(|ms| format!("{ms} ms")));
    let rows = measured.programs().map(|(run, program)| {
        let shares = shares(run, program).into_iter();
        let mut row = vec![format!("{}, {}", who(run.users), PHASES[program])];
        row.extend(shares.map(|share| format!("{share:.0} %")));
        row
    });
    page.table(&header, rows);
    draw_delays(page, measured)
}

/// Returns the percentage of the maximum, for each of [`DELAYS_MS`].
fn shares(run: &ProgramRun, program: usize) -> Vec<f64> {
    let share = |phases: &[ProgramPhase; 3]| 100.0 * run.least(program) / phases[program].seconds;
    run.delays.iter().map(share).collect()
}

fn draw_delays(page: &mut ReportPage, measured: &PaperMeasurements) -> Result<()> {
    let title = "Shares of the maximum by how long writes may wait";
    let few = measured.programs();
    let few = few.filter(|(run, program)| DRAWN.contains(&(run.users, *program)));
    let curves: Vec<(String, Vec<f64>)> = few
        .map(|(run, program)| {
            let name = format!("{}, {}", who(run.users), PHASES[program]);
            (name, shares(run, program))
        })
        .collect();
    let curves = CurveSet {
        places: &DELAYS_MS.map(|ms| ms.to_string()),
        logarithmic: false,
        curves: &curves,
    };
    let frame = FigureFrame {
        title,
        x: "longest time that a write waits in memory, ms",
        y: "% of the maximum (writes free)",
    };
    plot::lines(&page.figure("delay.svg"), &frame, &curves)?;
    page.show(title, "delay.svg");
    Ok(())
}
