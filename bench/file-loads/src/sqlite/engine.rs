//! SQLite with a hook for `ioctl`, since SQLite uses the ioctls of atomic writes on every filesystem that supports
//! them.
//!
//! Invariant: the hook is set before a database is opened, under a lock, and SQLite's own call is restored when the
//! database is closed. So one database is open at a time.
#![allow(unsafe_code, reason = "SQLite's hook for system calls is one in C")]

use std::ffi::{c_char, c_int};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ffi};

use super::SqliteMode;

/// Rows that are inserted before the measurement.
const ROWS: i64 = 1_000;
/// Bytes of each row.
const BYTES: i64 = 100;
/// Commits before the measurement.
const FIRST: i64 = 10;

/// Lock of the open database.
static IS_OPEN: Mutex<()> = Mutex::new(());

type SyscallPointer = ffi::sqlite3_syscall_ptr;

/// A hook that disables `ioctl`, so that SQLite does not detect atomic writes.
struct NoIoctl;

impl NoIoctl {
    fn new() -> io::Result<NoIoctl> {
        extern "C" fn refused() -> c_int {
            -1
        }
        // SAFETY: SQLite stores the hook as a pointer to any function. SQLite calls the hook as a variadic C function,
        // of which the caller passes and removes the arguments, and expects an `int`, which the hook returns.
        let refused: unsafe extern "C" fn() =
            unsafe { std::mem::transmute::<extern "C" fn() -> c_int, _>(refused) };
        set_ioctl(Some(refused))?;
        Ok(NoIoctl)
    }
}

impl Drop for NoIoctl {
    fn drop(&mut self) {
        // Restores SQLite's own call.
        let _ = set_ioctl(None);
    }
}

fn set_ioctl(call: SyscallPointer) -> io::Result<()> {
    const NAME: *const c_char = c"ioctl".as_ptr();
    // SAFETY: the pointer is SQLite's own structure for the system, which lives as long as the program. The structure
    // is changed under `IS_OPEN` while no database is open.
    let result = unsafe {
        let system = ffi::sqlite3_vfs_find(std::ptr::null());
        match system.as_ref().and_then(|system| system.xSetSystemCall) {
            Some(set) => set(system, NAME, call),
            None => ffi::SQLITE_NOTFOUND,
        }
    };
    match result {
        ffi::SQLITE_OK => Ok(()),
        error => Err(io::Error::other(format!("SQLite's ioctl: error {error}"))),
    }
}

/// The only open database, with some rows.
pub struct SqliteDatabase {
    // Fields are dropped in this order: the connection is closed, then SQLite's calls are restored, then the lock is
    // released.
    connection: Connection,
    _calls: Option<NoIoctl>,
    _is_open: MutexGuard<'static, ()>,
    next: i64,
}

impl SqliteDatabase {
    /// Creates a database in a directory, ready for the measurement. Returns `None` if this mode is not supported
    /// there.
    ///
    /// # Errors
    /// SQLite's errors.
    pub fn open(dir: &Path, mode: SqliteMode) -> io::Result<Option<SqliteDatabase>> {
        let is_open = IS_OPEN.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = match mode {
            SqliteMode::Atomic => None,
            _ => Some(NoIoctl::new()?),
        };
        let path = dir.join("database");
        let connection = Connection::open(&path).map_err(io::Error::other)?;
        // A persistent journal shows whether SQLite used a journal.
        let name = match mode {
            SqliteMode::Atomic => SqliteMode::Persist.name(),
            mode => mode.name(),
        };
        let set = connection
            .pragma_update_and_check(None, "journal_mode", name, |row| row.get::<_, String>(0));
        if set.map_err(io::Error::other)? != name {
            return Ok(None);
        }
        let made = format!(
            "pragma synchronous = full;
             create table rows (number integer primary key, data blob);
             with recursive n (value) as (select 0 union all select value + 1 from n where value < {ROWS} - 1)
             insert into rows select value, randomblob({BYTES}) from n;"
        );
        connection.execute_batch(&made).map_err(io::Error::other)?;
        let mut database = SqliteDatabase {
            connection,
            _calls: calls,
            _is_open: is_open,
            next: 0,
        };
        let journal = journal(&path);
        if mode == SqliteMode::Atomic && journal.exists() {
            std::fs::remove_file(&journal)?;
        }
        for _ in 0..FIRST {
            database.one()?;
        }
        Ok((mode != SqliteMode::Atomic || !journal.exists()).then_some(database))
    }

    /// Runs one transaction after the other for a time. Returns the number of commits.
    ///
    /// # Errors
    /// SQLite's errors, and missing committed data.
    pub fn commit(&mut self, lasts: Duration) -> io::Result<u64> {
        let (began, first) = (Instant::now(), self.next);
        while self.next == first || began.elapsed() < lasts {
            self.one()?;
        }
        let there = self
            .connection
            .query_row("select count(*) from rows", [], |row| row.get::<_, i64>(0));
        if there.map_err(io::Error::other)? == ROWS + self.next {
            Ok((self.next - first).unsigned_abs())
        } else {
            Err(io::Error::other("SQLite lost what it committed"))
        }
    }

    /// Inserts a row and changes another row.
    fn one(&mut self) -> io::Result<()> {
        let transaction = self.connection.transaction().map_err(io::Error::other)?;
        for query in [
            "insert into rows values (?1, randomblob(?2))",
            "update rows set data = randomblob(?2) where number = ?1 * 7919 % 1000",
        ] {
            let mut query = transaction.prepare(query).map_err(io::Error::other)?;
            let values = (ROWS + self.next, BYTES);
            query.execute(values).map_err(io::Error::other)?;
        }
        transaction.commit().map_err(io::Error::other)?;
        self.next += 1;
        Ok(())
    }
}

fn journal(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push("-journal");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_commits_and_only_file_journal_modes_keep_a_journal() {
        for mode in SqliteMode::ALL {
            let dir = tempfile::tempdir().unwrap();
            let Some(mut database) = SqliteDatabase::open(dir.path(), mode).unwrap() else {
                assert_eq!(mode, SqliteMode::Atomic);
                continue;
            };
            assert!(database.commit(Duration::ZERO).unwrap() > 0);
            let is_there = journal(&dir.path().join("database")).exists();
            assert_eq!(
                is_there,
                matches!(mode, SqliteMode::Truncate | SqliteMode::Persist)
            );
        }
    }
}
