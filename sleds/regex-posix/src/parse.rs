//! Parser of patterns.
//!
//! The language is that of POSIX with GNU's extensions. Where POSIX leaves the behaviour undefined: an operator with
//! nothing to repeat is text in a basic expression and repeats nothing in an extended one; a malformed interval is text
//! in an extended expression, and so is a `)` that closes no group; assertions may be repeated.

use super::ast::{CharRanges, PatternAssertion, PatternNode};
use super::bracket;
use super::error::PatternError;
use super::options::{RegexOptions, RegexSyntax};
use super::text::{PatternChar, decode};

/// Parses a pattern. Adds warnings to `warnings`.
pub(super) fn parse(
    text: &[u8],
    options: RegexOptions,
    warnings: &mut Vec<&'static str>,
) -> Result<PatternNode, PatternError> {
    let mut parser = PatternParser {
        text,
        at: 0,
        options,
        depth: 0,
        groups: 0,
        closed: Vec::new(),
        start: true,
        brace_is_text: false,
        warnings,
    };
    match options.syntax {
        RegexSyntax::Fixed => Ok(parser.literals()),
        RegexSyntax::Basic | RegexSyntax::Extended => parser.alternation(),
    }
}

fn joined(mut nodes: Vec<PatternNode>) -> PatternNode {
    match nodes.len() {
        0 => PatternNode::Empty,
        1 => nodes.remove(0),
        _ => PatternNode::Concat(nodes),
    }
}

pub(super) struct PatternParser<'t> {
    pub(super) text: &'t [u8],
    pub(super) at: usize,
    options: RegexOptions,
    /// Number of open groups.
    depth: usize,
    groups: usize,
    /// Groups that a back-reference may refer to.
    closed: Vec<usize>,
    /// True until a repeatable item has been read.
    pub(super) start: bool,
    /// True if the next item looks like an interval but is text.
    pub(super) brace_is_text: bool,
    pub(super) warnings: &'t mut Vec<&'static str>,
}

