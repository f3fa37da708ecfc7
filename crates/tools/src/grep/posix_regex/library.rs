//! Where in a line the matches of a pattern are: what GNU grep asks the C library for.

use std::ops::Range;

use super::ast::Node;
use super::backtrack::{Backtrack, TooDeep};
use super::lower::Accuracy;
use super::spans::Spans;
use super::{Options, lowering, text};

/// A pattern, as the C library knows it.
pub(super) struct Pattern {
    options: Options,
    pub(super) node: Node,
    /// Automata are not enough for lines with more than ASCII, or for any.
    full: bool,
    /// Whether a match ends depends on what is behind it.
    looks_ahead: bool,
    /// It searches bytes, not characters, so that an empty match may be within a character.
    bytewise: bool,
    /// The automata that find matches in a line, made when first asked for.
    spans: Option<Spans>,
    /// A line with something behind where it was cut.
    cut: Vec<u8>,
}

impl Pattern {
    /// `complex` is that of the parser.
    pub(super) fn new(node: Node, complex: bool, options: Options) -> Pattern {
        Pattern {
            options,
            full: node.has_backref() || options.utf8 && node.has_word_assert(),
            looks_ahead: node.any(&|node| matches!(node, Node::Assert(_))),
            bytewise: !options.icase && !complex,
            node,
            spans: None,
            cut: Vec::new(),
        }
    }

    /// True if finding a match may take [`super::STACK_BYTES`] of stack.
    pub(super) fn full(&self) -> bool {
        self.full
    }

    /// The leftmost-longest match that begins at or after `from`.
    pub(super) fn find(
        &mut self,
        line: &[u8],
        from: usize,
    ) -> Result<Option<Range<usize>>, TooDeep> {
        if self.by_automata(line) {
            let Some(spans) = self.spans() else {
                return Ok(None);
            };
            return Ok(spans.start(line, from).map(|start| {
                let end = spans.longest(line, start, line.len());
                start..end.unwrap_or(start)
            }));
        }
        let mut start = from;
        loop {
            if let Some(end) = self.by_trying().longest(&self.node, line, start)? {
                return Ok(Some(start..end));
            }
            match text::decode(&line[start..], self.options.utf8) {
                Some((_, len)) => start += len,
                None => return Ok(None),
            }
        }
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
        !self.full || line.is_ascii() && !self.node.has_backref()
    }

    fn spans(&mut self) -> Option<&mut Spans> {
        if self.spans.is_none() {
            let hir = lowering(self.options, Accuracy::Exact).lower(&self.node);
            self.spans = Spans::new(&hir, self.options.eol).ok();
        }
        self.spans.as_mut()
    }
}
