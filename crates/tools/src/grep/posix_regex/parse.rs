//! From the text of a basic or extended regular expression to its meaning.
//!
//! The language is that of POSIX with the extensions of GNU grep; where POSIX leaves something
//! undefined, what GNU grep 3.8 makes of it.

use super::ast::{Assert, Node, Set};
use super::bracket::{self, Item};
use super::classes;
use super::error::Error;
use super::text::{Char, decode};

/// The most repetitions that an interval may ask for.
const REPEAT_MAX: u32 = 32767;

/// How patterns are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Syntax {
    #[default]
    Basic,
    Extended,
    /// Each pattern is the text to look for.
    Fixed,
}

/// How to understand a pattern.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) syntax: Syntax,
    pub(super) icase: bool,
    pub(super) utf8: bool,
}

/// A pattern's meaning, and what to warn about.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) node: Node,
    pub(super) warnings: Vec<&'static str>,
    /// It has `[.x.]` or `[=x=]`.
    pub(super) collates: bool,
    /// It has more than texts, `.`, line ends and lists of ASCII characters.
    pub(super) complex: bool,
}

/// Reads one pattern.
pub(super) fn parse(text: &[u8], rules: Rules) -> Result<Parsed, Error> {
    let mut parser = Parser {
        text,
        at: 0,
        rules,
        depth: 0,
        groups: 0,
        closed: Vec::new(),
        warnings: Vec::new(),
        collates: false,
        complex: false,
    };
    let node = match rules.syntax {
        Syntax::Fixed => parser.fixed(),
        _ => parser.alternation()?,
    };
    Ok(Parsed {
        node,
        warnings: parser.warnings,
        collates: parser.collates,
        complex: parser.complex,
    })
}

struct Parser<'t> {
    text: &'t [u8],
    at: usize,
    rules: Rules,
    /// Groups that are open.
    depth: usize,
    groups: usize,
    /// Groups that may be referred to.
    closed: Vec<usize>,
    warnings: Vec<&'static str>,
    collates: bool,
    complex: bool,
}

/// Repetition behind an atom.
struct Times {
    min: u32,
    max: Option<u32>,
}

/// What an attempt to read an interval found.
enum Interval {
    Times(Times),
    /// The brace stands for itself.
    Text,
}

