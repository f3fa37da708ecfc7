//! Draws the state of a volume on a screen of any size. The most important lines come first, from the top; lines that
//! do not fit are left out.

use forebay_units::ByteLen;
use forebay_volume::{RenderContext, RingUsage};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::Sparkline;

use super::history::{FlowHistory, KEPT, TimeSeries, VolumeHistory, WatchView};

/// A smaller screen shows nothing useful.
const COLUMNS_MIN: u16 = 24;
const ROWS_MIN: u16 = 4;
/// The columns of a flow before its sparkline; on a wide screen, with latencies of the whole time.
const FLOW_COLUMNS: u16 = 47;
const WIDE_COLUMNS: u16 = FLOW_COLUMNS + 32;
/// A narrower sparkline is left out.
const SPARK_MIN: u16 = 8;
/// A share closer to 0 or 1 than this differs only by rounding.
const NEARLY: f64 = 1e-6;
/// From this share of the log in use on, writers wait for free space.
const FULL: f64 = 0.9;

/// Draws the whole screen.
pub(super) fn draw(frame: &mut Frame<'_>, view: &WatchView) {
    let area = frame.area();
    if area.width < COLUMNS_MIN || area.height < ROWS_MIN {
        frame.render_widget(Line::raw("too small"), area);
        return;
    }
    let mut rows = ScreenRows(area);
    let foot = rows.last();
    if let Some((volume, ..)) = view.volume() {
        draw_volume(frame, &mut rows, view, volume);
    } else {
        draw_notes(frame, &mut rows, view);
        rows.line(frame, Line::raw("no volume is attached"));
    }
    draw_foot(frame, foot, view);
}

/// The remaining rows of the screen.
struct ScreenRows(Rect);

impl ScreenRows {
    /// Takes the next rows, or as many as remain.
    fn next(&mut self, rows: u16) -> Rect {
        let height = rows.min(self.0.height);
        let next = Rect { height, ..self.0 };
        self.0.y += height;
        self.0.height -= height;
        next
    }

    /// Takes the last row.
    fn last(&mut self) -> Rect {
        self.0.height -= 1;
        let y = self.0.y + self.0.height;
        Rect {
            y,
            height: 1,
            ..self.0
        }
    }

    fn line(&mut self, frame: &mut Frame<'_>, line: Line<'_>) {
        let row = self.next(1);
        frame.render_widget(line, row);
    }

    /// Leaves an empty row if more than `least` rows remain.
    fn gap(&mut self, least: u16) {
        if self.0.height > least {
            self.next(1);
        }
    }
}

fn draw_volume(
    frame: &mut Frame<'_>,
    rows: &mut ScreenRows,
    view: &WatchView,
    volume: &VolumeHistory,
) {
    draw_head(frame, rows, volume);
    draw_notes(frame, rows, view);
    draw_wrong(frame, rows, volume);
    rows.gap(14);
    draw_room(frame, rows, volume);
    rows.gap(12);
    draw_flows(frame, rows, volume);
}

fn draw_head(frame: &mut Frame<'_>, rows: &mut ScreenRows, volume: &VolumeHistory) {
    let (service, summary) = (&volume.report.service, volume.report.status.summary());
    let mode = match (volume.gone, summary.mode) {
        (true, _) => "no longer attached".red(),
        (false, mode @ "caching") => mode.green(),
        (false, mode @ "serving") => mode.green(),
        (false, mode @ "nearly_full") => mode.yellow(),
        (false, mode @ "draining") => mode.cyan(),
        (false, mode) => mode.red().bold(),
    };
    let device = if let Some(device) = &service.device {
        format!("  {device} (via {})", service.via)
    } else {
        let place = service.mounted.as_ref().or(service.nbd_uri.as_ref());
        format!("  {}", place.map_or("", String::as_str))
    };
    let name = service.name.as_str().bold();
    let more = Span::raw(device).dark_gray();
    rows.line(frame, Line::from(vec![name, "  ".into(), mode, more]));
    let data = format!("{}, {}", service.data, ByteLen(summary.len_bytes));
    let below = match &service.log {
        None => vec![data],
        Some(log) => {
            let both = format!("{data} < {log}");
            if both.chars().count() <= rows.0.width.into() {
                vec![both]
            } else {
                vec![data, format!("< {log}")]
            }
        }
    };
    for line in below {
        rows.line(frame, Line::raw(line).dark_gray());
    }
    if let Some(detail) = &summary.mode_detail {
        rows.line(frame, Line::raw(detail.to_owned()).red());
    }
}

