//! A fair lock.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// A lock that is granted in order of arrival. The cost of locking and unlocking does not depend on the number of
/// waiters. [`crate::RangeLock`] locks ranges of a space.
#[derive(Default)]
pub struct Lock {
    line: RefCell<LockQueue>,
}

/// The holder, and the waiters behind it.
#[derive(Default)]
struct LockQueue {
    /// Number of claims before the first.
    passed: u64,
    /// Claims in order of arrival. The first holds the lock.
    claims: VecDeque<LockClaim>,
}

enum LockClaim {
    /// The claim holds the lock or waits for it.
    There(Option<Waker>),
    /// The claim was abandoned before its turn.
    GivenUp,
}

impl LockQueue {
    fn at(&mut self, number: u64) -> &mut LockClaim {
        &mut self.claims[(number - self.passed) as usize]
    }

    /// Removes a claim. Returns the claim with its own waker and, if it was the first, the waker of the next claim.
    fn leave(&mut self, number: u64) -> (LockClaim, Option<Waker>) {
        let own = std::mem::replace(self.at(number), LockClaim::GivenUp);
        if number != self.passed {
            return (own, None);
        }
        while let Some(LockClaim::GivenUp) = self.claims.front() {
            self.claims.pop_front();
            self.passed += 1;
        }
        match self.claims.front_mut() {
            Some(LockClaim::There(waker)) => (own, waker.take()),
            _ => (own, None),
        }
    }
}

impl Lock {
    /// Creates a free lock.
    pub fn new() -> Lock {
        Lock::default()
    }

    /// Waits for all earlier claims, then holds the lock until the guard is dropped. The claim is queued when the
    /// future is first polled. Dropping the future while it waits abandons the claim.
    pub async fn lock(self: &Rc<Self>) -> LockGuard {
        let guard = {
            let mut line = self.line.borrow_mut();
            let number = line.passed + line.claims.len() as u64;
            line.claims.push_back(LockClaim::There(None));
            LockGuard {
                lock: Rc::clone(self),
                number,
            }
        };
        LockWait(&guard).await;
        guard
    }

    /// Returns true if the lock is held.
    pub fn is_held(&self) -> bool {
        !self.line.borrow().claims.is_empty()
    }
}

/// Waits until a claim is the first.
struct LockWait<'a>(&'a LockGuard);

impl Future for LockWait<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let LockGuard { lock, number } = self.0;
        let mut line = lock.line.borrow_mut();
        if line.passed == *number {
            return Poll::Ready(());
        }
        let old = std::mem::replace(line.at(*number), LockClaim::There(Some(cx.waker().clone())));
        // The old waker may be the last reference to a task, whose drop must not find the lock borrowed.
        drop(line);
        drop(old);
        Poll::Pending
    }
}

/// Holds a [`Lock`] until dropped.
pub struct LockGuard {
    lock: Rc<Lock>,
    number: u64,
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        // End the borrow before wakers are used and dropped, which may drop another claim.
        let (_own, next) = self.lock.line.borrow_mut().leave(self.number);
        if let Some(next) = next {
            next.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Executor, VirtualTime};
    use std::time::Duration;

    #[test]
    fn a_lock_is_granted_in_order_of_arrival_and_skips_abandoned_waits() {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let rt = executor.rt();
        let work = async move {
            let (lock, order) = (Rc::new(Lock::new()), Rc::new(RefCell::new(Vec::new())));
            let first = lock.lock().await;
            let tasks: Vec<_> = (0..6)
                .map(|n| {
                    let (lock, order, rt2) = (Rc::clone(&lock), Rc::clone(&order), rt.clone());
                    rt.spawn(async move {
                        let _turn = lock.lock().await;
                        order.borrow_mut().push(n);
                        rt2.sleep(Duration::from_millis(10 - n)).await;
                    })
                })
                .collect();
            rt.yield_now().await;
            assert!(lock.is_held() && order.borrow().is_empty());
            let mut tasks = tasks.into_iter().enumerate();
            // The next claim, a claim in the middle and the last claim are abandoned.
            let mut kept = Vec::new();
            for (n, task) in &mut tasks {
                match n {
                    0 | 3 | 5 => drop(task),
                    _ => kept.push(task),
                }
            }
            drop(first);
            for task in kept {
                task.await;
            }
            assert_eq!(*order.borrow(), [1, 2, 4]);
            assert!(!lock.is_held());
            let _again = lock.lock().await;
            assert!(lock.is_held());
        };
        executor.block_on(work);
    }
}
