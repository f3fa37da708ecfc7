//! Draws the figures as SVG.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use super::stats::Mean;

/// A curve: its name, and its points with their confidence intervals.
pub(super) struct FigureCurve {
    pub(super) name: &'static str,
    pub(super) points: Vec<(f64, Mean)>,
}

/// Labels and layout of a figure.
pub(super) struct FigureLayout<'a> {
    pub(super) title: &'a str,
    pub(super) x: &'a str,
    pub(super) y: &'a str,
    /// Height of a horizontal line.
    pub(super) level: Option<f64>,
    /// True if each point is joined to the next by a step, as in a distribution.
    pub(super) steps: bool,
}

const SIZE: (u32, u32) = (760, 460);
const COLOURS: [RGBColor; 3] = [
    RGBColor(176, 64, 32),
    RGBColor(32, 96, 160),
    RGBColor(90, 90, 90),
];

/// Draws a figure.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn draw(path: &Path, frame: &FigureLayout<'_>, curves: &[FigureCurve]) -> Result<()> {
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    drawn(&area, frame, curves).map_err(|error| anyhow!("{}: {error}", path.display()))
}

type SvgDrawResult<'a> =
    std::result::Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>>;

fn drawn<'a>(
    area: &DrawingArea<SVGBackend<'a>, Shift>,
    frame: &FigureLayout<'_>,
    curves: &[FigureCurve],
) -> SvgDrawResult<'a> {
    area.fill(&WHITE)?;
    let (right, top) = extent(frame, curves);
    let mut chart = ChartBuilder::on(area)
        .caption(frame.title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(64)
        .build_cartesian_2d(
            0.0..right * 1.04 + f64::MIN_POSITIVE,
            0.0..top * 1.08 + f64::MIN_POSITIVE,
        )?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc(frame.x)
        .y_desc(frame.y)
        .draw()?;
    if let Some(level) = frame.level {
        let across = [(0.0, level), (right * 1.04, level)];
        chart.draw_series(LineSeries::new(across, COLOURS[2].mix(0.6)))?;
    }
    for (curve, colour) in curves.iter().zip(COLOURS) {
        let line = move |area: (i32, i32)| PathElement::new([area, (area.0 + 18, area.1)], colour);
        let corners = corners(curve, frame.steps);
        chart
            .draw_series(LineSeries::new(corners, colour.stroke_width(2)))?
            .label(curve.name)
            .legend(line);
        let unsure = curve.points.iter().filter(|(_, y)| y.half > 0.0);
        chart.draw_series(unsure.map(|(x, y)| {
            let (low, high) = (y.mean - y.half, y.mean + y.half);
            ErrorBar::new_vertical(*x, low.max(0.0), y.mean, high, colour.filled(), 7)
        }))?;
    }
    chart
        .configure_series_labels()
        .background_style(WHITE.mix(0.85))
        .border_style(COLOURS[2])
        .position(SeriesLabelPosition::UpperLeft)
        .draw()?;
    area.present()
}

/// Returns the maximum x and y of the curves.
fn extent(frame: &FigureLayout<'_>, curves: &[FigureCurve]) -> (f64, f64) {
    let all = || curves.iter().flat_map(|curve| &curve.points);
    let right = all().map(|(x, _)| *x).fold(0.0, f64::max);
    let tops = all().map(|(_, y)| y.mean + y.half);
    (right, tops.fold(frame.level.unwrap_or(0.0), f64::max))
}

fn corners(curve: &FigureCurve, steps: bool) -> Vec<(f64, f64)> {
    let mut corners: Vec<(f64, f64)> = Vec::new();
    for (x, y) in &curve.points {
        if steps {
            let before = corners.last().map_or(0.0, |corner| corner.1);
            corners.push((*x, before));
        }
        corners.push((*x, y.mean));
    }
    corners
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_names_its_axes_and_curves() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("figure.svg");
        let curve = FigureCurve {
            name: "with SLEDs",
            points: vec![
                (
                    1.0,
                    Mean {
                        mean: 2.0,
                        half: 0.5,
                    },
                ),
                (2.0, Mean::exactly(3.0)),
            ],
        };
        let frame = FigureLayout {
            title: "wc",
            x: "file size, MiB",
            y: "time, s",
            level: Some(1.0),
            steps: false,
        };
        draw(&path, &frame, &[curve]).unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        for word in ["wc", "file size, MiB", "time, s", "with SLEDs"] {
            assert!(text.contains(word), "{word}");
        }
    }

    #[test]
    fn a_distribution_is_drawn_in_steps() {
        let curve = FigureCurve {
            name: "",
            points: vec![(1.0, Mean::exactly(0.5)), (2.0, Mean::exactly(1.0))],
        };
        let expected = [(1.0, 0.0), (1.0, 0.5), (2.0, 0.5), (2.0, 1.0)];
        assert_eq!(corners(&curve, true), expected);
    }
}
