//! Aligned memory for requests whose buffer is not aligned.

use forebay_device::{Buf, BufMut, BufPool};

/// Number of sizes kept for reuse: 4 KiB to 1 MiB in powers of two. Larger requests are rare.
const CLASSES: usize = 9;
const SMALLEST: usize = 4096;
/// Unused buffers kept of each size: bytes, and the minimum number.
const IDLE_BYTES: usize = 2 << 20;
const IDLE_BUFFERS_MIN: usize = 4;

/// Buffers to copy through, which are reused.
pub(super) struct BounceBuffers {
    pools: [BufPool; CLASSES],
}

impl BounceBuffers {
    pub(super) fn new() -> BounceBuffers {
        BounceBuffers {
            pools: std::array::from_fn(|class| {
                let len = SMALLEST << class;
                BufPool::keeping(len, (IDLE_BYTES / len).max(IDLE_BUFFERS_MIN))
            }),
        }
    }

    /// Returns an aligned buffer of `len` bytes with arbitrary content.
    pub(super) fn take(&self, len: usize) -> BufMut {
        let class = len.max(SMALLEST).next_power_of_two() / SMALLEST;
        let Some(pool) = self.pools.get(class.trailing_zeros() as usize) else {
            return BufMut::zeroed(len);
        };
        let mut buf = pool.take();
        buf.truncate(len);
        buf
    }

    /// Returns an aligned copy of `data`.
    pub(super) fn copy_of(&self, data: &[u8]) -> Buf {
        let mut copy = self.take(data.len());
        copy.copy_from_slice(data);
        copy.freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bounce_copy_is_aligned_and_equal_at_any_length() {
        let bounce = BounceBuffers::new();
        for len in [1, 512, 4096, 4097, 1 << 20, (1 << 20) + 512] {
            let data: Vec<u8> = (0..len).map(|i| i as u8).collect();
            let copy = bounce.copy_of(&data);
            assert!(copy.is_aligned(4096) && *copy == *data, "{len}");
        }
    }
}
