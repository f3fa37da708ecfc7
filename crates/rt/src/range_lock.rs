//! A fair lock on ranges: overlapping ranges are granted in order of arrival.
//!
//! The claims on each point of the space form a list, in order of arrival: the first claim holds the point, the others
//! wait. Neighbouring points mostly have equal lists, so the lists are stored by stretches. A claim stores its direct
//! predecessor and its direct successor for each stretch of its range, and the lock stores the last claim of each
//! stretch. A claim holds its range when it has no predecessor on any stretch. So a new claim looks only at the last
//! claims, and a leaving claim wakes only its direct successors. The cost of both does not depend on the number of
//! other waiters.
//!
//! Invariants:
//! - `a` is before `b` on a stretch exactly if `b` is after `a` on this stretch.
//! - The stretches of a claim's `before` are disjoint, and so are those of its `after`, and those of `last`. The
//!   stretches of a claim lie within its range. `last` covers exactly the claimed points.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// A lock on ranges of a space. Overlapping ranges are granted in order of arrival; disjoint ranges do not wait for
/// each other. An empty range overlaps with nothing.
#[derive(Default)]
pub struct RangeLock {
    state: RefCell<RangeLockState>,
}

/// A claim, by its place in the order of arrival.
type RangeTicket = u64;

#[derive(Default)]
struct RangeLockState {
    next_ticket: RangeTicket,
    /// Claims that hold their range or wait for it.
    claims: BTreeMap<RangeTicket, RangeClaim>,
    /// The last claim on each claimed stretch of the space.
    last: ClaimedRanges,
}

struct RangeClaim {
    range: Range<u64>,
    /// The direct predecessors.
    before: ClaimedRanges,
    /// The direct successors.
    after: ClaimedRanges,
    waker: Option<Waker>,
}

/// Disjoint ranges with a claim each: start to end and claim. Adjacent ranges of one claim are merged.
#[derive(Default)]
struct ClaimedRanges(BTreeMap<u64, (u64, RangeTicket)>);

impl ClaimedRanges {
    /// Returns the stretches within `range`, in order.
    fn parts(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, RangeTicket)> {
        let before = self.0.range(..range.start).next_back();
        let inside = self.0.range(range.start..range.end.max(range.start));
        before
            .into_iter()
            .chain(inside)
            .map(move |(start, (end, ticket))| {
                ((*start).max(range.start)..(*end).min(range.end), *ticket)
            })
            .filter(|(part, _)| part.start < part.end)
    }

    /// Removes the stretches within `range`, and returns them.
    fn take(&mut self, range: Range<u64>) -> Vec<(Range<u64>, RangeTicket)> {
        let parts: Vec<(Range<u64>, RangeTicket)> = self.parts(range.clone()).collect();
        for (part, ticket) in &parts {
            let (mut start, mut end) = (part.start, part.end);
            if let Some((at, (to, _))) = self.0.range(..=part.start).next_back() {
                (start, end) = (*at, *to);
            }
            self.0.remove(&start);
            if start < part.start {
                self.0.insert(start, (part.start, *ticket));
            }
            if part.end < end {
                self.0.insert(part.end, (end, *ticket));
            }
        }
        parts
    }

    /// Inserts a range, which must not overlap with a stretch.
    fn put(&mut self, range: Range<u64>, ticket: RangeTicket) {
        let (mut start, mut end) = (range.start, range.end);
        if let Some((at, _)) = self
            .0
            .range(..start)
            .next_back()
            .filter(|(_, (to, other))| (*to, *other) == (start, ticket))
        {
            start = *at;
        }
        if let Some((to, _)) = self.0.get(&end).filter(|(_, other)| *other == ticket) {
            let to = *to;
            self.0.remove(&end);
            end = to;
        }
        self.0.insert(start, (end, ticket));
    }

    /// Returns the parts of `range` outside all stretches.
    fn gaps(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let (mut gaps, mut at) = (Vec::new(), range.start);
        for (part, _) in self.parts(range.clone()) {
            if at < part.start {
                gaps.push(at..part.start);
            }
            at = part.end;
        }
        if at < range.end {
            gaps.push(at..range.end);
        }
        gaps
    }
}