fn draw_notes(frame: &mut Frame<'_>, rows: &mut ScreenRows, view: &WatchView) {
    for note in view.notes() {
        rows.line(frame, Line::raw(note.as_str()).yellow());
    }
}

/// Draws the faults, which reports show in lines with capitals.
fn draw_wrong(frame: &mut Frame<'_>, rows: &mut ScreenRows, volume: &VolumeHistory) {
    let service = &volume.report.service;
    for foreign in &service.foreign_loops {
        rows.line(frame, Line::raw(format!("DANGER {foreign}")).red().bold());
    }
    for cut in &service.cut_short {
        rows.line(frame, Line::raw(format!("DAMAGE {cut}")).red().bold());
    }
    if let Some(why) = &service.no_device {
        rows.line(frame, Line::raw(why.as_str()).red());
    }
    for (key, value) in words(volume) {
        if key.chars().all(char::is_uppercase) {
            rows.line(frame, Line::raw(format!("{key} {value}")).red().bold());
        }
    }
}

fn words(volume: &VolumeHistory) -> forebay_volume::ReportLines {
    let service = &volume.report.service;
    let around = RenderContext {
        log: service.log.as_deref().unwrap_or_default(),
        requests: (service.request_bytes, service.request_bytes_max),
    };
    volume.report.status.lines(None, &around)
}

/// Draws the ring, the dirty bytes, and the fill level over time.
fn draw_room(frame: &mut Frame<'_>, rows: &mut ScreenRows, volume: &VolumeHistory) {
    let room = &volume.vitals.room;
    let row = rows.next(1);
    frame.render_widget(ring(room, row.width.into()), row);
    let used = (ByteLen(room.used_bytes), ByteLen(room.bytes));
    rows.line(
        frame,
        Line::raw(format!("{} {} of {} in use", room.name, used.0, used.1)),
    );
    if let Some((_, dirty)) = words(volume).into_iter().find(|(key, _)| *key == "dirty") {
        rows.line(frame, Line::raw(format!("dirty {dirty}")));
    }
    // The flows below need the space more than a second row here.
    let height = if rows.0.height > 16 { 2 } else { 1 };
    let row = rows.next(height);
    spark(frame, row, &volume.filled, Some(1.0), Color::Yellow);
}

/// Draws the ring as a bar: the used part precedes the head.
fn ring(room: &RingUsage, columns: usize) -> Line<'static> {
    let (parts, head) = room.parts(columns);
    let full = room.used_bytes as f64 > FULL * room.bytes as f64;
    let color = if full { Color::Red } else { Color::Yellow };
    let spans = parts.into_iter().enumerate().map(|(at, part)| {
        let style = if at == head {
            Style::new().fg(Color::Black).bg(Color::Cyan)
        } else {
            Style::new().fg(color)
        };
        Span::styled(shade(part), style)
    });
    Line::from(spans.collect::<Vec<_>>())
}

/// Returns the shade for a share. Only an empty or a full part gets an outer shade.
fn shade(part: f64) -> &'static str {
    match part {
        part if part < NEARLY => "·",
        part if part < 0.34 => "░",
        part if part < 0.67 => "▒",
        part if part < 1.0 - NEARLY => "▓",
        _ => "█",
    }
}

