//! State of a policy that survives a restart, as bytes.
//!
//! | at | bytes | content |
//! |---|---|---|
//! | 0 | 2 | `PL` |
//! | 2 | 1 | the policy |
//! | 3 | 1 | version 1 |
//! | 4 | 8 each | numbers, in the policy's order; fractions as 64-bit floating point |
//! | end | 4 | CRC32C of all before |
//!
//! Little-endian. The bytes are opaque to the code that stores them.

use super::{PlacementKind, SAVED_MAX};

const MAGIC: [u8; 2] = *b"PL";
const VERSION: u8 = 1;
const HEAD: usize = 4;
const NUMBER: usize = 8;
const CRC: usize = 4;

/// Returns the encoded length of this many numbers.
pub(super) const fn len(numbers: usize) -> usize {
    HEAD + numbers * NUMBER + CRC
}

/// Encodes the numbers of a policy. Omits numbers that do not fit.
pub(super) fn encode(kind: PlacementKind, numbers: &[u64]) -> Vec<u8> {
    let [p, l] = MAGIC;
    let mut bytes = vec![p, l, kind.code(), VERSION];
    let most = (SAVED_MAX - HEAD - CRC) / NUMBER;
    let numbers = numbers.iter().take(most);
    bytes.extend(numbers.flat_map(|number| number.to_le_bytes()));
    bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
    bytes
}

/// Decodes the numbers of this policy. `None` for any other bytes.
pub(super) fn decode<const N: usize>(kind: PlacementKind, bytes: &[u8]) -> Option<[u64; N]> {
    let (body, crc) = bytes.split_last_chunk::<CRC>()?;
    let (head, numbers) = body.split_first_chunk::<HEAD>()?;
    let [p, l] = MAGIC;
    let sound = u32::from_le_bytes(*crc) == crc32c::crc32c(body)
        && *head == [p, l, kind.code(), VERSION]
        && numbers.len() == N * NUMBER;
    let mut chunks = numbers.chunks_exact(NUMBER);
    sound.then(|| {
        std::array::from_fn(|_| {
            let chunk = chunks.next().and_then(|chunk| chunk.try_into().ok());
            chunk.map_or(0, u64::from_le_bytes)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_state_decodes_only_for_the_same_policy() {
        let bytes = encode(PlacementKind::SepBit, &[7, u64::MAX]);
        assert_eq!(
            decode::<2>(PlacementKind::SepBit, &bytes),
            Some([7, u64::MAX])
        );
        assert_eq!(decode::<2>(PlacementKind::Wolf, &bytes), None);
        assert_eq!(decode::<1>(PlacementKind::SepBit, &bytes), None);
        assert_eq!(decode::<3>(PlacementKind::SepBit, &bytes), None);
        for len in 0..bytes.len() {
            assert_eq!(decode::<2>(PlacementKind::SepBit, &bytes[..len]), None);
            let mut bad = bytes.clone();
            bad[len] ^= 1;
            assert_eq!(decode::<2>(PlacementKind::SepBit, &bad), None);
        }
        assert!(encode(PlacementKind::Lfs, &[1; 9999]).len() <= SAVED_MAX);
    }
}
