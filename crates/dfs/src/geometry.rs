//! Locations of all structures, computed from the number of a file (an i-number).
//!
//! The space is very large, and unmapped sectors cost nothing. So each file has fixed places for all of its possible
//! structures, and nothing is allocated. N is the most files that the filesystem can have.
//!
//! | sectors | of each file | content |
//! |---|---:|---|
//! | 0 | | the superblock |
//! | N to 2N | 1 | the i-node |
//! | 2N to 3N | 1 | the orphan record, if the file has no name and is still in use |
//! | 16N to 32N | 16 | the record of preallocated ranges |
//! | 32N to 64N | 32 | the extended attributes |
//! | 64N on | a slot | the data, if it fits |
//! | then, from a multiple of a chunk on | a chunk | larger data; the entries of a directory |
//!
//! (Josephson and others, "DFS: A File System for Virtualized Flash Storage", FAST 2010: i-nodes in the first chunk,
//! one chunk for a large file, several small files in another. In that system, chunks and locations within them are
//! allocated.)

use forebay_units::{SECTOR_BYTES, Sector};

use crate::format::Inode;

/// The i-number of the root directory. No file has number 0.
pub const ROOT: u64 = 1;
/// The valid sizes of a chunk, as the number of bits of a sector's number within the chunk: 512 MiB to 512 TiB.
pub(crate) const CHUNK_BITS: std::ops::RangeInclusive<u8> = 20..=40;
/// The valid sizes of a slot, in sectors: 4 KiB to 1 MiB.
pub(crate) const SLOT_SECTORS: std::ops::RangeInclusive<u32> = 8..=2048;
/// Sectors for the record of a file's preallocated ranges.
pub(crate) const PREALLOCATION_SECTORS: u64 = 16;
/// Sectors for a file's extended attributes.
pub(crate) const ATTRIBUTE_SECTORS: u64 = 32;
/// The most bytes that a file's extended attributes take.
pub(crate) const ATTRIBUTE_BYTES: usize = (ATTRIBUTE_SECTORS * SECTOR_BYTES) as usize;
/// The sum of the bits of an i-number and of a sector's number within a chunk.
const FILE_BITS: u8 = 62;

/// The division of the space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FsGeometry {
    /// Base-2 logarithm of the sectors of a chunk, which is the size of the largest file.
    pub chunk_bits: u8,
    /// Sectors of a slot, a power of two. The data of a file up to this size lies in its slot.
    pub slot_sectors: u32,
}

/// A sector for the data of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DataSector {
    /// The file's i-number.
    pub(crate) file: u64,
    /// The first sector of the slot or of the chunk.
    pub(crate) base: u64,
    /// The sector's distance from `base`, in sectors.
    pub(crate) offset: u64,
}

impl Default for FsGeometry {
    /// Up to 134 million files of up to 16 TiB, with slots of 32 KiB.
    fn default() -> FsGeometry {
        FsGeometry {
            chunk_bits: 35,
            slot_sectors: 64,
        }
    }
}

impl FsGeometry {
    /// Returns true if a filesystem can have this geometry.
    pub fn is_possible(&self) -> bool {
        CHUNK_BITS.contains(&self.chunk_bits)
            && SLOT_SECTORS.contains(&self.slot_sectors)
            && self.slot_sectors.is_power_of_two()
    }

    /// Returns N, the most files. All i-numbers are less than N.
    pub fn files(&self) -> u64 {
        1 << (FILE_BITS - self.chunk_bits)
    }

    /// Returns the sectors of the whole space.
    pub fn space_sectors(&self) -> u64 {
        self.chunk(self.files()).0
    }

    /// Returns the sectors of a chunk.
    pub fn chunk_sectors(&self) -> u64 {
        1 << self.chunk_bits
    }

    /// Returns the size of the largest file, in bytes.
    pub fn size_max(&self) -> u64 {
        self.chunk_sectors() * SECTOR_BYTES
    }

    /// Returns the size of the largest file that fits a slot, in bytes.
    pub fn slot_bytes(&self) -> u64 {
        u64::from(self.slot_sectors) * SECTOR_BYTES
    }

    /// Returns the sector of a file's i-node.
    pub fn inode(&self, file: u64) -> Sector {
        Sector(self.files() + file)
    }

    /// Returns the sector of a file's orphan record.
    pub fn orphan(&self, file: u64) -> Sector {
        Sector(2 * self.files() + file)
    }

    /// Returns the first sector of a file's record of preallocated ranges.
    pub fn preallocation(&self, file: u64) -> Sector {
        Sector(PREALLOCATION_SECTORS * (self.files() + file))
    }

    /// Returns the number of sectors that a file's data may occupy at its present location.
    pub(crate) fn sectors_at(&self, inode: &Inode) -> u64 {
        match inode.base {
            0 => 0,
            base if base == self.slot(inode.file).0 => self.slot_sectors.into(),
            _ => self.chunk_sectors(),
        }
    }

    /// Returns the file that owns a sector for data, and the sector's offset in the file's slot or chunk.
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

    /// Returns the first sector of a file's extended attributes.
    pub fn attributes(&self, file: u64) -> Sector {
        Sector(ATTRIBUTE_SECTORS * (self.files() + file))
    }

    /// Returns the first sector of a file's slot.
    pub fn slot(&self, file: u64) -> Sector {
        Sector(64 * self.files() + u64::from(self.slot_sectors) * file)
    }

    /// Returns the first sector of a file's chunk.
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
    fn all_structures_fit_the_space_without_sharing_a_sector() {
        for chunk_bits in CHUNK_BITS {
            for slot_sectors in [8, 64, 2048] {
                let geometry = FsGeometry {
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
    fn the_default_geometry_has_134_million_files_of_up_to_16_tib() {
        let usual = FsGeometry::default();
        assert_eq!(usual.size_max(), 16 << 40);
        assert_eq!(usual.files(), 1 << 27);
        assert_eq!(usual.slot_bytes(), 32 << 10);
    }

    #[test]
    fn impossible_geometries_are_rejected() {
        let usual = FsGeometry::default();
        for (chunk_bits, slot_sectors) in [(19, 64), (41, 64), (35, 4), (35, 65), (35, 4096)] {
            let geometry = FsGeometry {
                chunk_bits,
                slot_sectors,
            };
            assert!(!geometry.is_possible(), "{geometry:?}");
        }
        assert!(usual.is_possible());
    }
}
