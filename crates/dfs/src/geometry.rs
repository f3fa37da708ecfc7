//! Where everything is: by arithmetic, from the number of a file (an i-number).
//!
//! The space is so large, and what is not mapped costs nothing, that each file has a place of its own for everything it
//! may ever have: nothing is allocated. N is how many files there may be.
//!
//! | sectors | of each file | what |
//! |---|---:|---|
//! | 0 | | the superblock |
//! | N to 2N | 1 | its i-node |
//! | 2N to 3N | 1 | a mark, if it has no name and is still in use |
//! | 16N to 32N | 16 | its preallocated ranges |
//! | 32N to 64N | 32 | its extended attributes |
//! | 64N on | a slot | its data, as long as that fits there |
//! | then, from a multiple of a chunk on | a chunk | its data, if it is larger; the entries of a directory |
//!
//! (Josephson and others, "DFS: A File System for Virtualized Flash Storage", FAST 2010: i-nodes in the first chunk, one
//! chunk for a large file, several small files in another. There chunks and places in them are allocated.)

use forebay_units::{SECTOR_BYTES, Sector};

use crate::format::Inode;

/// The i-number of the root directory. No file has 0.
pub const ROOT: u64 = 1;
/// The fewest and the most bits of a sector's number within a chunk: chunks of 512 MiB to 512 TiB.
pub(crate) const CHUNK_BITS: std::ops::RangeInclusive<u8> = 20..=40;
/// The smallest and the largest slot, in sectors: 4 KiB to 1 MiB.
pub(crate) const SLOT_SECTORS: std::ops::RangeInclusive<u32> = 8..=2048;
/// Sectors for the record of a file's preallocated ranges.
pub(crate) const PREALLOCATION_SECTORS: u64 = 16;
/// Sectors for a file's extended attributes.
pub(crate) const ATTRIBUTE_SECTORS: u64 = 32;
/// The most bytes that a file's extended attributes take.
pub(crate) const ATTRIBUTE_BYTES: usize = (ATTRIBUTE_SECTORS * SECTOR_BYTES) as usize;
/// Chunks and files together take so many bits.
const FILE_BITS: u8 = 62;

/// How the space is divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// A chunk is two to this many sectors: the largest file.
    pub chunk_bits: u8,
    /// Sectors of a slot, a power of two: files up to this size share a part of the space.
    pub slot_sectors: u32,
}

/// A sector that is a file's, for data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DataSector {
    /// The file's i-number.
    pub(crate) file: u64,
    /// The first sector of the slot or of the chunk.
    pub(crate) base: u64,
    /// The sector's distance from `base`, in sectors.
    pub(crate) offset: u64,
}

impl Default for Geometry {
    /// Files of up to 16 TiB, 134 million of them; slots of 32 KiB.
    fn default() -> Geometry {
        Geometry {
            chunk_bits: 35,
            slot_sectors: 64,
        }
    }
}

impl Geometry {
    /// Whether there can be such a filesystem.
    pub fn is_possible(&self) -> bool {
        CHUNK_BITS.contains(&self.chunk_bits)
            && SLOT_SECTORS.contains(&self.slot_sectors)
            && self.slot_sectors.is_power_of_two()
    }

    /// Files that there may be, N: their numbers are less.
    pub fn files(&self) -> u64 {
        1 << (FILE_BITS - self.chunk_bits)
    }

    /// Sectors of the whole space.
    pub fn space_sectors(&self) -> u64 {
        self.chunk(self.files()).0
    }

    /// Sectors of a chunk.
    pub fn chunk_sectors(&self) -> u64 {
        1 << self.chunk_bits
    }

    /// The size of the largest file, in bytes.
    pub fn size_max(&self) -> u64 {
        self.chunk_sectors() * SECTOR_BYTES
    }

    /// The size of the largest file that fits a slot, in bytes.
    pub fn slot_bytes(&self) -> u64 {
        u64::from(self.slot_sectors) * SECTOR_BYTES
    }

    /// Where the i-node of a file is.
    pub fn inode(&self, file: u64) -> Sector {
        Sector(self.files() + file)
    }

    /// Where it is marked as without a name.
    pub fn orphan(&self, file: u64) -> Sector {
        Sector(2 * self.files() + file)
    }

