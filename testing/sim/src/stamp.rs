//! Data from which the write that produced it can be identified.

use forebay_device::is_zero;

/// Stamp of the content of disks before the first request to the volume.
pub const BEFORE: u64 = u64::MAX;
/// Bytes in a sector.
pub const SECTOR: usize = 512;

const WORDS: usize = SECTOR / 8;

/// Returns the number from which the words of a sector are computed.
fn filler(id: u64, sector: u64) -> u64 {
    (id ^ sector.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

/// Returns word `n` of a sector. No word depends on another one, so several can be computed concurrently.
fn word_of(filler: u64, n: usize) -> u64 {
    filler.wrapping_add((n as u64).wrapping_mul(0x5851_f42d_4c95_7f2d))
}

/// Returns the data of write `id` in `[at, at + len)`: every sector contains the numbers of the write and of the
/// sector, and all other bytes follow from the two.
pub fn stamp(id: u64, at: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    stamp_into(id, at, &mut bytes);
    bytes
}

/// Writes the data of [`stamp`] into existing memory.
pub fn stamp_into(id: u64, at: u64, bytes: &mut [u8]) {
    for (n, sector) in bytes.chunks_exact_mut(SECTOR).enumerate() {
        let number = at / SECTOR as u64 + n as u64;
        let filler = filler(id, number);
        let words = sector.as_chunks_mut::<8>().0;
        words[0] = id.to_le_bytes();
        words[1] = number.to_le_bytes();
        for (n, out) in words.iter_mut().enumerate().skip(2) {
            *out = word_of(filler, n).to_le_bytes();
        }
    }
}

/// Content of a sector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SectorContent {
    /// Only zeroes.
    Zero,
    /// A whole stamp.
    Stamp {
        /// Number of the write.
        id: u64,
        /// Sector to which it was written.
        sector: u64,
    },
    /// Any other content.
    Other,
}

/// Returns the kind of a sector's content.
///
/// # Panics
/// If `bytes` is not a sector.
pub fn read_sector(bytes: &[u8]) -> SectorContent {
    assert_eq!(bytes.len(), SECTOR, "not a sector");
    let words = bytes.as_chunks::<8>().0;
    let word = |n: usize| u64::from_le_bytes(words[n]);
    let (id, sector) = (word(0), word(1));
    if id == 0 && sector == 0 && is_zero(bytes) {
        return SectorContent::Zero;
    }
    let filler = filler(id, sector);
    let differences = (2..WORDS).map(|n| word(n) ^ word_of(filler, n));
    match differences.fold(0, |sum, bits| sum | bits) {
        0 => SectorContent::Stamp { id, sector },
        _ => SectorContent::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_identifies_write_and_sector_and_any_changed_bit_invalidates_it() {
        let bytes = stamp(77, 1024, 1024);
        for (n, sector) in bytes.chunks(SECTOR).enumerate() {
            let whole = SectorContent::Stamp {
                id: 77,
                sector: 2 + n as u64,
            };
            assert_eq!(read_sector(sector), whole);
            for bit in (0..SECTOR * 8).step_by(31) {
                let mut broken = sector.to_vec();
                broken[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(read_sector(&broken), SectorContent::Other, "bit {bit}");
            }
        }
        assert_eq!(read_sector(&[0; SECTOR]), SectorContent::Zero);
    }
}
