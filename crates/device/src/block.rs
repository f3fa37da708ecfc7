//! Where the memory of buffers comes from: allocations of their own, and parts of huge pages.
#![allow(
    unsafe_code,
    reason = "raw memory: allocated, advised upon and freed here; each block has one owner, and no two of them overlap"
)]

use std::alloc::Layout;
use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::mm::Advice;

/// Alignment of every buffer's memory in bytes: what direct I/O wants at most.
pub const ALIGN: usize = 4096;

/// A huge page, in bytes, where pages are 4 KiB; elsewhere it is only a larger piece of memory.
pub(crate) const HUGE_BYTES: usize = 2 << 20;
/// Shorter buffers do not come in huge pages: for a few of them, much memory would be cleared.
pub(crate) const IN_HUGE_MIN: usize = 512 << 10;

/// The longest block whose memory a thread keeps when it is freed, in pages of [`ALIGN`] bytes.
const SPARE_PAGES: usize = 16;
/// So many bytes of freed blocks of each length a thread keeps at most.
const SPARE_BYTES: usize = 64 << 10;

thread_local! {
    static SPARE: RefCell<Spare> = const { RefCell::new(Spare([const { Vec::new() }; SPARE_PAGES])) };
}

/// Memory of short blocks that a thread has freed, by their length in pages: the next blocks of that length take it. Aligned memory
/// costs an allocator much, and engines read and write blocks of few lengths.
struct Spare([Vec<NonNull<u8>>; SPARE_PAGES]);

impl Spare {
    fn of(&mut self, layout: &Layout) -> Option<&mut Vec<NonNull<u8>>> {
        self.0.get_mut(layout.size() / ALIGN - 1)
    }

    /// Initialised memory of exactly this layout.
    fn take(layout: &Layout) -> Option<NonNull<u8>> {
        // A thread that ends has none left.
        let taken = SPARE.try_with(|spare| spare.borrow_mut().of(layout)?.pop());
        taken.ok().flatten()
    }

    /// Keeps memory of this layout; false if there is enough.
    fn keep(layout: &Layout, ptr: NonNull<u8>) -> bool {
        let keep = |spare: &RefCell<Spare>| {
            let mut spare = spare.borrow_mut();
            let Some(kept) = spare.of(layout) else {
                return false;
            };
            let has_room = (kept.len() + 1) * layout.size() <= SPARE_BYTES;
            if has_room {
                kept.push(ptr);
            }
            has_room
        };
        SPARE.try_with(keep).unwrap_or(false)
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        for (n, kept) in self.0.iter_mut().enumerate() {
            let layout = layout_of((n + 1) * ALIGN);
            for ptr in kept.drain(..) {
                // SAFETY: `keep` took memory that was allocated with this layout, and nothing else refers to it.
                unsafe { std::alloc::dealloc(ptr.as_ptr(), layout) };
            }
        }
    }
}

/// The layout of a block of its own: whole pages.
fn layout_of(len: usize) -> Layout {
    let len = len.max(1).next_multiple_of(ALIGN);
    Layout::from_size_align(len, ALIGN).expect("buffer too large")
}

/// One initialised allocation, or a part of one that is nobody else's.
pub(crate) struct Block {
    ptr: NonNull<u8>,
    from: Source,
}

/// Where a block's memory comes from.
enum Source {
    Own(Layout),
    /// So many bytes, whole pages; the allocation lives as long as its parts.
    Part {
        len: usize,
        _whole: Arc<Block>,
    },
}

// SAFETY: a block is plain memory with one owner; nothing about it belongs to a thread.
unsafe impl Send for Block {}
// SAFETY: a shared block gives no access by itself; Buf and BufMut give it by disjoint ranges.
unsafe impl Sync for Block {}

impl Block {
    /// Where it begins.
    pub(crate) fn ptr(&self) -> NonNull<u8> {
        self.ptr
    }

    /// Bytes of memory that it takes, with what is lost to its alignment.
    pub(crate) fn held_bytes(&self) -> usize {
        match &self.from {
            Source::Own(layout) => layout.size(),
            Source::Part { len, .. } => *len,
        }
    }

    /// A block of zeroes.
    pub(crate) fn zeroed(len: usize) -> Block {
        let layout = layout_of(len);
        let Some(ptr) = Spare::take(&layout) else {
            return Block::fresh(layout);
        };
        // SAFETY: the layout is at least as long.
        unsafe { ptr.as_ptr().write_bytes(0, len) };
        let from = Source::Own(layout);
        Block { ptr, from }
    }

    /// A block whose content is arbitrary, but initialised. Where debug assertions are on, it is never zeroes.
    pub(crate) fn to_fill(len: usize) -> Block {
        let layout = layout_of(len);
        let block = match Spare::take(&layout) {
            Some(ptr) => {
                let from = Source::Own(layout);
                Block { ptr, from }
            }
            None => Block::fresh(layout),
        };
        if cfg!(debug_assertions) {
            // SAFETY: the layout is at least as long.
            unsafe { block.ptr.as_ptr().write_bytes(0xa5, len) };
        }
        block
    }

    /// An allocation of zeroes.
    fn fresh(layout: Layout) -> Block {
        // SAFETY: the layout's size is at least that of a page.
        let ptr = unsafe { std::alloc::alloc_zeroed(layout) };
        let Some(ptr) = NonNull::new(ptr) else {
            std::alloc::handle_alloc_error(layout)
        };
        let from = Source::Own(layout);
        Block { ptr, from }
    }

