//! From the text of a basic or extended regular expression to its meaning.
//!
//! The language is that of POSIX with the extensions of GNU grep 3.8. GNU grep reads a pattern twice:
//! once for the automaton that finds lines, once with the C library's parser for whatever the
//! automaton cannot do and for where in a line a match is. Where POSIX leaves something undefined,
//! the two need not agree, so there are two [`Reader`]s here too.

use super::ast::{Assert, Node, Set};
use super::bracket::{self, Bracket};
use super::classes;
use super::error::Error;
use super::text::{Char, decode};

/// How patterns are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Syntax {
    /// Groups, intervals and alternatives have backslashes: `\(a\|b\)\{2\}`.
    #[default]
    Basic,
    /// They have none: `(a|b){2}`.
    Extended,
    /// Each pattern is the text to look for.
    Fixed,
}

/// Who reads a pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reader {
    /// The automaton, which says which lines match.
    Automaton,
    /// The same where it leaves the decision to the C library: what it does not know may be anything.
    Superset,
    /// The C library, which says where.
    Library,
}

/// How to understand a pattern.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) reader: Reader,
    pub(super) extended: bool,
    pub(super) icase: bool,
    pub(super) utf8: bool,
    /// Characters have an order that is not that of their codes.
    pub(super) collates: bool,
}

/// A pattern's meaning.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) node: Node,
    /// GNU grep's automaton does not know all of it: the C library decides which lines match.
    pub(super) beyond: bool,
    /// It has more than texts, `.`, line ends and lists of ASCII characters.
    pub(super) complex: bool,
}

/// Reads patterns, one on each line of `text`, each of which matches. Adds what GNU grep warns about
/// to `warnings`.
pub(super) fn parse(
    text: &[u8],
    rules: Rules,
    warnings: &mut Vec<&'static str>,
) -> Result<Parsed, Error> {
    let mut parser = Parser {
        text,
        at: 0,
        rules,
        depth: 0,
        groups: 0,
        closed: Vec::new(),
        start: true,
        brace_is_text: false,
        warnings,
        beyond: false,
        complex: false,
    };
    let node = parser.alternation()?;
    Ok(Parsed {
        node,
        beyond: parser.beyond,
        complex: parser.complex,
    })
}

/// A text that means itself.
pub(super) fn literal(text: &[u8], icase: bool, utf8: bool) -> Node {
    let mut nodes = Vec::new();
    let mut rest = text;
    while let Some((c, len)) = decode(rest, utf8) {
        nodes.push(character(c, icase, utf8));
        rest = &rest[len..];
    }
    joined(nodes)
}

