//! The formats of `-printf`.

use std::ffi::CString;
use std::io::Write as _;

use super::entry::{Clock, Moment};
use super::report;
use super::sys::LocalTime;

/// A format, taken apart.
pub(super) struct Format {
    pub(super) pieces: Vec<Piece>,
}

/// A part of a format.
pub(super) enum Piece {
    Text(Vec<u8>),
    Directive {
        field: Field,
        what: What,
    },
    /// `\c`: nothing after it is written, and what was written goes out at once.
    Stop,
}

/// Flags, width and precision.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Field {
    left: bool,
    zero: bool,
    sign: bool,
    space: bool,
    alternate: bool,
    width: usize,
    precision: Option<usize>,
}

/// What a directive stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum What {
    Time(Clock, u8),
    /// The letter of any other directive.
    Letter(u8),
}

/// Letters of directives that stand alone.
const LETTERS: &[u8] = b"abcdDfFgGhHiklmMnpPsStuUyYZ";

/// Takes a format apart. `warn` hears of what is not known and is printed as it stands.
pub(super) fn parse(text: &[u8], warn: &dyn Fn(&[u8])) -> Result<Format, Vec<u8>> {
    let mut pieces = Vec::new();
    let mut literal = Vec::new();
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        match first {
            b'\\' => {
                if !escape(&mut rest, &mut literal, warn) {
                    flush(&mut pieces, &mut literal);
                    pieces.push(Piece::Stop);
                    break;
                }
            }
            b'%' if rest.first() == Some(&b'%') => {
                literal.push(b'%');
                rest = &rest[1..];
            }
            b'%' => match directive(&mut rest, &mut literal, warn)? {
                None => {}
                Some(piece) => {
                    flush(&mut pieces, &mut literal);
                    pieces.push(piece);
                }
            },
            byte => literal.push(*byte),
        }
    }
    flush(&mut pieces, &mut literal);
    Ok(Format { pieces })
}

fn flush(pieces: &mut Vec<Piece>, literal: &mut Vec<u8>) {
    if !literal.is_empty() {
        pieces.push(Piece::Text(std::mem::take(literal)));
    }
}

/// What follows a backslash. Returns false for `\c`.
fn escape(rest: &mut &[u8], literal: &mut Vec<u8>, warn: &dyn Fn(&[u8])) -> bool {
    let Some((letter, after)) = rest.split_first() else {
        warn(b"warning: escape `\\' followed by nothing at all");
        literal.push(b'\\');
        return true;
    };
    if (b'0'..=b'7').contains(letter) {
        let digits = rest.iter().take(3);
        let digits = digits.take_while(|b| (b'0'..=b'7').contains(b)).count();
        let value = rest[..digits]
            .iter()
            .fold(0_u32, |n, digit| n * 8 + u32::from(digit - b'0'));
        literal.push(value as u8);
        *rest = &rest[digits..];
        return true;
    }
    *rest = after;
    let byte = match letter {
        b'a' => 7,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 11,
        b'\\' => b'\\',
        b'c' => return false,
        other => {
            warn(&[&b"warning: unrecognized escape `\\"[..], &[*other, b'\'']].concat());
            literal.push(b'\\');
            *other
        }
    };
    literal.push(byte);
    true
}

/// What follows a percent sign.
fn directive(
    rest: &mut &[u8],
    literal: &mut Vec<u8>,
    warn: &dyn Fn(&[u8]),
) -> Result<Option<Piece>, Vec<u8>> {
    let whole = *rest;
    let mut field = Field::default();
    let mut at = 0;
    while let Some(flag) = whole.get(at).filter(|b| b"-+ #0".contains(b)) {
        match flag {
            b'-' => field.left = true,
            b'+' => field.sign = true,
            b' ' => field.space = true,
            b'#' => field.alternate = true,
            _ => field.zero = true,
        }
        at += 1;
    }
    field.width = digits(whole, &mut at);
    if whole.get(at) == Some(&b'.') {
        at += 1;
        field.precision = Some(digits(whole, &mut at));
    }
    let Some(letter) = whole.get(at).copied() else {
        return Err(b"error: % at end of format string".to_vec());
    };
    *rest = &whole[at + 1..];
    let clock = match letter {
        b'A' => Clock::Access,
        b'B' => Clock::Birth,
        b'C' => Clock::Change,
        b'T' => Clock::Modification,
        b'{' | b'[' | b'(' => {
            let text = "error: the format directive `%";
            return Err(format!("{text}{}' is reserved for future use", letter as char).into());
        }
        _ if LETTERS.contains(&letter) => {
            let what = What::Letter(letter);
            return Ok(Some(Piece::Directive { field, what }));
        }
        _ => {
            warn(
                &[
                    &b"warning: unrecognized format directive `%"[..],
                    &[letter, b'\''],
                ]
                .concat(),
            );
            literal.push(b'%');
            literal.extend_from_slice(&whole[..=at]);
            return Ok(None);
        }
    };
    let Some(format) = rest.first().copied() else {
        let letter = letter as char;
        warn(
            format!(
                "warning: format directive `%{letter}' should be followed by another character"
            )
            .as_bytes(),
        );
        literal.push(b'%');
        literal.extend_from_slice(&whole[..=at]);
        return Ok(None);
    };
    *rest = &rest[1..];
    let what = What::Time(clock, format);
    Ok(Some(Piece::Directive { field, what }))
}

