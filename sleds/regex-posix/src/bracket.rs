//! Bracket expressions: `[^a-z[:digit:][=e=][.-.]]`.

use super::ast::Set;
use super::classes;
use super::collate;
use super::error::Error;
use super::parse::{Reader, Rules};
use super::text::{Char, decode};

/// A bracket expression.
pub(super) struct Bracket {
    /// It begins with `^`; the rest is as if it did not.
    pub(super) inverse: bool,
    /// The characters in it.
    pub(super) set: Set,
    /// And bytes that are none.
    pub(super) bytes: Vec<u8>,
    /// GNU grep's automaton knows what it means.
    pub(super) known: bool,
    /// It is more than a list of ASCII characters.
    pub(super) complex: bool,
}

/// Reads the expression whose `[` has just been read; `at` moves behind its `]`.
pub(super) fn parse(text: &[u8], at: &mut usize, rules: Rules) -> Result<Bracket, Error> {
    let mut parser = BracketParser {
        text,
        at: *at,
        rules,
    };
    let begin = parser.at;
    let inverse = parser.eat(b"^");
    let mut items = Vec::new();
    let mut first = true;
    while first || !parser.eat(b"]") {
        items.push(parser.item(first)?);
        first = false;
    }
    let inside = &text[begin..parser.at - 1];
    let plain = items.iter().all(|item| matches!(item, Item::Char(_)));
    if rules.reader != Reader::Library
        && let [b':', middle @ .., b':'] = inside
        && !middle.is_empty()
        && plain
    {
        return Err(Error::LoneClass);
    }
    let known = items.iter().all(|item| item.known(rules.utf8)) && !(inverse && rules.utf8);
    let ascii = |item: &Item| match item {
        Item::Char(Char::Code(c)) => *c < 0x80,
        Item::Named(_, ascii) => *ascii,
        _ => false,
    };
    let complex = inverse || !items.iter().all(ascii);
    // What the automaton does not know, the library decides.
    let automaton = known && rules.reader != Reader::Library;
    let (set, bytes) = members(&items, automaton, rules);
    *at = parser.at;
    Ok(Bracket {
        inverse,
        set,
        bytes,
        known,
        complex,
    })
}

/// The characters of all items, and the bytes that are none.
fn members(items: &[Item], automaton: bool, rules: Rules) -> (Set, Vec<u8>) {
    let mut ranges = Vec::new();
    let mut bytes = Vec::new();
    for item in items {
        match item {
            Item::Char(Char::Code(c)) => ranges.push((*c, *c)),
            Item::Char(Char::Byte(b)) => bytes.push(*b),
            Item::Class(set, _) => ranges.extend_from_slice(set.ranges()),
            Item::Range { codes, .. } if automaton => ranges.push(*codes),
            Item::Range { set, .. } | Item::Named(set, _) => ranges.extend_from_slice(set.ranges()),
        }
    }
    let set = Set::new(ranges);
    let set = match rules.icase {
        true => classes::fold(&set, rules.utf8),
        false => set,
    };
    (set, bytes)
}

/// What a bracket expression lists.
#[derive(Clone, Debug)]
enum Item {
    Char(Char),
    /// And whether it has only single bytes in every locale.
    Class(Set, bool),
    Range {
        /// What the library takes it for.
        set: Set,
        /// The codes of its ends.
        codes: (u32, u32),
        /// An end is written as `[.c.]`.
        named: bool,
    },
    /// `[=c=]` or `[.c.]`, and whether it is one ASCII character to all.
    Named(Set, bool),
}

impl Item {
    /// True if GNU grep's automaton knows what it means.
    fn known(&self, utf8: bool) -> bool {
        let digit = |c: u32| (0x30..0x3a).contains(&c);
        match self {
            Item::Char(Char::Code(_)) => true,
            Item::Char(Char::Byte(_)) => !utf8,
            Item::Class(_, single) => !utf8 || *single,
            Item::Range { named: true, .. } | Item::Named(..) => false,
            Item::Range { codes, .. } => !utf8 || digit(codes.0) && digit(codes.1),
        }
    }
}

