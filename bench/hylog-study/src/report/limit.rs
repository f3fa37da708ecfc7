//! The possible gain of a log that knows the next write of each page.

use anyhow::{Context, Result};
use forebay_report::ReportPage;

use crate::oracle::{OracleShape, amplification, data, writes};
use crate::plan::StudyScale;
use crate::workload::{Skew, SyntheticWorkload, TpcC, Workload};

/// Number of times that the data is overwritten.
const TIMES: usize = 8;

/// Names of the workloads.
const WRITES: [&str; 4] = ["even", "80/20", "Zipf 0.99", "TPC-C"];

pub(super) fn write(page: &mut ReportPage, scale: StudyScale) -> Result<()> {
    page.heading("The limit: an oracle (beyond the slides)");
    page.paragraph(
        "How often a page is written for each time that users write it, in a simulation of pages without disks: one log for \
         users and one for what is moved, and logs by when each page is written next, which nobody can know. In both the \
         segment with the least in it is cleaned.",
    );
    let segments = 1024;
    let bytes = match scale {
        StudyScale::Full => 1 << 20,
        StudyScale::Quick => 128 << 10,
    };
    let mut rows = Vec::new();
    for name in WRITES {
        for utilisation in [0.8, 0.9, 0.95] {
            let mut found = Vec::new();
            for knows in [false, true] {
                let shape = OracleShape::new(segments, bytes, knows);
                let data = data(&shape, utilisation);
                let written = writes(workload(name, data)?.as_mut(), TIMES * data as usize);
                found.push(amplification(shape, data, &written));
            }
            rows.push(vec![
                format!("{name}, {utilisation:.2}"),
                format!("{:.2}", found[0]),
                format!("{:.2}", found[1]),
            ]);
        }
    }
    page.table(&["writes, utilisation", "one log", "oracle"], rows);
    Ok(())
}

fn workload(name: &str, pages: u32) -> Result<Box<dyn Workload>> {
    let hot = Skew::HotCold {
        writes: 80,
        pages: 20,
    };
    let drawn = |skew| Box::new(SyntheticWorkload::new(skew, pages, 0, 1));
    Ok(match name {
        "even" => drawn(Skew::Uniform),
        "80/20" => drawn(hot),
        "TPC-C" => Box::new(TpcC::new(pages, 1).context("too few pages")?),
        _ => drawn(Skew::Zipf(0.99)),
    })
}
