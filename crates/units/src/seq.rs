//! Counters that only grow: the order of things in a log.

macro_rules! counter {
    ($(#[$doc:meta])* $name:ident, $word:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub u64);

        impl $name {
            /// The one after this.
            ///
            /// # Panics
            /// On overflow, which at a million a second is half a million years away.
            #[must_use]
            pub fn next(self) -> Self {
                self.plus(1)
            }

            /// The one `n` further on.
            ///
            /// # Panics
            /// On overflow.
            #[must_use]
            pub fn plus(self, n: u64) -> Self {
                Self(self.0.checked_add(n).expect(concat!($word, " number overflows")))
            }

            /// The one before this, or the first if there is none.
            #[must_use]
            pub fn prev(self) -> Self {
                Self(self.0.saturating_sub(1))
            }

            /// How many steps `self` is past `earlier`; 0 if it is not past it.
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
    /// One life of a log, from a successful recovery to the next. Grows by one at each recovery.
    Epoch,
    "epoch"
);
counter!(
    /// The use of a segment: the n-th segment ever written in this log. Its place in the ring of
    /// N segments is `n mod N`.
    SegmentSeq,
    "segment"
);
counter!(
    /// A record's place in the order of all records ever appended to this log. The first is 1, so
    /// that 0 can say "none yet".
    RecordSeq,
    "record"
);
