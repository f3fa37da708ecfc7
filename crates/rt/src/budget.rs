//! Sharing a bounded amount, such as memory, among accounts that need a part of the amount to make progress.
//!
//! Each participant has an [`BudgetAccount`] with a *reserve*: an amount that is always available to it, whatever the others
//! hold. The rest is shared by all accounts in turn. So a participant that never returns anything (a client that
//! receives no replies) can exhaust the shared part, but cannot block a participant that makes progress with its
//! reserve alone.
//!
//! Invariants:
//! - An account claims the amount it holds, and never less than its reserve. The sum of all claims is within the bound.
//!   So a lease within the account's reserve is granted at once.
//! - The bound leaves space for all reserves and the largest single lease. So the first waiter in the queue is served
//!   once the shared part is returned, even if it asks for the largest lease.
//! - A waiter holds no part of the lease it waits for: a lease is granted as a whole or not at all.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use crate::Event;

/// A bound on the sum that all accounts hold. Clones share the budget. Amounts are in any unit that the caller chooses.
#[derive(Clone)]
pub struct Budget(Rc<BudgetState>);

struct BudgetState {
    bound: u64,
    largest: u64,
    /// Sum of the held amounts.
    held: Cell<u64>,
    /// Sum over all accounts of the held amount or the reserve, whichever is larger.
    claimed: Cell<u64>,
    /// Sum of all reserves.
    promised: Cell<u64>,
    /// Accounts with waiters, in the order of service.
    queue: RefCell<VecDeque<Rc<AccountState>>>,
}

/// State of one account. It lives as long as the account, a lease from it, or a waiter.
struct AccountState {
    budget: Rc<BudgetState>,
    reserve: u64,
    held: Cell<u64>,
    /// Waiters in order of arrival. Invariant: the account is in the budget's queue, once, exactly if this list is not
    /// empty.
    waiters: RefCell<VecDeque<Rc<BudgetWaiter>>>,
}

struct BudgetWaiter {
    amount: u64,
    granted: Cell<bool>,
    told: Event,
}

/// The source of a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LeaseSource {
    Reserve,
    Shared,
    None,
}

impl Budget {
    /// Creates a budget of `bound`, whose largest single lease is `largest`.
    ///
    /// # Panics
    /// If the largest lease is larger than the bound.
    pub fn new(bound: u64, largest: u64) -> Budget {
        assert!(largest <= bound, "a lease of {largest} in all of {bound}");
        Budget(Rc::new(BudgetState {
            bound,
            largest,
            held: Cell::new(0),
            claimed: Cell::new(0),
            promised: Cell::new(0),
            queue: RefCell::default(),
        }))
    }

    /// Returns the bound on the sum that all accounts hold.
    pub fn bound(&self) -> u64 {
        self.0.bound
    }

    /// Returns the amount held now.
    pub fn held(&self) -> u64 {
        self.0.held.get()
    }

    /// Opens an account with the reserve `reserve`, which is kept as long as the account or a lease from it exists.
    /// `None` if the reserves of the others, or the amounts they hold now, do not leave enough.
    pub fn account(&self, reserve: u64) -> Option<BudgetAccount> {
        let budget = &self.0;
        let promised = budget.promised.get().checked_add(reserve)?;
        let claimed = budget.claimed.get().checked_add(reserve)?;
        if promised.checked_add(budget.largest)? > budget.bound || claimed > budget.bound {
            return None;
        }
        budget.promised.set(promised);
        budget.claimed.set(claimed);
        Some(BudgetAccount(Rc::new(AccountState {
            budget: Rc::clone(budget),
            reserve,
            held: Cell::new(0),
            waiters: RefCell::default(),
        })))
    }
}

impl BudgetState {
    /// Grants all leases that can be granted: each account in the queue in turn, one lease at a time. If the shared
    /// part does not suffice for a waiter, the waiters behind it get nothing from the shared part, but still get their
    /// reserves.
    fn serve(&self) {
        let mut queue = self.queue.borrow_mut();
        let (mut at, mut contested) = (0, false);
        while let Some(share) = queue.get(at) {
            let first = share.waiters.borrow().front().map(Rc::clone);
            let first = first.expect("an account in the queue has somebody waiting");
            let room = share.room(first.amount);
            if room == LeaseSource::None || (room == LeaseSource::Shared && contested) {
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

impl AccountState {
    fn claim(&self) -> u64 {
        self.held.get().max(self.reserve)
    }

    fn room(&self, amount: u64) -> LeaseSource {
        let after = self.held.get() + amount;
        if after <= self.reserve {
            return LeaseSource::Reserve;
        }
        if self.budget.claimed.get() - self.claim() + after <= self.budget.bound {
            LeaseSource::Shared
        } else {
            LeaseSource::None
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

impl Drop for AccountState {
    fn drop(&mut self) {
        let (budget, reserve) = (&self.budget, self.reserve);
        debug_assert_eq!(self.held.get(), 0, "leases keep their account");
        budget.claimed.set(budget.claimed.get() - reserve);
        budget.promised.set(budget.promised.get() - reserve);
        budget.serve();
    }
}

/// A participant of a [`Budget`]. Clones share the account.
///
/// Permanently held amounts must leave enough of the reserve for the largest lease that the account asks for. Otherwise
/// this lease may never be granted.
#[derive(Clone)]
pub struct BudgetAccount(Rc<AccountState>);

impl BudgetAccount {
    /// Waits until `amount` is granted. The lease holds the amount until it is dropped. Waiters of one account are
    /// served in order of arrival, and accounts in turn. Dropping the future before it is done holds nothing.
    ///
    /// # Panics
    /// If `amount` is larger than the largest lease of the budget.
    pub async fn lease(&self, amount: u64) -> BudgetLease {
        let largest = self.0.budget.largest;
        assert!(amount <= largest, "a lease of {amount}, at most {largest}");
        let share = &self.0;
        let alone = share.budget.queue.borrow().is_empty();
        if alone && share.room(amount) != LeaseSource::None {
            share.take(amount);
        } else {
            BudgetWaiterGuard::new(share, amount).granted().await;
        }
        BudgetLease {
            share: Rc::clone(share),
            amount,
        }
    }
}

/// A waiter of an account. Dropping it removes the waiter.
struct BudgetWaiterGuard<'a> {
    share: &'a Rc<AccountState>,
    waiter: Rc<BudgetWaiter>,
    /// The granted amount has become a lease.
    leased: bool,
}

impl BudgetWaiterGuard<'_> {
    fn new(share: &Rc<AccountState>, amount: u64) -> BudgetWaiterGuard<'_> {
        let waiter = Rc::new(BudgetWaiter {
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
        // The amount may be within the reserve.
        share.budget.serve();
        BudgetWaiterGuard {
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

impl Drop for BudgetWaiterGuard<'_> {
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
        // This waiter may have blocked others.
        self.share.budget.serve();
    }
}

/// An amount held of a [`Budget`], returned on drop.
#[must_use = "it is given back at once otherwise"]
pub struct BudgetLease {
    share: Rc<AccountState>,
    amount: u64,
}

impl BudgetLease {
    /// Returns the amount.
    pub fn amount(&self) -> u64 {
        self.amount
    }
}

impl Drop for BudgetLease {
    fn drop(&mut self) {
        self.share.give_back(self.amount);
    }
}

#[cfg(test)]
#[path = "budget_tests.rs"]
mod tests;