fn draw_flows(frame: &mut Frame<'_>, rows: &mut ScreenRows, volume: &VolumeHistory) {
    let wide = rows.0.width >= WIDE_COLUMNS + SPARK_MIN;
    let all = if wide {
        "     median / 99 % / max overall"
    } else {
        ""
    };
    let head = format!(
        "{:<13}{:>10}{:>12}{:>11} {all} last {} minutes",
        "",
        "per second",
        "bytes",
        "each",
        KEPT / 60
    );
    rows.line(frame, Line::raw(head).dark_gray());
    let count = volume.flows.len().max(1) as u16;
    let height = (rows.0.height / count).clamp(1, 3);
    for flow in &volume.flows {
        let row = rows.next(height);
        draw_flow(frame, row, flow, wide);
    }
}

fn draw_flow(frame: &mut Frame<'_>, row: Rect, flow: &FlowHistory, wide: bool) {
    let or_none = |text: Option<String>| text.unwrap_or_default();
    let count = or_none(flow.counts.last().map(rate));
    let bytes = or_none(
        flow.bytes
            .last()
            .map(|rate| format!("{}/s", ByteLen(rate as u64))),
    );
    let each = or_none(flow.mean_us.last().map(time));
    let name = flow.flow.name;
    let mut text = format!("{name:<13}{count:>10}{bytes:>12}{each:>11} ");
    let mut columns = FLOW_COLUMNS;
    if wide {
        let all = flow.flow.latency.filter(|latency| latency.count > 0);
        let all = all.map(|latency| {
            let [median, most_of, most] =
                [latency.p50_us, latency.p99_us, latency.max_us].map(|us| time(us as f64));
            format!("{median} / {most_of} / {most}")
        });
        text.push_str(&format!("{:>31} ", or_none(all)));
        columns = WIDE_COLUMNS;
    }
    let line = Rect {
        height: row.height.min(1),
        ..row
    };
    frame.render_widget(Line::raw(text), line);
    if row.width < columns + SPARK_MIN {
        return;
    }
    let beside = Rect {
        x: row.x + columns,
        width: row.width - columns,
        ..row
    };
    let (values, color) = match flow.flow.bytes {
        Some(_) => (&flow.bytes, Color::Cyan),
        None => (&flow.counts, Color::Magenta),
    };
    spark(frame, beside, values, None, color);
}

/// Draws the last minutes of a series, scaled to `most`, or to its maximum.
fn spark(frame: &mut Frame<'_>, area: Rect, series: &TimeSeries, most: Option<f64>, color: Color) {
    // The widget takes whole numbers, and rates may be below 1.
    let whole = |value: f64| (value * 1000.0) as u64;
    let columns = series.columns(area.width.into()).into_iter();
    let columns: Vec<u64> = columns.map(|value| value.map_or(0, whole)).collect();
    let most = most.map_or(columns.iter().copied().max().unwrap_or(0), whole);
    let spark = Sparkline::default().data(&columns).max(most.max(1));
    frame.render_widget(spark.style(Style::new().fg(color)), area);
}

fn draw_foot(frame: &mut Frame<'_>, row: Rect, view: &WatchView) {
    let text = match view.volume() {
        Some((_, place, count)) if count > 1 => {
            format!("q quit   ← → volume {place} of {count}")
        }
        _ => "q quit".to_owned(),
    };
    frame.render_widget(Line::raw(text).dark_gray(), row);
}

fn rate(value: f64) -> String {
    match value {
        value if value > 0.0 && value < 10.0 => format!("{value:.1}/s"),
        value => format!("{value:.0}/s"),
    }
}