impl RangeLockState {
    fn claim(&mut self, range: Range<u64>) -> RangeTicket {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let mut before = ClaimedRanges::default();
        for (part, earlier) in self.last.take(range.clone()) {
            self.of(earlier).after.put(part.clone(), ticket);
            before.put(part, earlier);
        }
        if range.start < range.end {
            self.last.put(range.clone(), ticket);
        }
        let claim = RangeClaim {
            range,
            before,
            after: ClaimedRanges::default(),
            waker: None,
        };
        self.claims.insert(ticket, claim);
        ticket
    }

    fn of(&mut self, ticket: RangeTicket) -> &mut RangeClaim {
        self.claims
            .get_mut(&ticket)
            .expect("a neighbour is a claim")
    }

    /// Removes a claim, held or waiting, and connects its predecessors with its successors. Returns the claim's own
    /// waker, and the wakers of the claims that now hold their range, in order of arrival.
    fn unclaim(&mut self, ticket: RangeTicket) -> (Option<Waker>, Vec<Waker>) {
        let RangeClaim {
            range,
            before,
            after,
            waker,
        } = self.claims.remove(&ticket).expect("claimed once");
        for (part, earlier) in before.parts(range.clone()) {
            self.of(earlier).after.take(part);
        }
        // On stretches where the claim was the last, its predecessors are now the last.
        for gap in after.gaps(range.clone()) {
            self.last.take(gap.clone());
            for (part, earlier) in before.parts(gap) {
                self.last.put(part, earlier);
            }
        }
        let mut next = Vec::new();
        for (part, later) in after.parts(range) {
            self.of(later).before.take(part.clone());
            for (part, earlier) in before.parts(part) {
                self.of(later).before.put(part.clone(), earlier);
                self.of(earlier).after.put(part, later);
            }
            next.push(later);
        }
        next.sort_unstable();
        next.dedup();
        let turns = next.into_iter().filter_map(|later| {
            let claim = self.of(later);
            claim.waker.take_if(|_| claim.before.0.is_empty())
        });
        (waker, turns.collect())
    }
}

impl RangeLock {
    /// Creates a lock without claims.
    pub fn new() -> RangeLock {
        RangeLock::default()
    }

    /// Waits for all earlier claims that overlap `range`, then holds the range until the guard is dropped. The claim is
    /// made when the future is first polled. Dropping the future while it waits abandons the claim.
    pub async fn lock(self: &Rc<Self>, range: Range<u64>) -> RangeGuard {
        let guard = RangeGuard {
            ticket: self.state.borrow_mut().claim(range),
            lock: Rc::clone(self),
        };
        RangeWait(&guard).await;
        guard
    }

    /// Returns true if `range` is claimed, in part or whole, by a holder or a waiter.
    pub fn is_claimed(&self, range: &Range<u64>) -> bool {
        self.state
            .borrow()
            .last
            .parts(range.clone())
            .next()
            .is_some()
    }
}

/// Waits until a claim has no predecessor.
struct RangeWait<'a>(&'a RangeGuard);

impl Future for RangeWait<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let RangeGuard { lock, ticket } = self.0;
        let mut state = lock.state.borrow_mut();
        let claim = state.of(*ticket);
        if claim.before.0.is_empty() {
            return Poll::Ready(());
        }
        let old = claim.waker.replace(cx.waker().clone());
        // The old waker may be the last reference to a task, whose drop must not find the lock borrowed.
        drop(state);
        drop(old);
        Poll::Pending
    }
}

/// Holds a range until dropped.
pub struct RangeGuard {
    lock: Rc<RangeLock>,
    ticket: RangeTicket,
}

impl Drop for RangeGuard {
    fn drop(&mut self) {
        // End the borrow before wakers are used and dropped, which may drop another claim.
        let (_own, next) = self.lock.state.borrow_mut().unclaim(self.ticket);
        next.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
#[path = "range_lock_tests.rs"]
mod tests;
