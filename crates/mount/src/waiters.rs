//! Limit on the requests that wait for the kernel to forget cached pages of files.
//!
//! These requests do not occupy a slot of `forebay_fuse::ActiveRequest`, so they need their own limit. A request
//! beyond the limit is refused before it changes anything.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// Maximum number of waiting requests of all users.
const WAITERS_MAX: usize = 4096;
/// Maximum of one user, so that no user blocks all others.
const OF_USER_MAX: usize = WAITERS_MAX / 2;

/// Requests that wait for the kernel, or may wait for it.
#[derive(Default)]
pub(crate) struct KernelWaiters(RefCell<WaiterCounts>);

#[derive(Default)]
struct WaiterCounts {
    all: usize,
    of: BTreeMap<u32, usize>,
}

/// A waiting request. Dropping the value ends the wait.
pub(crate) struct KernelWaiter<'a> {
    all: &'a KernelWaiters,
    user: u32,
}

impl KernelWaiters {
    /// Counts one more request of this user, unless a limit is reached.
    pub(crate) fn enter(&self, user: u32) -> Option<KernelWaiter<'_>> {
        let mut counts = self.0.borrow_mut();
        let of_user = counts.of.get(&user).copied().unwrap_or(0);
        if counts.all >= WAITERS_MAX || of_user >= OF_USER_MAX {
            return None;
        }
        counts.all += 1;
        counts.of.insert(user, of_user + 1);
        Some(KernelWaiter { all: self, user })
    }
}

impl Drop for KernelWaiter<'_> {
    fn drop(&mut self) {
        let mut counts = self.all.0.borrow_mut();
        counts.all -= 1;
        if let Some(count) = counts.of.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                counts.of.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_cannot_take_all_waiters_and_all_are_returned() {
        let waiters = KernelWaiters::default();
        let first: Vec<_> = std::iter::from_fn(|| waiters.enter(1)).collect();
        assert_eq!(first.len(), OF_USER_MAX);
        let second: Vec<_> = std::iter::from_fn(|| waiters.enter(2)).collect();
        assert_eq!(second.len(), WAITERS_MAX - OF_USER_MAX);
        assert!(waiters.enter(3).is_none());
        drop(first);
        assert!(waiters.enter(1).is_some() && waiters.enter(3).is_some());
        drop(second);
        assert!(waiters.0.borrow().of.is_empty() && waiters.0.borrow().all == 0);
    }
}
