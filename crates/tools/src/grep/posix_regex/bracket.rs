//! Bracket expressions: `[^a-z[:digit:][=e=][.-.]]`.

use super::ast::Set;
use super::classes;
use super::error::Error;
use super::text::{Char, decode};

/// Reads the expression whose `[` has just been read; `at` moves behind its `]`.
pub(super) fn parse(
    text: &[u8],
    at: &mut usize,
    utf8: bool,
    icase: bool,
) -> Result<(bool, Vec<Item>), Error> {
    let mut parser = Bracket {
        text,
        at: *at,
        utf8,
        icase,
    };
    let begin = parser.at;
    let inverse = parser.eat(b"^");
    let mut items = Vec::new();
    let mut first = true;
    while first || !parser.eat(b"]") {
        items.extend(parser.item(first)?);
        first = false;
    }
    let inside = &text[begin..parser.at - 1];
    if let [b':', middle @ .., b':'] = inside
        && !middle.is_empty()
        && items.iter().all(|item| matches!(item, Item::Char(_)))
    {
        return Err(Error::LoneClass);
    }
    *at = parser.at;
    Ok((inverse, items))
}

/// What a bracket expression lists.
#[derive(Clone, Debug)]
pub(super) enum Item {
    Char(Char),
    Range(u32, u32),
    Class(Set),
}

struct Bracket<'t> {
    text: &'t [u8],
    at: usize,
    utf8: bool,
    icase: bool,
}

/// An end of a range, or a class, which cannot be one.
enum Element {
    Char(Char),
    Class(Set),
}

impl Bracket<'_> {
    fn rest(&self) -> &[u8] {
        &self.text[self.at..]
    }

    fn eat(&mut self, what: &[u8]) -> bool {
        let is = self.rest().starts_with(what);
        if is {
            self.at += what.len();
        }
        is
    }

    fn item(&mut self, first: bool) -> Result<Option<Item>, Error> {
        // A `-` that is neither first nor last nor between the ends of a range is an error.
        if !first && self.rest().starts_with(b"-") && !self.rest().starts_with(b"-]") {
            return match self.rest().len() {
                1 => Err(Error::Bracket),
                _ => Err(Error::Range),
            };
        }
        let start = self.element()?;
        if !self.rest().starts_with(b"-") || self.rest().starts_with(b"-]") {
            return Ok(Some(match start {
                Element::Char(c) => Item::Char(c),
                Element::Class(set) => Item::Class(set),
            }));
        }
        self.at += 1;
        let end = self.element()?;
        let (Element::Char(start), Element::Char(end)) = (start, end) else {
            return Err(Error::Range);
        };
        // In UTF-8, the library that GNU grep asks compares letters in upper case, and the ends of
        // ranges too.
        let case = |c: u32| match self.icase && self.utf8 {
            true => classes::upper(c),
            false => c,
        };
        match (case(start.code()), case(end.code())) {
            (low, high) if low > high => Err(Error::Range),
            (low, high) => Ok(Some(Item::Range(low, high))),
        }
    }

    fn element(&mut self) -> Result<Element, Error> {
        for kind in [b':', b'=', b'.'] {
            if self.rest().starts_with(&[b'[', kind]) {
                return self.named(kind);
            }
        }
        match decode(self.rest(), self.utf8) {
            Some((c, len)) => {
                self.at += len;
                Ok(Element::Char(c))
            }
            None => Err(Error::Bracket),
        }
    }

    /// `[:class:]`, `[=c=]` or `[.c.]`.
    fn named(&mut self, kind: u8) -> Result<Element, Error> {
        self.at += 2;
        let end = self.rest().windows(2).position(|w| w == [kind, b']']);
        let len = end.ok_or(Error::Bracket)?;
        let name = &self.text[self.at..self.at + len];
        self.at += len + 2;
        if kind == b':' {
            let name: &[u8] = match name {
                b"upper" | b"lower" if self.icase => b"alpha",
                name => name,
            };
            let set = classes::class(name, self.utf8).ok_or(Error::Class)?;
            return Ok(Element::Class(set));
        }
        match decode(name, self.utf8) {
            Some((c, n)) if n == name.len() => Ok(Element::Char(c)),
            _ => Err(Error::Collation),
        }
    }
}
