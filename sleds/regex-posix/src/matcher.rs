//! Search for matches in a line.

use std::ops::Range;

use regex_syntax::hir::Hir;

use super::ast::PatternNode;
use super::backtrack::{BacktrackMatcher, NestingTooDeep};
use super::lower::LoweringAccuracy;
use super::options::RegexOptions;
use super::search::HirSearcher;
use super::spans::SpanAutomaton;
use super::text;

/// A pattern, to be found in lines.
pub(super) struct PatternMatcher {
    options: RegexOptions,
    node: PatternNode,
    /// Automata are not enough for lines that are not only ASCII, or for any line.
    full: bool,
    backref: bool,
    /// The match that is found first is the longest at its place.
    longest_first: bool,
    /// Finds possible starts of matches, and lengths of matches. Created at the first use.
    search: Option<HirSearcher>,
    spans: Option<SpanAutomaton>,
}

impl PatternMatcher {
    pub(super) fn new(node: PatternNode, options: RegexOptions) -> PatternMatcher {
        let backref = node.has_backref();
        let full = backref || options.rules().has_wide_words() && node.has_word_assert();
        PatternMatcher {
            options,
            full,
            backref,
            longest_first: !full && node.has_one_length_at_a_place(),
            node,
            search: None,
            spans: None,
        }
    }

    /// Returns true if automata do not cover the whole pattern.
    pub(super) fn full(&self) -> bool {
        self.full
    }

    /// Returns a pattern that matches all matches of this pattern; exactly these, unless it is
    /// [`PatternMatcher::full`].
    pub(super) fn superset(&self) -> Hir {
        let lowering = self.options.lowering(LoweringAccuracy::Superset);
        if self.backref && !self.options.icase {
            lowering.lower(&self.node.with_groups_for_backrefs())
        } else {
            lowering.lower(&self.node)
        }
    }

    /// Returns the leftmost-longest match that begins at or after `from`.
    pub(super) fn find(
        &mut self,
        line: &[u8],
        from: usize,
    ) -> Result<Option<Range<usize>>, NestingTooDeep> {
        let mut start = from;
        while let Some(possible) = self.search().and_then(|search| search.first(line, start)) {
            if self.longest_first {
                return Ok(Some(possible));
            }
            // The search proceeds by characters, not by bytes.
            while start < possible.start {
                start += self.step(line, start);
            }
            if start > possible.start {
                continue;
            }
            if let Some(end) = self.longest(line, start)? {
                return Ok(Some(start..end));
            }
            if start == line.len() {
                break;
            }
            start += self.step(line, start);
        }
        Ok(None)
    }

    /// Returns the bytes of the character at `at`.
    fn step(&self, line: &[u8], at: usize) -> usize {
        text::decode(&line[at..], self.options.utf8).map_or(1, |(_, len)| len)
    }

    /// Returns the end of the longest match at `start`.
    fn longest(&mut self, line: &[u8], start: usize) -> Result<Option<usize>, NestingTooDeep> {
        if !self.full || !self.backref && line.is_ascii() {
            return Ok(self.spans().and_then(|spans| spans.longest(line, start)));
        }
        let backtrack = BacktrackMatcher {
            rules: self.options.rules(),
            icase: self.options.icase,
        };
        backtrack.longest(&self.node, line, start)
    }

    fn search(&mut self) -> Option<&mut HirSearcher> {
        if self.search.is_none() {
            self.search = HirSearcher::new(&self.superset(), self.options.eol).ok();
        }
        self.search.as_mut()
    }

    fn spans(&mut self) -> Option<&mut SpanAutomaton> {
        if self.spans.is_none() {
            let hir = self
                .options
                .lowering(LoweringAccuracy::Exact)
                .lower(&self.node);
            self.spans = SpanAutomaton::new(&hir, self.options.eol).ok();
        }
        self.spans.as_mut()
    }
}
