//! Taking turns on overlapping ranges.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use crate::Event;

/// A lock on ranges of a space: holders of overlapping ranges take turns, in the order they came;
/// others do not wait for each other.
///
/// The lists are short (requests in flight), so they are scanned.
#[derive(Default)]
pub struct RangeLock {
    state: RefCell<State>,
    released: Event,
}

#[derive(Default)]
struct State {
    next_ticket: u64,
    /// Held or waited for, in order of arrival.
    claims: Vec<(u64, Range<u64>)>,
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

impl RangeLock {
    /// A lock nobody holds.
    pub fn new() -> RangeLock {
        RangeLock::default()
    }

    /// Waits for every earlier claim that overlaps `range`, then holds it until the guard is dropped.
    pub async fn lock(self: &Rc<Self>, range: Range<u64>) -> RangeGuard {
        let guard = RangeGuard {
            lock: Rc::clone(self),
            ticket: self.claim(range.clone()),
        };
        self.released
            .until(|| {
                let state = self.state.borrow();
                state
                    .claims
                    .iter()
                    .take_while(|(ticket, _)| *ticket < guard.ticket)
                    .all(|(_, earlier)| !overlap(earlier, &range))
                    .then_some(())
            })
            .await;
        guard
    }

    /// True if `range` is held or waited for, in part or whole.
    pub fn is_claimed(&self, range: &Range<u64>) -> bool {
        self.state
            .borrow()
            .claims
            .iter()
            .any(|(_, claim)| overlap(claim, range))
    }

    fn claim(&self, range: Range<u64>) -> u64 {
        let mut state = self.state.borrow_mut();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        state.claims.push((ticket, range));
        ticket
    }
}

/// Holds a range until dropped.
pub struct RangeGuard {
    lock: Rc<RangeLock>,
    ticket: u64,
}

impl Drop for RangeGuard {
    fn drop(&mut self) {
        self.lock
            .state
            .borrow_mut()
            .claims
            .retain(|(ticket, _)| *ticket != self.ticket);
        self.lock.released.notify_all();
    }
}