fn digits(text: &[u8], at: &mut usize) -> usize {
    let mut value = 0_usize;
    while let Some(digit) = text.get(*at).filter(|b| b.is_ascii_digit()) {
        value = value
            .saturating_mul(10)
            .saturating_add(usize::from(digit - b'0'))
            .min(1 << 20);
        *at += 1;
    }
    value
}

impl Format {
    /// Whether it says something that only the file's status tells.
    pub(super) fn needs_status(&self) -> bool {
        self.pieces.iter().any(|piece| match piece {
            Piece::Text(_) | Piece::Stop => false,
            Piece::Directive { what, .. } => match what {
                What::Time(..) => true,
                What::Letter(letter) => !b"dfhHlpPyYZ".contains(letter),
            },
        })
    }
}

impl Field {
    /// Writes a string as C's `%s` does.
    pub(super) fn text(&self, to: &mut Vec<u8>, text: &[u8]) {
        let text = match self.precision {
            Some(most) => &text[..text.len().min(most)],
            None => text,
        };
        self.pad(to, text);
    }

    /// Writes a number as C's `%d` does.
    pub(super) fn decimal(&self, to: &mut Vec<u8>, value: u64) {
        let sign: &[u8] = match (self.sign, self.space) {
            (true, _) => b"+",
            (false, true) => b" ",
            _ => b"",
        };
        self.number(to, sign, value.to_string());
    }

    /// Writes a number as C's `%o` does.
    pub(super) fn octal(&self, to: &mut Vec<u8>, value: u32) {
        let text = format!("{value:o}");
        let prefix: &[u8] = if self.alternate && value != 0 {
            b"0"
        } else {
            b""
        };
        self.number(to, prefix, text);
    }

    fn number(&self, to: &mut Vec<u8>, prefix: &[u8], digits: String) {
        let mut zeros = 0;
        if let Some(least) = self.precision {
            // The prefix of an octal number is one of its digits.
            let have = digits.len() + usize::from(prefix == b"0");
            zeros = least.saturating_sub(have);
        } else if self.zero && !self.left {
            zeros = self.width.saturating_sub(digits.len() + prefix.len());
        }
        let mut text = prefix.to_vec();
        text.resize(text.len() + zeros, b'0');
        text.extend_from_slice(digits.as_bytes());
        self.pad(to, &text);
    }

    fn pad(&self, to: &mut Vec<u8>, text: &[u8]) {
        let padding = self.width.saturating_sub(text.len());
        if !self.left {
            to.resize(to.len() + padding, b' ');
        }
        to.extend_from_slice(text);
        if self.left {
            to.resize(to.len() + padding, b' ');
        }
    }
}

/// A number as C's `%g` writes it.
pub(super) fn general(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return if value == 0.0 {
            "0".into()
        } else {
            value.to_string()
        };
    }
    let scientific = format!("{value:.5e}");
    let (digits, exponent) = scientific.split_once('e').expect("it was asked for");
    let exponent: i32 = exponent.parse().expect("it is a number");
    let trim = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if (-4..6).contains(&exponent) {
        return trim(&format!("{value:.*}", (5 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim(digits), exponent.abs())
}

/// The letters of `strftime` that write seconds, which get a fraction.
fn has_seconds(letter: u8) -> bool {
    matches!(letter, b'S' | b'T' | b'X')
}

/// A moment as `%Ak`, with `k` the letter, writes it.
pub(super) fn time(moment: Moment, letter: u8) -> Vec<u8> {
    let fraction = format!("{:09}0", moment.nanos);
    if letter == b'@' {
        return format!("{}.{fraction}", moment.seconds).into_bytes();
    }
    let Some(local) = LocalTime::new(moment.seconds) else {
        return moment.seconds.to_string().into_bytes();
    };
    if letter == b'+' {
        let mut text = local.format(c"%Y-%m-%d+%H:%M:%S");
        let _ = write!(text, ".{fraction}");
        return text;
    }
    let format = CString::new([b'%', letter]).unwrap_or_default();
    let mut text = local.format(&format);
    if has_seconds(letter) {
        let mut seconds = local.format(c"%S");
        if letter != b'S' {
            seconds.insert(0, b':');
        }
        let at = text
            .windows(seconds.len())
            .rposition(|window| window == seconds);
        if let Some(at) = at {
            let end = at + seconds.len();
            text.splice(end..end, format!(".{fraction}").bytes());
        }
    }
    text
}

/// A moment as `%a`, `%c` and `%t` write it.
pub(super) fn long_time(moment: Moment) -> Vec<u8> {
    let Some(local) = LocalTime::new(moment.seconds) else {
        return time(moment, b'@');
    };
    let mut text = local.format(c"%a %b %e %H:%M:%S");
    let _ = write!(text, ".{:09}0 ", moment.nanos);
    text.extend_from_slice(&local.format(c"%Y"));
    text
}

/// Warns as GNU find does, always.
pub(super) fn warn(text: &[u8]) {
    report::say(text);
}
