//! Where in a line the matches of a pattern are: what GNU grep asks the C library for.

use std::ops::Range;

use super::ast::Node;
use super::backtrack::{Backtrack, TooDeep};
use super::lower::Accuracy;
use super::search::Search;
use super::spans::Spans;
use super::{Options, lowering, text};

/// A pattern, as the C library knows it.
pub(super) struct Pattern {
    options: Options,
    pub(super) node: Node,
    /// Automata are not enough for lines with more than ASCII, or for any.
    full: bool,
    backref: bool,
    /// The match that is found first is the longest at its place.
    longest_first: bool,
    /// Whether a match ends depends on what is behind it.
    looks_ahead: bool,
    /// It searches bytes, not characters, so that an empty match may be within a character.
    bytewise: bool,
    /// Finds where matches may begin, and how long they are; made when first asked for.
    search: Option<Search>,
    spans: Option<Spans>,
    /// A line with something behind where it was cut.
    cut: Vec<u8>,
}

impl Pattern {
    /// `complex` is that of the parser.
    pub(super) fn new(node: Node, complex: bool, options: Options) -> Pattern {
        let backref = node.has_backref();
        let full = backref || options.utf8 && node.has_word_assert();
        Pattern {
            options,
            full,
            backref,
            longest_first: !full && node.has_one_length_at_a_place(),
            looks_ahead: node.any(&|node| matches!(node, Node::Assert(_))),
            bytewise: !options.icase && !complex,
            node,
            search: None,
            spans: None,
            cut: Vec::new(),
        }
    }

    /// True if automata do not know all of it.
    pub(super) fn full(&self) -> bool {
        self.full
    }

    /// The leftmost-longest match that begins at or after `from`.
    pub(super) fn find(
        &mut self,
        line: &[u8],
        from: usize,
    ) -> Result<Option<Range<usize>>, TooDeep> {
        let mut start = from;
        while let Some(possible) = self.search().and_then(|search| search.first(line, start)) {
            if self.longest_first {
                return Ok(Some(possible));
            }
            let end = match self.by_automata(line) {
                true => {
                    start = possible.start;
                    self.spans()
                        .and_then(|s| s.longest(line, start, line.len()))
                }
                false => {
                    // Characters are tried, not bytes.
                    while start < possible.start {
                        start += self.step(line, start);
                    }
                    if start > possible.start {
                        continue;
                    }
                    self.by_trying().longest(&self.node, line, start)?
                }
            };
            if let Some(end) = end {
                return Ok(Some(start..end));
            }
            if start == line.len() {
                break;
            }
            start += self.step(line, start);
        }
        Ok(None)
    }

    /// Bytes of the character at `at`.
    fn step(&self, line: &[u8], at: usize) -> usize {
        text::decode(&line[at..], self.options.utf8).map_or(1, |(_, len)| len)
    }

    /// The end of the longest match at `start` in `line` up to `limit`, where the text ends but not
    /// the line.
    pub(super) fn longest(
        &mut self,
        line: &[u8],
        start: usize,
        limit: usize,
    ) -> Result<Option<usize>, TooDeep> {
        if !self.by_automata(line) {
            let mut backtrack = self.by_trying();
            backtrack.ends = false;
            return backtrack.longest(&self.node, &line[..limit], start);
        }
        if !self.looks_ahead {
            return Ok(self.spans().and_then(|s| s.longest(line, start, limit)));
        }
        // Behind the text there is neither a line end nor a part of a word.
        let mut cut = std::mem::take(&mut self.cut);
        cut.clear();
        cut.extend_from_slice(&line[..limit]);
        cut.push(b' ');
        let end = self.spans().and_then(|s| s.longest(&cut, start, limit));
        self.cut = cut;
        Ok(end)
    }

    /// Where to search on if no match that begins at `start` will do.
    pub(super) fn next(&self, line: &[u8], start: usize) -> Option<usize> {
        let utf8 = self.options.utf8 && !self.bytewise;
        text::decode(&line[start..], utf8).map(|(_, len)| start + len)
    }

    fn by_trying(&self) -> Backtrack {
        Backtrack {
            utf8: self.options.utf8,
            icase: self.options.icase,
            ends: true,
        }
    }

    fn by_automata(&self, line: &[u8]) -> bool {
        !self.full || !self.backref && line.is_ascii()
    }

    fn search(&mut self) -> Option<&mut Search> {
        if self.search.is_none() {
            let lowering = lowering(self.options, Accuracy::Superset);
            let hir = match self.backref && !self.options.icase {
                true => lowering.lower(&self.node.with_groups_for_backrefs()),
                false => lowering.lower(&self.node),
            };
            self.search = Search::new(&hir, self.options.eol).ok();
        }
        self.search.as_mut()
    }

    fn spans(&mut self) -> Option<&mut Spans> {
        if self.spans.is_none() {
            let hir = lowering(self.options, Accuracy::Exact).lower(&self.node);
            self.spans = Spans::new(&hir, self.options.eol).ok();
        }
        self.spans.as_mut()
    }
}
