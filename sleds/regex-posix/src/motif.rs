//! What GNU grep gives to whom: the automaton gets all patterns as one text, the C library each
//! pattern that may refer back to a group, and the others as one; or the patterns are all texts, and
//! go to neither.

use super::parse::Syntax;
use super::text::{Char, decode};
use super::{Options, classes};

/// Who searches for what.
pub(super) enum Plan {
    /// These texts.
    Texts(Vec<Vec<u8>>),
    /// These expressions, one on each line of each.
    Expressions {
        automaton: Vec<u8>,
        library: Vec<Vec<u8>>,
        extended: bool,
    },
}

/// Decides who searches for `patterns`.
pub(super) fn plan(patterns: &[Vec<u8>], options: Options) -> Plan {
    if patterns.is_empty() {
        // Nothing, which is not the same as an empty pattern.
        return Plan::Texts(Vec::new());
    }
    let mut extended = options.syntax == Syntax::Extended;
    if patterns.is_empty() {
        return Plan::Texts(Vec::new());
    }
    if options.syntax == Syntax::Fixed {
        let texts = match options.utf8 {
            true => patterns.iter().all(|p| is_text(p, options)),
            false => !options.whole_words || patterns.len() > 1,
        };
        if texts {
            return Plan::Texts(patterns.to_vec());
        }
        extended = false;
    } else if patterns.len() > 1 {
        let last = patterns.len() - 1;
        let texts = patterns.iter().enumerate();
        let texts = texts.map(|(n, p)| unescaped(p, n == last, options));
        if let Some(texts) = texts.collect() {
            return Plan::Texts(texts);
        }
    }
    let escaped: Vec<Vec<u8>>;
    let patterns = match options.syntax {
        Syntax::Fixed => {
            escaped = patterns.iter().map(|p| escape(p, options.utf8)).collect();
            &escaped
        }
        _ => patterns,
    };
    let (referring, others): (Vec<_>, Vec<_>) = patterns.iter().partition(|p| may_refer_back(p));
    let mut library: Vec<Vec<u8>> = Vec::new();
    if !others.is_empty() {
        let others: Vec<&[u8]> = others.into_iter().map(Vec::as_slice).collect();
        library.push(others.join(&b'\n'));
    }
    library.extend(referring.into_iter().cloned());
    Plan::Expressions {
        automaton: patterns.join(&b'\n'),
        library,
        extended,
    }
}

/// `patterns` in a group.
pub(super) fn grouped(patterns: &[u8], extended: bool) -> Vec<u8> {
    surrounded(b"(|)", patterns, extended)
}

/// What GNU grep's automaton gets for `patterns` with `-x` or `-w`.
pub(super) fn wrapped(patterns: &[u8], extended: bool, options: Options) -> Vec<u8> {
    match options.whole_lines {
        true => surrounded(b"^(|)$", patterns, extended),
        false => surrounded(b"(^.[^[:alnum:]_])(|)([^[:alnum:]_].$)", patterns, extended),
    }
}

/// `patterns` in place of the `|` of an extended expression, in which `.` is `|`.
fn surrounded(expression: &[u8], patterns: &[u8], extended: bool) -> Vec<u8> {
    let mut out = Vec::new();
    for byte in expression {
        let (operator, byte) = match byte {
            b'|' => {
                out.extend_from_slice(patterns);
                continue;
            }
            b'.' => (true, b'|'),
            byte => (b"()".contains(byte), *byte),
        };
        if operator && !extended {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out
}

/// True if `pattern` has what looks like a back-reference.
fn may_refer_back(pattern: &[u8]) -> bool {
    let mut rest = pattern;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        match rest.get(at + 1) {
            Some(b'1'..=b'9') => return true,
            Some(b'\\') => rest = &rest[at + 2..],
            _ => rest = &rest[at + 1..],
        }
    }
    false
}

/// True if the text can be searched for byte by byte: of what is no character, or has another case
/// of another length, it cannot.
fn is_text(pattern: &[u8], options: Options) -> bool {
    let mut rest = pattern;
    while let Some((c, len)) = decode(rest, options.utf8) {
        let simple = match c {
            Char::Byte(_) => false,
            Char::Code(c) => !options.icase || has_no_far_case(c, options.utf8),
        };
        if !simple {
            return false;
        }
        rest = &rest[len..];
    }
    true
}

/// True if no other case of `c` has bytes outside ASCII.
fn has_no_far_case(c: u32, utf8: bool) -> bool {
    let cases = classes::fold(&super::ast::Set::of(c), utf8);
    match c < 0x80 {
        true => cases.ranges().iter().all(|r| !utf8 || r.1 < 0x80),
        false => !utf8 || cases.ranges() == [(c, c)],
    }
}

/// The text that an expression means, if it has no operators; `last` if it is the last one.
fn unescaped(pattern: &[u8], last: bool, options: Options) -> Option<Vec<u8>> {
    let extended = options.syntax == Syntax::Extended;
    let mut text = Vec::new();
    let mut rest = pattern;
    while let [first, after @ ..] = rest {
        match first {
            b'$' | b'*' | b'.' | b'[' | b'^' => return None,
            b'(' | b'+' | b'?' | b'{' | b'|' if extended => return None,
            b'\\' => match after.first() {
                // A backslash at the very end is text; before another pattern it is not.
                None if !last => return None,
                None => {}
                Some(c) if b"BSW'<bsw`>123456789".contains(c) => return None,
                Some(b'(' | b'+' | b'?' | b'{' | b'|' | b')') if !extended => return None,
                Some(_) => rest = after,
            },
            _ => {}
        }
        let (_, len) = decode(rest, options.utf8)?;
        text.extend_from_slice(&rest[..len]);
        rest = &rest[len..];
    }
    is_text(&text, options).then_some(text)
}

/// The basic expression that means `text`.
fn escape(text: &[u8], utf8: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(2 * text.len());
    let mut rest = text;
    while let Some((_, len)) = decode(rest, utf8) {
        if b"$*.[\\^".contains(&rest[0]) {
            out.push(b'\\');
        }
        out.extend_from_slice(&rest[..len]);
        rest = &rest[len..];
    }
    out
}
