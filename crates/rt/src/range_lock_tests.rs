use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Wake;

use proptest::prelude::*;

use super::*;

/// Counts its wakes.
#[derive(Default)]
struct WakeCount(AtomicU32);

impl Wake for WakeCount {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A claim on a range, which waits for the range or holds it.
struct RangeClaimant {
    range: Range<u64>,
    waiting: Option<Pin<Box<dyn Future<Output = RangeGuard>>>>,
    held: Option<RangeGuard>,
    woken: Arc<WakeCount>,
}

impl RangeClaimant {
    fn new(lock: &Rc<RangeLock>, range: Range<u64>) -> RangeClaimant {
        let (lock, claimed) = (Rc::clone(lock), range.clone());
        let mut claimant = RangeClaimant {
            range,
            waiting: Some(Box::pin(async move { lock.lock(claimed).await })),
            held: None,
            woken: Arc::default(),
        };
        claimant.poll();
        claimant
    }

    fn poll(&mut self) {
        let Some(waiting) = &mut self.waiting else {
            return;
        };
        let waker = Waker::from(Arc::clone(&self.woken));
        if let Poll::Ready(guard) = waiting.as_mut().poll(&mut Context::from_waker(&waker)) {
            self.held = Some(guard);
            self.waiting = None;
        }
    }

    fn wakes(&self) -> u32 {
        self.woken.0.load(Ordering::Relaxed)
    }
}

#[derive(Clone, Debug)]
enum RangeLockStep {
    Claim(u64, u64),
    /// Drops the n-th existing claim, held or waiting.
    Go(prop::sample::Index),
    /// Polls the n-th existing claim without a wake.
    Poll(prop::sample::Index),
}

fn step() -> impl Strategy<Value = RangeLockStep> {
    prop_oneof![
        6 => (0..40u64, prop_oneof![4 => 0..6u64, 1 => 0..40u64])
            .prop_map(|(at, len)| RangeLockStep::Claim(at, len)),
        5 => any::<prop::sample::Index>().prop_map(RangeLockStep::Go),
        1 => any::<prop::sample::Index>().prop_map(RangeLockStep::Poll),
    ]
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start.max(b.start) < a.end.min(b.end)
}

/// Returns true if the n-th claim must hold its range: no earlier claim overlaps. This is the lock's whole guarantee.
fn is_turn(claimants: &[RangeClaimant], n: usize) -> bool {
    let range = &claimants[n].range;
    claimants[..n]
        .iter()
        .all(|earlier| !overlap(&earlier.range, range))
}

/// Checks that predecessors and successors agree, and that stretches are within their bounds.
fn assert_consistent(state: &RangeLockState) {
    for (ticket, claim) in &state.claims {
        let edges = |of: &ClaimedRanges| of.parts(0..u64::MAX).collect::<Vec<_>>();
        for (part, earlier) in edges(&claim.before) {
            assert!(claim.range.start <= part.start && part.end <= claim.range.end);
            assert!(earlier < *ticket);
            let back: u64 = state.claims[&earlier]
                .after
                .parts(part.clone())
                .filter(|(_, later)| later == ticket)
                .map(|(part, _)| part.end - part.start)
                .sum();
            assert_eq!(back, part.end - part.start);
        }
        let sum = |parts: Vec<(Range<u64>, RangeTicket)>| -> u64 {
            parts
                .into_iter()
                .map(|(part, _)| part.end - part.start)
                .sum()
        };
        let lasts = edges(&state.last);
        let last = sum(lasts.into_iter().filter(|(_, who)| who == ticket).collect());
        let after = sum(edges(&claim.after));
        assert_eq!(after + last, claim.range.end - claim.range.start);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn overlapping_claims_are_granted_in_order_of_arrival_and_only_granted_claims_are_woken(
        steps in proptest::collection::vec(step(), 1..120)
    ) {
        let lock = Rc::new(RangeLock::new());
        let mut claimants: Vec<RangeClaimant> = Vec::new();
        for step in steps {
            match step {
                RangeLockStep::Claim(at, len) => claimants.push(RangeClaimant::new(&lock, at..at + len)),
                RangeLockStep::Go(n) if !claimants.is_empty() => {
                    let n = n.index(claimants.len());
                    claimants.remove(n);
                }
                RangeLockStep::Poll(n) if !claimants.is_empty() => {
                    let n = n.index(claimants.len());
                    claimants[n].poll();
                }
                RangeLockStep::Go(_) | RangeLockStep::Poll(_) => {}
            }
            assert_consistent(&lock.state.borrow());
            for n in 0..claimants.len() {
                let turn = is_turn(&claimants, n);
                let claimant = &mut claimants[n];
                if claimant.waiting.is_some() {
                    // The claim is woken exactly once, and only when it can proceed.
                    prop_assert_eq!(claimant.wakes(), u32::from(turn));
                    if turn {
                        claimant.poll();
                    }
                }
                prop_assert_eq!(claimant.held.is_some(), turn);
            }
            for at in 0..80 {
                let range = at..at + 3;
                let claimed = claimants.iter().any(|claimant| overlap(&claimant.range, &range));
                prop_assert_eq!(lock.is_claimed(&range), claimed);
            }
        }
        claimants.clear();
        let state = lock.state.borrow();
        prop_assert!(state.claims.is_empty() && state.last.0.is_empty());
    }
}

#[test]
fn a_release_wakes_a_single_claim_of_thousands_in_a_queue() {
    let lock = Rc::new(RangeLock::new());
    let mut claimants: Vec<RangeClaimant> =
        (0..4096).map(|_| RangeClaimant::new(&lock, 0..1)).collect();
    // Every third claim is abandoned before its turn.
    let mut n = 0;
    claimants.retain(|_| {
        n += 1;
        n % 3 != 2
    });
    while !claimants.is_empty() {
        assert!(claimants[0].held.is_some());
        claimants.remove(0);
        let woken = claimants.iter().filter(|claimant| claimant.wakes() > 0);
        assert_eq!(woken.count(), usize::from(!claimants.is_empty()));
        if let Some(next) = claimants.first_mut() {
            next.poll();
        }
    }
}
