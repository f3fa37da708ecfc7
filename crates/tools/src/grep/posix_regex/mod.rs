//! POSIX regular expressions, as GNU grep understands them.
//!
//! [`Regex::new`] reads a list of patterns; [`Regex::find_line`] looks for the next line that one of
//! them matches, through many lines at once; [`Regex::find_in_line`] says where the match is,
//! leftmost and longest.
//!
//! Lines are searched with the `regex` project's automata: whether a line matches at all does not
//! depend on which match is preferred, so the searcher with all of that project's shortcuts serves,
//! over whole buffers. Its matches never span lines, because no set of characters has the line end
//! in it. Where a pattern asks for what automata cannot do, they look for a superset of the lines,
//! and [`backtrack`] decides.

mod ast;
mod backtrack;
mod bracket;
mod classes;
mod error;
mod lower;
mod parse;
mod search;
mod spans;
mod text;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::ops::Range;

use memchr::{memchr, memrchr};
use regex_syntax::hir::{Hir, HirKind};

pub(crate) use backtrack::TooDeep;
pub(crate) use error::Error;
pub(crate) use parse::Syntax;

use ast::{Assert, Node};
use backtrack::Backtrack;
use lower::{Accuracy, Lowering};
use parse::Rules;
use search::Search;
use spans::Spans;

/// Bytes that an automaton may have before it is determinised.
const NFA_BYTES: usize = 512 << 20;

/// How to read patterns and lines.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    pub(crate) syntax: Syntax,
    pub(crate) icase: bool,
    /// Characters are UTF-8, not bytes.
    pub(crate) utf8: bool,
    /// Ends a line.
    pub(crate) eol: u8,
    /// A match is a whole line.
    pub(crate) whole_lines: bool,
    /// A match has no part of a word before and behind it.
    pub(crate) whole_words: bool,
}

/// Patterns, ready to search.
pub(crate) struct Regex {
    options: Options,
    /// All patterns, as alternatives.
    node: Node,
    /// Every line matches.
    always: bool,
    /// Finds every line that matches, and, unless `check` is [`Check::None`], others.
    search: Search,
    check: Check,
    spans: Option<Spans>,
    /// The match that `search` finds is the longest at its place.
    longest_first: bool,
    /// Automata are not enough for lines with more than ASCII, or for any.
    full: bool,
    backref: bool,
    /// The library that GNU grep asks searches bytes, not characters, so that an empty match may be
    /// within a character.
    bytewise: bool,
    warnings: Vec<&'static str>,
}

/// What a line that was found has still to pass.
enum Check {
    None,
    /// A match that is a word, found as GNU grep looks for one.
    Words,
    /// This searcher has to find a match in it.
    Again(Search),
    /// It is one of these.
    Whole(BTreeSet<Vec<u8>>),
    /// A match of the full pattern.
    Full,
}

