//! Sharing a bounded amount of something, such as memory, among those who need some of it to get on.
//!
//! Who takes part has an [`Account`] with a *reserve*: an amount that is always there for it,
//! whatever the others hold. What no reserve has is for all, one account after the other. So a
//! holder who never gives anything back (a client that fetches no replies) can hold what is shared,
//! and cannot stop anybody who gets on with a reserve.
//!
//! Invariants:
//! - An account claims what it holds, and never less than its reserve. The sum of all claims is
//!   within the bound; so what an account asks for within its reserve is granted at once.
//! - Beside all reserves the largest single lease has room. So the first in the queue is served when
//!   what the others hold of the shared part has come back, though it be the largest there is.
//! - Those who wait hold nothing that they wait for: a lease is granted as a whole or not at all.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use crate::Event;

/// A bound on what all accounts together may hold. Clones are the same budget. Amounts are in
/// whatever unit its user counts in.
#[derive(Clone)]
pub struct Budget(Rc<Inner>);

struct Inner {
    bound: u64,
    largest: u64,
    /// Sum of what is held.
    held: Cell<u64>,
    /// Sum over all accounts of what is held or the reserve, whichever is more.
    claimed: Cell<u64>,
    /// Sum of all reserves.
    promised: Cell<u64>,
    /// Accounts somebody waits at, the next to be served first.
    queue: RefCell<VecDeque<Rc<Share>>>,
}

/// One account's state; lives as long as its account, a lease from it, or somebody who waits.
struct Share {
    budget: Rc<Inner>,
    reserve: u64,
    held: Cell<u64>,
    /// In the order they came. Invariant: the account is in the budget's queue, once, exactly if
    /// there are any.
    waiters: RefCell<VecDeque<Rc<Waiter>>>,
}

struct Waiter {
    amount: u64,
    granted: Cell<bool>,
    told: Event,
}

/// What a lease would be taken from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Room {
    Reserve,
    Shared,
    None,
}

impl Budget {
    /// A budget of `bound`, in which no single lease is larger than `largest`.
    ///
    /// # Panics
    /// If the largest lease is larger than the bound.
    pub fn new(bound: u64, largest: u64) -> Budget {
        assert!(largest <= bound, "a lease of {largest} in all of {bound}");
        Budget(Rc::new(Inner {
            bound,
            largest,
            held: Cell::new(0),
            claimed: Cell::new(0),
            promised: Cell::new(0),
            queue: RefCell::default(),
        }))
    }

    /// What all accounts together may hold.
    pub fn bound(&self) -> u64 {
        self.0.bound
    }

    /// What is held now.
    pub fn held(&self) -> u64 {
        self.0.held.get()
    }

    /// Opens an account for which `reserve` is kept, for as long as it or a lease from it is there.
    /// `None` if the reserves of others, or what they hold now, leave no room for it.
    pub fn account(&self, reserve: u64) -> Option<Account> {
        let budget = &self.0;
        let promised = budget.promised.get().checked_add(reserve)?;
        let claimed = budget.claimed.get().checked_add(reserve)?;
        if promised.checked_add(budget.largest)? > budget.bound || claimed > budget.bound {
            return None;
        }
        budget.promised.set(promised);
        budget.claimed.set(claimed);
        Some(Account(Rc::new(Share {
            budget: Rc::clone(budget),
            reserve,
            held: Cell::new(0),
            waiters: RefCell::default(),
        })))
    }
}

impl Inner {
    /// Serves who can be served: each account in the queue in turn, one lease at a time. The first
    /// that needs of the shared part what is not there keeps those behind it from that part, but not
    /// from their reserves.
    fn serve(&self) {
        let mut queue = self.queue.borrow_mut();
        let (mut at, mut contested) = (0, false);
        while let Some(share) = queue.get(at) {
            let first = share.waiters.borrow().front().map(Rc::clone);
            let first = first.expect("an account in the queue has somebody waiting");
            let room = share.room(first.amount);
            if room == Room::None || (room == Room::Shared && contested) {
                contested = true;
                at += 1;
                continue;
            }
            share.take(first.amount);
            first.granted.set(true);
            first.told.notify_all();
            share.waiters.borrow_mut().pop_front();
            if let Some(share) = queue.remove(at)
                && !share.waiters.borrow().is_empty()
            {
                queue.push_back(share);
            }
        }
    }
}

