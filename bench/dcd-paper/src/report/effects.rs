//! Sizes, orders and thresholds.

use anyhow::Result;
use forebay_report::ReportPage;
use forebay_report::plot::{self, CurveSet, FigureFrame};
use forebay_units::ByteLen;

use crate::effects::{DestageVariant, ParameterSweep, SweepPoint, USERS};
use crate::measured::PaperMeasurements;

pub(super) fn write(page: &mut ReportPage, measured: &PaperMeasurements) -> Result<()> {
    page.heading("The log's size");
    page.paragraph(&format!(
        "{USERS} users untar, copy and remove, in segments of 128 KiB, which are the paper's. *Home*: what the \
         cache wrote home in the end of each byte that it took, the tar files among them. The paper had 64 MB."
    ));
    sweep(page, &measured.logs, "log-size.svg", "The log's size")?;
    page.heading("The size of segments");
    page.paragraph(
        "The same with a log of 128 MiB. The paper had 128 KB, the cache takes 1 MiB by itself.",
    );
    sweep(
        page,
        &measured.segments,
        "segment-size.svg",
        "The size of segments",
    )?;
    page.heading("The order of destaging");
    page.paragraph(
        "Four users change, make, remove and read files, mostly the same ones, in bursts of 30 calls with \
         pauses of 50 ms to 5 s, on a logical DCD with a log of 16 MiB. The shipping cache destages oldest \
         first and nothing else, or a crash could bring old copies back; so the orders are compared on a \
         model of the paper's own cache, which knows nothing of crashes (without its lock). The paper's \
         driver: last written first, a segment at a time, as it comes; the paper proposes least valid first, and \
         sorting, and has no figures of them. *Home*: bytes written home for each that the filesystem wrote (on the plain \
         disk, in place).",
    );
    ways(page, "order", &measured.orders);
    page.heading("The idle threshold");
    page.paragraph(
        "The same users on the same model, oldest first in sorted windows: how long nothing must have been \
         asked for until destaging begins. The paper's: a second while the log is empty, a millisecond when it is \
         full, without figures.",
    );
    ways(page, "threshold", &measured.thresholds);
    Ok(())
}

/// Adds a table and a figure of the sweeps of one parameter.
fn sweep(page: &mut ReportPage, sweeps: &[ParameterSweep], file: &str, title: &str) -> Result<()> {
    let rows = sweeps.iter().flat_map(|sweep| {
        let row = move |(kib, point): &(u64, SweepPoint)| {
            let mut row = vec![format!("{}, {}", sweep.name, ByteLen::kib(*kib))];
            row.extend(point.seconds.map(|seconds| format!("{seconds:.1} s")));
            row.push(format!("{:.2}", point.destaged));
            row
        };
        sweep.points.iter().map(row)
    });
    page.table(&["", "untar", "copy", "remove", "home"], rows);
    let places = sweeps[0].points.iter();
    let places: Vec<String> = places
        .map(|(kib, _)| ByteLen::kib(*kib).to_string())
        .collect();
    let curve = |sweep: &ParameterSweep| {
        let points = sweep.points.iter();
        let sums = points.map(|(_, point)| point.seconds.iter().sum::<f64>());
        (sweep.name.to_owned(), sums.collect())
    };
    let curves: Vec<(String, Vec<f64>)> = sweeps.iter().map(curve).collect();
    let curves = CurveSet {
        places: &places,
        logarithmic: false,
        curves: &curves,
    };
    let frame = FigureFrame {
        title,
        x: title,
        y: "seconds, all three programs",
    };
    plot::lines(&page.figure(file), &frame, &curves)?;
    page.show(title, file);
    Ok(())
}

fn ways(page: &mut ReportPage, what: &str, ways: &[DestageVariant]) {
    let rows = ways.iter().map(|way| {
        let seen = &way.seen;
        let home = &seen.spent.writes;
        vec![
            way.name.clone(),
            format!("{:.2}", seen.writes.mean()),
            format!("{:.1}", seen.writes.at(0.99)),
            format!("{:.2}", seen.reads.mean()),
            format!("{:.1}", seen.reads.at(0.99)),
            format!("{:.2}", home.bytes as f64 / seen.written as f64),
            home.requests.to_string(),
            format!("{:.0} s", seen.seconds),
        ]
    });
    let header = [
        what,
        "writes: mean, ms",
        "99 of 100 within",
        "reads: mean, ms",
        "99 of 100 within",
        "home",
        "home writes",
        "all bursts",
    ];
    page.table(&header, rows);
}
