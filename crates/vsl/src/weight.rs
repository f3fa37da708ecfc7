//! Weight: the space that data takes in segments once the cleaner has moved it.
//!
//! Moved data takes an entry in a header in addition to its sectors. Segments of moved data have no summary
//! (`streams/bare.rs`). The entry of a block of 4 KiB is short if the block continues the block before. The cleaner
//! keeps the two blocks of a *page* of 8 KiB together, so a page has one long entry and one short entry. Longer extents
//! are counted as pages. A fragment that is not a whole block can require padding of its record. If all fragments have
//! one sector, records end at block boundaries (`streams.rs::make_room`). So a sector in fragments of 512 bytes takes
//! more space than a sector in pages, and a segment of such fragments holds fewer sectors.
//!
//! The fill of a volume is always counted in *weight*: sectors of a segment of moved data, including entries and
//! padding. The table keeps the live sectors and the live *units* of each segment. A unit is a short entry. Both are
//! sums over the extents of the map (`forebay_extent_map::LeafExtent`), so they can be counted again at any time. Weight
//! only grows with both. Except for fragments of one sector, the weight of a sum is at most the sum of the weights:
//! however data is mixed when it is moved, it takes no more space than was counted.

use forebay_extent_map::{LeafExtent, NODE_BYTES, PAGE_SECTORS, run_bytes};
use forebay_segment_log::{HEADER_BYTES, RECORD_ENTRY_BYTES_MAX};
use forebay_units::{LINE_SECTORS, SECTOR_BYTES, round_down, round_up};

use crate::format::{MOVED_BYTES, NEXT_BYTES};

/// Units by which a long entry is longer than a short entry.
const START_UNITS: u64 = (MOVED_BYTES - NEXT_BYTES).div_ceil(NEXT_BYTES) as u64;
/// Units of padding for a block that is only partly in an extent, if records do not end at block boundaries: one block
/// for each full header of such entries, and the rest at the end of a segment.
const PART_UNITS: u64 = 6;
/// Units of a fragment of one sector.
const SINGLE_UNITS: u64 = 1 + START_UNITS + PART_UNITS;
/// Units of a block that no other block continues.
const BLOCK_UNITS: u64 = 1 + START_UNITS;

/// Bytes of the map's nodes for one mapped extent, if nodes are as empty as splitting leaves them.
pub(crate) const MAP_BYTES: u64 = 36;
/// Fill of leaves if entries come in random order, and full leaves pass entries to their neighbours.
const LEAF_FILLED: (u64, u64) = (80, 100);

/// Returns the maximum of units for extents of `sectors` sectors in total.
pub(crate) fn units_at_most(sectors: u64) -> u64 {
    sectors * SINGLE_UNITS
}

/// Returns the units of an extent.
pub(crate) fn units_of(one: &LeafExtent) -> u64 {
    if one.follows {
        1
    } else {
        units_in_run(one.extent.sector, one.extent.sectors)
    }
}

/// Returns the units of a contiguous range of sectors in one extent.
pub(crate) fn units_in_run(sector: u64, sectors: u64) -> u64 {
    let end = sector + sectors;
    let touched = |each| (round_up(end, each) - round_down(sector, each)) / each;
    let blocks = touched(LINE_SECTORS);
    let ends = [sector, end].map(|at| u64::from(!at.is_multiple_of(LINE_SECTORS)));
    let parts = (ends[0] + ends[1]).min(blocks);
    blocks + START_UNITS * touched(PAGE_SECTORS) + PART_UNITS * parts
}

/// Returns the maximum of extents for ranges that are written in blocks, and their units if no extent continues
/// another.
pub(crate) fn in_blocks_at_most(sectors: u64, runs: u64) -> (u64, u64) {
    let (blocks, parts) = (sectors / LINE_SECTORS, 3 * runs);
    (blocks + parts, BLOCK_UNITS * blocks + SINGLE_UNITS * parts)
}

/// Returns the bytes of entries of `units` units, with their share of the headers' fixed fields.
fn bytes_of(units: u64) -> u64 {
    let bytes = units * NEXT_BYTES as u64 * HEADER_BYTES as u64;
    bytes.div_ceil(RECORD_ENTRY_BYTES_MAX as u64)
}

