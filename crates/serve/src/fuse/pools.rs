//! Buffers for requests, by size: used again and again, so that the data path allocates nothing once
//! it is warm.

use forebay_device::{BufMut, BufPool};

use super::IO_BYTES_MAX;

/// Sizes of pooled buffers in bytes: a page, a middling request, the largest there is.
const SIZES: [usize; 3] = [4096, 64 << 10, IO_BYTES_MAX];

/// A supply of buffers of each size.
pub(super) struct Pools([BufPool; SIZES.len()]);

impl Default for Pools {
    fn default() -> Pools {
        Pools(SIZES.map(BufPool::new))
    }
}

fn class(len: usize) -> usize {
    SIZES
        .iter()
        .position(|size| len <= *size)
        .expect("no request is larger")
}

impl Pools {
    /// What a request of `len` bytes holds, in bytes.
    pub(super) fn cost(len: usize) -> usize {
        SIZES[class(len)]
    }

    /// A buffer of `len` bytes of arbitrary content.
    pub(super) fn take(&self, len: usize) -> BufMut {
        let mut buf = self.0[class(len)].take();
        buf.truncate(len);
        buf
    }

    /// A buffer of the largest size.
    pub(super) fn whole(&self) -> BufMut {
        self.take(IO_BYTES_MAX)
    }

    /// The first `len` bytes of `whole`, which is a buffer of the largest size and one again
    /// afterwards. A small part is copied, since it would keep the whole buffer from use (and was
    /// just written by this processor, so the copy is cheap); a large one is handed over.
    pub(super) fn part_of(&self, whole: &mut BufMut, len: usize) -> BufMut {
        if class(len) + 1 < SIZES.len() {
            let mut part = self.take(len);
            part.copy_from_slice(&whole[..len]);
            return part;
        }
        let mut part = std::mem::replace(whole, self.whole());
        part.truncate(len);
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_buffer_is_whole_again_after_giving_a_part() {
        let pools = Pools::default();
        let mut whole = pools.whole();
        for len in [512, 4096, 5000, 64 << 10, (64 << 10) + 512, IO_BYTES_MAX] {
            whole[..len].fill(len as u8 | 1);
            let part = pools.part_of(&mut whole, len);
            assert!(part.len() == len && part.iter().all(|b| *b == len as u8 | 1));
            assert_eq!(whole.len(), IO_BYTES_MAX);
            assert!(Pools::cost(len) >= len);
        }
    }
}
