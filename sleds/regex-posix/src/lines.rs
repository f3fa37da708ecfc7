//! Search for lines in a buffer of many lines.

use std::ops::Range;

use memchr::{memchr, memrchr};
use regex_syntax::hir::Hir;

use super::error::PatternError;
use super::search::HirSearcher;

pub(super) struct LineSearcher {
    eol: u8,
    /// True if every line matches.
    always: bool,
    search: HirSearcher,
}

impl LineSearcher {
    pub(super) fn new(hir: &Hir, eol: u8) -> Result<LineSearcher, PatternError> {
        let properties = hir.properties();
        Ok(LineSearcher {
            eol,
            always: properties.minimum_len() == Some(0) && properties.look_set().is_empty(),
            search: HirSearcher::new(hir, eol)?,
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
            self.search.place(lines, from)?
        };
        // Behind the last line's end, no line begins.
        if found == lines.len() && lines[found - 1] == self.eol {
            return None;
        }
        let start = memrchr(self.eol, &lines[from..found]).map_or(from, |at| from + at + 1);
        let end = memchr(self.eol, &lines[found..]).map_or(lines.len(), |at| found + at);
        Some(start..end)
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
            let Some(found) = self.search.place(lines, from) else {
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
