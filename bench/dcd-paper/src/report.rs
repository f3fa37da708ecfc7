//! The results as a page of Markdown with figures, and the paper's values.

mod bandwidth;
mod effects;
mod filesystems;
mod missing;
mod programs;
mod responses;
mod speedup;

use std::path::{Path, PathBuf};

use anyhow::Result;
use forebay_report::{Circumstances, ReportPage};

use crate::measured::PaperMeasurements;
use crate::scale::PaperScale;

pub use filesystems::FilesystemRun;

/// Writes `report.md` and its figures into a folder, which is created if missing. Returns the path of the page.
///
/// # Errors
/// If a file cannot be written.
pub fn write_report(
    folder: &Path,
    circumstances: &Circumstances,
    measured: &PaperMeasurements,
    filesystems: Result<&[FilesystemRun], &str>,
) -> Result<PathBuf> {
    let mut page = ReportPage::begin(folder, "The experiments of the DCD paper, again")?;
    preface(&mut page, circumstances, measured.scale);
    speedup::write(&mut page, measured)?;
    programs::write(&mut page, measured)?;
    bandwidth::write(&mut page, &measured.curves)?;
    responses::write(&mut page, measured)?;
    effects::write(&mut page, measured)?;
    filesystems::write(&mut page, filesystems);
    page.end()
}

/// Differences between the paper's setup and this one.
const DIFFERENCES: [[&str; 3]; 9] = [
    [
        "disk",
        "a 4 GB Seagate Barracuda",
        "the model of a Barracuda of 2 GB (`barracuda`: 7200 turns a minute), read-ahead and elevator on, writes not \
         answered early, on a bus of 10 MB/s",
    ],
    [
        "cache",
        "a driver; 256 KB of buffers in segments of 128 KB, one lock around all, destaging last written first",
        "the shipping cache as it is by itself: segments of 1 MiB, records as long as they need, destaging oldest \
         first in sorted windows. Beside it a model of the paper's",
    ],
    [
        "log",
        "the disk's first 64 MB",
        "the same (*logical*), or on a second disk (*physical*)",
    ],
    [
        "a write is done",
        "once it is in memory, for some hundreds of milliseconds at most; with the `sync` flag once it is in place",
        "once it is in memory, where it waits for the log for 500 ms at most on a logical DCD, 50 ms on a physical one \
         (`--max-delay`); *each write durable*: once it is in the log. Nobody flushes before the end",
    ],
    [
        "filesystem",
        "UFS of Solaris 2.6",
        "a model of its requests: inodes (8 KiB) and directories (1 KiB and more) written at once, data behind the \
         users' backs; maps of free blocks and access times are left out",
    ],
    [
        "files",
        "the sources of Apache 1.3.3: 31 directories, 508 files, 4.9 MB for each user",
        "as many, of random lengths with the same mean",
    ],
    [
        "programs",
        "`tar`, `cp -r`, `rm -r` by 1, 4 and more users at once, the filesystem mounted anew before each",
        "their calls, one after the other for each user; the tar file is on the same disk; nothing is in memory when \
         a program begins",
    ],
    [
        "processor",
        "that of a Sun Ultra-1 Model 170",
        "one, assumed: 0.7 ms a call and 50 µs a KiB, so that its share on the plain disk is about the paper's",
    ],
    [
        "figures",
        "means of three runs",
        "one run, since the next is the same",
    ],
];

fn preface(page: &mut ReportPage, circumstances: &Circumstances, scale: PaperScale) {
    page.paragraph(
        "*The Design and Implementation of a DCD Device Driver for Unix* (USENIX ATC 1999), section 4, \
         repeated by `forebay-bench paper-dcd`. A *logical* DCD has its log on a part of the data's own \
         disk, which is what the paper measured; a *physical* one has it on another disk of the same kind. All but \
         the last section is measured on a virtual clock, on emulated disks, so it is the same on every machine; \
         real filesystems in the last section take a real one. Speedups are over the plain disk of the same run.",
    );
    page.line("| | the paper | here |\n|---|---|---|");
    for row in DIFFERENCES {
        page.line(&format!("| {} |", row.join(" | ")));
    }
    page.line("");
    if scale == PaperScale::Quick {
        page.paragraph("**A quick run** (`--quick`): every fourth file, and fewer requests.");
    }
    page.paragraph(&circumstances.text());
}