struct BracketParser<'t> {
    text: &'t [u8],
    at: usize,
    rules: Rules,
}

/// What may be an end of a range, or cannot.
enum Element<'t> {
    Char(Char),
    /// `[.c.]`, with what is inside.
    Named(&'t [u8]),
    /// `[=c=]`, likewise.
    Equivalent(&'t [u8]),
    Class(Set, bool),
}

impl<'t> BracketParser<'t> {
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

    fn item(&mut self, first: bool) -> Result<Item, Error> {
        // A `-` that is neither first nor last nor between the ends of a range is an error.
        if !first && self.rest().starts_with(b"-") && !self.rest().starts_with(b"-]") {
            return match self.rest().len() {
                1 => Err(Error::Bracket),
                _ => Err(Error::Range),
            };
        }
        let begin = self.at;
        let start = self.element()?;
        if self.rest().starts_with(b"-") && !self.rest().starts_with(b"-]") {
            self.at += 1;
            let end = self.element()?;
            return self.range(begin, start, end);
        }
        let collates = self.rules.collates;
        Ok(match start {
            Element::Char(c) => Item::Char(c),
            Element::Class(set, single) => Item::Class(set, single),
            Element::Named(name) | Element::Equivalent(name) => {
                let set = match collates {
                    true => collate::by_locale(&self.text[begin..self.at])?,
                    false => collate::by_code(name)?,
                };
                Item::Named(set, !collates)
            }
        })
    }

    /// The range whose text begins at `begin`.
    fn range(&self, begin: usize, start: Element<'_>, end: Element<'_>) -> Result<Item, Error> {
        let Rules { icase, utf8, .. } = self.rules;
        let named = matches!(start, Element::Named(_)) || matches!(end, Element::Named(_));
        let (start, end) = (self.end_of_range(start)?, self.end_of_range(end)?);
        // The library compares upper case if case does not matter, also of the ends of ranges.
        let case = |c: Char| match c {
            Char::Code(c) if icase && (utf8 || c < 0x80) => Char::Code(classes::upper(c)),
            c => c,
        };
        let ends = (case(start), case(end));
        let set = match utf8 && self.rules.collates {
            true => collate::range_by_locale(ends, &self.text[begin..self.at], icase)?,
            false => collate::range_by_code(ends, utf8, icase)?,
        };
        if start == end && !named && self.rules.reader != Reader::Library {
            return Ok(Item::Char(start));
        }
        let codes = (start.code(), end.code());
        Ok(Item::Range { set, codes, named })
    }

    fn end_of_range(&self, end: Element<'_>) -> Result<Char, Error> {
        match end {
            Element::Char(c) => Ok(c),
            Element::Named(name) => match decode(name, self.rules.utf8) {
                Some((c, n)) if n == name.len() => Ok(c),
                _ => Err(Error::Collation),
            },
            Element::Class(..) | Element::Equivalent(_) => Err(Error::Range),
        }
    }

    fn element(&mut self) -> Result<Element<'t>, Error> {
        for kind in [b':', b'=', b'.'] {
            if self.rest().starts_with(&[b'[', kind]) {
                return self.named(kind);
            }
        }
        match decode(self.rest(), self.rules.utf8) {
            Some((c, len)) => {
                self.at += len;
                Ok(Element::Char(c))
            }
            None => Err(Error::Bracket),
        }
    }

    /// `[:class:]`, `[=c=]` or `[.c.]`.
    fn named(&mut self, kind: u8) -> Result<Element<'t>, Error> {
        let Rules { icase, utf8, .. } = self.rules;
        self.at += 2;
        let end = self.rest().windows(2).position(|w| w == [kind, b']']);
        let len = end.ok_or(Error::Bracket)?;
        let name = &self.rest()[..len];
        self.at += len + 2;
        let name: &[u8] = match (kind, name) {
            (b'=', name) => return Ok(Element::Equivalent(name)),
            (b'.', name) => return Ok(Element::Named(name)),
            (_, b"upper" | b"lower") if icase => b"alpha",
            (_, name) => name,
        };
        let set = classes::class(name, utf8).ok_or(Error::Class)?;
        Ok(Element::Class(set, name == b"digit"))
    }
}
