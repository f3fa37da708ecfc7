//! Results: a table of times, and a list of checks.

use std::time::Duration;

use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_command_output::result_line;

/// Time of each phase.
pub type PhaseTimes = Vec<(&'static str, Duration)>;

/// Times of each shape under equal conditions.
#[derive(Default)]
struct TimesTable {
    /// Lines above the table, which state the conditions.
    conditions: Vec<String>,
    columns: Vec<(&'static str, PhaseTimes)>,
}

/// Gain below which a table has an explanation.
const CLEARLY_SLOWER: f64 = 0.95;

/// Tables of times, and checks.
#[derive(Default)]
pub struct TryReport {
    tables: Vec<TimesTable>,
    slower: &'static str,
    notes: Vec<String>,
    checks: Vec<(String, CommandResult)>,
}

impl TryReport {
    /// Begins a table. `conditions` are the lines above it.
    pub(crate) fn table(&mut self, conditions: Vec<String>) {
        self.tables.push(TimesTable {
            conditions,
            columns: Vec::new(),
        });
    }

    /// Adds the times of one shape to the last table. The first shape of a table is the baseline.
    pub(crate) fn times(&mut self, shape: &'static str, times: PhaseTimes) {
        if let Some(table) = self.tables.last_mut() {
            table.columns.push((shape, times));
        }
    }

    /// Sets the explanation for rows that are slower than the baseline.
    pub(crate) fn explain_slower(&mut self, why: &'static str) {
        self.slower = why;
    }

    /// Adds a line below the table.
    pub(crate) fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    /// Returns the lines below the table.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Adds a check and prints its result at once.
    pub fn check(&mut self, what: impl Into<String>, outcome: CommandResult) {
        let what = what.into();
        match &outcome {
            Ok(()) => result_line!("  ok: {what}"),
            Err(failure) => result_line!("  FAILED: {what}: {failure}"),
        }
        self.checks.push((what, outcome));
    }

    /// Adds a check for a condition and prints its result at once.
    pub(crate) fn expect(&mut self, what: impl Into<String>, holds: bool, otherwise: &str) {
        let outcome = if holds {
            Ok(())
        } else {
            Err(CommandFailure::general(otherwise))
        };
        self.check(what, outcome);
    }

    /// Returns true if all checks passed.
    pub fn all_passed(&self) -> bool {
        self.checks.iter().all(|(_, outcome)| outcome.is_ok())
    }

    pub(crate) fn print(&self, users: u32) {
        for table in &self.tables {
            result_line!("");
            for line in table.conditions.iter().chain(&table.lines(users)) {
                result_line!("{line}");
            }
        }
        if self.tables.iter().any(TimesTable::has_slower_rows) && !self.slower.is_empty() {
            result_line!("Rows below 1.0x: {}", self.slower);
        }
        result_line!("");
        for note in &self.notes {
            result_line!("{note}");
        }
        let failed = self
            .checks
            .iter()
            .filter(|(_, outcome)| outcome.is_err())
            .count();
        result_line!("{} checks, {failed} failed", self.checks.len());
        for (what, outcome) in &self.checks {
            if let Err(failure) = outcome {
                result_line!("  FAILED: {what}: {failure}");
            }
        }
    }
}

impl TimesTable {
    /// Returns a line of titles and a line for each phase: the time of each shape and, from the second shape on, the
    /// speedup over the first shape.
    fn lines(&self, users: u32) -> Vec<String> {
        let Some(((first, alone), others)) = self.columns.split_first() else {
            return Vec::new();
        };
        let mut titles = format!("{:<26}{first:>12}", format!("{users} users"));
        for (shape, _) in others {
            titles.push_str(&format!("{shape:>15}{:>7}", "gain"));
        }
        let row = |(n, (phase, time)): (usize, &(&'static str, Duration))| {
            let mut row = format!("{phase:<26}{:>10.3} s", time.as_secs_f64());
            for (_, times) in others {
                match times.get(n) {
                    Some((_, other)) => {
                        let other = other.as_secs_f64();
                        let gain = time.as_secs_f64() / other.max(1e-9);
                        row.push_str(&format!("{other:>13.3} s{gain:>6.1}x"));
                    }
                    None => row.push_str(&format!("{:>15}{:>7}", "-", "")),
                }
            }
            row
        };
        let rows = alone.iter().enumerate().map(row);
        std::iter::once(titles).chain(rows).collect()
    }

    /// Returns true if a shape was clearly slower than the first in a phase.
    fn has_slower_rows(&self) -> bool {
        let Some(((_, alone), others)) = self.columns.split_first() else {
            return false;
        };
        let is_slower = |times: &PhaseTimes| {
            let pairs = alone.iter().zip(times);
            let mut gains = pairs.map(|((_, alone), (_, other))| {
                alone.as_secs_f64() / other.as_secs_f64().max(1e-9)
            });
            gains.any(|gain| gain < CLEARLY_SLOWER)
        };
        others.iter().any(|(_, times)| is_slower(times))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_shows_the_gain_of_every_layout_over_the_first() {
        let mut report = TryReport::default();
        report.table(vec!["ext4".into()]);
        let times = |a, b| {
            vec![
                ("untar", Duration::from_millis(a)),
                ("remove", Duration::from_millis(b)),
            ]
        };
        report.times("plain disk", times(8000, 500));
        report.times("logical DCD", times(2000, 1000));
        let table = &report.tables[0];
        assert!(table.has_slower_rows());
        assert_eq!(
            table.lines(4),
            [
                "4 users                     plain disk    logical DCD   gain",
                "untar                          8.000 s        2.000 s   4.0x",
                "remove                         0.500 s        1.000 s   0.5x",
            ]
        );
    }
}
