//! Figure 10: bandwidth by the size of requests.

use anyhow::Result;
use forebay_report::ReportPage;
use forebay_report::plot::{self, CurveSet, FigureFrame};

use crate::bandwidth::{BandwidthCurve, SEGMENT_KIB, SIZES};
use crate::disks::CacheShape;
use crate::speedup::papers_ratio;

pub(super) fn write(page: &mut ReportPage, curves: &[BandwidthCurve]) -> Result<()> {
    page.heading("Bandwidth by the size of requests (figure 10)");
    page.paragraph(
        "Random writes of 20 MB in all, one at a time, until all is durable; MB/s. In brackets: what requests of \
         128 KiB reach over what these do, which is what the paper gives of its disk. On a logical DCD what is of \
         64 KiB or more goes past the log, as in the paper. The last column is the same disk on the bus of the host \
         that it was measured on; it is not in the figure.",
    );
    let mut header = vec!["KiB", "**paper's disk**"];
    header.extend(curves.iter().map(|curve| &*curve.name));
    let rows = SIZES.iter().map(|kib| {
        let paper = papers_ratio(*kib).map_or("–".into(), |ratio| format!("({ratio:.1})"));
        let mut row = vec![kib.to_string(), paper];
        row.extend(curves.iter().map(|curve| {
            let rate = curve.rate(*kib) / 1e6;
            format!("{rate:.2} ({:.1})", curve.ratio(*kib))
        }));
        row
    });
    page.table(&header, rows);
    draw(page, curves)
}

fn draw(page: &mut ReportPage, curves: &[BandwidthCurve]) -> Result<()> {
    let most = curves[0].rate(SEGMENT_KIB) / 1e6;
    let papers = SIZES.map(|kib| papers_ratio(kib).map_or(f64::NAN, |ratio| most / ratio));
    let name = "paper's disk, drawn as if equal at 128 KiB".to_owned();
    // The last curve is only in the table: in the figure it would cover the plain disk's curve.
    let ours = curves.iter().take(CacheShape::REAL.len()).map(|curve| {
        let rates = curve.rates.iter().map(|rate| rate / 1e6);
        (curve.name.clone(), rates.collect())
    });
    let curves: Vec<(String, Vec<f64>)> = ours.chain([(name, papers.to_vec())]).collect();
    let curves = CurveSet {
        places: &SIZES.map(|kib| kib.to_string()),
        logarithmic: true,
        curves: &curves,
    };
    let title = "Figure 10: random writes";
    let frame = FigureFrame {
        title,
        x: "size of a request, KiB",
        y: "MB/s (logarithmic)",
    };
    plot::lines(&page.figure("figure-10.svg"), &frame, &curves)?;
    page.show(title, "figure-10.svg");
    Ok(())
}
