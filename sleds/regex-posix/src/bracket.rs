//! Bracket expressions: `[^a-z[:digit:][=e=][.-.]]`.

use super::ast::{CharRanges, PatternNode};
use super::collate;
use super::collate::BracketElement;
use super::error::PatternError;
use super::options::RegexOptions;
use super::text::{PatternChar, decode};

/// Parses the expression at `at`, and moves `at` behind its `]`.
pub(super) fn parse(
    text: &[u8],
    at: &mut usize,
    options: RegexOptions,
) -> Result<PatternNode, PatternError> {
    let mut bracket = BracketParser {
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
        return Err(PatternError::LoneClass);
    }
    *at = bracket.at;
    Ok(bracket.node(inverse))
}

struct BracketParser<'t> {
    text: &'t [u8],
    at: usize,
    options: RegexOptions,
    /// Characters of the expression.
    ranges: Vec<(u32, u32)>,
    /// Bytes that are not characters.
    bytes: Vec<u8>,
    /// True while the expression contains only characters.
    plain: bool,
}

impl<'t> BracketParser<'t> {
    fn node(self, inverse: bool) -> PatternNode {
        let set = CharRanges::new(self.ranges);
        let set = if self.options.icase {
            self.options.rules().fold(&set)
        } else {
            set
        };
        if inverse {
            return PatternNode::Set(set.inverse(self.options.last()));
        }
        if self.bytes.is_empty() {
            return PatternNode::Set(set);
        }
        let bytes = self.bytes.into_iter().map(PatternNode::Byte);
        PatternNode::Alternate(bytes.chain([PatternNode::Set(set)]).collect())
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

    /// Returns true if a `-` is next that is not the last character.
    fn at_range(&self) -> bool {
        self.rest().starts_with(b"-") && !self.rest().starts_with(b"-]")
    }

    fn item(&mut self, first: bool) -> Result<(), PatternError> {
        // A `-` that is neither first nor last nor between the ends of a range is an error.
        if !first && self.at_range() {
            return match self.rest().len() {
                1 => Err(PatternError::Bracket),
                _ => Err(PatternError::Range),
            };
        }
        if self.rest().starts_with(b"[:") {
            return self.class();
        }
        let low = self.element()?;
        let set = if self.at_range() {
            self.at += 1;
            if self.rest().starts_with(b"[:") {
                return Err(PatternError::Range);
            }
            collate::range(low, self.element()?, self.options)?
        } else {
            match low {
                BracketElement::Char(PatternChar::Code(c)) => CharRanges::of(c),
                BracketElement::Char(PatternChar::Byte(b)) => {
                    self.bytes.push(b);
                    return Ok(());
                }
                BracketElement::Symbol(_) | BracketElement::Equivalent(_) => {
                    collate::one(low, self.options)?
                }
            }
        };
        self.ranges.extend_from_slice(set.ranges());
        Ok(())
    }

    /// Parses `[:class:]`.
    fn class(&mut self) -> Result<(), PatternError> {
        let icase = self.options.icase;
        let name: &[u8] = match self.name(b':')? {
            b"upper" | b"lower" if icase => b"alpha",
            name => name,
        };
        let set = self
            .options
            .rules()
            .class(name)
            .ok_or(PatternError::Class)?;
        if self.at_range() {
            return Err(PatternError::Range);
        }
        self.ranges.extend_from_slice(set.ranges());
        Ok(())
    }

    /// Parses a character, `[=c=]` or `[.c.]`.
    fn element(&mut self) -> Result<BracketElement<'t>, PatternError> {
        if self.rest().starts_with(b"[.") {
            return Ok(BracketElement::Symbol(self.name(b'.')?));
        }
        if self.rest().starts_with(b"[=") {
            return Ok(BracketElement::Equivalent(self.name(b'=')?));
        }
        let (c, len) = decode(self.rest(), self.options.utf8).ok_or(PatternError::Bracket)?;
        self.at += len;
        Ok(BracketElement::Char(c))
    }

    /// Returns the name in `[:name:]`, `[=name=]` or `[.name.]`.
    fn name(&mut self, kind: u8) -> Result<&'t [u8], PatternError> {
        self.plain = false;
        self.at += 2;
        let end = self.rest().windows(2).position(|w| w == [kind, b']']);
        let len = end.ok_or(PatternError::Bracket)?;
        let name = &self.rest()[..len];
        self.at += len + 2;
        Ok(name)
    }
}
