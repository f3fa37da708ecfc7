//! Memory of buffers: separate allocations, and parts of huge pages.
#![allow(
    unsafe_code,
    reason = "raw memory: allocated, advised upon and freed here; each block has one owner, and no two of them overlap"
)]

use std::alloc::Layout;
use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::Arc;

use rustix::mm::Advice;

/// Alignment of every buffer's memory in bytes: the largest alignment that direct I/O requires.
pub const ALIGN: usize = 4096;

/// Size of a huge page, in bytes, if pages are 4 KiB. On other systems it is only a larger unit of memory.
pub(crate) const HUGE_BYTES: usize = 2 << 20;
/// Minimum length of buffers in huge pages. For a few shorter buffers, too much memory would be cleared.
pub(crate) const IN_HUGE_MIN: usize = 512 << 10;

/// Maximum length of a freed block that a thread keeps, in pages of [`ALIGN`] bytes.
const SPARE_PAGES: usize = 16;
/// Maximum memory of freed blocks of each length that a thread keeps, in bytes.
const SPARE_BYTES: usize = 64 << 10;

thread_local! {
    static SPARE: RefCell<SpareMemory> = const { RefCell::new(SpareMemory([const { Vec::new() }; SPARE_PAGES])) };
}

/// Memory of short blocks that a thread has freed, by their length in pages, for the next blocks of equal length.
/// Aligned memory is expensive to allocate, and engines read and write blocks of few lengths.
struct SpareMemory([Vec<NonNull<u8>>; SPARE_PAGES]);

impl SpareMemory {
    fn of(&mut self, layout: &Layout) -> Option<&mut Vec<NonNull<u8>>> {
        self.0.get_mut(layout.size() / ALIGN - 1)
    }

    /// Takes initialised memory of exactly this layout.
    fn take(layout: &Layout) -> Option<NonNull<u8>> {
        // A thread that is ending has no kept memory left.
        let taken = SPARE.try_with(|spare| spare.borrow_mut().of(layout)?.pop());
        taken.ok().flatten()
    }

