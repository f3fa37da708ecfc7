//! How much of a segment data takes once the cleaner has moved it.
//!
//! Moved data takes an entry in a header beside its sectors; segments of moved data have no summary (`streams/bare.rs`). The entry of a
//! block of 4 KiB that goes on where the one before it ends is short. The cleaner keeps the two blocks of a *page* of 8 KiB together, so a
//! page has one long entry and one short one, and what is longer is counted as pages. A piece that is no whole block may have its record
//! padded; where all pieces are of one sector, records end with blocks (`streams.rs::make_room`). So a sector in pieces of 512 bytes takes
//! more space than one in pages, and a segment of such pieces holds fewer sectors.
//!
//! All that tells how full a volume is counts in *weight*: sectors of a segment of moved data, entries and padding included. The table
//! keeps the sectors and the *units* that are live in each segment; a unit is a short entry. Both are sums over the extents of the map
//! (`forebay_extents::LeafExtent`), so they can be counted anew at any time. Weight only grows with both, and except for pieces of one
//! sector, the weight of a sum is at most the sum of the weights: however data is mixed when it is moved, it takes no more room than was
//! counted.

use forebay_extents::{LeafExtent, NODE_BYTES, PAGE_SECTORS, run_bytes};
use forebay_segments::{HEADER_BYTES, RECORD_ENTRY_BYTES_MAX};
use forebay_units::{LINE_SECTORS, SECTOR_BYTES, round_down, round_up};

use crate::format::{MOVED_BYTES, NEXT_BYTES};

/// Units by which a long entry is longer than a short one.
const START_UNITS: u64 = (MOVED_BYTES - NEXT_BYTES).div_ceil(NEXT_BYTES) as u64;
/// Units of padding for a block of which only a part is in an extent, where records do not end with blocks: one block for a full header of
/// such entries, and what is left at the end of a segment.
const PART_UNITS: u64 = 6;
/// Units of a piece of one sector.
const SINGLE_UNITS: u64 = 1 + START_UNITS + PART_UNITS;
/// Units of a block that no other goes on from.
const BLOCK_UNITS: u64 = 1 + START_UNITS;

/// Bytes of the map's nodes that one mapped run takes, where nodes are as empty as splitting leaves them.
pub(crate) const MAP_BYTES: u64 = 36;
/// How full leaves are where entries come in no order, and neighbours take what one has no room for.
const LEAF_FILLED: (u64, u64) = (80, 100);

/// The most that extents of so many sectors count for, in units.
pub(crate) fn units_at_most(sectors: u64) -> u64 {
    sectors * SINGLE_UNITS
}

/// What an extent counts for, in units.
pub(crate) fn units_of(one: &LeafExtent) -> u64 {
    match one.follows {
        true => 1,
        false => units_in_run(one.extent.sector, one.extent.sectors),
    }
}

/// What a run of the space counts for if it lies in one piece, in units.
pub(crate) fn units_in_run(sector: u64, sectors: u64) -> u64 {
    let end = sector + sectors;
    let touched = |each| (round_up(end, each) - round_down(sector, each)) / each;
    let blocks = touched(LINE_SECTORS);
    let ends = [sector, end].map(|at| u64::from(!at.is_multiple_of(LINE_SECTORS)));
    let parts = (ends[0] + ends[1]).min(blocks);
    blocks + START_UNITS * touched(PAGE_SECTORS) + PART_UNITS * parts
}

/// How many extents a run of the space is mapped as at most, and what they count for if none goes on where another ends, in units. It is
/// written in blocks.
pub(crate) fn in_blocks_at_most(sectors: u64, runs: u64) -> (u64, u64) {
    let (blocks, parts) = (sectors / LINE_SECTORS, 3 * runs);
    (blocks + parts, BLOCK_UNITS * blocks + SINGLE_UNITS * parts)
}

/// Bytes that units take, with their share of the headers' fixed fields.
fn bytes_of(units: u64) -> u64 {
    let bytes = units * NEXT_BYTES as u64 * HEADER_BYTES as u64;
    bytes.div_ceil(RECORD_ENTRY_BYTES_MAX as u64)
}

/// Sectors of a segment of moved data that so many sectors and units take.
pub(crate) fn weight(sectors: u64, units: u64) -> u64 {
    let padded = match units == units_at_most(sectors) {
        true => sectors * BLOCK_UNITS,
        false => units,
    };
    sectors + bytes_of(padded).div_ceil(SECTOR_BYTES)
}

/// Returns what data weighs with the nodes that map it, in so many extents.
pub(crate) fn weight_in_map(sectors: u64, units: u64, extents: u64) -> u64 {
    weight(sectors, units) + (extents * MAP_BYTES).div_ceil(SECTOR_BYTES)
}

