//! From the text of a pattern to its meaning.
//!
//! The language is that of POSIX with GNU's extensions. Where POSIX leaves something undefined: an
//! operator with nothing to repeat is text in a basic expression and repeats nothing in an extended
//! one; what only looks like an interval is text in an extended expression; so is a `)` that closes
//! nothing; assertions may be repeated.

use super::ast::{Assert, Node, Set};
use super::error::Error;
use super::options::{Options, Syntax};
use super::text::{Char, decode};
use super::{bracket, classes};

/// Reads a pattern. Adds what is odd about it to `warnings`.
pub(super) fn parse(
    text: &[u8],
    options: Options,
    warnings: &mut Vec<&'static str>,
) -> Result<Node, Error> {
    let mut parser = Parser {
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
        Syntax::Fixed => Ok(parser.literals()),
        Syntax::Basic | Syntax::Extended => parser.alternation(),
    }
}

fn joined(mut nodes: Vec<Node>) -> Node {
    match nodes.len() {
        0 => Node::Empty,
        1 => nodes.remove(0),
        _ => Node::Concat(nodes),
    }
}

pub(super) struct Parser<'t> {
    pub(super) text: &'t [u8],
    pub(super) at: usize,
    options: Options,
    /// Groups that are open.
    depth: usize,
    groups: usize,
    /// Groups that may be referred to.
    closed: Vec<usize>,
    /// Nothing was read yet that could be repeated.
    pub(super) start: bool,
    /// What is next looks like an interval, and is not.
    pub(super) brace_is_text: bool,
    pub(super) warnings: &'t mut Vec<&'static str>,
}

impl Parser<'_> {
    pub(super) fn rest(&self) -> &[u8] {
        &self.text[self.at..]
    }

    pub(super) fn extended(&self) -> bool {
        self.options.syntax == Syntax::Extended
    }

    /// True if the operator `op` is next: bare in extended expressions, behind `\` in basic ones.
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

    fn literals(&mut self) -> Node {
        let mut nodes = Vec::new();
        while !self.rest().is_empty() {
            nodes.push(self.literal());
        }
        joined(nodes)
    }

    fn alternation(&mut self) -> Result<Node, Error> {
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
            _ => Node::Alternate(branches),
        })
    }

    /// True where a branch ends.
    fn ends(&self) -> bool {
        let closes = self.next_is(b')') && (self.depth > 0 || !self.extended());
        self.rest().is_empty() || self.next_is(b'|') || closes
    }

    fn branch(&mut self) -> Result<Node, Error> {
        let mut nodes = Vec::new();
        while !self.ends() {
            let mut node = match self.times()? {
                Some(times) => times.of(Node::Empty),
                None => self.atom(nodes.is_empty())?,
            };
            while let Some(times) = self.times()? {
                node = times.of(node);
            }
            nodes.push(node);
        }
        if self.depth == 0 && !self.extended() && self.next_is(b')') {
            return Err(Error::Close);
        }
        Ok(joined(nodes))
    }

    /// `first` if it is the first of its branch.
    fn atom(&mut self, first: bool) -> Result<Node, Error> {
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
                return Ok(Node::Any);
            }
            [b'^', ..] if self.extended() || first => Assert::LineStart,
            [b'$', rest @ ..] if self.extended() || ends_basic(rest) => Assert::LineEnd,
            _ => return Ok(self.literal()),
        };
        self.at += 1;
        Ok(Node::Assert(assert))
    }

    fn group(&mut self) -> Result<Node, Error> {
        self.groups += 1;
        let number = self.groups;
        self.depth += 1;
        let inner = self.alternation()?;
        if !self.eat(b')') {
            return Err(Error::Open);
        }
        self.depth -= 1;
        self.start = false;
        self.closed.push(number);
        Ok(Node::Group(number, Box::new(inner)))
    }

    fn escape(&mut self) -> Result<Node, Error> {
        self.at += 1;
        let Some(c) = self.rest().first().copied() else {
            return Err(Error::Backslash);
        };
        let assert = match c {
            b'<' => Assert::WordStart,
            b'>' => Assert::WordEnd,
            b'b' => Assert::WordEdge,
            b'B' => Assert::NotWordEdge,
            b'`' => Assert::LineStart,
            b'\'' => Assert::LineEnd,
            _ => return self.escaped_character(c),
        };
        self.at += 1;
        Ok(Node::Assert(assert))
    }

    fn escaped_character(&mut self, c: u8) -> Result<Node, Error> {
        let utf8 = self.options.utf8;
        let set = match c.to_ascii_lowercase() {
            b'w' => classes::word(utf8),
            b's' => classes::class(b"space", utf8).unwrap_or_default(),
            b'1'..=b'9' => return self.back_reference(usize::from(c - b'0')),
            _ => return Ok(self.literal()),
        };
        self.start = false;
        self.at += 1;
        let inverse = c.is_ascii_uppercase();
        let last = self.options.last();
        Ok(Node::Set(if inverse { set.inverse(last) } else { set }))
    }

    fn back_reference(&mut self, number: usize) -> Result<Node, Error> {
        if !self.closed.contains(&number) {
            return Err(Error::Backref);
        }
        self.start = false;
        self.at += 1;
        Ok(Node::Backref(number))
    }

    /// The next character, standing for itself.
    fn literal(&mut self) -> Node {
        let Options { icase, utf8, .. } = self.options;
        self.start = false;
        self.brace_is_text = false;
        let Some((c, len)) = decode(self.rest(), utf8) else {
            return Node::Empty;
        };
        self.at += len;
        match c {
            Char::Byte(b) => Node::Byte(b),
            Char::Code(c) if icase => Node::Set(classes::fold(&Set::of(c), utf8)),
            Char::Code(c) => Node::Set(Set::of(c)),
        }
    }
}

/// True if `rest` stands where a branch of a basic expression ends.
fn ends_basic(rest: &[u8]) -> bool {
    matches!(rest, [] | [b'\\', b')' | b'|', ..])
}
