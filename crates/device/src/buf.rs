//! Aligned memory that passes down a stack and to the kernel without a copy.
//!
//! A [`BufMut`] is the only access to its range of memory, and can change it. Freezing turns it into a [`Buf`], which
//! is shared and never changes again. A `BufMut` can be split, so that the filled front of a segment is frozen and
//! written to the disk while its back is still being filled.
//!
//! Invariant, on which the unsafe code here depends: within one allocation, the ranges of all living `BufMut`s are
//! disjoint from each other and from the ranges of all living `Buf`s.
#![allow(
    unsafe_code,
    reason = "memory that is shared and split; see the invariant above"
)]

use std::ops::{Bound, Deref, DerefMut, RangeBounds};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::block::{IN_HUGE_MIN, MemoryBlock};

/// Unused blocks of a pool.
struct PoolShelf {
    blocks: Mutex<Vec<MemoryBlock>>,
    /// Maximum number of blocks kept.
    room: usize,
}

impl PoolShelf {
    fn blocks(&self) -> MutexGuard<'_, Vec<MemoryBlock>> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, block: MemoryBlock) {
        let mut blocks = self.blocks();
        if blocks.len() < self.room {
            blocks.push(block);
        }
    }
}

/// An allocation shared by buffers. Dropping the last of them returns it to its pool, if it has one.
struct BufOwner {
    block: Option<MemoryBlock>,
    shelf: Weak<PoolShelf>,
}

impl Drop for BufOwner {
    fn drop(&mut self) {
        if let (Some(shelf), Some(block)) = (self.shelf.upgrade(), self.block.take()) {
            shelf.keep(block);
        }
    }
}

impl BufOwner {
    fn block(&self) -> &MemoryBlock {
        self.block.as_ref().expect("taken only on drop")
    }

    fn ptr(&self) -> NonNull<u8> {
        self.block().ptr()
    }
}

/// A supply of equally long buffers that are reused, so that their pages are touched once.
#[derive(Clone)]
pub struct BufPool {
    shelf: Arc<PoolShelf>,
    len: usize,
    huge: bool,
}

impl BufPool {
    /// Creates an empty pool of buffers of `len` bytes, which keeps all buffers that are returned.
    pub fn new(len: usize) -> BufPool {
        BufPool::keeping(len, usize::MAX)
    }

    /// Creates an empty pool of buffers of `len` bytes, which keeps at most `buffers` unused ones. The memory of
    /// further returned buffers is freed.
    pub fn keeping(len: usize, buffers: usize) -> BufPool {
        BufPool {
            shelf: Arc::new(PoolShelf {
                blocks: Mutex::default(),
                room: buffers,
            }),
            len,
            huge: false,
        }
    }

    /// Returns this pool with large buffers in huge pages. The kernel pins a huge page as a whole for a device's
    /// transfer and makes it one segment of the request, instead of page by page.
    #[must_use]
    pub fn in_huge_pages(self) -> BufPool {
        let huge = self.len >= IN_HUGE_MIN;
        BufPool { huge, ..self }
    }

    /// Returns the number of unused buffers.
    pub fn idle(&self) -> usize {
        self.shelf.blocks().len()
    }

    /// Frees the memory of an unused buffer. Returns false if the pool has none.
    pub fn free_idle(&self) -> bool {
        self.shelf.blocks().pop().is_some()
    }

    /// Takes a buffer, preferably an unused one. Its content is arbitrary (but initialised).
    pub fn take(&self) -> BufMut {
        let used = self.shelf.blocks().pop();
        let block = used.unwrap_or_else(|| self.fresh());
        BufMut::over(
            BufOwner {
                block: Some(block),
                shelf: Arc::downgrade(&self.shelf),
            },
            self.len,
        )
    }

    fn fresh(&self) -> MemoryBlock {
        if !self.huge {
            return MemoryBlock::zeroed(self.len);
        }
        let mut blocks = MemoryBlock::in_huge_pages(self.len);
        let block = blocks.pop().expect("a huge page holds at least one");
        self.shelf.blocks().append(&mut blocks);
        block
    }
}

/// Memory with a single owner, which can change it. Initially aligned to [`ALIGN`](crate::ALIGN).
pub struct BufMut {
    owner: Arc<BufOwner>,
    start: usize,
    len: usize,
}

