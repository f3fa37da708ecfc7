//! The share of a log-structured volume that is kept free, in the syntax that users write.

use std::fmt;
use std::str::FromStr;

/// Share of a volume's segments that is kept free of data, beside the segments that its cleaner and its checkpoints
/// need: one in this number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpareShare(u64);

/// Error: the text is not a share that can be kept free.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is not a share to keep free (write 1/N with N from {min} to {max}, or a percentage from 0.1% to 50%)",
    min = SpareShare::MIN_PART, max = SpareShare::MAX_PART)]
pub struct ParseSpareError(String);

impl SpareShare {
    const MIN_PART: u64 = 2;
    const MAX_PART: u64 = 1024;

    /// Returns `n` if one segment in `n` is kept free.
    pub fn part(self) -> u64 {
        self.0
    }

    fn read(text: &str) -> Option<u64> {
        let part = match text.strip_suffix('%') {
            // Rounded so that at least the requested share is kept free.
            Some(percent) => (100.0 / percent.trim_end().parse::<f64>().ok()?) as u64,
            None => text.strip_prefix("1/")?.parse().ok()?,
        };
        (SpareShare::MIN_PART..=SpareShare::MAX_PART)
            .contains(&part)
            .then_some(part)
    }
}

impl FromStr for SpareShare {
    type Err = ParseSpareError;

    fn from_str(text: &str) -> Result<SpareShare, ParseSpareError> {
        let part = SpareShare::read(text.trim());
        part.map(SpareShare)
            .ok_or_else(|| ParseSpareError(text.into()))
    }
}

impl fmt::Display for SpareShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1/{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spare_shares_are_parsed_as_fractions_or_percentages_and_print_back() {
        for (text, part) in [
            ("1/2", 2),
            ("1/1024", 1024),
            ("50%", 2),
            ("3.125%", 32),
            ("3 %", 33),
            ("0.1%", 1000),
        ] {
            let share: SpareShare = text.parse().unwrap();
            assert_eq!(share.part(), part, "{text}");
            assert_eq!(share.to_string().parse(), Ok(share));
        }
    }

    #[test]
    fn invalid_spare_shares_are_refused_with_the_valid_form() {
        for text in [
            "", "1/1", "1/1025", "2/32", "0%", "-1%", "NaN%", "60%", "inf%", "16", "%",
        ] {
            let error = text.parse::<SpareShare>().unwrap_err().to_string();
            assert!(error.contains("1/N with N from 2 to 1024"), "{error}");
        }
    }
}
