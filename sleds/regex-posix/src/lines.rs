//! Search for lines in a buffer of many lines.

use std::ops::Range;

use memchr::{memchr, memrchr};
use regex_syntax::hir::Hir;

use super::error::PatternError;
use super::prefilter::LinePrefilter;
use super::search::HirSearcher;

pub(super) struct LineSearcher {
    eol: u8,
    /// True if every line matches.
    always: bool,
    search: HirSearcher,
    /// A faster search for lines that may match, while it pays.
    prefilter: Option<LinePrefilter>,
}

impl LineSearcher {
    pub(super) fn new(hir: &Hir, eol: u8) -> Result<LineSearcher, PatternError> {
        let properties = hir.properties();
        let search = HirSearcher::new(hir, eol)?;
        let prefilter = if search.is_fast() {
            None
        } else {
            LinePrefilter::new(hir, eol)
        };
        Ok(LineSearcher {
            eol,
            always: properties.minimum_len() == Some(0) && properties.look_set().is_empty(),
            search,
            prefilter,
        })
    }

    /// Returns the first matching line in `lines`, which contains whole lines, at or after `from`, where a line begins.
    /// The range excludes the line's end.
    pub(super) fn find(&mut self, lines: &[u8], from: usize) -> Option<Range<usize>> {
        if from >= lines.len() {
            return None;
        }
        let found = if self.always {
            from
        } else {
            self.place(lines, from)?
        };
        // Behind the last line's end, no line begins.
        if found == lines.len() && lines[found - 1] == self.eol {
            return None;
        }
        let start = memrchr(self.eol, &lines[from..found]).map_or(from, |at| from + at + 1);
        let end = memchr(self.eol, &lines[found..]).map_or(lines.len(), |at| found + at);
        Some(start..end)
    }

    /// Returns a place in the first matching line at or after `from`, where a line begins.
    fn place(&mut self, lines: &[u8], from: usize) -> Option<usize> {
        let mut at = from;
        while let Some(prefilter) = &mut self.prefilter {
            let possible = prefilter.find(lines, at)?;
            let start = memrchr(self.eol, &lines[at..possible]).map_or(at, |n| at + n + 1);
            let end = memchr(self.eol, &lines[possible..]).map_or(lines.len(), |n| possible + n);
            if let Some(found) = self.search.place(lines, start..end) {
                return Some(found);
            }
            if end == lines.len() {
                return None;
            }
            if !prefilter.pays_after_miss(end - at) {
                self.prefilter = None;
            }
            at = end + 1;
        }
        self.search.place(lines, at..lines.len())
    }

    /// Returns the number of matching lines in `lines`.
    pub(super) fn count(&mut self, lines: &[u8]) -> u64 {
        let (mut from, mut count) = (0, 0);
        if self.always {
            while let Some(line) = self.find(lines, from) {
                count += 1;
                from = line.end + 1;
            }
            return count;
        }
        while from < lines.len() {
            let Some(found) = self.place(lines, from) else {
                break;
            };
            if found == lines.len() && lines[found - 1] == self.eol {
                break;
            }
            count += 1;
            from = memchr(self.eol, &lines[found..]).map_or(lines.len(), |at| found + at + 1);
        }
        count
    }
}
