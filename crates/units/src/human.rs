//! Sizes and time spans in readable form: `64KiB`, `1.5GiB`, `50ms`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A length in bytes that can be read and printed as `64KiB`.
///
/// Parsing takes a number (with a decimal fraction if the result is whole bytes) and a unit: none or `B`; `K`/`KiB`,
/// `M`/`MiB`, `G`/`GiB`, `T`/`TiB`, `P`/`PiB` in steps of 1024; `KB`, `MB`, `GB`, `TB`, `PB` in steps of 1000. Case
/// does not matter.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ByteLen(pub u64);

/// Reason why a text is not a length.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseByteLenError {
    /// The number is missing or malformed.
    #[error("\"{0}\" does not begin with a number (write for example 64KiB)")]
    NoNumber(String),
    /// The unit is unknown.
    #[error("\"{0}\" has an unknown unit (use B, KiB, MiB, GiB, TiB, PiB or KB, MB, GB, TB, PB)")]
    UnknownUnit(String),
    /// The number and its unit do not make a whole number of bytes.
    #[error("\"{0}\" is not a whole number of bytes")]
    NotWhole(String),
    /// The length does not fit into 64 bits.
    #[error("\"{0}\" is too large")]
    TooLarge(String),
}

const UNITS: [(&str, u64); 6] = [
    ("PiB", 1 << 50),
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("B", 1),
];

impl ByteLen {
    /// Returns `n` × 1024 bytes.
    pub const fn kib(n: u64) -> ByteLen {
        ByteLen(n << 10)
    }

    /// Returns `n` × 1024² bytes.
    pub const fn mib(n: u64) -> ByteLen {
        ByteLen(n << 20)
    }

    /// Returns `n` × 1024³ bytes.
    pub const fn gib(n: u64) -> ByteLen {
        ByteLen(n << 30)
    }
}

impl fmt::Display for ByteLen {
    /// Formats in the largest unit that leaves at least 1, exactly if the unit divides the length, else with one
    /// decimal.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, unit) = UNITS
            .into_iter()
            .find(|(_, unit)| self.0 >= *unit)
            .unwrap_or(("B", 1));
        let text = if self.0.is_multiple_of(unit) {
            format!("{}{name}", self.0 / unit)
        } else {
            format!("{:.1}{name}", self.0 as f64 / unit as f64)
        };
        f.pad(&text)
    }
}

impl FromStr for ByteLen {
    type Err = ParseByteLenError;

    fn from_str(text: &str) -> Result<ByteLen, ParseByteLenError> {
        let trimmed = text.trim();
        let end = trimmed
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(end);
        let unit = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => 1,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "t" | "tib" => 1 << 40,
            "p" | "pib" => 1u64 << 50,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "tb" => 1_000_000_000_000,
            "pb" => 1_000_000_000_000_000,
            _ => return Err(ParseByteLenError::UnknownUnit(text.into())),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let no_number = || ParseByteLenError::NoNumber(text.into());
        if whole.is_empty() || fraction.contains('.') {
            return Err(no_number());
        }
        let too_large = || ParseByteLenError::TooLarge(text.into());
        let mut bytes: u128 = whole.parse::<u64>().map_err(|_| too_large())?.into();
        bytes *= u128::from(unit);
        if !fraction.is_empty() {
            let digits = u32::try_from(fraction.len()).ok().filter(|n| *n <= 18);
            let scale = 10u128.pow(digits.ok_or_else(|| ParseByteLenError::NotWhole(text.into()))?);
            let part =
                u128::from(fraction.parse::<u64>().map_err(|_| no_number())?) * u128::from(unit);
            if !part.is_multiple_of(scale) {
                return Err(ParseByteLenError::NotWhole(text.into()));
            }
            bytes += part / scale;
        }
        u64::try_from(bytes).map(ByteLen).map_err(|_| too_large())
    }
}

/// A span of time that can be read and printed as `50ms`.
///
/// Parsing takes a whole number and `us`, `ms`, `s`, `m`/`min` or `h`; a bare `0` needs no unit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TimeSpan(pub Duration);

/// Reason why a text is not a time span.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a time span (write for example 50ms, 2s, 5min)")]
pub struct ParseTimeSpanError(String);

impl FromStr for TimeSpan {
    type Err = ParseTimeSpanError;

    fn from_str(text: &str) -> Result<TimeSpan, ParseTimeSpanError> {
        let error = || ParseTimeSpanError(text.into());
        let trimmed = text.trim();
        let end = trimmed
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(end);
        let n: u64 = number.parse().map_err(|_| error())?;
        let scale_us: u64 = match unit.trim() {
            "" if n == 0 => 1,
            "us" | "µs" => 1,
            "ms" => 1_000,
            "s" => 1_000_000,
            "m" | "min" => 60_000_000,
            "h" => 3_600_000_000,
            _ => return Err(error()),
        };
        n.checked_mul(scale_us)
            .map(|us| TimeSpan(Duration::from_micros(us)))
            .ok_or_else(error)
    }
}

impl fmt::Display for TimeSpan {
    /// Formats in the largest unit that divides the span, so that the text parses to an equal span.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = self.0.as_micros();
        let (unit, name) = [
            (3_600_000_000, "h"),
            (60_000_000, "min"),
            (1_000_000, "s"),
            (1_000, "ms"),
        ]
        .into_iter()
        .find(|(unit, _)| us != 0 && us.is_multiple_of(*unit))
        .unwrap_or((1, "us"));
        f.pad(&format!("{}{name}", us / unit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_with_common_suffixes_are_parsed() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("64KiB", 65_536),
            ("64k", 65_536),
            ("1MB", 1_000_000),
            (" 1.5 GiB ", 3 << 29),
            ("16t", 16 << 40),
        ] {
            assert_eq!(text.parse(), Ok(ByteLen(bytes)), "{text}");
        }
    }

    #[test]
    fn invalid_sizes_are_rejected_with_the_reason() {
        use ParseByteLenError::*;
        type Case = (&'static str, fn(String) -> ParseByteLenError);
        let cases: [Case; 6] = [
            ("", NoNumber),
            ("KiB", NoNumber),
            ("5 floppies", UnknownUnit),
            ("0.3B", NotWhole),
            ("99999999999999999999", TooLarge),
            ("99999P", TooLarge),
        ];
        for (text, error) in cases {
            assert_eq!(text.parse::<ByteLen>(), Err(error(text.into())), "{text}");
        }
    }

    #[test]
    fn an_exact_printed_size_parses_to_the_same_size() {
        for bytes in [0, 1, 511, 4096, 1 << 20, 3 << 30, 5 << 40] {
            assert_eq!(ByteLen(bytes).to_string().parse(), Ok(ByteLen(bytes)));
        }
        assert_eq!(ByteLen(1_500_000).to_string(), "1.4MiB");
    }

    #[test]
    fn a_printed_time_span_parses_to_the_same_span() {
        for text in ["0us", "50ms", "2s", "5min", "3h", "1500us"] {
            assert_eq!(text.parse::<TimeSpan>().unwrap().to_string(), text);
        }
        assert!("5".parse::<TimeSpan>().is_err());
        assert!("soon".parse::<TimeSpan>().is_err());
    }
}
