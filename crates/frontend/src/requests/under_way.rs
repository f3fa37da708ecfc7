//! The limit on concurrent requests.

use std::cell::Cell;

use forebay_rt::Event;

/// The size of one or more requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RequestLoad {
    /// Number of requests.
    pub requests: u32,
    /// Data of the requests, in bytes.
    pub bytes: u64,
}

impl RequestLoad {
    /// Returns the load of one request with `bytes` of data.
    pub fn one(bytes: u64) -> RequestLoad {
        RequestLoad { requests: 1, bytes }
    }

    /// Adds the load of other requests.
    pub fn add(&mut self, other: RequestLoad) {
        self.requests += other.requests;
        self.bytes += other.bytes;
    }
}

/// The requests that one peer has under way, and their limit.
///
/// Invariants:
/// - `now` is the sum of requests that were admitted and neither released nor set aside.
/// - `aside` is the number of requests that were set aside and have not ended.
pub struct RequestLimiter {
    max: RequestLoad,
    now: Cell<RequestLoad>,
    /// Requests without a place, because they wait for the peer.
    aside: Cell<u32>,
    /// Notified when `now` or `aside` decreases.
    less: Event,
}

/// A request's place among those under way. Dropping it returns the place: the peer may disconnect before it has sent
/// the data.
#[must_use = "it is given back at once otherwise"]
pub struct AdmittedRequest<'a> {
    under_way: &'a RequestLimiter,
    load: RequestLoad,
}

impl AdmittedRequest<'_> {
    /// Keeps the place beyond this value. The caller must release the returned load.
    pub fn keep(self) -> RequestLoad {
        let load = self.load;
        std::mem::forget(self);
        load
    }
}

impl Drop for AdmittedRequest<'_> {
    fn drop(&mut self) {
        self.under_way.release(self.load);
    }
}

impl RequestLimiter {
    /// Creates an empty set with the limit `max`.
    pub fn new(max: RequestLoad) -> RequestLimiter {
        RequestLimiter {
            max,
            now: Cell::default(),
            aside: Cell::default(),
            less: Event::new(),
        }
    }

    /// Waits until a request with `bytes` of data may be under way too. A single request is always admitted, so the
    /// limit on bytes may be smaller than the largest request.
    pub async fn admit(&self, bytes: u64) -> AdmittedRequest<'_> {
        if !self.has_room(bytes) {
            let room = || self.has_room(bytes).then_some(());
            self.less.until(room).await;
        }
        let load = RequestLoad::one(bytes);
        let mut now = self.now.get();
        now.add(load);
        self.now.set(now);
        let under_way = self;
        AdmittedRequest { under_way, load }
    }

    fn has_room(&self, bytes: u64) -> bool {
        let (now, max) = (self.now.get(), self.max);
        let fits = now.bytes.saturating_add(bytes) <= max.bytes;
        now.requests == 0 || (fits && now.requests < max.requests)
    }

    /// Returns the places of requests with this total load.
    pub fn release(&self, load: RequestLoad) {
        if load == RequestLoad::default() {
            return;
        }
        let now = self.now.get();
        self.now.set(RequestLoad {
            requests: now.requests - load.requests,
            bytes: now.bytes - load.bytes,
        });
        self.less.notify_all();
    }

    /// Returns a request's place before the request ends, because the request waits for the peer, and the peer may need
    /// the place to continue. The caller must call [`RequestLimiter::end_aside`] when the request ends.
    pub fn set_aside(&self, load: RequestLoad) {
        self.aside.set(self.aside.get() + load.requests);
        self.release(load);
    }

    /// Ends a request that was set aside.
    pub fn end_aside(&self) {
        self.aside.set(self.aside.get() - 1);
        self.less.notify_all();
    }

    /// Returns true if no request is under way or set aside.
    pub fn is_idle(&self) -> bool {
        self.now.get().requests == 0 && self.aside.get() == 0
    }

    /// Waits until no request is under way.
    pub async fn idle(&self) {
        self.less.until(|| self.is_idle().then_some(())).await;
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures_util::future::FutureExt;

    use super::*;

    const MAX: RequestLoad = RequestLoad {
        requests: 2,
        bytes: 100,
    };

    #[test]
    fn a_request_waits_for_a_slot_and_for_its_bytes() {
        let under_way = RequestLimiter::new(MAX);
        let admit = |bytes| under_way.admit(bytes).now_or_never();
        let first = admit(60).expect("room").keep();
        assert!(admit(41).is_none());
        let second = admit(40).expect("room").keep();
        assert!(admit(0).is_none());
        under_way.release(first);
        assert!(admit(61).is_none());
        under_way.release(second);
        // A single request is always admitted.
        let alone = admit(1000).expect("room").keep();
        assert!(admit(0).is_none() && !under_way.is_idle());
        let mut idle = pin!(under_way.idle());
        assert!(idle.as_mut().now_or_never().is_none());
        under_way.release(alone);
        assert!(idle.now_or_never().is_some());
    }

    #[test]
    fn a_cancelled_request_frees_its_slot() {
        let under_way = RequestLimiter::new(MAX);
        drop(under_way.admit(100).now_or_never());
        assert!(under_way.is_idle());
        assert!(under_way.admit(100).now_or_never().is_some());
    }
}
