//! Draws a file as a strip. Each column is a part of the file, coloured by its level.

use sleds::{Sled, StorageLevel};

/// Appearance of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ColumnShade {
    /// Number in the escape sequence.
    color: u8,
    /// Character without colour.
    plain: char,
}

const fn look(color: u8, plain: char) -> ColumnShade {
    ColumnShade { color, plain }
}

/// Shades from uncached to fully cached.
const SHADES: [ColumnShade; 5] = [
    look(33, '.'),
    look(33, ':'),
    look(93, '+'),
    look(92, '%'),
    look(32, '#'),
];
const UNKNOWN: ColumnShade = look(90, '?');

/// Returns the legend of the strip.
pub(crate) fn legend(color: bool) -> String {
    let mark = |look: ColumnShade| {
        if color {
            format!("\x1b[{}m█\x1b[0m", look.color)
        } else {
            look.plain.to_string()
        }
    };
    format!(
        "{} memory  {} device  {} unknown",
        mark(SHADES[4]),
        mark(SHADES[0]),
        mark(UNKNOWN)
    )
}

/// Returns the strip with `columns` columns.
pub(crate) fn strip(sleds: &[Sled], columns: usize, color: bool) -> String {
    let mut out = String::new();
    let mut now = 0;
    for look in looks(sleds, columns) {
        if !color {
            out.push(look.plain);
            continue;
        }
        if look.color != now {
            now = look.color;
            out.push_str(&format!("\x1b[{now}m"));
        }
        out.push('█');
    }
    if color && now != 0 {
        out.push_str("\x1b[0m");
    }
    out
}

fn looks(sleds: &[Sled], columns: usize) -> Vec<ColumnShade> {
    let (Some(first), Some(last)) = (sleds.first(), sleds.last()) else {
        return Vec::new();
    };
    let (start, length) = (first.offset, last.end() - first.offset);
    let columns = columns.min(usize::try_from(length).unwrap_or(usize::MAX));
    let edge = |column: usize| {
        start + (u128::from(length) * column as u128 / columns.max(1) as u128) as u64
    };
    let mut looks = Vec::with_capacity(columns);
    let mut at = 0;
    for column in 0..columns {
        let (from, to) = (edge(column), edge(column + 1));
        let (mut memory, mut unknown) = (0, 0);
        while sleds.get(at).is_some_and(|sled| sled.end() <= from) {
            at += 1;
        }
        for sled in sleds[at..].iter().take_while(|sled| sled.offset < to) {
            let length = sled.end().min(to) - sled.offset.max(from);
            match sled.level {
                StorageLevel::Memory => memory += length,
                StorageLevel::Unknown => unknown += length,
                StorageLevel::Device(_) => {}
            }
        }
        looks.push(if unknown > 0 {
            UNKNOWN
        } else {
            shade(memory, to - from)
        });
    }
    looks
}

/// Uses the outermost shades only for entirely uncached and entirely cached parts.
fn shade(part: u64, whole: u64) -> ColumnShade {
    match part {
        0 => SHADES[0],
        part if part >= whole => SHADES[4],
        part => SHADES[1 + (part as f64 / whole as f64 * 3.0).min(2.0) as usize],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sleds::{EstimateRange, RateSource};

    fn sled(offset: u64, length: u64, level: StorageLevel) -> Sled {
        Sled {
            offset,
            length,
            latency_s: Some(EstimateRange::exactly(1.0)),
            bandwidth_Bps: Some(EstimateRange::exactly(1.0)),
            linear_Bps: None,
            level,
            source: RateSource::Measured,
        }
    }

    #[test]
    fn every_column_shows_the_levels_of_its_range() {
        let device = StorageLevel::Device("x".into());
        let sleds = [
            sled(0, 100, StorageLevel::Memory),
            sled(100, 150, device),
            sled(250, 50, StorageLevel::Memory),
            sled(300, 100, StorageLevel::Unknown),
        ];
        assert_eq!(strip(&sleds, 4, false), "#.+?");
        assert_eq!(strip(&sleds[..1], 200, false).len(), 100);
        assert_eq!(strip(&[], 80, false), "");
        let colored = strip(&sleds, 4, true);
        assert!(colored.starts_with("\x1b[32m█") && colored.ends_with("\x1b[0m"));
    }
}
