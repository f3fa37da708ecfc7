//! The formats of `-printf`.

use std::ffi::CString;
use std::io::Write as _;

use super::entry::{TimestampKind, UnixTime};
use super::report;
use super::sys::LocalTime;
use sleds_common::text;

/// A parsed format.
pub(super) struct PrintfFormat {
    pub(super) pieces: Vec<PrintfItem>,
}

/// A part of a format.
pub(super) enum PrintfItem {
    Text(Vec<u8>),
    Directive {
        field: FieldLayout,
        what: PrintfDirective,
    },
    /// `\c`: ends the output for the file, and flushes it.
    Stop,
}

/// Flags, width and precision.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct FieldLayout {
    left: bool,
    zero: bool,
    sign: bool,
    space: bool,
    alternate: bool,
    width: usize,
    precision: Option<usize>,
}

/// Meaning of a directive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PrintfDirective {
    /// A time in the `strftime` format of this letter.
    Time(TimestampKind, u8),
    /// A time in full.
    LongTime(TimestampKind),
    /// Letter of another directive.
    Letter(u8),
}

/// Letters of single-letter directives, except those of times.
const LETTERS: &[u8] = b"bdDfFgGhHiklmMnpPsSuUyYZ";

/// Characters for letters after a backslash.
const ESCAPES: [(u8, u8); 8] = [
    (b'a', 7),
    (b'b', 8),
    (b'f', 12),
    (b'n', b'\n'),
    (b'r', b'\r'),
    (b't', b'\t'),
    (b'v', 11),
    (b'\\', b'\\'),
];

/// Parses a format. Warns about unknown directives, which are printed unchanged.
pub(super) fn parse(text: &[u8]) -> Result<PrintfFormat, Vec<u8>> {
    let mut parser = PrintfParser {
        rest: text,
        literal: Vec::new(),
        pieces: Vec::new(),
    };
    while let Some(byte) = parser.next() {
        match byte {
            b'\\' => parser.escape(),
            b'%' => parser.directive()?,
            byte => parser.literal.push(byte),
        }
    }
    parser.flush();
    Ok(PrintfFormat {
        pieces: parser.pieces,
    })
}

/// State of the parser.
struct PrintfParser<'a> {
    rest: &'a [u8],
    /// Text that is not yet part of a piece.
    literal: Vec<u8>,
    pieces: Vec<PrintfItem>,
}

impl PrintfParser<'_> {
    fn next(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn push(&mut self, piece: PrintfItem) {
        self.flush();
        self.pieces.push(piece);
    }

    /// Makes a piece of the text so far.
    fn flush(&mut self) {
        if !self.literal.is_empty() {
            let text = std::mem::take(&mut self.literal);
            self.pieces.push(PrintfItem::Text(text));
        }
    }

    /// Parses the text after a backslash.
    fn escape(&mut self) {
        if let Some(byte) = self.octal() {
            return self.literal.push(byte);
        }
        match self.next() {
            None => {
                report::say(b"warning: escape `\\' followed by nothing at all");
                self.literal.push(b'\\');
            }
            Some(b'c') => {
                self.push(PrintfItem::Stop);
                self.rest = b"";
            }
            Some(letter) => {
                if let Some((_, byte)) = ESCAPES.iter().find(|(known, _)| *known == letter) {
                    self.literal.push(*byte);
                } else {
                    report::say(text!("warning: unrecognized escape `\\", [letter], "'"));
                    self.literal.extend_from_slice(&[b'\\', letter]);
                }
            }
        }
    }

    /// Parses up to three octal digits as a byte.
    fn octal(&mut self) -> Option<u8> {
        let digits = self.rest.iter().take(3);
        let count = digits.take_while(|b| (b'0'..=b'7').contains(b)).count();
        let (digits, rest) = self.rest.split_at(count);
        self.rest = rest;
        let digit = |n: u32, digit: &u8| n * 8 + u32::from(digit - b'0');
        (count > 0).then(|| digits.iter().fold(0, digit) as u8)
    }

    /// Parses the text after a percent sign.
    fn directive(&mut self) -> Result<(), Vec<u8>> {
        let whole = self.rest;
        if let Some(rest) = whole.strip_prefix(b"%") {
            self.rest = rest;
            self.literal.push(b'%');
            return Ok(());
        }
        let field = FieldLayout::take(&mut self.rest);
        let Some(letter) = self.next() else {
            return Err(b"error: % at end of format string".to_vec());
        };
        let shown = letter as char;
        let what = match letter {
            b'{' | b'[' | b'(' => {
                let text = "error: the format directive `%";
                return Err(format!("{text}{shown}' is reserved for future use").into());
            }
            b'A' | b'B' | b'C' | b'T' => self
                .next()
                .map(|how| PrintfDirective::Time(clock_of(letter), how)),
            b'a' | b'c' | b't' => Some(PrintfDirective::LongTime(clock_of(letter))),
            _ => LETTERS
                .contains(&letter)
                .then_some(PrintfDirective::Letter(letter)),
        };
        if let Some(what) = what {
            self.push(PrintfItem::Directive { field, what });
        } else {
            report::say(unknown(letter));
            self.literal.push(b'%');
            let taken = whole.len() - self.rest.len();
            self.literal.extend_from_slice(&whole[..taken]);
        }
        Ok(())
    }
}