/// Returns the sectors that data takes in segments of moved data.
pub(crate) fn weight(sectors: u64, units: u64) -> u64 {
    let padded = if units == units_at_most(sectors) {
        sectors * BLOCK_UNITS
    } else {
        units
    };
    sectors + bytes_of(padded).div_ceil(SECTOR_BYTES)
}

/// Returns the weight of data together with the nodes that map its extents.
pub(crate) fn weight_in_map(sectors: u64, units: u64, extents: u64) -> u64 {
    weight(sectors, units) + (extents * MAP_BYTES).div_ceil(SECTOR_BYTES)
}

/// Returns the weight of sectors in blocks of 4 KiB together with the nodes that map them. The last block may be
/// shorter. For each additional sector, the weight grows by at least one sector.
pub(crate) fn weight_in_blocks(sectors: u64) -> u64 {
    let blocks = sectors.div_ceil(LINE_SECTORS);
    let entries = bytes_of(blocks * BLOCK_UNITS).div_ceil(SECTOR_BYTES);
    sectors + entries + (blocks * MAP_BYTES).div_ceil(SECTOR_BYTES)
}

/// Returns the maximum weight of `sectors`, for any division into fragments.
pub(crate) fn weight_at_most(sectors: u64) -> u64 {
    sectors + bytes_of(units_at_most(sectors)).div_ceil(SECTOR_BYTES)
}

/// Returns the nodes of the map for `sectors` sectors after all their pages were written in place one by one: each page
/// has its own extents, and leaves are as full as with entries in random order.
pub(crate) fn nodes_of_pages(sectors: u64, page_sectors: u64) -> u64 {
    let pages = sectors.div_ceil(page_sectors);
    let bytes = pages * run_bytes(page_sectors) * LEAF_FILLED.1 / LEAF_FILLED.0;
    // Inner nodes: each has more than 200 children.
    bytes.div_ceil(NODE_BYTES as u64) * 201 / 200
}

#[cfg(test)]
mod tests {
    use forebay_extent_map::{ExtentCheck, LogPlace, MapExtent};

    use super::*;

    /// Data that maps preallocated sectors weighs no more than the released preallocation, except for its own
    /// fragments.
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
    fn units_of_an_extent_count_its_blocks_pages_and_partial_blocks() {
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
            extent: MapExtent {
                sector: 8,
                sectors: 8,
                place: LogPlace(80),
                check: ExtentCheck::Own(1),
            },
            follows,
        };
        assert_eq!(
            [second(true), second(false)].map(|one| units_of(&one)),
            [1, 5]
        );
    }

    /// The entries that the cleaner writes take no more than was counted.
    #[test]
    fn units_cover_the_bytes_of_the_entries_that_are_written() {
        let (start, next) = (MOVED_BYTES as u64, NEXT_BYTES as u64);
        let counted = |units| units * next;
        assert!(counted(units_in_run(0, 16)) >= start + next);
        assert!(counted(BLOCK_UNITS) >= start && counted(SINGLE_UNITS) >= start);
        let padding = (HEADER_BYTES as u64).div_ceil(RECORD_ENTRY_BYTES_MAX as u64 / start);
        assert!(bytes_of(PART_UNITS) >= padding);
    }

    #[test]
    fn small_fragments_weigh_more() {
        assert_eq!(weight(0, 0), 0);
        assert!(weight(8, 5) <= 9);
        let share = |pieces: u64, sectors: u64, units: u64| {
            let all = pieces * sectors;
            (weight(all, pieces * units) - all) as f64 / all as f64
        };
        // Pages, blocks, fragments of one sector, and fragments of two sectors.
        assert!((0.0035..0.004).contains(&share(1000, 16, 6)));
        assert!((0.006..0.0065).contains(&share(1000, 8, 5)));
        assert!((0.045..0.055).contains(&share(1000, 1, 11)));
        assert!((0.05..0.057).contains(&share(1000, 2, 11)));
    }

    #[test]
    fn no_mixture_of_fragments_weighs_more_than_the_maximum_or_than_its_parts() {
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
