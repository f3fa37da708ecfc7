//! SQLite: small transactions, each durable before the next, in each way that it can undo one.
//!
//! It is built in only with the feature `sqlite`, since nothing else that a storage daemon does needs it.

#[cfg_attr(not(feature = "sqlite"), path = "sqlite/absent.rs")]
#[cfg_attr(feature = "sqlite", path = "sqlite/engine.rs")]
mod engine;

pub use engine::Database;

/// Whether it is built in. Without it no database can be opened.
pub const IS_BUILT_IN: bool = cfg!(feature = "sqlite");

/// How a transaction can be undone, if power fails in the middle of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// By a journal of what was there, removed by the commit.
    Delete,
    /// By one that is cut off.
    Truncate,
    /// By one whose header is overwritten.
    Persist,
    /// What is new goes to a log, and home later.
    Wal,
    /// The filesystem makes all changes of one at once, by the ioctls of F2FS.
    Atomic,
}

impl Mode {
    /// All of them, in the order of SQLite's manual.
    pub const ALL: [Mode; 5] = [
        Mode::Delete,
        Mode::Truncate,
        Mode::Persist,
        Mode::Wal,
        Mode::Atomic,
    ];

    /// What SQLite calls it.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Delete => "delete",
            Mode::Truncate => "truncate",
            Mode::Persist => "persist",
            Mode::Wal => "wal",
            Mode::Atomic => "batch atomic write",
        }
    }
}
