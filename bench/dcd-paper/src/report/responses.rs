//! Figures 11 and 12: response times while four users copy.

use anyhow::Result;
use forebay_report::ReportPage;
use forebay_report::plot::{self, FigureFrame};

use crate::measured::{PaperMeasurements, RunColumn};
use crate::response::{ResponseFilter, ResponseTimes};
use crate::users::who;

const COPY: usize = 1;
/// Scales of the figures in ms. A figure uses the first scale that covers nearly all response times. The paper's scales
/// are 25 for its DCD and 500 for the plain disk.
const SCALES_MS: [f64; 5] = [25.0, 50.0, 100.0, 250.0, 500.0];
const NEARLY_ALL: f64 = 0.98;
/// Number of classes in a figure.
const CLASSES: u32 = 50;
/// File names of the figures.
const FILES: [&str; 3] = ["plain", "logical", "physical"];

/// A figure of the paper, with its values for the plain disk and for the DCD.
struct PaperFigure {
    figure: &'static str,
    what: &'static str,
    of: ResponseFilter,
    means: [&'static str; 2],
    within_1_ms: [&'static str; 2],
}

const PAPERS: [PaperFigure; 2] = [
    PaperFigure {
        figure: "11",
        what: "writes",
        of: ResponseFilter::Writes,
        means: ["135.30", "9.59"],
        within_1_ms: ["–", "95 %"],
    },
    PaperFigure {
        figure: "12",
        what: "reads",
        of: ResponseFilter::Reads,
        means: ["42.28", "6.69"],
        within_1_ms: ["very few", "40 %"],
    },
];

pub(super) fn write(page: &mut ReportPage, measured: &PaperMeasurements) -> Result<()> {
    let Some(run) = measured.papers_run() else {
        return Ok(());
    };
    page.heading("Response times (figures 11 and 12)");
    page.paragraph(&format!(
        "Of the filesystem's requests while {} copy, in ms, from the request to its answer. The paper's DCD is \
         a logical one.",
        who(run.users)
    ));
    let header = [
        "requests",
        "mean",
        "median",
        "99 of 100 within",
        "within 1 ms",
    ];
    let columns = &run.columns[..FILES.len()];
    page.table(
        &header,
        PAPERS.iter().flat_map(|papers| rows(papers, columns)),
    );
    page.paragraph(
        "Writes wait for nothing here, where 2 % of the paper's waited for its two buffers. Reads gain little: as \
         soon as its writes take no time, each user reads the next file, so that four reads wait for the arm at \
         any moment, one behind the other. The paper's reads were answered in a sixth of the time, 40 % of them \
         from what the drive had read ahead. Here a file is read in one request where the paper's system may \
         have made several, and the modelled drive reads ahead only while nothing waits.",
    );
    for papers in &PAPERS {
        for (n, column) in columns.iter().enumerate() {
            draw(page, papers, column, n)?;
        }
    }
    Ok(())
}

/// Returns rows with the paper's values and ours.
fn rows(papers: &PaperFigure, columns: &[RunColumn]) -> Vec<Vec<String>> {
    let theirs = ["plain disk", "DCD"]
        .into_iter()
        .enumerate()
        .map(|(n, on)| {
            let [name, mean] = [
                format!("{}, **paper's {on}**", papers.what),
                papers.means[n].into(),
            ];
            let none = || "–".to_owned();
            vec![name, mean, none(), none(), papers.within_1_ms[n].into()]
        });
    let ours = columns.iter().map(|column| {
        let times = ResponseTimes::of(papers.of, &column.phases[COPY].requests);
        vec![
            format!(
                "{}, {} ({} of them)",
                papers.what,
                column.name,
                times.count()
            ),
            format!("{:.2}", times.mean()),
            format!("{:.2}", times.at(0.5)),
            format!("{:.1}", times.at(0.99)),
            format!("{:.0} %", 100.0 * times.within(1.0)),
        ]
    });
    theirs.chain(ours).collect()
}

/// Draws a figure; `n` is the index of the column.
fn draw(page: &mut ReportPage, papers: &PaperFigure, column: &RunColumn, n: usize) -> Result<()> {
    let times = ResponseTimes::of(papers.of, &column.phases[COPY].requests);
    let covers = |most: &f64| times.within(*most) >= NEARLY_ALL;
    let most = SCALES_MS.into_iter().find(covers).unwrap_or(500.0);
    let width = most / f64::from(CLASSES);
    let class = |n: u32| {
        let to = width * f64::from(n + 1);
        // The first class includes times of zero.
        let share = match n {
            0 => times.within(to),
            n => times.share(width * f64::from(n), to),
        };
        100.0 * share
    };
    let percent: Vec<f64> = (0..CLASSES).map(class).collect();
    let paper = match papers.means.get(n) {
        Some(mean) => format!(" (paper: {mean} ms)"),
        None => String::new(),
    };
    let title = format!(
        "Figure {}: {}, {}, mean {:.2} ms{paper}",
        papers.figure,
        papers.what,
        column.name,
        times.mean()
    );
    let frame = FigureFrame {
        title: &title,
        x: "response time, ms",
        y: "% of requests",
    };
    let name = format!("figure-{}-{}.svg", papers.figure, FILES[n]);
    plot::histogram(&page.figure(&name), &frame, width, &percent)?;
    page.show(&title, &name);
    Ok(())
}
