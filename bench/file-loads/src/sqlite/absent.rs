//! Replacement for SQLite in builds without the feature.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::SqliteMode;

/// A type without values.
pub enum SqliteDatabase {}

impl SqliteDatabase {
    /// Returns `None`.
    ///
    /// # Errors
    /// None.
    pub fn open(_dir: &Path, _mode: SqliteMode) -> io::Result<Option<SqliteDatabase>> {
        Ok(None)
    }

    /// Cannot be called, since the type has no values.
    ///
    /// # Errors
    /// None.
    pub fn commit(&mut self, _lasts: Duration) -> io::Result<u64> {
        match *self {}
    }
}