impl Share {
    fn claim(&self) -> u64 {
        self.held.get().max(self.reserve)
    }

    fn room(&self, amount: u64) -> Room {
        let after = self.held.get() + amount;
        if after <= self.reserve {
            return Room::Reserve;
        }
        match self.budget.claimed.get() - self.claim() + after <= self.budget.bound {
            true => Room::Shared,
            false => Room::None,
        }
    }

    fn hold(&self, held: u64) {
        let budget = &self.budget;
        let (before, claim) = (self.held.get(), self.claim());
        self.held.set(held);
        budget.held.set(budget.held.get() - before + held);
        budget
            .claimed
            .set(budget.claimed.get() - claim + self.claim());
        debug_assert!(budget.claimed.get() <= budget.bound);
    }

    fn take(&self, amount: u64) {
        self.hold(self.held.get() + amount);
    }

    fn give_back(&self, amount: u64) {
        self.hold(self.held.get() - amount);
        self.budget.serve();
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let (budget, reserve) = (&self.budget, self.reserve);
        debug_assert_eq!(self.held.get(), 0, "leases keep their account");
        budget.claimed.set(budget.claimed.get() - reserve);
        budget.promised.set(budget.promised.get() - reserve);
        budget.serve();
    }
}

/// One who takes part in a [`Budget`]. Clones are the same account.
///
/// What is held for good must leave room within the reserve for the largest lease that is asked for,
/// or that lease may never come.
#[derive(Clone)]
pub struct Account(Rc<Share>);

impl Account {
    /// Waits until `amount` may be held, and holds it until the lease is dropped. Those who wait at
    /// one account are served in the order they came, accounts in turns. Nothing is held when the
    /// future is dropped before it is done.
    ///
    /// # Panics
    /// If `amount` is larger than the largest lease of the budget.
    pub async fn lease(&self, amount: u64) -> Lease {
        let largest = self.0.budget.largest;
        assert!(amount <= largest, "a lease of {amount}, at most {largest}");
        let share = &self.0;
        let alone = share.budget.queue.borrow().is_empty();
        if alone && share.room(amount) != Room::None {
            share.take(amount);
        } else {
            Waiting::new(share, amount).granted().await;
        }
        Lease {
            share: Rc::clone(share),
            amount,
        }
    }
}

/// One who waits at an account, and is forgotten when it does so no more.
struct Waiting<'a> {
    share: &'a Rc<Share>,
    waiter: Rc<Waiter>,
    /// What was granted has become a lease.
    leased: bool,
}

impl Waiting<'_> {
    fn new(share: &Rc<Share>, amount: u64) -> Waiting<'_> {
        let waiter = Rc::new(Waiter {
            amount,
            granted: Cell::new(false),
            told: Event::new(),
        });
        let mut waiters = share.waiters.borrow_mut();
        if waiters.is_empty() {
            let mut queue = share.budget.queue.borrow_mut();
            queue.push_back(Rc::clone(share));
        }
        waiters.push_back(Rc::clone(&waiter));
        drop(waiters);
        // What is asked for may be within the reserve.
        share.budget.serve();
        Waiting {
            share,
            waiter,
            leased: false,
        }
    }

    async fn granted(mut self) {
        let granted = || self.waiter.granted.get().then_some(());
        self.waiter.told.until(granted).await;
        self.leased = true;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.leased {
            return;
        }
        if self.waiter.granted.get() {
            return self.share.give_back(self.waiter.amount);
        }
        let mut waiters = self.share.waiters.borrow_mut();
        waiters.retain(|other| !Rc::ptr_eq(other, &self.waiter));
        if waiters.is_empty() {
            let mut queue = self.share.budget.queue.borrow_mut();
            queue.retain(|other| !Rc::ptr_eq(other, self.share));
        }
        drop(waiters);
        // It may have stood in the way of others.
        self.share.budget.serve();
    }
}

/// What is held of a [`Budget`]; goes back when dropped.
#[must_use = "it is given back at once otherwise"]
pub struct Lease {
    share: Rc<Share>,
    amount: u64,
}

impl Lease {
    /// How much it is.
    pub fn amount(&self) -> u64 {
        self.amount
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.share.give_back(self.amount);
    }
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;
