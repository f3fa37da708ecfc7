//! Comparison of bytes with zero.

/// Returns true if all `bytes` are zero. Compares many bytes at once, also in builds with little optimisation.
pub fn is_zero(bytes: &[u8]) -> bool {
    let (blocks, rest) = bytes.as_chunks::<64>();
    let is_zero = |block: &[u8; 64]| *block == [0; 64];
    blocks.iter().all(is_zero) && rest.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_zero_examines_every_byte() {
        for len in [0, 1, 63, 64, 65, 512, 700] {
            let mut bytes = vec![0; len];
            assert!(is_zero(&bytes));
            for at in 0..len {
                bytes[at] = 0x80;
                assert!(!is_zero(&bytes), "{at} of {len}");
                bytes[at] = 0;
            }
        }
    }
}
