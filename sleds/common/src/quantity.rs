//! Formats times, sizes and rates for people.

use sleds::EstimateRange;

const TIMES: [(&str, f64); 4] = [("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)];
const BYTES: [(&str, f64); 5] = [
    ("TB", 1e12),
    ("GB", 1e9),
    ("MB", 1e6),
    ("kB", 1e3),
    ("B", 1.0),
];
const RATES: [(&str, f64); 4] = [("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3), ("B/s", 1.0)];

/// Formats a value with three digits and the largest unit that leaves at least 1.
fn scaled(value: f64, units: &[(&str, f64)]) -> String {
    let last = units.len() - 1;
    // A value that would be rounded up to 1000 uses the next unit.
    let fits = units.iter().position(|(_, unit)| value >= 0.9995 * unit);
    let (name, unit) = units[fits.unwrap_or(last)];
    let value = value / unit;
    let digits = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {name}")
}

/// Formats a time: `12.5 ms`.
pub fn seconds(value: f64) -> String {
    match value {
        0.0 => "0 s".to_owned(),
        value if value >= 119.5 => long(value),
        value => scaled(value, &TIMES),
    }
}

fn long(value: f64) -> String {
    let value = value.round() as u64;
    match value / 60 {
        minutes if minutes < 120 => format!("{minutes} min {:02} s", value % 60),
        minutes => format!("{} h {:02} min", minutes / 60, minutes % 60),
    }
}

/// Formats a rate: `1.25 GB/s`.
pub fn rate(value: f64) -> String {
    scaled(value, &RATES)
}

/// Formats a size: `1.25 GB`.
pub fn bytes(value: u64) -> String {
    match value {
        0..1000 => format!("{value} B"),
        value => scaled(value as f64, &BYTES),
    }
}

/// Formats a range of times: `12.5 ms (10.0 ms to 20.0 ms)`; only the median if the range is a single value.
pub fn spread_of_seconds(spread: EstimateRange) -> String {
    if spread.low == spread.high {
        seconds(spread.median)
    } else {
        format!(
            "{} ({} to {})",
            seconds(spread.median),
            seconds(spread.low),
            seconds(spread.high)
        )
    }
}

/// Formats a number of things: `1 file`, `2 files`.
pub fn count(number: usize, one: &str, several: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { several })
}

/// Formats a share: `48 %`. 0 and 100 are exact, never the result of rounding.
pub fn percent(part: u64, whole: u64) -> String {
    match (part, whole) {
        (_, 0) => "-".to_owned(),
        (0, _) => "0 %".to_owned(),
        (part, whole) if part >= whole => "100 %".to_owned(),
        (part, whole) => {
            let share = (part as f64 / whole as f64 * 100.0).round();
            format!("{} %", share.clamp(1.0, 99.0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_printed_with_three_digits_and_a_unit() {
        assert_eq!(seconds(0.0), "0 s");
        assert_eq!(seconds(1.234_5e-7), "123 ns");
        assert_eq!(seconds(0.000_999_9), "1.00 ms");
        assert_eq!(seconds(0.0125), "12.5 ms");
        assert_eq!(seconds(3.0), "3.00 s");
        assert_eq!(seconds(125.0), "2 min 05 s");
        assert_eq!(seconds(90_000.0), "25 h 00 min");
        assert_eq!(rate(1.25e9), "1.25 GB/s");
        assert_eq!(rate(0.5), "0.50 B/s");
        assert_eq!(count(1, "file", "files"), "1 file");
        assert_eq!(count(0, "file", "files"), "0 files");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(999_600), "1.00 MB");
    }

    #[test]
    fn percentages_round_to_0_and_100_only_if_exact() {
        assert_eq!(percent(1, 1_000_000), "1 %");
        assert_eq!(percent(999_999, 1_000_000), "99 %");
        assert_eq!(percent(0, 5), "0 %");
        assert_eq!(percent(5, 5), "100 %");
        assert_eq!(percent(0, 0), "-");
    }
}
