//! What can be wrong with a pattern, in the words of the GNU C library and of GNU grep.

/// Why a pattern is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PatternError {
    /// A bracket expression does not end.
    #[error("Unmatched [, [^, [:, [., or [=")]
    Bracket,
    /// A group does not end.
    #[error("Unmatched ( or \\(")]
    Open,
    /// A group ends that did not begin.
    #[error("Unmatched ) or \\)")]
    Close,
    /// An interval does not end.
    #[error("Unmatched \\{{")]
    Brace,
    /// An interval is not of numbers, or its end is before its start.
    #[error("Invalid content of \\{{\\}}")]
    Interval,
    /// A range's end is before its start, or is none.
    #[error("Invalid range end")]
    Range,
    /// A reference to a group that has not ended before it.
    #[error("Invalid back reference")]
    Backref,
    /// A pattern ends in a backslash.
    #[error("Trailing backslash")]
    Backslash,
    /// There is no such `[:class:]`.
    #[error("Invalid character class name")]
    Class,
    /// What is in `[.x.]` or `[=x=]`, or ends a range, has no place in the order of characters.
    #[error("Invalid collation character")]
    Collation,
    /// Too many repetitions, or an automaton would not fit into memory.
    #[error("Regular expression too big")]
    TooBig,
    /// A class without the brackets around it.
    #[error("character class syntax is [[:space:]], not [:space:]")]
    LoneClass,
}
