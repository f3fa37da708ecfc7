//! Durable requests of a device that are under way.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use forebay_rt::Event;

/// Flushes and writes with FUA of a device that are under way.
///
/// A device may carry out each of them by a flush. If that fails, the device may forget every write in its volatile
/// cache, work again, and report the failure only later. Meanwhile other durable requests succeed, also for writes that
/// were forgotten. So a durable request that succeeded is believed only when all others that were under way at its end
/// have ended, and none of them failed since it began ([`DurableRequests::end_of_others`]).
#[derive(Default)]
pub struct DurableRequests {
    begun: Cell<u64>,
    under_way: RefCell<BTreeSet<u64>>,
    ended: Event,
}

/// A durable request, from its beginning until the device has answered it.
pub struct DurableRequest<'a> {
    requests: &'a DurableRequests,
    id: u64,
}

impl DurableRequests {
    /// Begins a durable request.
    pub fn begin(&self) -> DurableRequest<'_> {
        let id = self.begun.get();
        self.begun.set(id + 1);
        self.under_way.borrow_mut().insert(id);
        DurableRequest { requests: self, id }
    }

    /// Waits until all requests that are under way now have ended.
    pub async fn end_of_others(&self) {
        let begun = self.begun.get();
        let ended = || match self.under_way.borrow().first() {
            Some(first) if *first < begun => None,
            _ => Some(()),
        };
        self.ended.until(ended).await;
    }
}

impl Drop for DurableRequest<'_> {
    fn drop(&mut self) {
        self.requests.under_way.borrow_mut().remove(&self.id);
        self.requests.ended.notify_all();
    }
}
