//! The figures, as SVG.

use std::io;
use std::ops::Range;
use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const SIZE: (u32, u32) = (760, 440);
const COLOURS: [RGBColor; 8] = [
    RGBColor(176, 64, 32),
    RGBColor(32, 96, 160),
    RGBColor(60, 140, 60),
    RGBColor(140, 100, 170),
    GREY,
    RGBColor(200, 150, 30),
    RGBColor(30, 150, 150),
    RGBColor(200, 90, 140),
];
const GREY: RGBColor = RGBColor(90, 90, 90);
const FONT: &str = "sans-serif";
/// Share of the height that each line of the legend takes.
const LEGEND_LINE: f64 = 0.065;

/// Title and axis labels of a figure.
pub struct FigureFrame<'a> {
    /// Title above the figure.
    pub title: &'a str,
    /// Label of the lower axis.
    pub x: &'a str,
    /// Label of the left axis.
    pub y: &'a str,
}

/// Curves over common places, with a legend below.
pub struct CurveSet<'a> {
    /// Names of the places.
    pub places: &'a [String],
    /// True for a logarithmic scale of values.
    pub logarithmic: bool,
    /// Names, and values at each place. A missing value is NaN.
    pub curves: &'a [(String, Vec<f64>)],
}

/// A group of bars.
pub struct BarGroup<'a> {
    /// Label above the group.
    pub name: String,
    /// Bars, from the left.
    pub bars: Vec<StackedBar<'a>>,
}

/// A bar of two stacked parts.
pub struct StackedBar<'a> {
    /// Label below the bar.
    pub name: &'a str,
    /// Heights of the parts, from below.
    pub parts: [f64; 2],
    /// Label above the bar.
    pub says: String,
}

type SvgArea<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type SvgChart<'a, 'b> =
    ChartContext<'a, SVGBackend<'b>, Cartesian2d<RangedCoordf64, RangedCoordf64>>;
type FigureResult<T = ()> = std::result::Result<T, DrawingAreaErrorKind<io::Error>>;

/// Labels of an axis.
struct AxisLabels<'a> {
    /// Maximum number of labels.
    max: usize,
    /// Returns the label of a value.
    label: &'a dyn Fn(&f64) -> String,
}

fn on(path: &Path, draw: impl FnOnce(&SvgArea<'_>) -> FigureResult) -> Result<()> {
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    let drawn = area.fill(&WHITE).and_then(|()| draw(&area));
    drawn
        .and_then(|()| area.present())
        .map_err(|error| anyhow!("{}: {error}", path.display()))
}

fn chart<'a, 'b>(
    area: &'a SvgArea<'b>,
    frame: &FigureFrame<'_>,
    (x, y): (Range<f64>, Range<f64>),
    places: AxisLabels<'_>,
    number: &dyn Fn(&f64) -> String,
) -> FigureResult<SvgChart<'a, 'b>> {
    let mut chart = ChartBuilder::on(area)
        .caption(frame.title, (FONT, 18))
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .x_labels(places.max)
        .x_label_formatter(places.label)
        .y_label_formatter(number)
        .label_style((FONT, 14))
        .axis_desc_style((FONT, 15))
        .x_desc(frame.x)
        .y_desc(frame.y)
        .draw()?;
    Ok(chart)
}

fn legend<'a, 'b: 'a>(chart: &mut SvgChart<'a, 'b>, position: SeriesLabelPosition) -> FigureResult {
    chart
        .configure_series_labels()
        .background_style(WHITE)
        .border_style(GREY)
        .label_font((FONT, 14))
        .position(position)
        .draw()
}

