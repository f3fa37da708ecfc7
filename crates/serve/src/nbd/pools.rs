//! Buffers for data on its way, used again and again.

use forebay_device::{BufMut, BufPool};

/// The largest buffer kept, in bytes, and the largest request made of a device.
pub(super) const PART_BYTES: usize = 1 << 20;
const SMALLEST_LOG2: u32 = 12;
const CLASSES: u32 = PART_BYTES.trailing_zeros() - SMALLEST_LOG2 + 1;

/// A pool per power of two from 4 KiB to 1 MiB.
pub(super) struct Pools(Vec<BufPool>);

impl Pools {
    pub(super) fn new() -> Pools {
        let lens = (0..CLASSES).map(|class| 1 << (SMALLEST_LOG2 + class));
        Pools(lens.map(BufPool::new).collect())
    }

    /// A buffer of `len` bytes, at most [`PART_BYTES`], of arbitrary content.
    pub(super) fn take(&self, len: usize) -> BufMut {
        let log2 = len.next_power_of_two().trailing_zeros();
        let class = log2.saturating_sub(SMALLEST_LOG2);
        let mut buf = self.0[class as usize].take();
        buf.truncate(len);
        buf
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_as_long_as_asked_for_whatever_its_class() {
        let pools = Pools::new();
        for len in [1, 512, 4096, 4097, 65_536, PART_BYTES - 512, PART_BYTES] {
            assert_eq!(pools.take(len).len(), len);
        }
    }
}
