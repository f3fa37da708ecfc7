//! Finds lines in a buffer of many.

use std::ops::Range;

use memchr::{memchr, memmem, memrchr};
use regex_automata::Input;
use regex_automata::meta;
use regex_automata::nfa::thompson::WhichCaptures;
use regex_syntax::hir::{Hir, HirKind};

use super::NFA_BYTES;
use super::error::Error;

pub(super) struct Lines {
    eol: u8,
    /// Every line matches.
    always: bool,
    searcher: meta::Regex,
    cache: meta::Cache,
    /// The same, where it is one text.
    literal: Option<memmem::Finder<'static>>,
}

impl Lines {
    pub(super) fn new(hir: &Hir, eol: u8) -> Result<Lines, Error> {
        let properties = hir.properties();
        let searcher = searcher(hir, eol)?;
        Ok(Lines {
            eol,
            always: properties.minimum_len() == Some(0) && properties.look_set().is_empty(),
            cache: searcher.create_cache(),
            searcher,
            literal: match hir.kind() {
                HirKind::Literal(text) => Some(memmem::Finder::new(&text.0).into_owned()),
                _ => None,
            },
        })
    }

    /// The first line in `lines`, which holds whole lines, at or after `from`, where a line begins.
    /// The range is without the line's end.
    pub(super) fn find(&mut self, lines: &[u8], from: usize) -> Option<Range<usize>> {
        if from >= lines.len() {
            return None;
        }
        let found = match self.always {
            true => from,
            false => self.match_end(lines, from)?,
        };
        // Behind the last line's end, no line begins.
        if found == lines.len() && lines[found - 1] == self.eol {
            return None;
        }
        let start = memrchr(self.eol, &lines[from..found]).map_or(from, |at| from + at + 1);
        let end = memchr(self.eol, &lines[found..]).map_or(lines.len(), |at| found + at);
        Some(start..end)
    }

    /// How many there are in `lines`.
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
            let Some(found) = self.match_end(lines, from) else {
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

    /// A place in the first line at or after `from` that matches.
    fn match_end(&mut self, lines: &[u8], from: usize) -> Option<usize> {
        if let Some(literal) = &self.literal {
            return literal.find(&lines[from..]).map(|at| from + at);
        }
        let input = Input::new(lines).range(from..).earliest(true);
        let half = self.searcher.search_half_with(&mut self.cache, &input)?;
        Some(half.offset())
    }
}

/// A searcher for whether and where there is a match.
pub(super) fn searcher(hir: &Hir, eol: u8) -> Result<meta::Regex, Error> {
    meta::Builder::new()
        .configure(
            meta::Config::new()
                .utf8_empty(false)
                .line_terminator(eol)
                .which_captures(WhichCaptures::Implicit)
                .nfa_size_limit(Some(NFA_BYTES))
                .hybrid_cache_capacity(16 << 20)
                .dfa(false)
                .onepass(false)
                .backtrack(false),
        )
        .build_from_hir(hir)
        .map_err(|_| Error::TooBig)
}