/// Returns the clock for the letter of a directive.
fn clock_of(letter: u8) -> TimestampKind {
    match letter.to_ascii_lowercase() {
        b'a' => TimestampKind::Access,
        b'b' => TimestampKind::Birth,
        b'c' => TimestampKind::Change,
        _ => TimestampKind::Modification,
    }
}

/// Returns the warning about an unknown directive.
fn unknown(letter: u8) -> Vec<u8> {
    match letter {
        b'A' | b'B' | b'C' | b'T' => {
            let what = "' should be followed by another character";
            text!("warning: format directive `%", [letter], what)
        }
        _ => text!("warning: unrecognized format directive `%", [letter], "'"),
    }
}

impl PrintfFormat {
    /// Returns true if the format needs the file's status.
    pub(super) fn needs_status(&self) -> bool {
        self.pieces.iter().any(|piece| match piece {
            PrintfItem::Text(_) | PrintfItem::Stop => false,
            PrintfItem::Directive { what, .. } => match what {
                PrintfDirective::Time(..) | PrintfDirective::LongTime(_) => true,
                PrintfDirective::Letter(letter) => !b"dfhHlpPyYZ".contains(letter),
            },
        })
    }
}

impl FieldLayout {
    /// Parses flags, width and precision from the beginning of `rest`.
    fn take(rest: &mut &[u8]) -> FieldLayout {
        let mut field = FieldLayout::default();
        while let Some((flag, after)) = rest.split_first() {
            match flag {
                b'-' => field.left = true,
                b'+' => field.sign = true,
                b' ' => field.space = true,
                b'#' => field.alternate = true,
                b'0' => field.zero = true,
                _ => break,
            }
            *rest = after;
        }
        field.width = number(rest);
        if let Some(after) = rest.strip_prefix(b".") {
            *rest = after;
            field.precision = Some(number(rest));
        }
        field
    }

    /// Writes a string like C's `%s`.
    pub(super) fn text(&self, to: &mut Vec<u8>, text: &[u8]) {
        let text = match self.precision {
            Some(most) => &text[..text.len().min(most)],
            None => text,
        };
        self.pad(to, text);
    }

    /// Writes a number like C's `%d`.
    pub(super) fn decimal(&self, to: &mut Vec<u8>, value: u64) {
        let sign: &[u8] = match (self.sign, self.space) {
            (true, _) => b"+",
            (false, true) => b" ",
            _ => b"",
        };
        self.number(to, sign, value.to_string());
    }

    /// Writes a number like C's `%o`.
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
            // The prefix of an octal number counts as one of its digits.
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

/// Parses a decimal number from the beginning of `rest`; 0 without digits.
fn number(rest: &mut &[u8]) -> usize {
    let mut value = 0_usize;
    while let Some((digit @ b'0'..=b'9', after)) = rest.split_first() {
        value = (value * 10 + usize::from(digit - b'0')).min(1 << 20);
        *rest = after;
    }
    value
}

/// Formats a number like C's `%g`.
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
    let trim = |text: &str| {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text.to_owned()
        }
    };
    if (-4..6).contains(&exponent) {
        return trim(&format!("{value:.*}", (5 - exponent) as usize));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", trim(digits), exponent.abs())
}

/// Returns true for `strftime` letters that write seconds; the seconds get a fraction.
fn has_seconds(letter: u8) -> bool {
    matches!(letter, b'S' | b'T' | b'X')
}

/// Formats a moment like `%Ak`, where `k` is the letter.
pub(super) fn time(moment: UnixTime, letter: u8) -> Vec<u8> {
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

/// Formats a moment like `%a`, `%c` and `%t`.
pub(super) fn long_time(moment: UnixTime) -> Vec<u8> {
    let Some(local) = LocalTime::new(moment.seconds) else {
        return time(moment, b'@');
    };
    let mut text = local.format(c"%a %b %e %H:%M:%S");
    let _ = write!(text, ".{:09}0 ", moment.nanos);
    text.extend_from_slice(&local.format(c"%Y"));
    text
}
