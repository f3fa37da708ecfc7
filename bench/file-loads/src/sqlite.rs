//! SQLite: small transactions, each durable before the next, in each of SQLite's journal modes.
//!
//! SQLite is included only with the feature `sqlite`, since a storage daemon does not need it otherwise.

#[cfg_attr(not(feature = "sqlite"), path = "sqlite/absent.rs")]
#[cfg_attr(feature = "sqlite", path = "sqlite/engine.rs")]
mod engine;

pub use engine::SqliteDatabase;

/// True if SQLite is included. Without SQLite no database can be opened.
pub const IS_BUILT_IN: bool = cfg!(feature = "sqlite");

/// Mechanism that undoes a transaction after a power failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SqliteMode {
    /// A rollback journal, which the commit removes.
    Delete,
    /// A rollback journal, which the commit truncates.
    Truncate,
    /// A rollback journal, whose header the commit overwrites.
    Persist,
    /// A write-ahead log, whose content is written in place later.
    Wal,
    /// Atomic writes of the filesystem, by the ioctls of F2FS.
    Atomic,
}

impl SqliteMode {
    /// All modes, in the order of SQLite's manual.
    pub const ALL: [SqliteMode; 5] = [
        SqliteMode::Delete,
        SqliteMode::Truncate,
        SqliteMode::Persist,
        SqliteMode::Wal,
        SqliteMode::Atomic,
    ];

    /// Returns SQLite's name of the mode.
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
