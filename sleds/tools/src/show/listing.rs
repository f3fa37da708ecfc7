//! Selects the listed SLEDs of a file: all, if they fit on a screen; otherwise totals and the largest.
//!
//! A file with scattered pages in memory has thousands of SLEDs, too many to read.

use std::collections::BTreeMap;

use forebay_units::ByteLen;
use sleds::Sled;
use sleds_common::quantity::{percent, rate, seconds};

/// Lines of the other output about a file, and of the next prompt: name, device, strip and legend, the heads of both
/// tables and the line between them, both times.
const OTHER_LINES: usize = 10;
/// Minimum number of listed SLEDs, even on a small screen.
const LEAST: usize = 5;

/// Amount of listed SLEDs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ListingLimit {
    /// Every SLED.
    All,
    /// At most this number of SLEDs.
    Most(usize),
    /// SLEDs that fit on a screen with this number of rows.
    Screen(usize),
}

/// Returns the lines with the SLEDs, or with totals and the largest SLEDs.
pub(super) fn lines(sleds: &[Sled], extent: ListingLimit) -> Vec<String> {
    let totals = totals(sleds);
    let most = match extent {
        ListingLimit::All => usize::MAX,
        ListingLimit::Most(most) => most,
        ListingLimit::Screen(rows) => rows.saturating_sub(OTHER_LINES + totals.len()).max(LEAST),
    };
    if sleds.len() <= most {
        return table(sleds.iter());
    }
    let mut lines = totals_table(&totals);
    lines.push(format!(
        "  the {most} largest of {} parts (--all: every one)",
        sleds.len()
    ));
    lines.extend(table(largest(sleds, most).into_iter()));
    lines
}

/// Totals of a level.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct LevelTotal {
    bytes: u64,
    parts: usize,
    largest: u64,
}

/// Returns the totals by level, sorted by name.
fn totals(sleds: &[Sled]) -> BTreeMap<&str, LevelTotal> {
    let mut totals: BTreeMap<&str, LevelTotal> = BTreeMap::new();
    for sled in sleds {
        let total = totals.entry(sled.level.name()).or_default();
        total.bytes += sled.length;
        total.parts += 1;
        total.largest = total.largest.max(sled.length);
    }
    totals
}

fn totals_table(totals: &BTreeMap<&str, LevelTotal>) -> Vec<String> {
    let all: u64 = totals.values().map(|total| total.bytes).sum();
    let width = totals.keys().map(|name| name.chars().count());
    let width = width.max().unwrap_or(0).max(5);
    let mut lines = vec![format!(
        "  {:<width$}  {:>10}  {:>6}  {:>10}  {:>10}",
        "LEVEL", "BYTES", "SHARE", "PARTS", "LARGEST"
    )];
    for (name, total) in totals {
        let (bytes, largest) = (ByteLen(total.bytes), ByteLen(total.largest));
        let (share, parts) = (percent(total.bytes, all), total.parts);
        lines.push(format!(
            "  {name:<width$}  {bytes:>10}  {share:>6}  {parts:>10}  {largest:>10}"
        ));
    }
    lines
}

/// Returns the largest SLEDs in file order; the first among equal lengths.
fn largest(sleds: &[Sled], most: usize) -> Vec<&Sled> {
    let mut largest: Vec<&Sled> = sleds.iter().collect();
    largest.sort_by_key(|sled| std::cmp::Reverse(sled.length));
    largest.truncate(most);
    largest.sort_by_key(|sled| sled.offset);
    largest
}

fn table<'a>(sleds: impl Iterator<Item = &'a Sled> + Clone) -> Vec<String> {
    let name = |sled: &Sled| sled.level.name().chars().count();
    let Some(width) = sleds.clone().map(name).max() else {
        return Vec::new();
    };
    let width = width.max(5);
    let mut lines = vec![format!(
        "  {:>14}  {:>14}  {:<width$}  {:>10}  {:>10}",
        "OFFSET", "LENGTH", "LEVEL", "LATENCY", "BANDWIDTH"
    )];
    for sled in sleds {
        let latency = sled.latency_s.map(|latency| seconds(latency.median));
        let bandwidth = sled.bandwidth_Bps.map(|bandwidth| rate(bandwidth.median));
        lines.push(format!(
            "  {:>14}  {:>14}  {:<width$}  {:>10}  {:>10}",
            sled.offset,
            sled.length,
            sled.level,
            latency.as_deref().unwrap_or("?"),
            bandwidth.as_deref().unwrap_or("?")
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use sleds::{RateSource, StorageLevel};

    use super::*;

    const PAGE: u64 = 4096;

    /// Returns SLEDs with every other page in memory, and larger parts at both ends.
    fn scattered(pages: u64) -> Vec<Sled> {
        let device = StorageLevel::Device("nvme0n1".into());
        let mut sleds = Vec::new();
        let mut offset = 0;
        for n in 0..pages {
            let level = if n % 2 == 0 {
                StorageLevel::Memory
            } else {
                device.clone()
            };
            let length = if n == 0 || n == pages - 1 {
                100 * PAGE
            } else {
                PAGE
            };
            sleds.push(Sled {
                offset,
                length,
                latency_s: None,
                bandwidth_Bps: None,
                linear_Bps: None,
                level,
                source: RateSource::Default,
            });
            offset += length;
        }
        sleds
    }

    #[test]
    fn a_listing_that_fits_on_a_screen_is_complete() {
        let sleds = scattered(8);
        let all = lines(&sleds, ListingLimit::All);
        assert_eq!(all.len(), 9);
        assert!(
            all[0].contains("OFFSET") && all[8].contains("nvme0n1"),
            "{all:?}"
        );
        assert_eq!(lines(&sleds, ListingLimit::Screen(24)), all);
        assert_eq!(lines(&sleds, ListingLimit::Most(8)), all);
        assert!(lines(&[], ListingLimit::Screen(24)).is_empty());
    }

    /// Found with a file of 300 MiB: 1,400 lines.
    #[test]
    fn a_listing_of_scattered_pages_has_totals_and_the_largest_ranges_on_one_screen() {
        let sleds = scattered(1400);
        for rows in [0, 10, 24, 60] {
            let some = lines(&sleds, ListingLimit::Screen(rows));
            let other = OTHER_LINES - 3;
            assert!(
                some.len() + other <= rows.max(LEAST + 12),
                "{rows}: {some:?}"
            );
        }
        let some = lines(&sleds, ListingLimit::Screen(24));
        let words: Vec<Vec<&str>> = some
            .iter()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(words[1], ["memory", "3.1MiB", "50", "%", "700", "400KiB"]);
        assert_eq!(words[2], ["nvme0n1", "3.1MiB", "50", "%", "700", "400KiB"]);
        assert!(
            some[3].contains("the 12 largest of 1400 parts (--all"),
            "{some:?}"
        );
        // Both large SLEDs are listed, and all in file order.
        let offsets: Vec<u64> = words[5..]
            .iter()
            .map(|row| row[0].parse().unwrap())
            .collect();
        assert!(offsets.is_sorted() && offsets.len() == 12, "{offsets:?}");
        assert_eq!(offsets.first(), Some(&0));
        assert_eq!(offsets.last(), Some(&sleds[1399].offset));
        assert_eq!(lines(&sleds, ListingLimit::All).len(), 1401);
        assert_eq!(
            lines(&sleds, ListingLimit::Most(3)).len(),
            1 + 2 + 1 + 1 + 3
        );
    }
}
