//! Counters that only grow: the order of segments, records and epochs in a log.

macro_rules! counter {
    ($(#[$doc:meta])* $name:ident, $word:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub u64);

        impl $name {
            /// Returns the next number.
            ///
            /// # Panics
            /// On overflow, which at a million a second is half a million years away.
            #[must_use]
            pub fn next(self) -> Self {
                self.plus(1)
            }

            /// Returns the number `n` steps after this number.
            ///
            /// # Panics
            /// On overflow.
            #[must_use]
            pub fn plus(self, n: u64) -> Self {
                Self(self.0.checked_add(n).expect(concat!($word, " number overflows")))
            }

            /// Returns the previous number, or the first number if this is the first.
            #[must_use]
            pub fn prev(self) -> Self {
                Self(self.0.saturating_sub(1))
            }

            /// Returns the number of steps from `earlier` to `self`; 0 if `self` is not later.
            pub fn since(self, earlier: Self) -> u64 {
                self.0.saturating_sub(earlier.0)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!($word, " {}"), self.0)
            }
        }
    };
}

counter!(
    /// Incarnation of a log, from a successful recovery to the next. Grows by one at each recovery.
    Epoch,
    "epoch"
);
counter!(
    /// Sequence number of a segment write: the n-th segment that was ever written in this log. Its place in the ring of
    /// N segments is `n mod N`.
    SegmentSeq,
    "segment"
);
counter!(
    /// A record's place in the order of all records ever appended to this log. The first is 1, so that 0 can mean "no
    /// record".
    RecordSeq,
    "record"
);
