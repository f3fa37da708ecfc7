//! What `try` found: a table of times, and a list of checks.

use std::time::Duration;

use crate::failure::{Failure, Outcome};
use crate::output::result_line;

/// Times with and without the cache, and checks.
#[derive(Default)]
pub(super) struct Report {
    rows: Vec<(&'static str, Duration, Duration)>,
    notes: Vec<String>,
    checks: Vec<(String, Outcome)>,
}

impl Report {
    /// Adds the times of the same phases without and with the cache.
    pub(super) fn times(
        &mut self,
        without: Vec<(&'static str, Duration)>,
        with: Vec<(&'static str, Duration)>,
    ) {
        for ((phase, without), (_, with)) in without.into_iter().zip(with) {
            self.rows.push((phase, without, with));
        }
    }

    /// Adds a line below the table.
    pub(super) fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    /// Adds a check and says at once how it went.
    pub(super) fn check(&mut self, what: impl Into<String>, outcome: Outcome) {
        let what = what.into();
        match &outcome {
            Ok(()) => result_line!("  ok: {what}"),
            Err(failure) => result_line!("  FAILED: {what}: {failure}"),
        }
        self.checks.push((what, outcome));
    }

    /// The same for a condition.
    pub(super) fn expect(&mut self, what: impl Into<String>, holds: bool, otherwise: &str) {
        let outcome = if holds {
            Ok(())
        } else {
            Err(Failure::general(otherwise))
        };
        self.check(what, outcome);
    }

    pub(super) fn all_passed(&self) -> bool {
        self.checks.iter().all(|(_, outcome)| outcome.is_ok())
    }

    pub(super) fn print(&self, users: u32) {
        result_line!("");
        result_line!(
            "{:<26}{:>12}{:>12}{:>8}",
            format!("{users} users"),
            "without",
            "with",
            "gain"
        );
        for (phase, without, with) in &self.rows {
            let gain = without.as_secs_f64() / with.as_secs_f64().max(1e-9);
            result_line!(
                "{phase:<26}{:>10.3} s{:>10.3} s{gain:>7.1}x",
                without.as_secs_f64(),
                with.as_secs_f64()
            );
        }
        result_line!("without: the image directly, with direct I/O; with: through Forebay");
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
