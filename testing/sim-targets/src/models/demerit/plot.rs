//! The distributions of service times, drawn as SVG.

use std::fmt::Write;

use forebay_disk_model::disk::DiskOp;

use super::replay::SortedServiceTimes;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;

/// Draws the cumulative distributions of the drive's and the model's times.
pub(crate) fn draw(title: &str, real: &SortedServiceTimes, model: &SortedServiceTimes) -> String {
    let end = [real, model]
        .iter()
        .filter_map(|t| t.all().last().copied())
        .fold(1.0, f64::max)
        .ceil();
    let x = |ms: f64| LEFT + ms / end * (WIDTH - LEFT - RIGHT);
    let y = |share: f64| HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM);
    let mut svg = frame(title, end, &x, &y);
    let curves = [
        (real, DiskOp::Read, "drive, reads", "#1f5fa8", ""),
        (model, DiskOp::Read, "model, reads", "#1f5fa8", "5 3"),
        (real, DiskOp::Write, "drive, writes", "#b5451c", ""),
        (model, DiskOp::Write, "model, writes", "#b5451c", "5 3"),
    ];
    let mut row = 0.0;
    for (times, op, label, colour, dashes) in curves {
        let times = times.of(op);
        if times.is_empty() {
            continue;
        }
        let style = format!(
            "fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" stroke-dasharray=\"{dashes}\""
        );
        let points: Vec<String> = steps(&times)
            .map(|(ms, share)| format!("{:.1},{:.1}", x(ms), y(share)))
            .collect();
        let _ = writeln!(svg, "<polyline {style} points=\"{}\"/>", points.join(" "));
        let at = y(0.0) - 80.0 + 18.0 * row;
        let (from, to) = (WIDTH - 180.0, WIDTH - 145.0);
        let _ = writeln!(
            svg,
            "<polyline {style} points=\"{from},{at} {to},{at}\"/>\
             <text x=\"{}\" y=\"{}\">{label}</text>",
            to + 8.0,
            at + 4.0
        );
        row += 1.0;
    }
    svg.push_str("</svg>\n");
    svg
}

/// Returns a few hundred points of the distribution of sorted times.
fn steps(times: &[f64]) -> impl Iterator<Item = (f64, f64)> {
    let count = times.len();
    let points = count.min(300);
    (0..=points).map(move |k| {
        let rank = (k * count / points).min(count - 1);
        (times[rank], k as f64 / points as f64)
    })
}

fn frame(title: &str, end: f64, x: &dyn Fn(f64) -> f64, y: &dyn Fn(f64) -> f64) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
         viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"15\">{title}</text>\n"
    );
    for tenth in (0..=10).step_by(2) {
        let share = f64::from(tenth) / 10.0;
        let _ = writeln!(
            svg,
            "<line x1=\"{}\" x2=\"{}\" y1=\"{:.1}\" y2=\"{:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{share}</text>",
            x(0.0),
            x(end),
            y(share),
            y(share),
            LEFT - 8.0,
            y(share) + 4.0
        );
    }
    let step = (end / 10.0).ceil().max(1.0);
    let mut ms = 0.0;
    while ms <= end {
        let _ = writeln!(
            svg,
            "<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{}\" y2=\"{}\" stroke=\"#ddd\"/>\
             <text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{ms}</text>",
            x(ms),
            x(ms),
            y(0.0),
            y(1.0),
            x(ms),
            y(0.0) + 18.0
        );
        ms += step;
    }
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">service time in ms; share of requests \
         within it</text>",
        f64::midpoint(x(0.0), x(end)),
        HEIGHT - 12.0
    );
    svg
}