    /// Returns the place of the record of its preallocated ranges.
    pub fn preallocation(&self, file: u64) -> Sector {
        Sector(PREALLOCATION_SECTORS * (self.files() + file))
    }

    /// Returns the number of sectors that the data of a file may take where it is.
    pub(crate) fn sectors_at(&self, inode: &Inode) -> u64 {
        match inode.base {
            0 => 0,
            base if base == self.slot(inode.file).0 => self.slot_sectors.into(),
            _ => self.chunk_sectors(),
        }
    }

    /// Returns the file that has a sector for data, and the sector's place in the file's slot or chunk.
    pub(crate) fn data_of(&self, sector: Sector) -> Option<DataSector> {
        let arrays = [
            (self.slot(0), u64::from(self.slot_sectors)),
            (self.chunk(0), self.chunk_sectors()),
        ];
        let found = arrays.into_iter().rev().find(|(first, _)| *first <= sector);
        let (first, each) = found?;
        let at = sector.0 - first.0;
        let file = at / each;
        (file < self.files()).then_some(DataSector {
            file,
            base: first.0 + file * each,
            offset: at % each,
        })
    }

    /// Where its extended attributes begin.
    pub fn attributes(&self, file: u64) -> Sector {
        Sector(ATTRIBUTE_SECTORS * (self.files() + file))
    }

    /// Where its slot begins.
    pub fn slot(&self, file: u64) -> Sector {
        Sector(64 * self.files() + u64::from(self.slot_sectors) * file)
    }

    /// Where its chunk begins.
    pub fn chunk(&self, file: u64) -> Sector {
        let slots_end = self.slot(self.files()).0;
        let first = slots_end.next_multiple_of(self.chunk_sectors());
        Sector(first + (file << self.chunk_bits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_things_share_a_sector_and_all_fit_the_space() {
        for chunk_bits in CHUNK_BITS {
            for slot_sectors in [8, 64, 2048] {
                let geometry = Geometry {
                    chunk_bits,
                    slot_sectors,
                };
                assert!(geometry.is_possible());
                let last = geometry.files() - 1;
                let ends = [
                    (geometry.inode(0), geometry.inode(last).plus(1)),
                    (geometry.orphan(0), geometry.orphan(last).plus(1)),
                    (
                        geometry.preallocation(0),
                        geometry.preallocation(last).plus(PREALLOCATION_SECTORS),
                    ),
                    (
                        geometry.attributes(0),
                        geometry.attributes(last).plus(ATTRIBUTE_SECTORS),
                    ),
                    (
                        geometry.slot(0),
                        geometry.slot(last).plus(slot_sectors.into()),
                    ),
                    (
                        geometry.chunk(0),
                        geometry.chunk(last).plus(geometry.chunk_sectors()),
                    ),
                ];
                assert!(ends[0].0.0 >= 8);
                assert!(
                    ends.windows(2).all(|pair| pair[0].1 <= pair[1].0),
                    "{ends:?}"
                );
                assert_eq!(ends[5].1, Sector(geometry.space_sectors()));
                assert!(geometry.space_sectors() < 1 << 63);
                for file in [1, last] {
                    for (base, end) in [
                        (geometry.slot(file), u64::from(slot_sectors)),
                        (geometry.chunk(file), geometry.chunk_sectors()),
                    ] {
                        for offset in [0, end - 1] {
                            let expected = DataSector {
                                file,
                                base: base.0,
                                offset,
                            };
                            assert_eq!(geometry.data_of(base.plus(offset)), Some(expected));
                        }
                    }
                }
                assert_eq!(geometry.data_of(geometry.attributes(last)), None);
            }
        }
    }

    #[test]
    fn the_usual_one_has_files_of_16_tib_and_134_million_of_them() {
        let usual = Geometry::default();
        assert_eq!(usual.size_max(), 16 << 40);
        assert_eq!(usual.files(), 1 << 27);
        assert_eq!(usual.slot_bytes(), 32 << 10);
    }

    #[test]
    fn what_cannot_be_is_known() {
        let usual = Geometry::default();
        for (chunk_bits, slot_sectors) in [(19, 64), (41, 64), (35, 4), (35, 65), (35, 4096)] {
            let geometry = Geometry {
                chunk_bits,
                slot_sectors,
            };
            assert!(!geometry.is_possible(), "{geometry:?}");
        }
        assert!(usual.is_possible());
    }
}
