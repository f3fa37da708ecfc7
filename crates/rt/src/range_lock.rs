//! Taking turns on overlapping ranges.
//!
//! At each point of the space those who claim it form a list, in order of arrival: the first holds
//! it, the others wait. Neighbouring points mostly have the same list, so it is kept by stretches: a
//! claim knows who comes right before it, and who right after, on which stretch of its range; and the
//! lock knows who came last on each stretch. A claim holds its range when nobody is before it
//! anywhere. So whoever comes looks at the last ones only, whoever goes wakes those right after it
//! only, and neither depends on how many others wait.
//!
//! Invariants:
//! - `a` comes before `b` on a stretch exactly if `b` comes after `a` on it.
//! - The stretches of a claim's `before`, of its `after`, and of `last` are disjoint; those of one
//!   claim lie within its range; `last` covers what is claimed and nothing else.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// A lock on ranges of a space: holders of overlapping ranges take turns, in the order they came;
/// others do not wait for each other. An empty range overlaps with nothing.
#[derive(Default)]
pub struct RangeLock {
    state: RefCell<State>,
}

/// A claim, by its place in the order of arrival.
type Ticket = u64;

#[derive(Default)]
struct State {
    next_ticket: Ticket,
    /// Held or waited for.
    claims: BTreeMap<Ticket, Claim>,
    /// Who came last, for the claimed part of the space.
    last: Stretches,
}

struct Claim {
    range: Range<u64>,
    /// Who has to go first.
    before: Stretches,
    /// Whose turn is next.
    after: Stretches,
    waker: Option<Waker>,
}

/// Disjoint ranges with a claim each: by the start, the end and the claim. Neighbours with the same
/// claim are one.
#[derive(Default)]
struct Stretches(BTreeMap<u64, (u64, Ticket)>);

impl Stretches {
    /// The parts within `range`, in order.
    fn parts(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, Ticket)> {
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

    /// Takes the parts within `range` out.
    fn take(&mut self, range: Range<u64>) -> Vec<(Range<u64>, Ticket)> {
        let parts: Vec<(Range<u64>, Ticket)> = self.parts(range.clone()).collect();
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

    /// Puts a range in, of which nothing is in yet.
    fn put(&mut self, range: Range<u64>, ticket: Ticket) {
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

    /// The parts of `range` that are not in.
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

impl State {
    fn claim(&mut self, range: Range<u64>) -> Ticket {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let mut before = Stretches::default();
        for (part, earlier) in self.last.take(range.clone()) {
            self.of(earlier).after.put(part.clone(), ticket);
            before.put(part, earlier);
        }
        if range.start < range.end {
            self.last.put(range.clone(), ticket);
        }
        let claim = Claim {
            range,
            before,
            after: Stretches::default(),
            waker: None,
        };
        self.claims.insert(ticket, claim);
        ticket
    }

    fn of(&mut self, ticket: Ticket) -> &mut Claim {
        self.claims
            .get_mut(&ticket)
            .expect("a neighbour is a claim")
    }

    /// Takes a claim out, whether it is held or waited for: those after it come after those before
    /// it. Gives its own waker, and those of whose turn it is now, in order of arrival.
    fn unclaim(&mut self, ticket: Ticket) -> (Option<Waker>, Vec<Waker>) {
        let Claim {
            range,
            before,
            after,
            waker,
        } = self.claims.remove(&ticket).expect("claimed once");
        for (part, earlier) in before.parts(range.clone()) {
            self.of(earlier).after.take(part);
        }
        // Where it was the last, those before it are now.
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
    /// A lock nobody holds.
    pub fn new() -> RangeLock {
        RangeLock::default()
    }

    /// Waits for every earlier claim that overlaps `range`, then holds it until the guard is dropped.
    /// Claims from when it is first awaited; if it is dropped while it waits, the claim is given up.
    pub async fn lock(self: &Rc<Self>, range: Range<u64>) -> RangeGuard {
        let guard = RangeGuard {
            ticket: self.state.borrow_mut().claim(range),
            lock: Rc::clone(self),
        };
        Turn(&guard).await;
        guard
    }

    /// True if `range` is held or waited for, in part or whole.
    pub fn is_claimed(&self, range: &Range<u64>) -> bool {
        self.state
            .borrow()
            .last
            .parts(range.clone())
            .next()
            .is_some()
    }
}

/// Waits until nobody is before a claim.
struct Turn<'a>(&'a RangeGuard);

impl Future for Turn<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let RangeGuard { lock, ticket } = self.0;
        let mut state = lock.state.borrow_mut();
        let claim = state.of(*ticket);
        if claim.before.0.is_empty() {
            return Poll::Ready(());
        }
        let old = claim.waker.replace(cx.waker().clone());
        // It may be the last of a task, whose drop must not find this borrowed.
        drop(state);
        drop(old);
        Poll::Pending
    }
}

/// Holds a range until dropped.
pub struct RangeGuard {
    lock: Rc<RangeLock>,
    ticket: Ticket,
}

impl Drop for RangeGuard {
    fn drop(&mut self) {
        // The borrow ends before wakers are used and dropped, which may drop another claim.
        let (_own, next) = self.lock.state.borrow_mut().unclaim(self.ticket);
        next.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
#[path = "range_lock_tests.rs"]
mod tests;
