//! The report: a Markdown page of the results and the slides' values, and its figures.

mod analysis;
mod bars;
mod below;
mod compared;
mod limit;
mod modern;
mod results;

use std::path::{Path, PathBuf};

use anyhow::Result;
use forebay_report::ReportPage;

use crate::experiment::ExperimentResults;
use crate::plan::StudyScale;

/// Writes `report.md` and its figures into a folder, and creates the folder if necessary. Returns the path of the
/// report. `circumstances` are paragraphs about the machine and the program.
///
/// # Errors
/// If a file cannot be written.
pub fn write_report(
    folder: &Path,
    circumstances: &[String],
    scale: StudyScale,
    results: &[ExperimentResults],
) -> Result<PathBuf> {
    let mut page = ReportPage::begin(folder, "The HyLog study, again")?;
    preface(&mut page, circumstances, scale);
    bars::write(&mut page, results)?;
    below::write(&mut page, results);
    analysis::write(&mut page, results)?;
    for result in results {
        results::write(&mut page, result)?;
        modern::write(&mut page, result);
    }
    limit::write(&mut page, scale)?;
    page.end()
}

/// The study's setup according to its slides, and its counterpart here.
const DIFFERENCES: [[&str; 3]; 8] = [
    [
        "disks",
        "DEC RZ26 (1991), Quantum Atlas 10K (1999), Cheetah X15 36LP (2003), one of 2008",
        "`dec_rz26`, `atlas10k` (parameters extracted from real drives), `cheetah15k5-2003` and `hylog-2008` (scaled \
         to the slides' figures); elevator, read-ahead on, no write answered early",
    ],
    [
        "size",
        "whole disks",
        "a part of each, in pieces of 1 MiB at even distances over all of it, so that the arm moves as on a full \
         disk. What a segment costs does not depend on how many there are; what is kept free by number and not \
         by share weighs more than on whole disks, and so does what checkpoints write",
    ],
    [
        "pages",
        "8 KB",
        "the same, each write with another content, compared at every read",
    ],
    [
        "segments",
        "not in the slides",
        "1 MiB, of which at least 256 KiB are on each disk",
    ],
    [
        "systems",
        "a simulator of Overwrite, LFS, WOLF, HyLog",
        "Overwrite: the disks as they are. The others: the engine of `crates/vsl` with that placement, as it ships, \
         with checksums, records and checkpoints",
    ],
    [
        "TPC-C",
        "a trace",
        "synthetic: the tables, transactions and keys of the standard behind a buffer pool of a tenth of the \
         database, least recently used first, dirty pages written when they make room or are old",
    ],
    ["arrays", "not in the slides", "striped in units of 64 KiB"],
    [
        "metric",
        "requests finished a second, no think time",
        "the same, on a virtual clock, from when a log has written the medium over again. A write to a log is \
         finished when it is in the engine's memory, one in place when it is on the disk",
    ],
];

fn preface(page: &mut ReportPage, circumstances: &[String], scale: StudyScale) {
    page.paragraph(
        "*HyLog: A High Performance Approach to Managing Disk Layout* (Wang, Zhao and Bunt, FAST 2004), from its \
         slides, repeated by `forebay-sim study hylog`. All of it runs on a virtual clock over emulated disks, so it \
         is the same on every machine. The slides' curves have no values in their text: where a value is given \
         as theirs, it is in the text.",
    );
    page.line("| | the study | here |\n|---|---|---|");
    for row in DIFFERENCES {
        page.line(&format!("| {} |", row.join(" | ")));
    }
    page.line("");
    if scale == StudyScale::Quick {
        page.paragraph(
            "**A quick run** (`--quick`): fewer places, smaller disks, shorter runs. Of so small disks a large \
             part is kept free for cleaning.",
        );
    }
    for text in circumstances.iter().filter(|text| !text.is_empty()) {
        page.paragraph(text);
    }
}