    /// Keeps memory of this layout. Returns false if enough is kept already.
    fn keep(layout: &Layout, ptr: NonNull<u8>) -> bool {
        let keep = |spare: &RefCell<SpareMemory>| {
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

impl Drop for SpareMemory {
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

/// Returns the layout of a separate block: whole pages.
fn layout_of(len: usize) -> Layout {
    let len = len.max(1).next_multiple_of(ALIGN);
    Layout::from_size_align(len, ALIGN).expect("buffer too large")
}

/// An initialised allocation, or a part of an allocation that no other block uses.
pub(crate) struct MemoryBlock {
    ptr: NonNull<u8>,
    from: MemoryOrigin,
}

/// Origin of a block's memory.
enum MemoryOrigin {
    Own(Layout),
    /// Part of a larger allocation, in bytes, which are whole pages. The allocation lives as long as its parts.
    Part {
        len: usize,
        _whole: Arc<MemoryBlock>,
    },
}

// SAFETY: a block is plain memory with one owner, and no state of it belongs to a thread.
unsafe impl Send for MemoryBlock {}
// SAFETY: a shared block gives no access by itself; `Buf` and `BufMut` access it through disjoint ranges.
unsafe impl Sync for MemoryBlock {}

impl MemoryBlock {
    /// Returns the beginning of the block.
    pub(crate) fn ptr(&self) -> NonNull<u8> {
        self.ptr
    }

    /// Returns the memory that the block takes, in bytes, including the padding for its alignment.
    pub(crate) fn held_bytes(&self) -> usize {
        match &self.from {
            MemoryOrigin::Own(layout) => layout.size(),
            MemoryOrigin::Part { len, .. } => *len,
        }
    }

    /// Allocates a block of zeroes.
    pub(crate) fn zeroed(len: usize) -> MemoryBlock {
        let layout = layout_of(len);
        let Some(ptr) = SpareMemory::take(&layout) else {
            return MemoryBlock::fresh(layout);
        };
        // SAFETY: the layout is at least `len` bytes long.
        unsafe { ptr.as_ptr().write_bytes(0, len) };
        let from = MemoryOrigin::Own(layout);
        MemoryBlock { ptr, from }
    }

    /// Allocates a block of arbitrary, but initialised, content. With debug assertions, the content is never zero.
    pub(crate) fn to_fill(len: usize) -> MemoryBlock {
        let layout = layout_of(len);
        let block = match SpareMemory::take(&layout) {
            Some(ptr) => {
                let from = MemoryOrigin::Own(layout);
                MemoryBlock { ptr, from }
            }
            None => MemoryBlock::fresh(layout),
        };
        if cfg!(debug_assertions) {
            // SAFETY: the layout is at least `len` bytes long.
            unsafe { block.ptr.as_ptr().write_bytes(0xa5, len) };
        }
        block
    }

    /// Allocates zeroed memory.
    fn fresh(layout: Layout) -> MemoryBlock {
        // SAFETY: the layout's size is at least one page, so it is not zero.
        let ptr = unsafe { std::alloc::alloc_zeroed(layout) };
        let Some(ptr) = NonNull::new(ptr) else {
            std::alloc::handle_alloc_error(layout)
        };
        let from = MemoryOrigin::Own(layout);
        MemoryBlock { ptr, from }
    }

    /// Allocates as many blocks of `len` bytes as fit into a huge page, but at least one. Uses huge pages if the system
    /// has any free.
    pub(crate) fn in_huge_pages(len: usize) -> Vec<MemoryBlock> {
        let apart = len.next_multiple_of(ALIGN);
        let whole = apart.next_multiple_of(HUGE_BYTES);
        let layout = Layout::from_size_align(whole, HUGE_BYTES).expect("buffer too large");
        // SAFETY: the layout's size is at least one huge page, so it is not zero.
        let ptr = unsafe { std::alloc::alloc(layout) };
        let Some(ptr) = NonNull::new(ptr) else {
            std::alloc::handle_alloc_error(layout)
        };
        // SAFETY: the memory was just allocated and consists of whole pages, and this advice does not change its
        // content. On a system without this advice, the memory stays in small pages.
        let _ = unsafe { rustix::mm::madvise(ptr.as_ptr().cast(), whole, Advice::LinuxHugepage) };
        // The memory is cleared only now, since clearing it allocates the pages.
        // SAFETY: the allocation is `whole` bytes long.
        unsafe { ptr.as_ptr().write_bytes(0, whole) };
        let from = MemoryOrigin::Own(layout);
        let whole_block = Arc::new(MemoryBlock { ptr, from });
        let part = |n: usize| MemoryBlock {
            // SAFETY: the part lies inside the allocation, and no two parts overlap.
            ptr: unsafe { ptr.add(n * apart) },
            from: MemoryOrigin::Part {
                len: apart,
                _whole: Arc::clone(&whole_block),
            },
        };
        (0..whole / apart).map(part).collect()
    }
}

impl Drop for MemoryBlock {
    fn drop(&mut self) {
        match &self.from {
            MemoryOrigin::Own(layout)
                if layout.align() == ALIGN && SpareMemory::keep(layout, self.ptr) => {}
            // SAFETY: allocated with this layout, and dropped once, after all its parts.
            MemoryOrigin::Own(layout) => unsafe { std::alloc::dealloc(self.ptr.as_ptr(), *layout) },
            MemoryOrigin::Part { len, .. } => give_back(self.ptr, *len),
        }
    }
}

/// Returns the memory of a part of an allocation to the system, although the rest of a huge page stays in use. Locked
/// memory (`mlockall`) needs a separate advice, which Linux has had since 5.18. On older systems, locked memory is
/// returned with the whole allocation.
fn give_back(at: NonNull<u8>, len: usize) {
    for advice in [Advice::LinuxDontneedLocked, Advice::LinuxDontNeed] {
        // SAFETY: whole pages of an allocation that still lives, and no reference to them is left.
        if unsafe { rustix::mm::madvise(at.as_ptr().cast(), len, advice) }.is_ok() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reused_memory_is_zeroed_on_request_and_belongs_to_a_single_block() {
        let filled = |block: &MemoryBlock, len: usize, with: u8| {
            // SAFETY: the block has at least `len` bytes, and nothing else refers to them.
            let bytes = unsafe { std::slice::from_raw_parts_mut(block.ptr().as_ptr(), len) };
            let before = bytes.to_vec();
            bytes.fill(with);
            before
        };
        let lengths = [0, 1, 512, 4096, 4097, 5000, 65_536, 65_537, 300_000];
        for round in 1..20 {
            let blocks: Vec<(MemoryBlock, usize)> = lengths
                .into_iter()
                .flat_map(|len| {
                    [
                        (MemoryBlock::zeroed(len), len),
                        (MemoryBlock::to_fill(len), len),
                    ]
                })
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
        // A thread frees its kept memory when it ends. The other block is dropped here, so this thread keeps its
        // memory.
        let from_there = std::thread::spawn(|| {
            drop(MemoryBlock::zeroed(512));
            MemoryBlock::zeroed(512)
        });
        drop(from_there.join().expect("no panic"));
    }

    #[test]
    fn releasing_half_of_a_huge_page_keeps_the_other_half_even_in_locked_memory() {
        const HALF: usize = HUGE_BYTES / 2;
        let mut blocks = MemoryBlock::in_huge_pages(HALF);
        let (other, kept) = (blocks.pop().expect("two"), blocks.pop().expect("two"));
        // SAFETY: the block is `HALF` bytes long, and has no other user.
        let held = unsafe { std::slice::from_raw_parts_mut(kept.ptr().as_ptr(), HALF) };
        held.fill(7);
        let at = other.ptr().as_ptr().cast();
        // Daemons lock all their memory in this way.
        // SAFETY: the other block is `HALF` bytes long.
        unsafe { rustix::mm::mlock(at, HALF) }.expect("held");
        drop(other);
        let mut is_there = [1; HALF / ALIGN];
        // SAFETY: the range lies in the allocation that `kept` keeps alive, and the result has one byte for each page.
        let told = unsafe { libc::mincore(at, HALF, is_there.as_mut_ptr()) };
        assert_eq!((told, is_there.iter().max()), (0, Some(&0)));
        assert!(held.iter().all(|byte| *byte == 7));
    }
}