/// Returns what sectors weigh in blocks of 4 KiB, the last of which may be shorter, with the nodes that map them. More sectors
/// weigh more by as many at least.
pub(crate) fn weight_in_blocks(sectors: u64) -> u64 {
    let blocks = sectors.div_ceil(LINE_SECTORS);
    let entries = bytes_of(blocks * BLOCK_UNITS).div_ceil(SECTOR_BYTES);
    sectors + entries + (blocks * MAP_BYTES).div_ceil(SECTOR_BYTES)
}

/// What `sectors` weigh at most, however they are cut into pieces.
pub(crate) fn weight_at_most(sectors: u64) -> u64 {
    sectors + bytes_of(units_at_most(sectors)).div_ceil(SECTOR_BYTES)
}

/// Nodes of the map of so many sectors, once all of their pages were written in place one by one: each page is a run of blocks of its
/// own, and leaves are as full as where entries come in no order.
pub(crate) fn nodes_of_pages(sectors: u64, page_sectors: u64) -> u64 {
    let pages = sectors.div_ceil(page_sectors);
    let bytes = pages * run_bytes(page_sectors) * LEAF_FILLED.1 / LEAF_FILLED.0;
    // Inner nodes: each has more than 200 children.
    bytes.div_ceil(NODE_BYTES as u64) * 201 / 200
}

#[cfg(test)]
mod tests {
    use forebay_extents::{Check, Extent, Place};

    use super::*;

    /// What maps preallocated sectors weighs no more than what it releases, but for its own pieces.
    #[test]
    fn each_sector_in_blocks_adds_its_weight() {
        for sectors in 0..5000 {
            for more in [1, 3, 7, 8, 20, 100] {
                let added = weight_in_blocks(sectors + more) - weight_in_blocks(sectors);
                let most = more + weight_in_map(8, BLOCK_UNITS, 1) - 8 + more / 20;
                assert!((more..=most).contains(&added), "{sectors} {more} {added}");
            }
        }
        let (extents, units) = in_blocks_at_most(4000, 0);
        assert_eq!(weight_in_blocks(4000), weight_in_map(4000, units, extents));
    }

    #[test]
    fn a_run_counts_its_blocks_its_pages_and_blocks_of_which_it_has_a_part() {
        let runs = [
            (0, 8),
            (8, 8),
            (0, 16),
            (8, 16),
            (3, 1),
            (7, 2),
            (0, 17),
            (0, 160),
        ];
        let units = runs.map(|(sector, sectors)| units_in_run(sector, sectors));
        assert_eq!(units, [5, 5, 6, 10, 11, 18, 17, 60]);
        let second = |follows| LeafExtent {
            extent: Extent {
                sector: 8,
                sectors: 8,
                place: Place(80),
                check: Check::Own(1),
            },
            follows,
        };
        assert_eq!(
            [second(true), second(false)].map(|one| units_of(&one)),
            [1, 5]
        );
    }

    /// The entries that the cleaner writes take no more than is counted.
    #[test]
    fn units_cover_the_entries_that_are_written() {
        let (start, next) = (MOVED_BYTES as u64, NEXT_BYTES as u64);
        let counted = |units| units * next;
        assert!(counted(units_in_run(0, 16)) >= start + next);
        assert!(counted(BLOCK_UNITS) >= start && counted(SINGLE_UNITS) >= start);
        let padding = (HEADER_BYTES as u64).div_ceil(RECORD_ENTRY_BYTES_MAX as u64 / start);
        assert!(bytes_of(PART_UNITS) >= padding);
    }

    #[test]
    fn small_pieces_weigh_more() {
        assert_eq!(weight(0, 0), 0);
        assert!(weight(8, 5) <= 9);
        let share = |pieces: u64, sectors: u64, units: u64| {
            let all = pieces * sectors;
            (weight(all, pieces * units) - all) as f64 / all as f64
        };
        // Pages, blocks, pieces of one sector, and of two.
        assert!((0.0035..0.004).contains(&share(1000, 16, 6)));
        assert!((0.006..0.0065).contains(&share(1000, 8, 5)));
        assert!((0.045..0.055).contains(&share(1000, 1, 11)));
        assert!((0.05..0.057).contains(&share(1000, 2, 11)));
    }

    #[test]
    fn no_mixture_of_pieces_weighs_more_than_the_most_or_than_its_parts() {
        let pieces = [(16, 6), (8, 5), (1, 11), (2, 11), (9, 17), (2, 18)];
        for one in pieces {
            for other in pieces {
                for share in 0..=10u64 {
                    let of = |(sectors, units): (u64, u64), n| (sectors * n, units * n);
                    let (one, other) = (of(one, share * 100), of(other, (10 - share) * 100));
                    let mixed = weight(one.0 + other.0, one.1 + other.1);
                    assert!(
                        mixed <= weight_at_most(one.0 + other.0),
                        "{one:?} {other:?}"
                    );
                    let singles = |(sectors, units)| sectors > 0 && units == units_at_most(sectors);
                    if !singles(one) && !singles(other) {
                        assert!(mixed <= weight(one.0, one.1) + weight(other.0, other.1));
                    }
                }
            }
        }
    }
}
