//! In place of SQLite, where it is not built in.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::SqliteMode;

/// None that could be there.
pub enum SqliteDatabase {}

impl SqliteDatabase {
    /// None.
    ///
    /// # Errors
    /// None.
    pub fn open(_dir: &Path, _mode: SqliteMode) -> io::Result<Option<SqliteDatabase>> {
        Ok(None)
    }

    /// Not called, since there is none.
    ///
    /// # Errors
    /// None.
    pub fn commit(&mut self, _lasts: Duration) -> io::Result<u64> {
        match *self {}
    }
}
