//! Numeric arguments of tests.

use super::entry::UnixTime;
use super::expr::{NumericComparison, NumericTest};

/// Splits the sign from a number.
pub(super) fn compare(text: &str) -> (NumericComparison, &str) {
    match text.as_bytes().first() {
        Some(b'+') => (NumericComparison::More, &text[1..]),
        Some(b'-') => (NumericComparison::Less, &text[1..]),
        _ => (NumericComparison::Equal, text),
    }
}

/// Parses `[+-]N`.
pub(super) fn number(text: &str) -> Option<NumericTest> {
    let (compare, digits) = compare(text);
    Some(NumericTest {
        compare,
        value: whole(digits)?,
    })
}

/// Parses a number that consists of digits only.
pub(super) fn whole(text: &str) -> Option<u64> {
    if text.bytes().all(|b| b.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}

/// Parses `[+-]N` with a fraction.
pub(super) fn fraction(text: &str) -> Option<(NumericComparison, f64)> {
    let (compare, number) = compare(text);
    let value: f64 = match number.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok()? as f64,
        None => number.parse().ok()?,
    };
    value.is_finite().then_some((compare, value))
}

/// Parses `[+-]N[bcwkMG]`: returns the number, and the bytes of its unit. The error is the text for the user.
pub(super) fn size(text: &str) -> Result<(NumericTest, u64), String> {
    let Some(last) = text.chars().last() else {
        return Err("invalid null argument to -size".into());
    };
    let unit = match last {
        'b' => 512,
        'c' => 1,
        'w' => 2,
        'k' => 1 << 10,
        'M' => 1 << 20,
        'G' => 1 << 30,
        '0'..='9' => 512,
        _ => return Err(format!("invalid -size type `{last}'")),
    };
    let digits = if last.is_ascii_digit() {
        text
    } else {
        &text[..text.len() - 1]
    };
    match number(digits) {
        Some(number) => Ok((number, unit)),
        None => Err(format!("Invalid argument `{text}' to -size")),
    }
}

/// Parses `[+-]N[m|u]`, or the paper's `[+-][mMuU]N`: a time in seconds, milli- or microseconds. Returns the number and
/// the seconds of its unit.
pub(super) fn latency(text: &str) -> Option<(NumericComparison, f64, f64)> {
    let (compare, rest) = compare(text);
    let is_unit = |c: char| matches!(c, 'm' | 'M' | 'u' | 'U' | 's');
    let (digits, unit) = match (rest.chars().next()?, rest.chars().last()?) {
        (first, _) if is_unit(first) => (&rest[1..], first),
        (_, last) if is_unit(last) => (&rest[..rest.len() - 1], last),
        _ => (rest, 's'),
    };
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let value: f64 = digits.parse().ok()?;
    let unit_s = match unit.to_ascii_lowercase() {
        'm' => 1e-3,
        'u' => 1e-6,
        _ => 1.0,
    };
    value.is_finite().then_some((compare, value, unit_s))
}

/// Returns the moment that lies `value` units of `unit` seconds before `origin`.
pub(super) fn before(origin: UnixTime, value: f64, unit: f64) -> UnixTime {
    let span = value * unit;
    let seconds = span.trunc();
    let nanos = ((span - seconds) * 1e9) as i64;
    let mut moment = UnixTime {
        seconds: origin.seconds.saturating_sub(seconds as i64),
        nanos: origin.nanos - nanos,
    };
    if moment.nanos < 0 {
        moment.nanos += 1_000_000_000;
        moment.seconds = moment.seconds.saturating_sub(1);
    }
    moment
}
