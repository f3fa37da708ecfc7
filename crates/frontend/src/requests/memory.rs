//! Memory for requests: one supply, with one bound, for all connections and front ends of a daemon.
//!
//! The data of a request lies in buffers of this supply, from the arrival of the request to the end of its reply.
//! Before a front end takes a buffer, it leases the buffer's cost from a [`Budget`]. A front end that gets no lease
//! waits, and meanwhile accepts no more requests from its peer. Each front end has a reserve. With the reserve alone it
//! still makes progress, if need be with a single part of [`PART_BYTES`] at a time.
//!
//! Buffers are reused, so the data path allocates nothing once the pools are filled. Idle buffers count towards the
//! bound: they are freed near the bound, and beyond a few of each size they are freed at once.

use std::rc::Rc;

use forebay_device::{ALIGN, BufMut, BufPool};
use forebay_rt::{Budget, BudgetAccount};

/// The largest request that is answered as a whole, in bytes. The NBD protocol wants every server to accept this size.
pub const WHOLE_BYTES_MAX: usize = 32 << 20;
/// The size of the largest buffer, and of the largest request to a device, in bytes.
pub const PART_BYTES: usize = 1 << 20;
const SMALLEST_LOG2: u32 = 12;
const CLASSES: u32 = PART_BYTES.trailing_zeros() - SMALLEST_LOG2 + 1;
/// Limit on idle buffers of each size, in bytes; [`IDLE_BUFFERS_MIN`] buffers may be idle in any case.
const IDLE_BYTES: usize = 2 << 20;
const IDLE_BUFFERS_MIN: usize = 4;

/// The reserve of a front end other than an NBD connection, in bytes. It suffices for a file served by FUSE, which
/// needs four buffers for the largest write that is not in whole blocks: the receive buffer, the data, the surrounding
/// blocks, and the data read from these blocks.
pub const FRONT_RESERVE: u64 = 4 * RequestMemory::cost(PART_BYTES);

/// A supply of buffers under one bound. Clones share the supply.
#[derive(Clone)]
pub struct RequestMemory(Rc<RequestPools>);

struct RequestPools {
    budget: Budget,
    /// One pool for each power of two from 4 KiB to [`PART_BYTES`].
    pools: Vec<BufPool>,
}

impl Default for RequestMemory {
    fn default() -> RequestMemory {
        RequestMemory::new(RequestMemory::BYTES_DEFAULT)
    }
}

impl RequestMemory {
    /// The smallest bound, in bytes. It suffices for the largest request, which is answered as a whole, and for the
    /// reserves of another front end and of some connections.
    pub const BYTES_MIN: u64 = 64 << 20;
    /// The default bound, in bytes. It suffices for the default number of connections of a server.
    pub const BYTES_DEFAULT: u64 = 256 << 20;

    /// Creates a supply of `bound` bytes.
    ///
    /// # Panics
    /// If `bound` is less than [`RequestMemory::BYTES_MIN`].
    pub fn new(bound: u64) -> RequestMemory {
        assert!(
            bound >= RequestMemory::BYTES_MIN,
            "{bound} bytes for requests"
        );
        let pools = (0..CLASSES).map(|class| {
            let len = 1 << (SMALLEST_LOG2 + class);
            BufPool::keeping(len, (IDLE_BYTES / len).max(IDLE_BUFFERS_MIN)).in_huge_pages()
        });
        RequestMemory(Rc::new(RequestPools {
            budget: Budget::new(bound, RequestMemory::cost(WHOLE_BYTES_MAX)),
            pools: pools.collect(),
        }))
    }

    /// Returns the bound in bytes.
    pub fn bound(&self) -> u64 {
        self.0.budget.bound()
    }

    /// Returns the bytes that requests hold and that idle buffers occupy. The sum never exceeds the bound.
    pub fn in_use(&self) -> u64 {
        // A buffer whose lease still exists but which is back in its pool counts twice for a moment.
        (self.0.budget.held() + self.idle()).min(self.bound())
    }

    /// Returns the bytes to lease for `len` bytes in parts of [`PART_BYTES`]: the size of their buffers, and for each a
    /// page that an allocator needs for alignment.
    pub const fn cost(len: usize) -> u64 {
        let (parts, rest) = (len / PART_BYTES, len % PART_BYTES);
        let rest = match rest {
            0 => 0,
            _ => buffer_cost(class(rest)),
        };
        parts as u64 * buffer_cost(CLASSES as usize - 1) + rest
    }

    /// Opens an account; `None` if the bound does not allow its reserve.
    pub fn account(&self, reserve: u64) -> Option<BudgetAccount> {
        self.0.budget.account(reserve)
    }

    /// Returns the number of accounts with this reserve that the bound allows beside the reserve of another front end.
    pub fn accounts_max(&self, reserve: u64) -> usize {
        let largest = RequestMemory::cost(WHOLE_BYTES_MAX);
        let free = self.bound().saturating_sub(largest + FRONT_RESERVE);
        (free / reserve) as usize
    }

    /// Returns a buffer of `len` bytes, at most [`PART_BYTES`], with arbitrary content. The caller has leased the
    /// buffer's cost, and returns the lease after the buffer.
    pub fn take(&self, len: usize) -> BufMut {
        let pool = &self.0.pools[class(len)];
        let is_new = pool.idle() == 0;
        if is_new {
            // The lease covers the new buffer, so idle buffers must be freed instead.
            self.give_way();
        }
        let mut buf = pool.take();
        if is_new {
            // A huge page can have brought further buffers.
            self.give_way();
        }
        buf.truncate(len);
        buf
    }

    /// Frees idle buffers while they and the leased memory together exceed the bound.
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

/// Returns the index of the pool with buffers for `len` bytes.
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
    fn a_buffer_has_the_requested_length_and_its_cost_includes_overhead() {
        let memory = RequestMemory::default();
        for len in [1, 512, 4096, 4097, 65_536, PART_BYTES - 512, PART_BYTES] {
            assert_eq!(memory.take(len).len(), len);
            assert!(RequestMemory::cost(len) > len as u64);
        }
        let parts = RequestMemory::cost(2 * PART_BYTES + 1);
        assert_eq!(
            parts,
            2 * RequestMemory::cost(PART_BYTES) + RequestMemory::cost(1)
        );
    }

    #[test]
    fn idle_buffers_count_against_the_limit_and_are_freed_on_demand() {
        let memory = RequestMemory::new(RequestMemory::BYTES_MIN);
        let account = memory.account(0).unwrap();
        let lease = |len| {
            account
                .lease(RequestMemory::cost(len))
                .now_or_never()
                .unwrap()
        };
        let hold = |len| (memory.take(len), lease(len));
        // Take all of the memory, as a burst of requests would.
        let mut all = Vec::new();
        while account
            .lease(RequestMemory::cost(PART_BYTES))
            .now_or_never()
            .is_some()
        {
            all.push(hold(PART_BYTES));
        }
        assert!(memory.in_use() <= memory.bound() && all.len() > 60);
        drop(all);
        let kept = memory.in_use();
        assert!(kept > 0 && kept <= 8 << 20, "{kept}");
        // Take small buffers up to the bound: the idle large buffers are freed.
        let mut all = Vec::new();
        while let Some(lease) = account.lease(RequestMemory::cost(4096)).now_or_never() {
            all.push((memory.take(4096), lease));
            assert!(memory.0.budget.held() + memory.idle() <= memory.bound());
        }
        assert_eq!(memory.idle(), 0);
        drop(all);
        assert!(memory.in_use() <= 4 << 20);
    }
}
