//! Memory for requests: one supply, with one bound, for all connections and front ends of a daemon.
//!
//! The data of a request lies in buffers from here, from its arrival to the end of its reply. Before
//! a buffer is taken, as much is leased of a [`Budget`] as its memory comes to; a front end that gets
//! none waits, and meanwhile takes no more requests from its peer. Each has a reserve with which it
//! gets on whatever the others do, down to one part of [`PART_BYTES`] at a time.
//!
//! Buffers are used again and again, so that the data path allocates nothing once it is warm. What
//! is kept unused counts: it is freed where the bound is near, and beyond a few of each size at once.

use std::rc::Rc;

use forebay_device::{ALIGN, BufMut, BufPool};
use forebay_rt::{Account, Budget};

/// The largest request that is answered as a whole, in bytes: what NBD wants every server to take.
pub(crate) const WHOLE_BYTES_MAX: usize = 32 << 20;
/// The largest buffer there is, in bytes, and the largest request made of a device.
pub(crate) const PART_BYTES: usize = 1 << 20;
const SMALLEST_LOG2: u32 = 12;
const CLASSES: u32 = PART_BYTES.trailing_zeros() - SMALLEST_LOG2 + 1;
/// Of each size, how many buffers are kept unused, in bytes, and at least.
const IDLE_BYTES: usize = 2 << 20;
const IDLE_BUFFERS_MIN: usize = 4;

/// What is kept for one front end besides the connections of the NBD server, in bytes. A file served
/// by FUSE can do with it: the buffer it receives into, and of the largest write that is not in whole
/// blocks the data, the blocks around it, and what is read of those.
pub(crate) const FRONT_RESERVE: u64 = 4 * Memory::cost(PART_BYTES);

/// A supply of buffers under one bound. Clones are the same supply.
#[derive(Clone)]
pub struct Memory(Rc<Inner>);

struct Inner {
    budget: Budget,
    /// A pool per power of two from 4 KiB to [`PART_BYTES`].
    pools: Vec<BufPool>,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::new(Memory::BYTES_DEFAULT)
    }
}

impl Memory {
    /// The least bound in bytes. It leaves room for the largest request, which is answered as a
    /// whole, beside the reserves of another front end and of some connections.
    pub const BYTES_MIN: u64 = 64 << 20;
    /// What is usual, in bytes: room for as many connections as a server takes by default.
    pub const BYTES_DEFAULT: u64 = 256 << 20;

    /// A supply of `bound` bytes.
    ///
    /// # Panics
    /// If that is less than [`Memory::BYTES_MIN`].
    pub fn new(bound: u64) -> Memory {
        assert!(bound >= Memory::BYTES_MIN, "{bound} bytes for requests");
        let pools = (0..CLASSES).map(|class| {
            let len = 1 << (SMALLEST_LOG2 + class);
            BufPool::keeping(len, (IDLE_BYTES / len).max(IDLE_BUFFERS_MIN)).in_huge_pages()
        });
        Memory(Rc::new(Inner {
            budget: Budget::new(bound, Memory::cost(WHOLE_BYTES_MAX)),
            pools: pools.collect(),
        }))
    }

    /// The bound in bytes.
    pub fn bound(&self) -> u64 {
        self.0.budget.bound()
    }

    /// What requests hold now and what is kept for the next ones, in bytes; never above the bound.
    pub fn in_use(&self) -> u64 {
        // What is leased and still lies in a pool counts twice for a moment.
        (self.0.budget.held() + self.idle()).min(self.bound())
    }

    /// What `len` bytes in parts of [`PART_BYTES`] are to be leased for. It is what their buffers
    /// take up, with the page that an allocator needs to align one.
    pub(crate) const fn cost(len: usize) -> u64 {
        let (parts, rest) = (len / PART_BYTES, len % PART_BYTES);
        let rest = match rest {
            0 => 0,
            _ => buffer_cost(class(rest)),
        };
        parts as u64 * buffer_cost(CLASSES as usize - 1) + rest
    }