impl BufMut {
    /// Allocates `len` bytes of zeroes.
    pub fn zeroed(len: usize) -> BufMut {
        BufMut::over(
            BufOwner {
                block: Some(MemoryBlock::zeroed(len)),
                shelf: Weak::new(),
            },
            len,
        )
    }

    /// Allocates `len` bytes to read into, or to fill in another way. Their content is arbitrary (but initialised), so
    /// it must not be used before they are filled.
    pub fn to_fill(len: usize) -> BufMut {
        let block = Some(MemoryBlock::to_fill(len));
        let shelf = Weak::new();
        BufMut::over(BufOwner { block, shelf }, len)
    }

    /// Copies `bytes`.
    pub fn copy_of(bytes: &[u8]) -> BufMut {
        let mut buf = BufMut::to_fill(bytes.len());
        buf.copy_from_slice(bytes);
        buf
    }

    fn over(owner: BufOwner, len: usize) -> BufMut {
        BufMut {
            owner: Arc::new(owner),
            start: 0,
            len,
        }
    }

    /// Splits off and returns the first `n` bytes. `self` keeps the rest.
    ///
    /// # Panics
    /// If the buffer is shorter than `n` bytes.
    #[must_use = "the front is lost otherwise"]
    pub fn split_to(&mut self, n: usize) -> BufMut {
        assert!(n <= self.len, "split at {n} of {} bytes", self.len);
        let front = BufMut {
            owner: Arc::clone(&self.owner),
            start: self.start,
            len: n,
        };
        self.start += n;
        self.len -= n;
        front
    }

    /// Joins `self` and `back`, which must lie directly behind `self`.
    ///
    /// # Errors
    /// Returns both buffers unchanged, if they are not neighbours in one allocation.
    pub fn unsplit(mut self, back: BufMut) -> Result<BufMut, (BufMut, BufMut)> {
        // The two ranges are disjoint from all others, so their union is disjoint, too.
        if !Arc::ptr_eq(&self.owner, &back.owner) || self.start + self.len != back.start {
            return Err((self, back));
        }
        self.len += back.len;
        Ok(self)
    }

    /// Shortens the buffer to `len` bytes. The rest is lost.
    ///
    /// # Panics
    /// If the buffer is shorter than `len` bytes.
    pub fn truncate(&mut self, len: usize) {
        assert!(len <= self.len, "truncate to {len} of {} bytes", self.len);
        self.len = len;
    }

    /// Makes the bytes immutable and shareable.
    pub fn freeze(self) -> Buf {
        Buf {
            owner: self.owner,
            start: self.start,
            len: self.len,
        }
    }
}

impl Deref for BufMut {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the range lies in the allocation, which is initialised and lives as long as the owner; by the
        // module's invariant no other buffer can change the range.
        unsafe { std::slice::from_raw_parts(self.owner.ptr().as_ptr().add(self.start), self.len) }
    }
}