/// Formats a number without trailing zeros.
fn plain(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl CurveSet<'_> {
    /// Returns the coordinate at which a value is drawn.
    fn shown(&self, value: f64) -> f64 {
        if self.logarithmic {
            value.log10()
        } else {
            value
        }
    }

    /// Returns the label at a coordinate.
    fn said(&self, shown: f64) -> String {
        if self.logarithmic {
            plain(10f64.powf(shown))
        } else {
            plain(shown)
        }
    }

    /// Returns the range of coordinates, with space for the legend above.
    fn range(&self) -> Range<f64> {
        let values = self.curves.iter().flat_map(|(_, values)| values);
        let shown = values.map(|value| self.shown(*value));
        let shown: Vec<f64> = shown.filter(|value| value.is_finite()).collect();
        let low = if self.logarithmic {
            shown.iter().copied().fold(f64::INFINITY, f64::min) - 0.1
        } else {
            0.0
        };
        let top = shown.into_iter().fold(low + f64::EPSILON, f64::max);
        let room = 0.05 + LEGEND_LINE * self.curves.len() as f64;
        low..top + (top - low) * room / (1.0 - room)
    }

    /// Returns the name of the place at a coordinate; empty if the coordinate is not a place.
    fn place(&self, x: f64) -> String {
        let near = x.round();
        let exact = (x - near).abs() < 1e-6 && near >= 0.0;
        let place = exact.then(|| self.places.get(near as usize)).flatten();
        place.cloned().unwrap_or_default()
    }
}

/// Draws curves.
///
/// # Errors
/// If the file cannot be written.
pub fn lines(path: &Path, frame: &FigureFrame<'_>, lines: &CurveSet<'_>) -> Result<()> {
    let across = -0.3..lines.places.len() as f64 - 0.7;
    let place = |x: &f64| lines.place(*x);
    let said = |y: &f64| lines.said(*y);
    on(path, |area| {
        let labels = AxisLabels {
            max: lines.places.len() + 1,
            label: &place,
        };
        let mut chart = chart(area, frame, (across, lines.range()), labels, &said)?;
        for ((name, values), colour) in lines.curves.iter().zip(COLOURS) {
            let points = (0..).zip(values);
            let points = points.map(|(n, y)| (f64::from(n), lines.shown(*y)));
            let points = points.filter(|(_, y)| y.is_finite());
            let style = colour.filled().stroke_width(2);
            chart
                .draw_series(LineSeries::new(points, style).point_size(3))?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        }
        legend(&mut chart, SeriesLabelPosition::UpperLeft)
    })
}

