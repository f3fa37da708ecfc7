//! Bracket expressions: `[^a-z[:digit:][=e=][.-.]]`.

use super::ast::{Node, Set};
use super::collate::Element;
use super::error::Error;
use super::options::Options;
use super::text::{Char, decode};
use super::{classes, collate};

/// Reads the expression at `at`, which moves behind its `]`.
pub(super) fn parse(text: &[u8], at: &mut usize, options: Options) -> Result<Node, Error> {
    let mut bracket = Bracket {
        text,
        at: *at + 1,
        options,
        ranges: Vec::new(),
        bytes: Vec::new(),
        plain: true,
    };
    let begin = bracket.at;
    let inverse = bracket.eat(b"^");
    let mut first = true;
    while first || !bracket.eat(b"]") {
        bracket.item(first)?;
        first = false;
    }
    if let [b':', middle @ .., b':'] = &text[begin..bracket.at - 1]
        && !middle.is_empty()
        && bracket.plain
    {
        return Err(Error::LoneClass);
    }
    *at = bracket.at;
    Ok(bracket.node(inverse))
}

struct Bracket<'t> {
    text: &'t [u8],
    at: usize,
    options: Options,
    /// The characters in it.
    ranges: Vec<(u32, u32)>,
    /// And bytes that are none.
    bytes: Vec<u8>,
    /// It has only characters yet.
    plain: bool,
}

impl<'t> Bracket<'t> {
    fn node(self, inverse: bool) -> Node {
        let set = Set::new(self.ranges);
        let set = if self.options.icase {
            classes::fold(&set, self.options.utf8)
        } else {
            set
        };
        if inverse {
            return Node::Set(set.inverse(self.options.last()));
        }
        if self.bytes.is_empty() {
            return Node::Set(set);
        }
        let bytes = self.bytes.into_iter().map(Node::Byte);
        Node::Alternate(bytes.chain([Node::Set(set)]).collect())
    }

    fn rest(&self) -> &'t [u8] {
        &self.text[self.at..]
    }

    fn eat(&mut self, what: &[u8]) -> bool {
        let is = self.rest().starts_with(what);
        if is {
            self.at += what.len();
        }
        is
    }

    /// True if a `-` is next that is not the last character.
    fn at_range(&self) -> bool {
        self.rest().starts_with(b"-") && !self.rest().starts_with(b"-]")
    }

    fn item(&mut self, first: bool) -> Result<(), Error> {
        // A `-` that is neither first nor last nor between the ends of a range is an error.
        if !first && self.at_range() {
            return match self.rest().len() {
                1 => Err(Error::Bracket),
                _ => Err(Error::Range),
            };
        }
        if self.rest().starts_with(b"[:") {
            return self.class();
        }
        let low = self.element()?;
        let set = if self.at_range() {
            self.at += 1;
            if self.rest().starts_with(b"[:") {
                return Err(Error::Range);
            }
            collate::range(low, self.element()?, self.options)?
        } else {
            match low {
                Element::Char(Char::Code(c)) => Set::of(c),
                Element::Char(Char::Byte(b)) => {
                    self.bytes.push(b);
                    return Ok(());
                }
                Element::Symbol(_) | Element::Equivalent(_) => collate::one(low, self.options)?,
            }
        };
        self.ranges.extend_from_slice(set.ranges());
        Ok(())
    }

    /// `[:class:]`.
    fn class(&mut self) -> Result<(), Error> {
        let Options { icase, utf8, .. } = self.options;
        let name: &[u8] = match self.name(b':')? {
            b"upper" | b"lower" if icase => b"alpha",
            name => name,
        };
        let set = classes::class(name, utf8).ok_or(Error::Class)?;
        if self.at_range() {
            return Err(Error::Range);
        }
        self.ranges.extend_from_slice(set.ranges());
        Ok(())
    }

    /// A character, `[=c=]` or `[.c.]`.
    fn element(&mut self) -> Result<Element<'t>, Error> {
        if self.rest().starts_with(b"[.") {
            return Ok(Element::Symbol(self.name(b'.')?));
        }
        if self.rest().starts_with(b"[=") {
            return Ok(Element::Equivalent(self.name(b'=')?));
        }
        let (c, len) = decode(self.rest(), self.options.utf8).ok_or(Error::Bracket)?;
        self.at += len;
        Ok(Element::Char(c))
    }

    /// What is in `[:name:]` and its like.
    fn name(&mut self, kind: u8) -> Result<&'t [u8], Error> {
        self.plain = false;
        self.at += 2;
        let end = self.rest().windows(2).position(|w| w == [kind, b']']);
        let len = end.ok_or(Error::Bracket)?;
        let name = &self.rest()[..len];
        self.at += len + 2;
        Ok(name)
    }
}
