//! The state of members after a write that partly failed.
//!
//! The bytes at one position of all members, of which one has parity, are a *column*. A member is *stale* in a column
//! if its content at this position is incorrect. With at most one stale member, the others determine its correct
//! content.

/// A set of members, with a bit for each.
pub(crate) type MemberSet = u64;

/// The stale members of a column after a write, and the success of the write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ColumnOutcome {
    pub(crate) stale: MemberSet,
    pub(crate) done: bool,
}

/// Determines the result of a write in a column. The members `stale` were stale before. The members `wrote` were to be
/// written, including parity if it could be computed, and the writes of `failed` among them failed.
///
/// If at most one member lacks its correct content, the write has succeeded, since the others determine the content.
/// Otherwise the write has failed and is not acknowledged. Then the present content of the data members, old or new,
/// becomes the correct content, and parity becomes stale. The content of a data member that was stale before, and was
/// not written now, is lost.
pub(crate) fn settle(
    stale: MemberSet,
    wrote: MemberSet,
    failed: MemberSet,
    parity: MemberSet,
) -> ColumnOutcome {
    let without = failed | stale & !wrote | parity & !wrote;
    if without.count_ones() <= 1 {
        let done = true;
        return ColumnOutcome {
            stale: without,
            done,
        };
    }
    ColumnOutcome {
        stale: stale & !(wrote & !failed) | parity,
        done: failed == 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: MemberSet = 1;
    const B: MemberSet = 2;
    const C: MemberSet = 4;
    const P: MemberSet = 8;

    fn stale(before: MemberSet, wrote: MemberSet, failed: MemberSet) -> (MemberSet, bool) {
        let settled = settle(before, wrote, failed, P);
        (settled.stale, settled.done)
    }

    #[test]
    fn a_write_without_a_fault_leaves_no_written_member_stale() {
        assert_eq!(stale(0, A | P, 0), (0, true));
        assert_eq!(stale(A, A | P, 0), (0, true));
        assert_eq!(stale(B, A | P, 0), (B, true));
        assert_eq!(stale(P, A | P, 0), (0, true));
    }

    #[test]
    fn a_single_member_that_fails_becomes_stale() {
        assert_eq!(stale(0, A | P, A), (A, true));
        assert_eq!(stale(0, A | P, P), (P, true));
        assert_eq!(stale(A, A | P, A), (A, true));
        // The member with the parity is missing.
        assert_eq!(stale(P, A, 0), (P, true));
    }

    #[test]
    fn after_failures_of_two_members_the_data_is_kept_and_the_parity_is_stale() {
        assert_eq!(stale(0, A | P, A | P), (P, false));
        assert_eq!(stale(0, A | B | P, A | B), (P, false));
        assert_eq!(stale(P, A, A), (P, false));
    }

    #[test]
    fn a_stale_member_is_lost_when_another_member_fails() {
        assert_eq!(stale(B, A | P, A), (B | P, false));
        assert_eq!(stale(B, A | P, P), (B | P, false));
        // Data that was lost before stays lost. Data that is written now is safe without parity.
        assert_eq!(stale(B | P, A, 0), (B | P, true));
        assert_eq!(stale(B | C, B, 0), (C | P, true));
        // After the whole column is overwritten, nothing is stale.
        assert_eq!(stale(B | C, A | B | C | P, 0), (0, true));
    }
}