/// Draws groups of bars; `parts` are the names of the parts of a bar, from below.
///
/// # Errors
/// If the file cannot be written.
pub fn bars(
    path: &Path,
    frame: &FigureFrame<'_>,
    parts: [&str; 2],
    groups: &[BarGroup<'_>],
) -> Result<()> {
    let heights = groups.iter().flat_map(|group| &group.bars);
    let top = heights
        .map(|bar| bar.parts[0] + bar.parts[1])
        .fold(f64::MIN_POSITIVE, f64::max);
    let slots: usize = groups.iter().map(|group| group.bars.len() + 1).sum();
    let none = |_: &f64| String::new();
    // The labels below the bars are in the space below zero.
    let number = |y: &f64| if *y < 0.0 { String::new() } else { plain(*y) };
    on(path, |area| {
        let ranges = (0.0..slots as f64, -0.08 * top..top * 1.32);
        let labels = AxisLabels {
            max: 0,
            label: &none,
        };
        let mut chart = chart(area, frame, ranges, labels, &number)?;
        let mut left = 0.5;
        for group in groups {
            draw_group(&mut chart, group, left, top)?;
            left += group.bars.len() as f64 + 1.0;
        }
        for (part, colour) in parts.iter().zip(COLOURS) {
            let nothing = std::iter::empty::<Rectangle<(f64, f64)>>();
            chart
                .draw_series(nothing)?
                .label(*part)
                .legend(move |(x, y)| {
                    Rectangle::new([(x, y - 5), (x + 12, y + 5)], colour.filled())
                });
        }
        legend(&mut chart, SeriesLabelPosition::MiddleRight)
    })
}

fn draw_group(
    chart: &mut SvgChart<'_, '_>,
    group: &BarGroup<'_>,
    left: f64,
    top: f64,
) -> FigureResult {
    let centred = |size: u32, at: VPos| {
        TextStyle::from((FONT, size).into_font()).pos(Pos::new(HPos::Center, at))
    };
    let middle = left + group.bars.len() as f64 / 2.0;
    let title = (middle, top * 1.3);
    let title = Text::new(group.name.clone(), title, centred(15, VPos::Top));
    chart.draw_series([title])?;
    for (n, bar) in (0..).zip(&group.bars) {
        let (from, to) = (left + f64::from(n) + 0.1, left + f64::from(n) + 0.9);
        let [low, high] = [bar.parts[0], bar.parts[0] + bar.parts[1]];
        let stacked = [(0.0, low), (low, high)].into_iter().zip(COLOURS);
        chart.draw_series(stacked.map(|((bottom, top), colour)| {
            Rectangle::new([(from, bottom), (to, top)], colour.filled())
        }))?;
        let middle = f64::midpoint(from, to);
        let below = (middle, -0.015 * top);
        let above = (middle, high + 0.015 * top);
        chart.draw_series([
            Text::new(bar.name.to_owned(), below, centred(13, VPos::Top)),
            Text::new(bar.says.clone(), above, centred(13, VPos::Bottom)),
        ])?;
    }
    Ok(())
}

/// Draws a histogram: percent in classes of this width, from 0 on.
///
/// # Errors
/// If the file cannot be written.
pub fn histogram(path: &Path, frame: &FigureFrame<'_>, width: f64, percent: &[f64]) -> Result<()> {
    let top = percent.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let number = |value: &f64| plain(*value);
    on(path, |area| {
        let ranges = (0.0..width * percent.len() as f64, 0.0..top * 1.08);
        let labels = AxisLabels {
            max: 11,
            label: &number,
        };
        let mut chart = chart(area, frame, ranges, labels, &number)?;
        let classes = (0..).zip(percent).map(|(n, height)| {
            let left = width * f64::from(n);
            let corners = [(left, 0.0), (left + width, *height)];
            Rectangle::new(corners, COLOURS[1].filled())
        });
        chart.draw_series(classes)?;
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: FigureFrame<'_> = FigureFrame {
        title: "a title",
        x: "an axis",
        y: "another",
    };

    fn drawn(draw: impl FnOnce(&Path) -> Result<()>) -> String {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("figure.svg");
        draw(&path).unwrap();
        std::fs::read_to_string(path).unwrap()
    }

    fn says(text: &str, parts: &[&str]) {
        for part in parts {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn curves_are_labelled_and_omit_values_that_are_not_numbers() {
        let curves = [("plain".to_owned(), vec![1.0, f64::NAN, 10.0])];
        for logarithmic in [false, true] {
            let curves = CurveSet {
                places: &["1", "2", "4"].map(String::from),
                logarithmic,
                curves: &curves,
            };
            let text = drawn(|path| lines(path, &FRAME, &curves));
            says(&text, &["a title", "an axis", "another", "plain", "\n4\n"]);
            assert_eq!(text.matches("<circle").count(), 2);
        }
    }

    #[test]
    fn stacked_bars_label_groups_bars_and_parts() {
        let bar = |name, parts, says: &str| StackedBar {
            name,
            parts,
            says: says.to_owned(),
        };
        let group = BarGroup {
            name: "untar".into(),
            bars: vec![
                bar("plain", [1.0, 9.0], "one"),
                bar("logical", [1.0, 2.0], "more"),
            ],
        };
        let text = drawn(|path| bars(path, &FRAME, ["processor", "waiting"], &[group]));
        let names = [
            "untar",
            "plain",
            "logical",
            "one",
            "more",
            "processor",
            "waiting",
        ];
        says(&text, &names);
    }

    #[test]
    fn a_histogram_has_a_bar_for_each_class() {
        let draw = |classes: &[f64]| drawn(|path| histogram(path, &FRAME, 2.0, classes));
        let bars = |text: &str| text.matches("<rect").count();
        assert_eq!(bars(&draw(&[5.0, 20.0, 1.0])) - bars(&draw(&[5.0])), 2);
    }

    #[test]
    fn numbers_have_no_trailing_zeros() {
        assert_eq!(
            [20.0, 0.0, 0.316, 7.5].map(plain),
            ["20", "0", "0.32", "7.5"]
        );
    }
}
