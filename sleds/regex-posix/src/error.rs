//! Errors in a pattern, with the texts of the GNU C library and of GNU grep.

/// Reason why a pattern is refused.
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
    /// An interval does not consist of numbers, or its end is before its start.
    #[error("Invalid content of \\{{\\}}")]
    Interval,
    /// A range's end is before its start, or is not a character.
    #[error("Invalid range end")]
    Range,
    /// A reference to a group that has not ended before it.
    #[error("Invalid back reference")]
    Backref,
    /// A pattern ends in a backslash.
    #[error("Trailing backslash")]
    Backslash,
    /// The class in `[:class:]` is unknown.
    #[error("Invalid character class name")]
    Class,
    /// The content of `[.x.]` or `[=x=]`, or the end of a range, has no place in the order of characters.
    #[error("Invalid collation character")]
    Collation,
    /// Too many repetitions, or an automaton would not fit into memory.
    #[error("Regular expression too big")]
    TooBig,
    /// A class without the brackets around it.
    #[error("character class syntax is [[:space:]], not [:space:]")]
    LoneClass,
}
