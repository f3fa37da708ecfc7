use std::cell::RefCell;
use std::future::Future;
use std::time::Duration;

use forebay_rng::Rng;
use futures_util::future::{FutureExt, join_all};

use super::*;
use crate::{Executor, Rt, VirtualTime};

/// Runs `test` on a virtual clock. A task that waits for ever panics as a deadlock.
fn run<F: Future<Output = ()> + 'static>(test: impl FnOnce(Rt) -> F) {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    executor.block_on(test(executor.rt()));
}

/// Returns the output of a future that does not wait; `None` if it waits.
fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    future.now_or_never()
}

fn open(budget: &Budget, reserve: u64) -> BudgetAccount {
    budget.account(reserve).expect("room")
}

#[test]
fn a_lease_within_the_reserve_of_its_account_is_granted_at_once() {
    let budget = Budget::new(100, 50);
    let (one, other) = (open(&budget, 10), open(&budget, 10));
    let _all_there_is =
        [at_once(one.lease(50)), at_once(one.lease(40))].map(|lease| lease.unwrap());
    assert!(at_once(one.lease(1)).is_none());
    let reserve = at_once(other.lease(10)).unwrap();
    assert_eq!((budget.held(), reserve.amount()), (100, 10));
    assert!(at_once(other.lease(1)).is_none());
    drop(reserve);
    assert!(at_once(other.lease(10)).is_some());
}

#[test]
fn reserves_of_all_accounts_never_exceed_the_budget() {
    let budget = Budget::new(100, 50);
    let first = open(&budget, 30);
    assert!(budget.account(21).is_none());
    let _second = open(&budget, 20);
    assert!(budget.account(1).is_none());
    // A lease keeps its account, and the account keeps its reserve.
    let lease = at_once(first.lease(10)).unwrap();
    drop(first);
    assert!(budget.account(1).is_none());
    drop(lease);
    let first = open(&budget, 0);
    let what_is_left = [at_once(first.lease(50)), at_once(first.lease(30))].map(|l| l.unwrap());
    assert!(budget.account(30).is_none(), "others hold it");
    drop(what_is_left);
    open(&budget, 30);
}

#[test]
fn the_largest_lease_is_granted_although_smaller_leases_keep_coming() {
    run(async |rt| {
        let budget = Budget::new(100, 80);
        let small = open(&budget, 10);
        let large = open(&budget, 10);
        let users = (0..20).map(|_| {
            let (rt, small) = (rt.clone(), small.clone());
            rt.clone().spawn(async move {
                loop {
                    let _held = small.lease(10).await;
                    rt.sleep(Duration::from_millis(10)).await;
                }
            })
        });
        let _users: Vec<_> = users.collect();
        rt.sleep(Duration::from_secs(1)).await;
        let waits = rt.timeout(Duration::from_secs(1), large.lease(80)).await;
        assert!(waits.is_ok(), "small ones never made room");
    });
}

#[test]
fn accounts_are_served_in_rotation_and_each_account_in_order_of_arrival() {
    run(async |rt| {
        let budget = Budget::new(10, 10);
        let greedy = open(&budget, 0);
        let modest = open(&budget, 0);
        let first = greedy.lease(10).await;
        let order = Rc::new(RefCell::new(Vec::new()));
        let wait = |name: &'static str, account: &BudgetAccount| {
            let (account, order) = (account.clone(), Rc::clone(&order));
            rt.spawn(async move {
                let _held = account.lease(10).await;
                order.borrow_mut().push(name);
            })
        };
        let mut all: Vec<_> = ["a", "b", "c"].map(|name| wait(name, &greedy)).into();
        all.extend(["x", "y"].map(|name| wait(name, &modest)));
        rt.yield_now().await;
        drop(first);
        join_all(all).await;
        assert_eq!(*order.borrow(), ["a", "x", "b", "y", "c"]);
    });
}

#[test]
fn an_abandoned_wait_for_a_lease_blocks_no_other_waiter() {
    run(async |rt| {
        let budget = Budget::new(100, 100);
        let (one, other) = (open(&budget, 0), open(&budget, 0));
        let held = one.lease(50).await;
        {
            let mut abandoned = Box::pin(one.lease(60));
            assert!(abandoned.as_mut().now_or_never().is_none());
            let waiting = rt.spawn({
                let other = other.clone();
                async move { other.lease(50).await }
            });
            rt.yield_now().await;
            assert!(!waiting.is_finished(), "the first comes first");
            // Drop a waiter here, and below drop a waiter that was granted its lease but not polled since.
            drop(abandoned);
            let mut abandoned = Box::pin(one.lease(60));
            assert!(abandoned.as_mut().now_or_never().is_none());
            drop(waiting.await);
            drop(held);
            drop(abandoned);
        }
        assert_eq!(budget.held(), 0);
        assert!(at_once(other.lease(100)).is_some());
    });
}

#[test]
fn every_lease_is_eventually_granted_and_the_budget_is_never_exceeded() {
    const BOUND: u64 = 1000;
    const LARGEST: u64 = 400;
    run(async |rt| {
        let budget = Budget::new(BOUND, LARGEST);
        let mut users = Vec::new();
        for number in 0..12_u64 {
            let account = open(&budget, number % 4 * 20);
            for user in 0..4 {
                let (rt, budget, account) = (rt.clone(), budget.clone(), account.clone());
                users.push(rt.clone().spawn(async move {
                    let rng = Rng::new(number * 4 + user);
                    let below = |n| rng.below(n);
                    for _ in 0..200 {
                        let amount = if below(10) == 0 { LARGEST } else { below(100) };
                        let patience = Duration::from_millis(1 + below(200) * below(50));
                        let lease = rt.timeout(patience, account.lease(amount)).await;
                        assert!(budget.held() <= BOUND);
                        rt.sleep(Duration::from_millis(below(20))).await;
                        drop(lease);
                    }
                    // No task waits for ever.
                    drop(account.lease(LARGEST).await);
                }));
            }
        }
        join_all(users).await;
        assert_eq!(budget.held(), 0);
    });
}
