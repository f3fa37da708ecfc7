//! Counter of allocated memory: proves that no length in the input decides the amount of memory.
#![allow(
    unsafe_code,
    reason = "an allocator is an unsafe trait; this one only counts"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, with a counter for each thread.
///
/// Invariant: every call goes to [`System`] unchanged, so its guarantees hold here; the counters are plain cells that
/// need no allocation.
struct CountingAllocator;

thread_local! {
    static LIVE: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

fn took(bytes: usize) {
    // A thread that ends may allocate after its counters are gone; these allocations need no count.
    let _ = LIVE.try_with(|live| {
        live.set(live.get().saturating_add(bytes));
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

fn gave(bytes: usize) {
    let _ = LIVE.try_with(|live| live.set(live.get().saturating_sub(bytes)));
}

// SAFETY: every method passes its arguments to `System`, which fulfils the trait's contract.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: the caller fulfils the contract of `alloc`, which is `System`'s.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        gave(layout.size());
        // SAFETY: `at` is from `System`, as every allocation is.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        took(bytes);
        gave(layout.size());
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, bytes) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Runs `work` on this thread. Returns its result and the maximum growth of allocated memory, in bytes.
pub fn peak<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = LIVE.get();
    PEAK.set(before);
    let out = work();
    (out, PEAK.get().saturating_sub(before))
}

/// Runs `work`, which may use at most `bytes` of memory.
///
/// # Panics
/// If `work` uses more memory.
pub fn within<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    let (out, peak) = peak(work);
    assert!(
        peak <= bytes,
        "{peak} bytes were allocated where {bytes} would do"
    );
    out
}
