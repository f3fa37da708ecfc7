//! SQLite: small transactions, each durable before the next, in each way that it can undo one.
//!
//! It is built in only with the feature `sqlite`, since nothing else that a storage daemon does needs it.

#[cfg_attr(not(feature = "sqlite"), path = "sqlite/absent.rs")]
#[cfg_attr(feature = "sqlite", path = "sqlite/engine.rs")]
mod engine;

pub use engine::SqliteDatabase;

/// Whether it is built in. Without it no database can be opened.
pub const IS_BUILT_IN: bool = cfg!(feature = "sqlite");

/// How a transaction can be undone, if power fails in the middle of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SqliteMode {
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

impl SqliteMode {
    /// All of them, in the order of SQLite's manual.
    pub const ALL: [SqliteMode; 5] = [
        SqliteMode::Delete,
        SqliteMode::Truncate,
        SqliteMode::Persist,
        SqliteMode::Wal,
        SqliteMode::Atomic,
    ];

    /// What SQLite calls it.
    pub fn name(self) -> &'static str {
        match self {
            SqliteMode::Delete => "delete",
            SqliteMode::Truncate => "truncate",
            SqliteMode::Persist => "persist",
            SqliteMode::Wal => "wal",
            SqliteMode::Atomic => "batch atomic write",
        }
    }
}
