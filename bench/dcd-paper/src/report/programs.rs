//! Figures 7 to 9: times of the programs.

use anyhow::Result;
use forebay_report::ReportPage;
use forebay_report::plot::{self, BarGroup, FigureFrame, StackedBar};

use crate::measured::{PaperMeasurements, ProgramRun, RunColumn};
use crate::users::{PHASES, ProgramPhase, who};

/// The paper's figure for each number of users.
const FIGURES: [&str; 3] = ["7", "8", "9"];
/// The paper's speedups; for one program and one number of users the paper has an exact value.
const PAPERS: [&str; 3] = ["3 to 6 ×", "2 to 3 ×", "3 to 6 ×"];
const PAPERS_REMOVE: (u64, &str) = (4, "6.2 ×");
/// Short labels of bars.
const SHORT: [&str; 3] = ["plain", "logical", "physical"];

/// Returns the paper's speedup for a program and a number of users.
pub(super) fn papers(users: u64, program: usize) -> &'static str {
    if PHASES[program] == "remove" && users == PAPERS_REMOVE.0 {
        PAPERS_REMOVE.1
    } else {
        PAPERS[program]
    }
}

pub(super) fn write(page: &mut ReportPage, measured: &PaperMeasurements) -> Result<()> {
    page.heading("Execution times (figures 7 to 9)");
    page.paragraph(
        "Seconds until the last user's program ends, and how many times as fast as the plain disk that is; then \
         the processor's share of it, and the seconds until all that was written is durable. The paper says of \
         its DCD, which is a logical one, 2 to 6 times in all, and gives one figure (4 users, remove: 6.2); of \
         the processor, 3 to 15 % of the time on the plain disk, 16 to 50 % on the DCD. How many users \
         figure 9 has is not in the text at hand. *The paper's own, modelled*: as far as its speed goes, with the \
         lock, and a segment sent to the log when it is full or has waited for 300 ms. The paper says that one that is \
         not full is sent as soon as the one before is there; taken at its word (*each segment at once*) the arm \
         is busy writing segments, mostly empty ones, and copying gains little or nothing, not what the paper \
         measured.",
    );
    for (run, figure) in measured.runs.iter().zip(FIGURES) {
        one(page, run, figure)?;
    }
    Ok(())
}

fn one(page: &mut ReportPage, run: &ProgramRun, figure: &str) -> Result<()> {
    page.paragraph(&format!("### {} (figure {figure})", who(run.users)));
    let mut header = vec!["on"];
    header.extend(PHASES);
    let paper = (0..PHASES.len()).map(|program| papers(run.users, program).to_owned());
    let paper = std::iter::once("**paper, logical DCD**".to_owned()).chain(paper);
    let rows = run.columns.iter().map(|column| row(run, column));
    page.table(&header, rows.chain([paper.collect()]));
    let name = format!("figure-{figure}.svg");
    let title = format!("{} (figure {figure})", who(run.users));
    let frame = FigureFrame {
        title: &title,
        x: "",
        y: "seconds",
    };
    let groups: Vec<BarGroup<'_>> = (0..PHASES.len())
        .map(|program| group(run, program))
        .collect();
    let parts = ["processor", "waiting"];
    plot::bars(&page.figure(&name), &frame, parts, &groups)?;
    page.show(&title, &name);
    Ok(())
}

fn row(run: &ProgramRun, column: &RunColumn) -> Vec<String> {
    let cell = |(program, phase): (usize, &ProgramPhase)| {
        format!(
            "{:.1} s, **{:.1} ×** ({:.0} %; {:.1} s)",
            phase.seconds,
            run.speedup(program, phase.seconds),
            100.0 * phase.processor / phase.seconds,
            phase.durable,
        )
    };
    let mut row = vec![column.name.clone()];
    row.extend(column.phases.iter().enumerate().map(cell));
    row
}

fn group(run: &ProgramRun, program: usize) -> BarGroup<'static> {
    let bar = |(column, name): (&RunColumn, &'static str)| {
        let phase = &column.phases[program];
        StackedBar {
            name,
            parts: [phase.processor, phase.seconds - phase.processor],
            says: format!("{:.1} ×", run.speedup(program, phase.seconds)),
        }
    };
    BarGroup {
        name: format!(
            "{} (paper: {})",
            PHASES[program],
            papers(run.users, program)
        ),
        bars: run.columns.iter().zip(SHORT).map(bar).collect(),
    }
}