impl PatternParser<'_> {
    pub(super) fn rest(&self) -> &[u8] {
        &self.text[self.at..]
    }

    pub(super) fn extended(&self) -> bool {
        self.options.syntax == RegexSyntax::Extended
    }

    /// Returns true if the operator `op` is next: bare in extended expressions, behind `\` in basic ones.
    pub(super) fn next_is(&self, op: u8) -> bool {
        match (self.extended(), self.rest()) {
            (true, [first, ..]) => *first == op,
            (false, [b'\\', second, ..]) => *second == op,
            _ => false,
        }
    }

    pub(super) fn op_len(&self) -> usize {
        if self.extended() { 1 } else { 2 }
    }

    pub(super) fn eat(&mut self, op: u8) -> bool {
        let is = self.next_is(op);
        if is {
            self.at += self.op_len();
        }
        is
    }

    fn literals(&mut self) -> PatternNode {
        let mut nodes = Vec::new();
        while !self.rest().is_empty() {
            nodes.push(self.literal());
        }
        joined(nodes)
    }

    fn alternation(&mut self) -> Result<PatternNode, PatternError> {
        let mut branches = Vec::new();
        loop {
            self.start = true;
            branches.push(self.branch()?);
            if !self.eat(b'|') {
                break;
            }
        }
        Ok(match branches.len() {
            1 => branches.remove(0),
            _ => PatternNode::Alternate(branches),
        })
    }

    /// Returns true at the end of a branch.
    fn ends(&self) -> bool {
        let closes = self.next_is(b')') && (self.depth > 0 || !self.extended());
        self.rest().is_empty() || self.next_is(b'|') || closes
    }

    fn branch(&mut self) -> Result<PatternNode, PatternError> {
        let mut nodes = Vec::new();
        while !self.ends() {
            let mut node = match self.times()? {
                Some(times) => times.of(PatternNode::Empty),
                None => self.atom(nodes.is_empty())?,
            };
            while let Some(times) = self.times()? {
                node = times.of(node);
            }
            nodes.push(node);
        }
        if self.depth == 0 && !self.extended() && self.next_is(b')') {
            return Err(PatternError::Close);
        }
        Ok(joined(nodes))
    }

    /// Parses an atom. `first` is true at the beginning of a branch.
    fn atom(&mut self, first: bool) -> Result<PatternNode, PatternError> {
        if self.eat(b'(') {
            return self.group();
        }
        let assert = match self.rest() {
            [b'\\', ..] => return self.escape(),
            [b'[', ..] => {
                self.start = false;
                return bracket::parse(self.text, &mut self.at, self.options);
            }
            [b'.', ..] => {
                self.at += 1;
                self.start = false;
                return Ok(PatternNode::Any);
            }
            [b'^', ..] if self.extended() || first => PatternAssertion::LineStart,
            [b'$', rest @ ..] if self.extended() || ends_basic(rest) => PatternAssertion::LineEnd,
            _ => return Ok(self.literal()),
        };
        self.at += 1;
        Ok(PatternNode::Assert(assert))
    }

    fn group(&mut self) -> Result<PatternNode, PatternError> {
        self.groups += 1;
        let number = self.groups;
        self.depth += 1;
        let inner = self.alternation()?;
        if !self.eat(b')') {
            return Err(PatternError::Open);
        }
        self.depth -= 1;
        self.start = false;
        self.closed.push(number);
        Ok(PatternNode::Group(number, Box::new(inner)))
    }

    fn escape(&mut self) -> Result<PatternNode, PatternError> {
        self.at += 1;
        let Some(c) = self.rest().first().copied() else {
            return Err(PatternError::Backslash);
        };
        let assert = match c {
            b'<' => PatternAssertion::WordStart,
            b'>' => PatternAssertion::WordEnd,
            b'b' => PatternAssertion::WordEdge,
            b'B' => PatternAssertion::NotWordEdge,
            b'`' => PatternAssertion::LineStart,
            b'\'' => PatternAssertion::LineEnd,
            _ => return self.escaped_character(c),
        };
        self.at += 1;
        Ok(PatternNode::Assert(assert))
    }

    fn escaped_character(&mut self, c: u8) -> Result<PatternNode, PatternError> {
        let rules = self.options.rules();
        let set = match c.to_ascii_lowercase() {
            b'w' => rules.word(),
            b's' => rules.class(b"space").unwrap_or_default(),
            b'1'..=b'9' => return self.back_reference(usize::from(c - b'0')),
            _ => return Ok(self.literal()),
        };
        self.start = false;
        self.at += 1;
        let inverse = c.is_ascii_uppercase();
        let last = self.options.last();
        Ok(PatternNode::Set(if inverse {
            set.inverse(last)
        } else {
            set
        }))
    }

    fn back_reference(&mut self, number: usize) -> Result<PatternNode, PatternError> {
        if !self.closed.contains(&number) {
            return Err(PatternError::Backref);
        }
        self.start = false;
        self.at += 1;
        Ok(PatternNode::Backref(number))
    }

    /// Parses the next character as a literal.
    fn literal(&mut self) -> PatternNode {
        let RegexOptions { icase, utf8, .. } = self.options;
        self.start = false;
        self.brace_is_text = false;
        let Some((c, len)) = decode(self.rest(), utf8) else {
            return PatternNode::Empty;
        };
        self.at += len;
        match c {
            PatternChar::Byte(b) => PatternNode::Byte(b),
            PatternChar::Code(c) if icase => {
                PatternNode::Set(self.options.rules().fold(&CharRanges::of(c)))
            }
            PatternChar::Code(c) => PatternNode::Set(CharRanges::of(c)),
        }
    }
}

/// Returns true if a branch of a basic expression ends before `rest`.
fn ends_basic(rest: &[u8]) -> bool {
    matches!(rest, [] | [b'\\', b')' | b'|', ..])
}
