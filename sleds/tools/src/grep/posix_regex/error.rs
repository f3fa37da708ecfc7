//! What can be wrong with a pattern, in the words of the GNU C library and of GNU grep.

/// Why a pattern is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("Unmatched [, [^, [:, [., or [=")]
    Bracket,
    #[error("Unmatched ( or \\(")]
    Open,
    #[error("Unmatched ) or \\)")]
    Close,
    #[error("Unmatched \\{{")]
    Brace,
    #[error("Invalid content of \\{{\\}}")]
    Interval,
    #[error("invalid content of \\{{\\}}")]
    IntervalForAutomaton,
    #[error("Invalid range end")]
    Range,
    #[error("Invalid back reference")]
    Backref,
    #[error("Trailing backslash")]
    Backslash,
    #[error("Invalid character class name")]
    Class,
    #[error("Invalid collation character")]
    Collation,
    #[error("Regular expression too big")]
    TooBig,
    #[error("regular expression too big")]
    TooBigForAutomaton,
    #[error("character class syntax is [[:space:]], not [:space:]")]
    LoneClass,
}
