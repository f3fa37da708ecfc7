//! Formats the results as a page of Markdown.

use std::fmt::Write as _;

use super::cases::PageCacheState;
use crate::stats::Median;

/// Locales of all measurements.
pub(super) const LOCALES: [&str; 2] = ["C", "C.UTF-8"];

/// Result of a command on an input in a state, in a locale: ratios of our values to GNU's.
#[derive(Clone, Copy, Debug)]
pub(super) struct CostCell {
    pub(super) wall: Median,
    pub(super) cpu: Median,
    /// Seconds of GNU's program.
    pub(super) gnu_s: f64,
}

/// A command in all locales.
pub(super) struct CostRow {
    pub(super) title: String,
    pub(super) cells: Vec<CostCell>,
}

/// All commands on an input in a state.
pub(super) struct CostSection {
    pub(super) title: String,
    pub(super) state: PageCacheState,
    pub(super) rows: Vec<CostRow>,
}

/// Comparison of a ratio with its limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RatioVerdict {
    Met,
    /// The median is above the limit, but part of the interval is not.
    Perhaps,
    Missed,
}

/// Excess over the limit that is ignored.
const ROUNDING: f64 = 0.005;

fn verdict(ratio: Median, bar: f64) -> RatioVerdict {
    match (ratio.median > bar + ROUNDING, ratio.low > bar + ROUNDING) {
        (_, true) => RatioVerdict::Missed,
        (true, _) => RatioVerdict::Perhaps,
        _ => RatioVerdict::Met,
    }
}

fn show(ratio: Median, bar: f64) -> String {
    let range = format!("({:.2}–{:.2})", ratio.low, ratio.high);
    match verdict(ratio, bar) {
        RatioVerdict::Met => format!("{:.2} {range}", ratio.median),
        RatioVerdict::Perhaps => format!("{:.2}? {range}", ratio.median),
        RatioVerdict::Missed => format!("**{:.2}** {range}", ratio.median),
    }
}

/// Returns the page, which begins with `preface`.
pub(super) fn page(preface: &str, sections: &[CostSection]) -> String {
    let mut page = format!(
        "# Our times beside GNU's\n\n{preface}\n{}",
        summary(sections)
    );
    for section in sections {
        let CostSection { title, state, rows } = section;
        let bar = state.bar();
        // Writing to a string cannot fail.
        let _ = writeln!(page, "\n## {title} (bar {bar:.2})\n");
        page += "| command |";
        for locale in LOCALES {
            let _ = write!(page, " {locale}: GNU, ms | time | processor |");
        }
        let _ = writeln!(page, "\n|---|{}", "---:|---:|---:|".repeat(LOCALES.len()));
        for row in rows {
            let _ = write!(page, "| `{}` |", row.title.replace('|', "\\|"));
            for cell in &row.cells {
                let (wall, cpu) = (show(cell.wall, bar), show(cell.cpu, bar));
                let _ = write!(page, " {:.3} | {wall} | {cpu} |", cell.gnu_s * 1e3);
            }
            page.push('\n');
        }
    }
    page
}

/// Returns the number of time ratios above the limit, and the worst ones.
fn summary(sections: &[CostSection]) -> String {
    let mut missed = Vec::new();
    let (mut count, mut perhaps) = (0, 0);
    for section in sections {
        for row in &section.rows {
            for (cell, locale) in row.cells.iter().zip(LOCALES) {
                count += 1;
                match verdict(cell.wall, section.state.bar()) {
                    RatioVerdict::Met => {}
                    RatioVerdict::Perhaps => perhaps += 1,
                    RatioVerdict::Missed => {
                        let over = cell.wall.median / section.state.bar();
                        missed.push((over, format!("{} ({locale}), {}", row.title, section.title)));
                    }
                }
            }
        }
    }
    missed.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut text = format!(
        "Of {count} ratios of times {} are above the bar, and {perhaps} more with the median alone.",
        missed.len()
    );
    for (over, what) in missed.iter().take(20) {
        let _ = write!(text, "\n- {over:.2} of the bar: `{what}`");
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(low: f64, median: f64, high: f64) -> Median {
        Median { low, median, high }
    }

    #[test]
    fn only_a_ratio_surely_above_the_target_misses_it() {
        assert_eq!(verdict(ratio(0.9, 1.0, 1.1), 1.0), RatioVerdict::Met);
        assert_eq!(verdict(ratio(0.9, 1.1, 1.2), 1.0), RatioVerdict::Perhaps);
        assert_eq!(verdict(ratio(1.03, 1.1, 1.2), 1.02), RatioVerdict::Missed);
        assert_eq!(show(ratio(1.03, 1.1, 1.2), 1.02), "**1.10** (1.03–1.20)");
    }

    #[test]
    fn the_page_counts_and_names_missed_targets() {
        let cell = |median: f64| CostCell {
            wall: ratio(median - 0.01, median, median + 0.01),
            cpu: ratio(0.5, 0.5, 0.5),
            gnu_s: 0.002,
        };
        let rows = vec![CostRow {
            title: "grep -E 'a|b'".to_owned(),
            cells: vec![cell(0.9), cell(1.2)],
        }];
        let section = CostSection {
            title: "a text".to_owned(),
            state: PageCacheState::Cached,
            rows,
        };
        let page = page("", &[section]);
        assert!(
            page.contains("Of 2 ratios of times 1 are above the bar, and 0 more"),
            "{page}"
        );
        assert!(
            page.contains("- 1.20 of the bar: `grep -E 'a|b' (C.UTF-8), a text`"),
            "{page}"
        );
        assert!(
            page.contains(r"| `grep -E 'a\|b'` | 2.000 | 0.90 (0.89–0.91) |"),
            "{page}"
        );
        assert!(page.contains("| **1.20** (1.19–1.21) |"), "{page}");
    }
}
