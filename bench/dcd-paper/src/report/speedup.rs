//! The maximum possible speedup.

use anyhow::Result;
use forebay_report::ReportPage;

use super::{missing, programs};
use crate::bandwidth::{BandwidthCurve, SEGMENT_KIB};
use crate::measured::{PaperMeasurements, ProgramRun, RunColumn};
use crate::speedup::{SpeedupEstimate, WriteMixture};
use crate::users::{PHASES, who};

/// Index of the program in the paper's section.
const REMOVE: usize = 2;
/// Names of the maxima.
const MAXIMA: [&str; 2] = ["writes free", "the paper's way"];
/// Share of the maximum that must be reached.
const BAR: f64 = 0.9;

pub(super) fn write(page: &mut ReportPage, measured: &PaperMeasurements) -> Result<()> {
    page.heading("The maximum possible speedup, and the share reached");
    page.paragraph(
        "Two maxima. *Writes free*: the same programs on a device that takes writes in no time, and reads from \
         the same disk; no cache can do better, but for the order in which reads happen to come. *The paper's \
         way*: reading and computing as they are, and after that all that the program writes, at the bandwidth of \
         random requests of 128 KiB on the plain disk (figure 10), without destaging. A cache may do better than \
         that: it writes one segment behind the other and not at random, while programs read and compute, and what \
         is overwritten soon only once. In brackets \
         the shares of both that are reached; the bar is 90 %. The paper puts its own share at two thirds.",
    );
    let rate = measured.curves[0].rate(SEGMENT_KIB);
    let header = [
        "users, program",
        MAXIMA[0],
        MAXIMA[1],
        "logical DCD",
        "physical DCD",
        "paper, logical DCD",
    ];
    let rows = measured
        .programs()
        .map(|(run, program)| row(run, program, rate));
    page.table(&header, rows);
    for which in 0..MAXIMA.len() {
        page.paragraph(&verdict(measured, which, rate));
    }
    missing::arm(page, measured);
    missing::delays(page, measured)?;
    papers_way(page, measured);
    Ok(())
}

/// Returns the seconds of a program by each of [`MAXIMA`].
fn least(run: &ProgramRun, program: usize, rate: f64) -> [f64; 2] {
    [run.least(program), run.papers_least(program, rate)]
}

fn row(run: &ProgramRun, program: usize, rate: f64) -> Vec<String> {
    let least = least(run, program, rate);
    let times = |seconds| format!("{:.1} ×", run.speedup(program, seconds));
    let mut row = vec![format!("{}, {}", who(run.users), PHASES[program])];
    row.extend(least.map(times));
    row.extend(run.caches().iter().map(|column| {
        let seconds = column.phases[program].seconds;
        let [free, papers] = least.map(|least| 100.0 * least / seconds);
        format!("{} ({free:.0} %, {papers:.0} %)", times(seconds))
    }));
    row.push(programs::papers(run.users, program).to_owned());
    row
}

/// Returns the cases that meet the bar and the cases that miss the bar, by one of [`MAXIMA`].
fn verdict(measured: &PaperMeasurements, which: usize, rate: f64) -> String {
    let (mut missed, mut all) = (Vec::new(), 0);
    for (run, program) in measured.programs() {
        for column in run.caches() {
            all += 1;
            let share = least(run, program, rate)[which] / column.phases[program].seconds;
            if share < BAR {
                let (who, what) = (who(run.users), PHASES[program]);
                let share = 100.0 * share;
                missed.push(format!("{who}, {what}, {} ({share:.0} %)", column.name));
            }
        }
    }
    let met = all - missed.len();
    let but = if missed.is_empty() {
        String::new()
    } else {
        format!("; **missed** by {}", missed.join("; "))
    };
    let what = MAXIMA[which];
    format!("By *{what}* the bar is met in {met} of {all} cases{but}.")
}

/// Adds the paper's estimate, for its program and its number of users.
fn papers_way(page: &mut ReportPage, measured: &PaperMeasurements) {
    let Some(run) = measured.papers_run() else {
        return;
    };
    let plain = &run.plain()[REMOVE];
    let fixed = run.least(REMOVE) / plain.seconds;
    let mixture = WriteMixture::of(&plain.requests);
    let shares: Vec<String> = mixture
        .shares()
        .map(|(kib, share)| format!("{share:.0} % of {kib} KiB"))
        .collect();
    page.paragraph("### The paper's own reckoning");
    page.paragraph(&format!(
        "For {} who remove it estimates what writes take in place: how much faster a transfer of 128 KiB is than \
         one of each size (figure 10), averaged over the writes, with reading and computing as they are. \
         Writes here: {} (paper: 50 % of 8 KB, 15 % of 2 KB, 35 % of 1 KB); reading and computing take \
         {:.0} % of the time on the plain disk (paper: 7 %). The paper averages by the number of \
         requests. By the time they take, which is what a program waits for, its own maximum comes to \
         6.9, of which its 6.2 are nine tenths and not two thirds. (Its sum of products is 27.2, not 25.4 as \
         printed.) Neither estimate knows that requests near each other, which the programs make, are \
         faster in place than the random ones of figure 10; what stands above knows it.",
        who(run.users),
        shares.join(", "),
        fixed * 100.0
    ));
    let rows = estimates(run, &measured.curves[0], &mixture, fixed);
    page.table(
        &[
            "average",
            "ratio of writes",
            "maximum",
            "reached: logical",
            "physical",
        ],
        rows,
    );
}

fn estimates(
    run: &ProgramRun,
    curve: &BandwidthCurve,
    mixture: &WriteMixture,
    fixed: f64,
) -> Vec<Vec<String>> {
    let [by_number, by_time] = SpeedupEstimate::both(mixture, curve, fixed);
    let [paper_number, paper_time] = SpeedupEstimate::papers();
    let ours = |name: &str, estimate: SpeedupEstimate| {
        let reached = |column: &RunColumn| {
            let speedup = run.speedup(REMOVE, column.phases[REMOVE].seconds);
            format!(
                "{speedup:.1} × ({:.0} %)",
                100.0 * speedup / estimate.maximum
            )
        };
        vec![
            name.to_owned(),
            format!("{:.1}", estimate.ratio),
            format!("{:.1} ×", estimate.maximum),
            reached(&run.caches()[0]),
            reached(&run.caches()[1]),
        ]
    };
    let theirs = |name: &str, estimate: SpeedupEstimate| {
        vec![
            name.to_owned(),
            format!("{:.1}", estimate.ratio),
            format!("{:.1} ×", estimate.maximum),
            format!("6.2 × ({:.0} %)", 620.0 / estimate.maximum),
            "–".to_owned(),
        ]
    };
    vec![
        ours("here, by number", by_number),
        ours("here, by time", by_time),
        theirs("paper, by number", paper_number),
        theirs("paper, by time", paper_time),
    ]
}