/// Formats a time in microseconds for people.
fn time(us: f64) -> String {
    match us {
        us if us < 1e3 => format!("{us:.0} µs"),
        us if us < 1e6 => format!("{:.1} ms", us / 1e3),
        us => format!("{:.1} s", us / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::report::StatusReport;
    use crate::watch::history::StatusSample;
    use crate::watch::history::tests::{at, seen};

    /// Returns the rows of a screen of that size.
    fn screen(view: &WatchView, columns: u16, rows: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        terminal.draw(|frame| draw(frame, view)).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y| {
            (0..columns)
                .map(|x| buffer[(x, y)].symbol())
                .collect::<String>()
        };
        (0..rows).map(row).collect()
    }

    fn view(reports: impl IntoIterator<Item = StatusReport>) -> WatchView {
        let mut view = WatchView::default();
        for report in reports {
            view.take(seen(vec![report]));
        }
        view
    }

    fn has(rows: &[String], parts: &[&str]) {
        for part in parts {
            let there = rows.iter().any(|row| row.contains(part));
            assert!(there, "{part}:\n{}", rows.join("\n"));
        }
    }

    #[test]
    fn a_screen_of_80_by_24_shows_paths_fill_level_and_rates() {
        let view = view((1..20).map(|second| at(second, u64::from(second) * 100)));
        let rows = screen(&view, 80, 24);
        has(
            &rows,
            &[
                "archive  caching  /dev/forebay/archive (via loop)",
                "/dev/sdb, 1GiB < /dev/sdc",
                "log 2MiB of 64MiB in use",
                "dirty 1MiB, the log is 3 % full, writing",
                "DAMAGE",
                "q quit",
            ],
        );
        let writes = rows.iter().find(|row| row.starts_with("writes")).unwrap();
        let words: Vec<&str> = writes.split_whitespace().take(5).collect();
        assert_eq!(words, ["writes", "100/s", "400KiB/s", "2.0", "ms"]);
        assert!(writes.contains('█'), "{writes}");
        // The log's head is at 1 MiB of 64 MiB, and the 2 MiB before it are in use: 1.25 columns on both sides of the
        // ring's beginning.
        let ring = rows.iter().find(|row| row.contains('·')).unwrap();
        assert!(ring.starts_with("█░·") && ring.ends_with("·░█"), "{ring}");
    }

    #[test]
    fn a_wide_screen_also_shows_latencies_since_attach() {
        let view = view([at(1, 10), at(2, 20)]);
        let rows = screen(&view, 140, 40);
        has(&rows, &["median / 99 % / max", "1 µs / 3 µs / 5 µs"]);
        let rows = screen(&view, 80, 24);
        assert!(rows.iter().all(|row| !row.contains("median")), "{rows:?}");
    }

    #[test]
    fn parts_that_do_not_fit_are_omitted_and_no_screen_size_panics() {
        let view = view([at(1, 10), at(2, 20)]);
        for columns in (0..130).step_by(3) {
            for rows in 0..30 {
                screen(&view, columns, rows);
            }
        }
        assert_eq!(screen(&view, 12, 2)[0], "too small   ");
        has(&screen(&view, 30, 5), &["archive  caching", "q quit"]);
        has(
            &screen(&WatchView::default(), 80, 24),
            &["no volume is attached"],
        );
    }

    #[test]
    fn notes_are_shown_and_detached_volumes_are_labelled() {
        let mut view = view([at(1, 10)]);
        let notes = vec!["the daemon of x ended abruptly".to_owned()];
        let reports = Vec::new();
        view.take(StatusSample { reports, notes });
        has(
            &screen(&view, 80, 24),
            &["archive  no longer attached", "ended abruptly"],
        );
    }

    #[test]
    fn long_device_names_get_a_screen_line_each() {
        let mut report = at(1, 10);
        report.service.data = format!("/dev/{}", "x".repeat(60));
        let rows = screen(&view([report]), 80, 24);
        assert!(rows[1].starts_with("/dev/xx") && rows[1].trim_end().ends_with("1GiB"));
        assert!(rows[2].starts_with("< /dev/sdc "), "{rows:?}");
    }

    #[test]
    fn control_characters_in_a_name_never_reach_the_terminal() {
        let mut report = at(1, 10);
        report.service.data = "/tmp/\x1b]0;title\x07\x1b[2J.img".into();
        let rows = screen(&view([report]), 80, 24);
        assert!(rows.iter().all(|row| !row.contains(char::is_control)));
        has(&rows, &["/tmp/]0;title[2J.img"]);
    }
}
