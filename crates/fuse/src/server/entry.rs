//! A request that came through the ring, in its entry.

use forebay_device::Buf;
use forebay_frontend::requests::RequestMemory;
use forebay_linux::FuseEntry;
use forebay_rt::{BudgetAccount, BudgetLease};

/// Minimum number of entries in a queue: with fewer, requests of one processor would wait for each other.
pub(super) const OF_EACH_MIN: usize = 4;

/// A request in an entry, and the account for its memory.
pub(super) struct ReceivedEntry<'a> {
    pub(super) entry: FuseEntry,
    pub(super) account: &'a BudgetAccount,
}

impl ReceivedEntry<'_> {
    pub(super) async fn lease(&self, len: usize) -> BudgetLease {
        self.account.lease(RequestMemory::cost(len)).await
    }

    /// Returns a copy of the first `len` bytes of a write's data. The copy is needed because the entry's memory belongs
    /// to the kernel again after the answer.
    pub(super) async fn data(&mut self, memory: &RequestMemory, len: usize) -> (Buf, BudgetLease) {
        let lease = self.lease(len).await;
        let mut data = memory.take(len);
        data.copy_from_slice(&self.entry.request().payload[..len]);
        (data.freeze(), lease)
    }
}
