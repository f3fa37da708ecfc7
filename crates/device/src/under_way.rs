//! Durable requests of a device that are under way.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use forebay_rt::Event;

/// Flushes and writes with FUA of a device that are under way.
///
/// A device may carry out each of them by a flush. If this flush fails, the device may lose every write in its volatile
/// cache, work again, and report the failure only later. Meanwhile other durable requests succeed, also for lost
/// writes. So a successful durable request alone proves nothing. All others that were under way at its end must have
/// ended, and none of them may have failed since it began ([`DurableRequests::end_of_others`]).
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

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::time::Duration;

    use forebay_rt::{Executor, VirtualTime};

    use super::*;

    /// A client that disconnects, or an attach that ends, drops requests at any moment.
    #[test]
    fn a_dropped_request_counts_as_ended_and_later_requests_are_not_waited_for() {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let rt = executor.rt();
        executor.block_on(async move {
            let requests: Rc<DurableRequests> = Rc::default();
            let (begun, more) = (Rc::clone(&requests), Rc::clone(&requests));
            let dropped = rt.spawn(async move {
                let _request = begun.begin();
                std::future::pending::<()>().await;
            });
            rt.sleep(Duration::from_millis(1)).await;
            let waits = rt.timeout(Duration::from_secs(1), requests.end_of_others());
            assert!(waits.await.is_err(), "a request is under way");
            let waiting = rt.spawn(async move { more.end_of_others().await });
            rt.sleep(Duration::from_millis(1)).await;
            let _later = requests.begin();
            drop(dropped);
            let ended = rt.timeout(Duration::from_secs(1), waiting).await;
            assert!(ended.is_ok(), "it waits for a later request");
        });
    }
}