fn character(c: Char, icase: bool, utf8: bool) -> Node {
    match c {
        Char::Byte(b) => Node::Byte(b),
        Char::Code(c) if icase => Node::Set(classes::fold(&Set::of(c), utf8)),
        Char::Code(c) => Node::Set(Set::of(c)),
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
    rules: Rules,
    /// Groups that are open.
    depth: usize,
    groups: usize,
    /// Groups that may be referred to.
    closed: Vec<usize>,
    /// The automaton has read nothing yet that could be repeated.
    pub(super) start: bool,
    /// What is next looks like an interval, and is not.
    pub(super) brace_is_text: bool,
    pub(super) warnings: &'t mut Vec<&'static str>,
    beyond: bool,
    complex: bool,
}

impl Parser<'_> {
    pub(super) fn rest(&self) -> &[u8] {
        &self.text[self.at..]
    }

    pub(super) fn extended(&self) -> bool {
        self.rules.extended
    }

    pub(super) fn by_library(&self) -> bool {
        self.rules.reader == Reader::Library
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

    fn eat_newline(&mut self) -> bool {
        let is = self.rest().starts_with(b"\n");
        self.at += usize::from(is);
        is
    }

    fn alternation(&mut self) -> Result<Node, Error> {
        let mut branches = Vec::new();
        loop {
            self.start = true;
            branches.push(self.branch()?);
            if !self.eat(b'|') && !self.eat_newline() {
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
        let newline = self.rest().starts_with(b"\n");
        self.rest().is_empty() || newline || self.next_is(b'|') || closes
    }

    fn branch(&mut self) -> Result<Node, Error> {
        let mut nodes = Vec::new();
        while !self.ends() {
            let node = match self.rules.reader {
                Reader::Automaton | Reader::Superset => {
                    self.piece_of_automaton(nodes.is_empty())?
                }
                Reader::Library => self.piece_of_library(nodes.is_empty())?,
            };
            nodes.push(node);
        }
        if self.depth == 0 && !self.extended() && self.next_is(b')') {
            return Err(Error::Close);
        }
        Ok(joined(nodes))
    }

    /// What the automaton makes of an operator with nothing before it: in extended expressions it
    /// repeats nothing, in basic ones it is text. Assertions may be repeated, but not at the start of
    /// a basic expression.
    fn piece_of_automaton(&mut self, first: bool) -> Result<Node, Error> {
        let node = match self.times()? {
            Some(times) => times.of(Node::Empty),
            None => return self.repeated(first),
        };
        self.more_times(node)
    }

    /// What the C library makes of it: behind an assertion, or with nothing before it, it skips an
    /// operator in an extended expression (of an interval only the brace), and takes it for text in a
    /// basic one.
    fn piece_of_library(&mut self, first: bool) -> Result<Node, Error> {
        let node = if self.brace_is_text {
            self.literal()
        } else if self.at_operator() {
            if self.extended() {
                self.at += 1;
                let ends = self.rest().is_empty() || self.next_is(b'|');
                if ends || self.rest().starts_with(b"\n") {
                    return Ok(Node::Empty);
                }
                // A parenthesis that should close a group is text here.
                if self.next_is(b')') {
                    self.literal()
                } else {
                    return self.piece_of_library(false);
                }
            } else {
                self.at += usize::from(self.rest().starts_with(b"\\"));
                self.literal()
            }
        } else {
            return self.repeated(first);
        };
        self.more_times(node)
    }

    /// An atom and what is to be repeated of it.
    fn repeated(&mut self, first: bool) -> Result<Node, Error> {
        let (beyond, complex) = (self.beyond, self.complex);
        let node = self.atom(first)?;
        // The library does not repeat assertions.
        if self.by_library() && matches!(node, Node::Assert(_)) {
            return Ok(node);
        }
        let node = self.more_times(node)?;
        if node == Node::Empty {
            // Whatever it was, none of it is wanted.
            (self.beyond, self.complex) = (beyond, complex);
        }
        Ok(node)
    }

    fn more_times(&mut self, mut node: Node) -> Result<Node, Error> {
        while let Some(times) = self.times()? {
            node = times.of(node);
        }
        Ok(node)
    }

    /// `first` if it is the first of its branch.
    fn atom(&mut self, first: bool) -> Result<Node, Error> {
        if self.eat(b'(') {
            return self.group();
        }
        let assert = match self.rest() {
            [b'\\', ..] => return self.escape(),
            [b'[', ..] => {
                self.at += 1;
                self.start = false;
                return self.bracket();
            }
            [b'.', ..] => {
                self.at += 1;
                self.start = false;
                return Ok(Node::Any);
            }
            [b'^', ..] if self.extended() || first => Assert::LineStart,
            [b'$', rest @ ..] if self.extended() || self.ends_basic(rest) => Assert::LineEnd,
            _ => return Ok(self.literal()),
        };
        self.at += 1;
        Ok(Node::Assert(assert))
    }

    /// True if `rest` stands where a branch of a basic expression ends. The automaton does not mind
    /// whether the operator there has its backslash, unless it is all that is left.
    fn ends_basic(&self, rest: &[u8]) -> bool {
        match rest {
            [] | [b'\n', ..] | [b'\\', b')' | b'|', ..] => true,
            [b')' | b'|', _, ..] => !self.by_library(),
            _ => false,
        }
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
        Ok(match self.rules.reader {
            Reader::Automaton | Reader::Superset => inner,
            Reader::Library => Node::Group(number, Box::new(inner)),
        })
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
        let node = Node::Assert(assert);
        let words = node.has_word_assert();
        self.complex |= words;
        self.beyond |= words && self.rules.utf8;
        Ok(node)
    }

    fn escaped_character(&mut self, c: u8) -> Result<Node, Error> {
        let utf8 = self.rules.utf8;
        self.start = false;
        let set = match c.to_ascii_lowercase() {
            b'w' => classes::word(utf8),
            b's' => classes::class(b"space", utf8).unwrap_or_default(),
            b'1'..=b'9' => return self.back_reference(usize::from(c - b'0')),
            _ => {
                // The library compares upper case, but forgets to make this one so.
                let lost = self.by_library() && self.rules.icase && c.is_ascii_lowercase();
                let literal = self.literal();
                return Ok(if lost {
                    Node::Set(Set::default())
                } else {
                    literal
                });
            }
        };
        self.at += 1;
        self.complex = true;
        self.beyond |= utf8;
        if utf8 && self.rules.reader == Reader::Superset {
            return Ok(Node::ANYTHING);
        }
        let inverse = c.is_ascii_uppercase();
        let last = last(utf8);
        Ok(Node::Set(if inverse { set.inverse(last) } else { set }))
    }

    fn back_reference(&mut self, number: usize) -> Result<Node, Error> {
        if self.by_library() && !self.closed.contains(&number) {
            return Err(Error::Backref);
        }
        self.at += 1;
        self.beyond = true;
        Ok(Node::Backref(number))
    }

    fn bracket(&mut self) -> Result<Node, Error> {
        let utf8 = self.rules.utf8;
        let Bracket {
            inverse,
            set,
            bytes,
            known,
            complex,
        } = bracket::parse(self.text, &mut self.at, self.rules)?;
        self.beyond |= !known;
        self.complex |= complex;
        if !known && self.rules.reader == Reader::Superset {
            return Ok(Node::ANYTHING);
        }
        if inverse {
            return Ok(Node::Set(set.inverse(last(utf8))));
        }
        if bytes.is_empty() {
            return Ok(Node::Set(set));
        }
        let bytes = bytes.into_iter().map(Node::Byte);
        Ok(Node::Alternate(bytes.chain([Node::Set(set)]).collect()))
    }

    /// The next character, standing for itself.
    fn literal(&mut self) -> Node {
        let Rules { icase, utf8, .. } = self.rules;
        self.start = false;
        self.brace_is_text = false;
        let Some((c, len)) = decode(self.rest(), utf8) else {
            return Node::Empty;
        };
        self.at += len;
        // The automaton leaves bytes that are no characters to the library.
        self.beyond |= matches!(c, Char::Byte(_));
        character(c, icase, utf8)
    }
}

/// The last code of the character set.
pub(super) fn last(utf8: bool) -> u32 {
    if utf8 { 0x10ffff } else { 0xff }
}