impl Regex {
    /// Reads `patterns`; a line matches if any of them does. If some are broken, it is told of each
    /// what is wrong.
    pub(crate) fn new(patterns: &[Vec<u8>], options: Options) -> Result<Regex, Vec<Error>> {
        let rules = Rules {
            syntax: options.syntax,
            icase: options.icase,
            utf8: options.utf8,
        };
        let mut nodes = Vec::with_capacity(patterns.len());
        let mut warnings = Vec::new();
        let mut errors = Vec::new();
        let mut collates = false;
        let mut bytewise = !options.icase;
        for pattern in patterns {
            match parse::parse(pattern, rules) {
                Ok(parsed) => {
                    collates |= parsed.collates;
                    bytewise &= !parsed.complex;
                    warnings.extend(parsed.warnings);
                    nodes.push(parsed.node);
                }
                Err(error) => errors.push(error),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let superset = lowering(options, Accuracy::Superset);
        let texts = whole_texts(&nodes, options, superset);
        let node = alternatives(nodes, options);
        let backref = node.has_backref();
        let full = backref || options.utf8 && node.has_word_assert();
        let words = options.whole_words && !options.whole_lines;
        let hir = match (&texts, backref && !options.icase) {
            (Some(texts), _) => {
                Hir::alternation(texts.iter().map(|t| Hir::literal(&t[..])).collect())
            }
            (None, true) => superset.lower(&node.with_groups_for_backrefs()),
            (None, false) => superset.lower(&node),
        };
        let longest_first = texts.is_none() && !full && node.has_one_length_at_a_place();
        let check = match (texts, words, full) {
            (Some(texts), ..) => Check::Whole(texts),
            // GNU grep's automaton looks for words in single-byte characters only, and does not
            // know collating elements. What it takes for a word is more.
            (_, true, false) if !options.utf8 && !collates => {
                let around = Search::new(&surrounded(&hir, options), options.eol);
                Check::Again(around.map_err(|e| vec![e])?)
            }
            (_, true, _) => Check::Words,
            (_, false, true) => Check::Full,
            (_, false, false) => Check::None,
        };
        let properties = hir.properties();
        let always = properties.minimum_len() == Some(0) && properties.look_set().is_empty();
        Ok(Regex {
            options,
            node,
            always,
            search: Search::new(&hir, options.eol).map_err(|e| vec![e])?,
            check,
            spans: None,
            longest_first,
            full,
            backref,
            bytewise,
            warnings,
        })
    }

    /// What GNU grep warns about in these patterns.
    pub(crate) fn warnings(&self) -> &[&'static str] {
        &self.warnings
    }

    /// The first line that matches in `lines`, which holds whole lines, at or after `from`, where a
    /// line begins. The range is without the line's end.
    pub(crate) fn find_line(
        &mut self,
        lines: &[u8],
        mut from: usize,
    ) -> Result<Option<Range<usize>>, TooDeep> {
        let eol = self.options.eol;
        while from < lines.len() {
            let found = match self.always {
                true => from,
                false => match self.search.place(lines, from) {
                    Some(found) => found,
                    None => return Ok(None),
                },
            };
            // Behind the last line's end, no line begins.
            if found == lines.len() && lines[found - 1] == eol {
                return Ok(None);
            }
            let start = memrchr(eol, &lines[from..found]).map_or(from, |at| from + at + 1);
            let end = memchr(eol, &lines[found..]).map_or(lines.len(), |at| found + at);
            if self.passes(&lines[start..end])? {
                return Ok(Some(start..end));
            }
            from = end + 1;
        }
        Ok(None)
    }

    /// How many of `lines` match.
    pub(crate) fn count_lines(&mut self, lines: &[u8]) -> Result<u64, TooDeep> {
        let eol = self.options.eol;
        let (mut from, mut count) = (0, 0);
        if self.always || !matches!(self.check, Check::None) {
            while let Some(line) = self.find_line(lines, from)? {
                count += 1;
                from = line.end + 1;
            }
            return Ok(count);
        }
        while from < lines.len() {
            let Some(found) = self.search.place(lines, from) else {
                break;
            };
            if found == lines.len() && lines[found - 1] == eol {
                break;
            }
            count += 1;
            from = memchr(eol, &lines[found..]).map_or(lines.len(), |at| found + at + 1);
        }
        Ok(count)
    }

    fn passes(&mut self, line: &[u8]) -> Result<bool, TooDeep> {
        match &mut self.check {
            Check::None => Ok(true),
            Check::Again(search) => Ok(search.place(line, 0).is_some()),
            Check::Whole(texts) => Ok(texts.contains(line)),
            Check::Words => Ok(self.find_in_line(line, 0)?.is_some()),
            Check::Full => Ok(self.find(line, 0)?.is_some()),
        }
    }

    /// Where the first match at or after `from` is in `line`, which is without its end.
    pub(crate) fn find_in_line(
        &mut self,
        line: &[u8],
        mut from: usize,
    ) -> Result<Option<Range<usize>>, TooDeep> {
        if !self.options.whole_words || self.options.whole_lines {
            return self.find(line, from);
        }
        let utf8 = self.options.utf8;
        while let Some(Range { start, mut end }) = self.find(line, from)? {
            loop {
                let before = text::word_before(line, start, utf8);
                if !before && !text::word_at(line, end, utf8) {
                    return Ok(Some(start..end));
                }
                // GNU grep tries shorter matches at the same place, but not the empty one.
                if end == start {
                    break;
                }
                match self.longest(line, start, end - 1)? {
                    Some(shorter) if shorter > start => end = shorter,
                    _ => break,
                }
            }
            match text::decode(&line[start..], utf8 && !self.bytewise) {
                Some((_, len)) => from = start + len,
                None => break,
            }
        }
        Ok(None)
    }

    /// The leftmost-longest match, be it a word or not.
    fn find(&mut self, line: &[u8], from: usize) -> Result<Option<Range<usize>>, TooDeep> {
        if self.longest_first {
            return Ok(self.search.first(line, from));
        }
        if self.by_automata(line) {
            // All kinds of matches begin at the same place: the leftmost.
            let start = match self.full {
                true => self.spans().and_then(|spans| spans.start(line, from)),
                false => self.search.first(line, from).map(|found| found.start),
            };
            let Some(spans) = self.spans() else {
                return Ok(None);
            };
            return Ok(start.map(|start| {
                let end = spans.longest(line, start, line.len());
                start..end.unwrap_or(start)
            }));
        }
        let mut start = from;
        while let Some(possible) = self.search.first(line, start) {
            // Characters are tried, not bytes.
            while start < possible.start {
                start += text::decode(&line[start..], self.options.utf8).map_or(1, |(_, len)| len);
            }
            if start > possible.start {
                continue;
            }
            if let Some(end) = self.longest(line, start, line.len())? {
                return Ok(Some(start..end));
            }
            match text::decode(&line[start..], self.options.utf8) {
                Some((_, len)) => start += len,
                None => break,
            }
        }
        Ok(None)
    }

    fn longest(
        &mut self,
        line: &[u8],
        start: usize,
        limit: usize,
    ) -> Result<Option<usize>, TooDeep> {
        if self.by_automata(line) {
            return Ok(self.spans().and_then(|s| s.longest(line, start, limit)));
        }
        let backtrack = Backtrack {
            utf8: self.options.utf8,
            icase: self.options.icase,
        };
        backtrack.longest(&self.node, line, start, limit)
    }

    fn by_automata(&self, line: &[u8]) -> bool {
        !self.full || !self.backref && line.is_ascii()
    }

    /// The automata that find matches in a line, made when first asked for.
    fn spans(&mut self) -> Option<&mut Spans> {
        if self.spans.is_none() {
            let hir = lowering(self.options, Accuracy::Exact).lower(&self.node);
            self.spans = Spans::new(&hir, self.options.eol).ok();
        }
        self.spans.as_mut()
    }
}

fn lowering(options: Options, accuracy: Accuracy) -> Lowering {
    Lowering {
        utf8: options.utf8,
        eol: options.eol,
        accuracy,
    }
}

/// `hir` between characters that are not part of words, or at the ends of the line.
fn surrounded(hir: &Hir, options: Options) -> Hir {
    let last = parse::last(options.utf8);
    let other = Node::Set(classes::word(options.utf8).inverse(last));
    let edge = |assert| Node::Alternate(vec![Node::Assert(assert), other.clone()]);
    let lowering = lowering(options, Accuracy::Exact);
    Hir::concat(vec![
        lowering.lower(&edge(Assert::LineStart)),
        hir.clone(),
        lowering.lower(&edge(Assert::LineEnd)),
    ])
}

/// `nodes` as alternatives, and as whole lines if these are asked for.
fn alternatives(mut nodes: Vec<Node>, options: Options) -> Node {
    let node = match nodes.len() {
        1 => nodes.remove(0),
        _ => Node::Alternate(nodes),
    };
    if !options.whole_lines {
        return node;
    }
    let (start, end) = (Assert::LineStart, Assert::LineEnd);
    Node::Concat(vec![Node::Assert(start), node, Node::Assert(end)])
}

/// The lines that match, if they are these and no others. They are looked for anywhere, which is much
/// quicker than an automaton that knows of ends of lines.
fn whole_texts(nodes: &[Node], options: Options, lowering: Lowering) -> Option<BTreeSet<Vec<u8>>> {
    let text = |node: &Node| match lowering.lower(node).kind() {
        HirKind::Literal(text) => Some(text.0.to_vec()),
        _ => None,
    };
    let whole = options.whole_lines && !nodes.is_empty();
    whole.then(|| nodes.iter().map(text).collect())?
}
