//! In place of SQLite, where it is not built in.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::Mode;

/// None that could be there.
pub enum Database {}

impl Database {
    /// None.
    ///
    /// # Errors
    /// None.
    pub fn open(_dir: &Path, _mode: Mode) -> io::Result<Option<Database>> {
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
