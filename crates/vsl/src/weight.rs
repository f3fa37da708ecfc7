//! How much of a segment data takes once the cleaner has moved it.
//!
//! A piece takes an entry in a header and one in a summary beside its sectors, and a record that does not end with a
//! block is padded; where all pieces are of one sector, records end with blocks (`streams.rs::make_room`). So a sector in pieces of 512 bytes takes more room than one in pieces of 4 KiB, and a segment of
//! such pieces holds fewer sectors. All that tells how full a volume is counts in *weight*: sectors of a segment of moved
//! data, entries and padding included.

use forebay_segments::{HEADER_BYTES, RECORD_ENTRY_BYTES_MAX};
use forebay_units::{LINE_SECTORS, SECTOR_BYTES, round_down, round_up};

use crate::format::MOVED_BYTES;

/// Bytes of a piece's entries: in a header, with its share of the header's fixed fields, and in a summary.
const ENTRIES_BYTES: u64 = {
    let header = (MOVED_BYTES * HEADER_BYTES).div_ceil(RECORD_ENTRY_BYTES_MAX);
    (header + MOVED_BYTES) as u64
};
/// Bytes of padding for each piece, where records do not end with blocks: one block for a full header of entries.
const PADDING_BYTES: u64 =
    (HEADER_BYTES as u64).div_ceil((RECORD_ENTRY_BYTES_MAX / MOVED_BYTES) as u64);

/// Bytes of the map's nodes that one mapped run takes, where nodes are as empty as splitting leaves them.
pub(crate) const MAP_BYTES: u64 = 36;

/// Sectors of a segment that `sectors` of data in `pieces` pieces take, of which none is longer than a block of 4 KiB.
pub(crate) fn weight(sectors: u64, pieces: u64) -> u64 {
    let aligned = sectors >= pieces * LINE_SECTORS || sectors == pieces;
    let beside = match aligned {
        true => ENTRIES_BYTES,
        false => ENTRIES_BYTES + PADDING_BYTES,
    };
    let weight = sectors + (pieces * beside).div_ceil(SECTOR_BYTES);
    weight.min(weight_at_most(sectors))
}

/// Returns what data weighs with the nodes that map it.
pub(crate) fn weight_in_map(sectors: u64, pieces: u64) -> u64 {
    weight(sectors, pieces) + (pieces * MAP_BYTES).div_ceil(SECTOR_BYTES)
}

/// Returns what sectors weigh in blocks of 4 KiB, the last of which may be shorter, with the nodes that map them. More sectors
/// weigh more by as many at least.
pub(crate) fn weight_in_blocks(sectors: u64) -> u64 {
    let blocks = sectors.div_ceil(LINE_SECTORS);
    let entries = (blocks * ENTRIES_BYTES).div_ceil(SECTOR_BYTES);
    sectors + entries + (blocks * MAP_BYTES).div_ceil(SECTOR_BYTES)
}

/// What `sectors` weigh at most, however they are cut into pieces.
pub(crate) fn weight_at_most(sectors: u64) -> u64 {
    sectors + (sectors * (ENTRIES_BYTES + PADDING_BYTES)).div_ceil(SECTOR_BYTES + SECTOR_BYTES / 8)
}

/// The most pieces that a run of the space is moved as: one for each block of 4 KiB that it has a part of.
pub(crate) fn pieces_of(sector: u64, sectors: u64) -> u64 {
    let from = round_down(sector, LINE_SECTORS);
    let to = round_up(sector + sectors, LINE_SECTORS);
    (to - from) / LINE_SECTORS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What maps preallocated sectors weighs no more than what it releases, but for its own pieces.
    #[test]
    fn each_sector_in_blocks_adds_its_weight() {
        for sectors in 0..5000 {
            for more in [1, 3, 7, 8, 20, 100] {
                let added = weight_in_blocks(sectors + more) - weight_in_blocks(sectors);
                let most = more + weight_in_map(8, 1) - 8 + more / 20;
                assert!((more..=most).contains(&added), "{sectors} {more} {added}");
            }
        }
        assert_eq!(weight_in_blocks(4000), weight_in_map(4000, 500));
    }

    #[test]
    fn small_pieces_weigh_more() {
        assert_eq!(weight(0, 0), 0);
        assert!(weight(8, 1) <= 9);
        assert!(weight(8000, 1000) < 8000 + 1000 * 8 / 50);
        assert!(weight(1000, 1000) > 1090 && weight(1000, 1000) < 1100);
        assert!(weight(2000, 1000) > 2135 && weight(2000, 1000) < 2150);
    }

    #[test]
    fn no_mixture_of_pieces_weighs_more_than_the_most() {
        for sectors in [1_000, 10_000, 100_000] {
            for pieces in (sectors / 8..=sectors).step_by(sectors as usize / 100) {
                let weight = weight(sectors, pieces);
                assert!(weight <= weight_at_most(sectors), "{sectors} {pieces}");
            }
        }
        assert!(weight_at_most(1000) < 1150);
    }

    #[test]
    fn a_run_has_a_piece_for_each_block_that_it_has_a_part_of() {
        let pieces = [(0, 8), (7, 2), (3, 1), (0, 17)];
        let pieces = pieces.map(|(sector, sectors)| pieces_of(sector, sectors));
        assert_eq!(pieces, [1, 2, 1, 3]);
    }
}