    /// So many blocks of `len` bytes as a huge page holds, at least one, in huge pages if the system has
    /// any to give.
    pub(crate) fn in_huge_pages(len: usize) -> Vec<Block> {
        let apart = len.next_multiple_of(ALIGN);
        let whole = apart.next_multiple_of(HUGE_BYTES);
        let layout = Layout::from_size_align(whole, HUGE_BYTES).expect("buffer too large");
        // SAFETY: the layout's size is at least that of a huge page.
        let ptr = unsafe { std::alloc::alloc(layout) };
        let Some(ptr) = NonNull::new(ptr) else {
            std::alloc::handle_alloc_error(layout)
        };
        // SAFETY: the memory was just allocated, whole pages of it, and what is advised does not change
        // what it holds. Where there is no such advice, it stays in small pages.
        let _ = unsafe { rustix::mm::madvise(ptr.as_ptr().cast(), whole, Advice::LinuxHugepage) };
        // Cleared only now, since that takes the pages.
        // SAFETY: so long is the allocation.
        unsafe { ptr.as_ptr().write_bytes(0, whole) };
        let from = Source::Own(layout);
        let whole_block = Arc::new(Block { ptr, from });
        let part = |n: usize| Block {
            // SAFETY: the part lies inside the allocation, and no two overlap.
            ptr: unsafe { ptr.add(n * apart) },
            from: Source::Part {
                len: apart,
                _whole: Arc::clone(&whole_block),
            },
        };
        (0..whole / apart).map(part).collect()
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        match &self.from {
            Source::Own(layout) if layout.align() == ALIGN && Spare::keep(layout, self.ptr) => {}
            // SAFETY: allocated with this very layout, and dropped once, after all its parts.
            Source::Own(layout) => unsafe { std::alloc::dealloc(self.ptr.as_ptr(), *layout) },
            Source::Part { len, .. } => give_back(self.ptr, *len),
        }
    }
}

/// Gives the system the memory of a part of an allocation, though the rest of a huge page stays in use. What a process holds in
/// memory (`mlockall`) takes an advice of its own, which Linux has had since 5.18: before, it goes with the whole.
fn give_back(at: NonNull<u8>, len: usize) {
    for advice in [Advice::LinuxDontneedLocked, Advice::LinuxDontNeed] {
        // SAFETY: whole pages of an allocation that still lives, which nobody looks at any more.
        if unsafe { rustix::mm::madvise(at.as_ptr().cast(), len, advice) }.is_ok() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_used_again_is_zeroes_where_zeroes_are_asked_for_and_no_other_block_has_it() {
        let filled = |block: &Block, len: usize, with: u8| {
            // SAFETY: the block has at least `len` bytes, and nothing else refers to them.
            let bytes = unsafe { std::slice::from_raw_parts_mut(block.ptr().as_ptr(), len) };
            let before = bytes.to_vec();
            bytes.fill(with);
            before
        };
        let lengths = [0, 1, 512, 4096, 4097, 5000, 65_536, 65_537, 300_000];
        for round in 1..20 {
            let blocks: Vec<(Block, usize)> = lengths
                .into_iter()
                .flat_map(|len| [(Block::zeroed(len), len), (Block::to_fill(len), len)])
                .collect();
            for (n, (block, len)) in blocks.iter().enumerate() {
                let before = filled(block, *len, round);
                assert!(n % 2 == 1 || before.iter().all(|byte| *byte == 0), "{len}");
            }
            for (block, len) in &blocks {
                assert!(filled(block, *len, 0xff).iter().all(|byte| *byte == round));
            }
        }
        let kept = SPARE.with(|spare| spare.borrow().0.iter().map(Vec::len).sum::<usize>());
        assert!(kept > 0);
        // A thread frees the memory that it keeps when it ends. The other block is dropped here, so this thread keeps its memory.
        let from_there = std::thread::spawn(|| {
            drop(Block::zeroed(512));
            Block::zeroed(512)
        });
        drop(from_there.join().expect("no panic"));
    }

    #[test]
    fn half_of_a_huge_page_that_is_given_up_leaves_the_other_as_it_was_even_if_memory_is_held() {
        const HALF: usize = HUGE_BYTES / 2;
        let mut blocks = Block::in_huge_pages(HALF);
        let (other, kept) = (blocks.pop().expect("two"), blocks.pop().expect("two"));
        // SAFETY: the block is as long, and nobody else has it.
        let held = unsafe { std::slice::from_raw_parts_mut(kept.ptr().as_ptr(), HALF) };
        held.fill(7);
        let at = other.ptr().as_ptr().cast();
        // As daemons do with all that they have.
        // SAFETY: so long is the other block.
        unsafe { rustix::mm::mlock(at, HALF) }.expect("held");
        drop(other);
        let mut is_there = [1; HALF / ALIGN];
        // SAFETY: the range is one of the allocation that `kept` keeps, and what is told has room.
        let told = unsafe { libc::mincore(at, HALF, is_there.as_mut_ptr()) };
        assert_eq!((told, is_there.iter().max()), (0, Some(&0)));
        assert!(held.iter().all(|byte| *byte == 7));
    }
}
