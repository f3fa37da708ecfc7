//! What members have after a write of which some of it failed.
//!
//! The bytes at one place of all members, of which one has parity, are a *column*. A member is *stale* in a
//! column if what it has there is not what it should have. While no more than one is, the others say what
//! it should be.

/// A set of members, a bit for each.
pub(crate) type Set = u64;

/// Who is stale in a column, and whether the write was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Settled {
    pub(crate) stale: Set,
    pub(crate) done: bool,
}

/// What a write comes to in a column: in which `stale` were stale, of which the members `wrote` were to be
/// written (parity among them, if it could be told), and `failed` of these were not.
///
/// If no more than one member is without what it should have, the write is done: the others have it. Else
/// what the data members have counts, old or new, whose write has failed and is not acknowledged; parity does
/// not; and a data member that was stale before, and was not written now, is lost there.
pub(crate) fn settle(stale: Set, wrote: Set, failed: Set, parity: Set) -> Settled {
    let without = failed | stale & !wrote | parity & !wrote;
    if without.count_ones() <= 1 {
        let done = true;
        return Settled {
            stale: without,
            done,
        };
    }
    Settled {
        stale: stale & !(wrote & !failed) | parity,
        done: failed == 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Set = 1;
    const B: Set = 2;
    const C: Set = 4;
    const P: Set = 8;

    fn stale(before: Set, wrote: Set, failed: Set) -> (Set, bool) {
        let settled = settle(before, wrote, failed, P);
        (settled.stale, settled.done)
    }

    #[test]
    fn a_write_without_trouble_leaves_nobody_stale_that_it_wrote() {
        assert_eq!(stale(0, A | P, 0), (0, true));
        assert_eq!(stale(A, A | P, 0), (0, true));
        assert_eq!(stale(B, A | P, 0), (B, true));
        assert_eq!(stale(P, A | P, 0), (0, true));
    }

    #[test]
    fn one_member_may_fail_and_is_stale_then() {
        assert_eq!(stale(0, A | P, A), (A, true));
        assert_eq!(stale(0, A | P, P), (P, true));
        assert_eq!(stale(A, A | P, A), (A, true));
        // The parity's member is not there.
        assert_eq!(stale(P, A, 0), (P, true));
    }

    #[test]
    fn where_two_fail_the_data_counts_and_parity_does_not() {
        assert_eq!(stale(0, A | P, A | P), (P, false));
        assert_eq!(stale(0, A | B | P, A | B), (P, false));
        assert_eq!(stale(P, A, A), (P, false));
    }

    #[test]
    fn a_stale_member_is_lost_when_another_one_fails() {
        assert_eq!(stale(B, A | P, A), (B | P, false));
        assert_eq!(stale(B, A | P, P), (B | P, false));
        // What was lost before is found nowhere; what is written now is safe without parity.
        assert_eq!(stale(B | P, A, 0), (B | P, true));
        assert_eq!(stale(B | C, B, 0), (C | P, true));
        // Written over whole, nothing is lost any more.
        assert_eq!(stale(B | C, A | B | C | P, 0), (0, true));
    }
}