    /// Opens an account; `None` if its reserve cannot be promised.
    pub(crate) fn account(&self, reserve: u64) -> Option<Account> {
        self.0.budget.account(reserve)
    }

    /// How many accounts with this reserve can be promised beside that of another front end.
    pub(crate) fn accounts_max(&self, reserve: u64) -> usize {
        let largest = Memory::cost(WHOLE_BYTES_MAX);
        let free = self.bound().saturating_sub(largest + FRONT_RESERVE);
        (free / reserve) as usize
    }

    /// A buffer of `len` bytes, at most [`PART_BYTES`], of arbitrary content. The caller has leased
    /// its cost, and gives the lease back after the buffer.
    pub(crate) fn take(&self, len: usize) -> BufMut {
        let pool = &self.0.pools[class(len)];
        let is_new = pool.idle() == 0;
        if is_new {
            // The lease covers the new buffer; what is kept unused gives way to it.
            self.give_way();
        }
        let mut buf = pool.take();
        if is_new {
            // Others may have come in the same huge page.
            self.give_way();
        }
        buf.truncate(len);
        buf
    }

    /// Frees what is kept unused, as far as that is above the bound together with what is leased.
    fn give_way(&self) {
        let mut larger_first = self.0.pools.iter().rev();
        let mut giving = larger_first.next();
        while self.0.budget.held() + self.idle() > self.bound()
            && let Some(pool) = giving
        {
            if !pool.free_idle() {
                giving = larger_first.next();
            }
        }
    }

    fn idle(&self) -> u64 {
        let pools = self.0.pools.iter().enumerate();
        pools
            .map(|(class, pool)| pool.idle() as u64 * buffer_cost(class))
            .sum()
    }
}

/// Which pool has buffers for `len` bytes.
const fn class(len: usize) -> usize {
    let log2 = len.next_power_of_two().trailing_zeros();
    log2.saturating_sub(SMALLEST_LOG2) as usize
}

const fn buffer_cost(class: usize) -> u64 {
    (1 << (SMALLEST_LOG2 + class as u32)) + ALIGN as u64
}

#[cfg(test)]
mod tests {
    use futures_util::future::FutureExt;

    use super::*;

    #[test]
    fn a_buffer_is_as_long_as_asked_for_and_costs_more_than_that() {
        let memory = Memory::default();
        for len in [1, 512, 4096, 4097, 65_536, PART_BYTES - 512, PART_BYTES] {
            assert_eq!(memory.take(len).len(), len);
            assert!(Memory::cost(len) > len as u64);
        }
        let parts = Memory::cost(2 * PART_BYTES + 1);
        assert_eq!(parts, 2 * Memory::cost(PART_BYTES) + Memory::cost(1));
    }

    #[test]
    fn what_is_kept_unused_counts_and_gives_way() {
        let memory = Memory::new(Memory::BYTES_MIN);
        let account = memory.account(0).unwrap();
        let lease = |len| account.lease(Memory::cost(len)).now_or_never().unwrap();
        let hold = |len| (memory.take(len), lease(len));
        // All of it, as a burst of requests would.
        let mut all = Vec::new();
        while account
            .lease(Memory::cost(PART_BYTES))
            .now_or_never()
            .is_some()
        {
            all.push(hold(PART_BYTES));
        }
        assert!(memory.in_use() <= memory.bound() && all.len() > 60);
        drop(all);
        let kept = memory.in_use();
        assert!(kept > 0 && kept <= 8 << 20, "{kept}");
        // Small ones up to the bound: what is kept for large ones goes.
        let mut all = Vec::new();
        while let Some(lease) = account.lease(Memory::cost(4096)).now_or_never() {
            all.push((memory.take(4096), lease));
            assert!(memory.0.budget.held() + memory.idle() <= memory.bound());
        }
        assert_eq!(memory.idle(), 0);
        drop(all);
        assert!(memory.in_use() <= 4 << 20);
    }
}
