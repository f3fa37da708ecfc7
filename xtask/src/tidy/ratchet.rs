//! Limits and their exceptions, which may only shrink.
//!
//! `xtask/ratchet.txt` lists the exceptions, one in each line: the permitted number, and the item. An exception is
//! removed once its item is within the limit.

use std::collections::BTreeMap;

use super::{ProjectTree, TidyProblem};

/// Path of the file with the exceptions.
pub(super) const RATCHET: &str = "xtask/ratchet.txt";

/// Exceptions that no item has claimed yet: item, line of the exception, permitted number.
pub(super) struct Ratchet(BTreeMap<String, (usize, usize)>);

/// An item with a limit.
#[derive(Debug, Clone, Copy)]
pub(super) struct LimitedCount<'a> {
    /// A file, `FILE::FUNCTION`, or a crate's directory.
    pub(super) what: &'a str,
    /// Line of a problem; 0 for the whole item.
    pub(super) line: usize,
    pub(super) number: usize,
    /// Unit of the number. An exception names its item, and also the unit unless that is `lines`.
    pub(super) unit: &'a str,
    pub(super) max: usize,
}

impl LimitedCount<'_> {
    fn exception(&self) -> String {
        match self.unit {
            "lines" => self.what.to_owned(),
            unit => format!("{} {unit}", self.what),
        }
    }

    fn problem(&self, text: String) -> TidyProblem {
        let path = self.what.split("::").next().unwrap_or_default();
        TidyProblem::new(path, self.line, format!("`{}` {text}", self.what))
    }
}

impl Ratchet {
    /// Reads the exceptions, and reports malformed lines.
    pub(super) fn of(tree: &ProjectTree) -> (Ratchet, Vec<TidyProblem>) {
        let (mut allowed, mut problems) = (BTreeMap::new(), Vec::new());
        for (index, line) in tree.text(RATCHET).unwrap_or_default().lines().enumerate() {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let pair = line.split_once(' ');
            match pair.and_then(|(number, what)| Some((number.parse().ok()?, what.trim()))) {
                Some((number, what)) => {
                    allowed.insert(what.to_owned(), (index + 1, number));
                }
                None => problems.push(TidyProblem::new(RATCHET, index + 1, "not `NUMBER WHAT`")),
            }
        }
        (Ratchet(allowed), problems)
    }

    /// Returns a problem if the item exceeds the limit and its exception.
    pub(super) fn at_most(&mut self, thing: LimitedCount<'_>) -> Option<TidyProblem> {
        let LimitedCount {
            number, unit, max, ..
        } = thing;
        if number <= max {
            return None;
        }
        match self.0.remove(&thing.exception()) {
            None => Some(thing.problem(format!("has {number} {unit}, limit {max}"))),
            Some((_, limit)) if number > limit => {
                let text = format!("grew to {number} {unit}; its exception is for {limit}");
                Some(thing.problem(text))
            }
            Some(_) => None,
        }
    }

    /// Returns a problem if the item exceeds the limit and its exception is not equal to the number.
    pub(super) fn exactly(&mut self, thing: LimitedCount<'_>) -> Option<TidyProblem> {
        let LimitedCount { what, number, .. } = thing;
        match self.0.get(&thing.exception()) {
            Some(&(at, limit)) if (thing.max + 1..limit).contains(&number) => {
                self.0.remove(&thing.exception());
                let text = format!("`{what}` shrank: write {number} instead of {limit}");
                Some(TidyProblem::new(RATCHET, at, text))
            }
            _ => self.at_most(thing),
        }
    }

    /// Returns problems for unnecessary exceptions.
    pub(super) fn left(self) -> impl Iterator<Item = TidyProblem> {
        self.0.into_iter().map(|(what, (line, _))| {
            let text = format!("`{what}` needs no exception any more: remove this line");
            TidyProblem::new(RATCHET, line, text)
        })
    }
}