impl Parser<'_> {
    fn rest(&self) -> &[u8] {
        &self.text[self.at..]
    }

    fn extended(&self) -> bool {
        self.rules.syntax == Syntax::Extended
    }

    /// True if the operator `op` is next: bare in extended expressions, behind `\` in basic ones.
    fn next_is(&self, op: u8) -> bool {
        match (self.extended(), self.rest()) {
            (true, [first, ..]) => *first == op,
            (false, [b'\\', second, ..]) => *second == op,
            _ => false,
        }
    }

    fn op_len(&self) -> usize {
        if self.extended() { 1 } else { 2 }
    }

    fn eat(&mut self, op: u8) -> bool {
        let is = self.next_is(op);
        if is {
            self.at += self.op_len();
        }
        is
    }

    fn fixed(&mut self) -> Node {
        let mut nodes = Vec::new();
        while self.at < self.text.len() {
            nodes.push(self.literal());
        }
        Node::Concat(nodes)
    }

    fn alternation(&mut self) -> Result<Node, Error> {
        let mut branches = vec![self.branch()?];
        while self.eat(b'|') {
            branches.push(self.branch()?);
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
        // Nothing that could be repeated has been read yet.
        let mut start = true;
        while !self.ends() {
            if let Some(node) = self.leading_operator(start)? {
                let bare = self.extended();
                nodes.push(self.repeated(node, bare)?);
                start = bare;
                continue;
            }
            let atom = self.atom(nodes.is_empty())?;
            match atom {
                Node::Assert(_) if self.extended() => {
                    // The library that GNU grep asks about these ignores operators behind them.
                    let ignored = self.is_word_assert_in_utf8(&atom);
                    let operand = if ignored { Node::Empty } else { atom.clone() };
                    let repeated = self.repeated(operand, start)?;
                    nodes.push(if ignored { atom } else { repeated });
                }
                Node::Assert(assert) if assert != Assert::LineEnd => {
                    start = true;
                    nodes.push(atom);
                }
                _ => {
                    start = false;
                    nodes.push(self.repeated(atom, false)?);
                }
            }
        }
        if self.depth == 0 && !self.extended() && self.next_is(b')') {
            return Err(Error::Close);
        }
        Ok(match nodes.len() {
            0 => Node::Empty,
            1 => nodes.remove(0),
            _ => Node::Concat(nodes),
        })
    }

    fn is_word_assert_in_utf8(&self, node: &Node) -> bool {
        self.rules.utf8 && node.has_word_assert()
    }

    /// A repetition operator with nothing before it: in extended expressions it repeats nothing, in
    /// basic ones it is a character like others.
    fn leading_operator(&mut self, start: bool) -> Result<Option<Node>, Error> {
        if !start {
            return Ok(None);
        }
        if !self.extended() {
            return Ok(match self.rest() {
                [b'*', ..] => Some(self.literal()),
                [b'\\', b'+' | b'?' | b'{', ..] => {
                    self.at += 1;
                    Some(self.literal())
                }
                _ => None,
            });
        }
        let at = self.at;
        let operator = self.times()?.is_some();
        self.at = at;
        Ok(operator.then_some(Node::Empty))
    }

    /// `node` with the repetition operators that follow it. With `warn`, there is nothing to repeat.
    fn repeated(&mut self, mut node: Node, warn: bool) -> Result<Node, Error> {
        loop {
            let operator = self.rest().first().copied();
            let Some(times) = self.times()? else {
                return Ok(node);
            };
            if warn {
                self.warnings.push(match operator {
                    Some(b'*') => "* at start of expression",
                    Some(b'+') => "+ at start of expression",
                    Some(b'?') => "? at start of expression",
                    _ => "{...} at start of expression",
                });
            }
            node = match (times.min, times.max) {
                (1, Some(1)) => node,
                (min, max) => Node::Repeat {
                    node: Box::new(node),
                    min,
                    max,
                },
            };
        }
    }

    fn times(&mut self) -> Result<Option<Times>, Error> {
        let (min, max) = if self.rest().starts_with(b"*") {
            self.at += 1;
            (0, None)
        } else if self.eat(b'+') {
            (1, None)
        } else if self.eat(b'?') {
            (0, Some(1))
        } else if self.next_is(b'{') {
            let at = self.at;
            self.at += self.op_len();
            return match self.interval()? {
                Interval::Times(times) => Ok(Some(times)),
                Interval::Text => {
                    self.at = at;
                    Ok(None)
                }
            };
        } else {
            return Ok(None);
        };
        Ok(Some(Times { min, max }))
    }

    /// The interval whose opening brace has just been read.
    fn interval(&mut self) -> Result<Interval, Error> {
        let low = self.number();
        let comma = self.rest().starts_with(b",");
        if comma {
            self.at += 1;
        }
        let high = if comma { self.number() } else { low };
        let bare = low.is_none() && !comma;
        if bare || !self.eat(b'}') {
            if self.extended() {
                return Ok(Interval::Text);
            }
            let ended = self.rest().is_empty();
            return Err(if ended { Error::Brace } else { Error::Interval });
        }
        let min = low.unwrap_or(0);
        if high.is_some_and(|high| high < min) {
            return Err(Error::Interval);
        }
        if min.max(high.unwrap_or(0)) > REPEAT_MAX {
            return Err(Error::TooBig);
        }
        Ok(Interval::Times(Times { min, max: high }))
    }

    fn number(&mut self) -> Option<u32> {
        let digits = self.rest().iter().take_while(|b| b.is_ascii_digit());
        let len = digits.count();
        let value = self.rest()[..len].iter().fold(0u32, |n, b| {
            (n * 10 + u32::from(b - b'0')).min(REPEAT_MAX + 1)
        });
        self.at += len;
        (len > 0).then_some(value)
    }

    /// `first` if it is the first of its branch.
    fn atom(&mut self, first: bool) -> Result<Node, Error> {
        if self.eat(b'(') {
            return self.group();
        }
        match self.rest() {
            [b'\\', ..] => self.escape(),
            [b'[', ..] => {
                self.at += 1;
                self.bracket()
            }
            [b'.', ..] => {
                self.at += 1;
                Ok(Node::Any)
            }
            [b'^', ..] if self.extended() || first => {
                self.at += 1;
                Ok(Node::Assert(Assert::LineStart))
            }
            [b'$', rest @ ..] if self.extended() || ends_basic(rest) => {
                self.at += 1;
                Ok(Node::Assert(Assert::LineEnd))
            }
            _ => Ok(self.literal()),
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
        self.closed.push(number);
        Ok(Node::Group(number, Box::new(inner)))
    }

    fn escape(&mut self) -> Result<Node, Error> {
        self.at += 1;
        let utf8 = self.rules.utf8;
        let Some(c) = self.rest().first().copied() else {
            return Err(Error::Backslash);
        };
        let set = |name, with_underscore: bool, inverse: bool| {
            let set = match with_underscore {
                true => classes::word(utf8),
                false => classes::class(name, utf8).unwrap_or_default(),
            };
            Node::Set(if inverse {
                set.inverse(last(utf8))
            } else {
                set
            })
        };
        let node = match c {
            b'<' => Node::Assert(Assert::WordStart),
            b'>' => Node::Assert(Assert::WordEnd),
            b'b' => Node::Assert(Assert::WordEdge),
            b'B' => Node::Assert(Assert::NotWordEdge),
            b'`' => Node::Assert(Assert::LineStart),
            b'\'' => Node::Assert(Assert::LineEnd),
            b'w' => set(b"alnum", true, false),
            b'W' => set(b"alnum", true, true),
            b's' => set(b"space", false, false),
            b'S' => set(b"space", false, true),
            b'1'..=b'9' => {
                let number = usize::from(c - b'0');
                if !self.closed.contains(&number) {
                    return Err(Error::Backref);
                }
                Node::Backref(number)
            }
            _ => return Ok(self.literal()),
        };
        self.complex |= matches!(node, Node::Set(_)) || node.has_word_assert();
        self.at += 1;
        Ok(node)
    }

    fn bracket(&mut self) -> Result<Node, Error> {
        let Rules { utf8, icase, .. } = self.rules;
        let begin = self.at;
        let (inverse, items) = bracket::parse(self.text, &mut self.at, utf8, icase)?;
        let mut pairs = self.text[begin..self.at].windows(2);
        self.collates |= pairs.any(|pair| matches!(pair, b"[." | b"[="));
        let plain = |item: &Item| matches!(item, Item::Char(Char::Code(c)) if *c < 0x80);
        self.complex |= inverse || !items.iter().all(plain);
        let mut ranges = Vec::new();
        let mut bytes = Vec::new();
        for item in items {
            match item {
                Item::Char(Char::Code(c)) => ranges.push((c, c)),
                Item::Char(Char::Byte(b)) => bytes.push(Node::Byte(b)),
                Item::Range(low, high) => ranges.push((low, high)),
                Item::Class(set) => ranges.extend_from_slice(set.ranges()),
            }
        }
        let mut set = Set::new(ranges);
        if icase {
            set = classes::fold(&set, utf8);
        }
        if inverse {
            return Ok(Node::Set(set.inverse(last(utf8))));
        }
        if bytes.is_empty() {
            return Ok(Node::Set(set));
        }
        bytes.push(Node::Set(set));
        Ok(Node::Alternate(bytes))
    }

    /// The next character, standing for itself.
    fn literal(&mut self) -> Node {
        let utf8 = self.rules.utf8;
        let (c, len) = decode(self.rest(), utf8).unwrap_or((Char::Code(0), 0));
        self.at += len;
        match c {
            Char::Byte(b) => Node::Byte(b),
            Char::Code(c) if self.rules.icase => Node::Set(classes::fold(&Set::of(c), utf8)),
            Char::Code(c) => Node::Set(Set::of(c)),
        }
    }
}

/// The last code of the character set.
pub(super) fn last(utf8: bool) -> u32 {
    if utf8 { 0x10ffff } else { 0xff }
}

/// True if `rest` stands where a branch of a basic expression ends.
fn ends_basic(rest: &[u8]) -> bool {
    matches!(rest, [] | [b'\\', b')' | b'|', ..])
}