impl DerefMut for BufMut {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`, and by the module's invariant no other buffer can access the range.
        unsafe {
            std::slice::from_raw_parts_mut(self.owner.ptr().as_ptr().add(self.start), self.len)
        }
    }
}

impl std::fmt::Debug for BufMut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BufMut({} bytes)", self.len)
    }
}

/// Immutable memory, shared by reference counting.
#[derive(Clone)]
pub struct Buf {
    owner: Arc<BufOwner>,
    start: usize,
    len: usize,
}

impl Buf {
    /// Returns a part of this buffer, which shares its memory.
    ///
    /// # Panics
    /// If the range is not inside the buffer.
    #[must_use]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Buf {
        let start = match range.start_bound() {
            Bound::Included(n) => *n,
            Bound::Excluded(n) => n + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(n) => n + 1,
            Bound::Excluded(n) => *n,
            Bound::Unbounded => self.len,
        };
        assert!(
            start <= end && end <= self.len,
            "slice {start}..{end} of {} bytes",
            self.len
        );
        Buf {
            owner: Arc::clone(&self.owner),
            start: self.start + start,
            len: end - start,
        }
    }

    /// Makes the memory mutable again, if no other buffer shares the allocation.
    ///
    /// # Errors
    /// Returns the buffer unchanged, if another buffer shares the allocation.
    pub fn try_into_mut(mut self) -> Result<BufMut, Buf> {
        if Arc::get_mut(&mut self.owner).is_none() {
            return Err(self);
        }
        Ok(BufMut {
            owner: self.owner,
            start: self.start,
            len: self.len,
        })
    }

    /// Returns the memory, in bytes, that stays in use until this buffer and all that share its allocation are dropped:
    /// whole pages, including parts outside of this buffer.
    pub fn held_bytes(&self) -> usize {
        self.owner.block().held_bytes()
    }

    /// Returns true if the memory begins at a multiple of `align` bytes.
    pub fn is_aligned(&self, align: usize) -> bool {
        (self.as_ptr() as usize).is_multiple_of(align)
    }
}

impl Deref for Buf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the range lies in the initialised allocation, which the owner keeps alive; by the module's invariant
        // no `BufMut` overlaps the range, so it does not change.
        unsafe { std::slice::from_raw_parts(self.owner.ptr().as_ptr().add(self.start), self.len) }
    }
}

impl From<BufMut> for Buf {
    fn from(buf: BufMut) -> Buf {
        buf.freeze()
    }
}

impl std::fmt::Debug for Buf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buf({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{ALIGN, HUGE_BYTES};

    #[test]
    fn a_frozen_front_keeps_its_content_while_the_back_is_filled() {
        let mut buf = BufMut::zeroed(8192);
        buf[..4096].fill(1);
        let front = buf.split_to(4096).freeze();
        buf.fill(2);
        assert!(front.iter().all(|b| *b == 1));
        assert!(buf.iter().all(|b| *b == 2));
        assert!(front.is_aligned(ALIGN) && buf.freeze().is_aligned(ALIGN));
    }

    #[test]
    fn adjacent_buffers_join_again_and_others_do_not() {
        let mut back = BufMut::copy_of(b"hello world");
        let front = back.split_to(5);
        let whole = front.unsplit(back).expect("neighbours");
        assert_eq!(&*whole, b"hello world");
        let mut back = whole;
        let (front, middle) = (back.split_to(2), back.split_to(3));
        let (front, _) = front.unsplit(back).expect_err("a gap between them");
        let strangers = front.unsplit(BufMut::copy_of(b"x"));
        assert!(strangers.is_err());
        drop(middle);
    }

    #[test]
    fn a_buffer_becomes_mutable_only_when_it_is_not_shared() {
        let buf = BufMut::copy_of(b"hello").freeze();
        let part = buf.slice(1..3);
        assert_eq!(&*part, b"el");
        let buf = buf.try_into_mut().expect_err("shared");
        drop(part);
        assert_eq!(&*buf.try_into_mut().expect("alone"), b"hello");
    }

    #[test]
    fn a_pool_reuses_returned_buffers() {
        let pool = BufPool::new(4096);
        let mut first = pool.take();
        first[0] = 7;
        let address = first.as_ptr();
        drop(first.freeze().slice(..10));
        let again = pool.take();
        assert_eq!((again.as_ptr(), again[0], again.len()), (address, 7, 4096));
    }

    #[test]
    fn buffers_in_huge_pages_are_zeroed_aligned_and_disjoint() {
        for len in [4096, 512 << 10, 1 << 20, 2 << 20, 4 << 20] {
            let pool = BufPool::new(len).in_huge_pages();
            let mut bufs: Vec<BufMut> = (0..5).map(|_| pool.take()).collect();
            for (n, buf) in bufs.iter_mut().enumerate() {
                assert_eq!(buf.len(), len);
                assert!(buf.iter().all(|byte| *byte == 0), "{len}, {n}");
                assert!((buf.as_ptr() as usize).is_multiple_of(ALIGN.max(len.min(HUGE_BYTES))));
                buf.fill(n as u8 + 1);
            }
            for (n, buf) in bufs.iter().enumerate() {
                assert!(buf.iter().all(|byte| *byte == n as u8 + 1), "{len}, {n}");
            }
            // The memory outlives its pool for as long as one of its buffers lives.
            let last = bufs.pop().expect("five").freeze();
            drop((bufs, pool));
            assert!(last.iter().all(|byte| *byte == 5));
        }
    }

    #[test]
    fn a_pool_keeps_no_more_than_the_given_number_of_unused_buffers() {
        let pool = BufPool::keeping(4096, 2);
        let used: Vec<_> = (0..5).map(|_| pool.take()).collect();
        assert_eq!(pool.idle(), 0);
        drop(used);
        assert_eq!(pool.idle(), 2);
        assert!(pool.free_idle() && pool.free_idle() && !pool.free_idle());
    }
}
