//! SQLite, built to use the atomic writes of F2FS: it detects them here, and commits without a journal.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use forebay_rng::Rng;
use rusqlite::{Connection, TransactionBehavior};

use crate::committing::{CommittingProgram, daemon_killed};
use crate::harness::{DatabaseMount, rounds, this_program};
use crate::system::installed;

const DATABASE: &str = "FOREBAY_TEST_DATABASE";
/// The number from which a process commits rows, if not 0. Several processes commit to disjoint ranges.
const FROM: &str = "FOREBAY_TEST_FROM";
/// The journal mode, if not the default of SQLite.
const MODE: &str = "FOREBAY_TEST_JOURNAL_MODE";
/// Numbers in the range of each process.
const EACH: i64 = 1_000_000;

fn opened(path: &Path) -> Connection {
    let database = Connection::open(path).expect("opened");
    // Other processes may hold the lock for long on a busy machine.
    let patience = Duration::from_secs(60);
    database.busy_timeout(patience).expect("set");
    let made = database.execute_batch(
        "pragma synchronous = full;
         create table if not exists rows (number integer primary key, data blob);
         create table if not exists sums (bytes integer);",
    );
    made.expect("made");
    database
}

fn number(database: &Connection, query: &str) -> i64 {
    let got = database.query_row(query, [], |row| row.get(0));
    got.expect("a number")
}

/// Returns the last row of the process that commits rows from this number on.
fn last_row(database: &Connection, from: i64) -> i64 {
    let end = from + EACH;
    let query = format!(
        "select coalesce(max(number), {from}) from rows where number > {from} and number < {end}"
    );
    number(database, &query)
}

fn is_sound(database: &Connection) {
    let sound = database.query_row("pragma integrity_check", [], |row| row.get::<_, String>(0));
    assert_eq!(sound.expect("checked"), "ok");
}

/// Commits row after row and prints each, if another test starts it for this purpose, until it is killed.
#[test]
fn helper_commits_rows_until_it_is_killed() {
    let Some(path) = std::env::var_os(DATABASE) else {
        return;
    };
    let mut database = opened(Path::new(&path));
    if let Ok(mode) = std::env::var(MODE) {
        let set = database.pragma_update(None, "journal_mode", mode);
        set.expect("set");
    }
    let from = std::env::var(FROM).map_or(0, |from| from.parse().expect("a number"));
    let mut next = 1 + last_row(&database, from);
    loop {
        // Other processes may be committing.
        let all = database.transaction_with_behavior(TransactionBehavior::Immediate);
        let all = all.expect("begun");
        let size = (next * 7919) % 20_000;
        let row = "insert into rows values (?1, randomblob(?2))";
        all.execute(row, [next, size]).expect("inserted");
        let changed = "update rows set data = randomblob(length(data)) where number = ?1";
        let before = from + (next - from) / 2;
        all.execute(changed, [before]).expect("changed");
        all.commit().expect("committed");
        println!("row {next}");
        next += 1;
    }
}

#[test]
fn sqlite_commits_without_a_journal() {
    let Some(mounted) = DatabaseMount::new("sqlite_commits_without_a_journal") else {
        return;
    };
    let path = mounted.dir().join("a.db");
    let journal = mounted.dir().join("a.db-journal");
    // In this mode, a journal file would remain, with a header of zeroes.
    let database = opened(&path);
    database
        .pragma_update(None, "journal_mode", "persist")
        .expect("set");
    let _ = std::fs::remove_file(&journal);
    for n in 0..20 {
        let row = "insert into rows values (?1, randomblob(100000))";
        database.execute(row, [n]).expect("committed");
    }
    assert!(!journal.exists());
    database
        .execute("delete from rows where number > 3", [])
        .expect("committed");
    assert!(!journal.exists());
    is_sound(&database);
    // A transaction that does not fit a batch uses the journal, as elsewhere.
    let many = "with recursive n (value) as (select 100 union all select value + 1 from n where value < 199)
        insert into rows select value, randomblob(1000000) from n";
    database.execute(many, []).expect("committed");
    assert_eq!(number(&database, "select count(*) from rows"), 104);
    is_sound(&database);
    drop(database);
    mounted.finish();
}

/// Returns a command that runs this program to commit rows from a number on.
fn program(path: &Path, from: i64) -> Command {
    let test = "sqlite::helper_commits_rows_until_it_is_killed";
    let mut program = this_program(test, DATABASE, path);
    program.env(FROM, from.to_string());
    program
}

/// Returns the last row of a sound database, which has all rows before it.
fn last_of_all(path: &Path) -> i64 {
    let database = opened(path);
    is_sound(&database);
    let (count, last) = (
        number(&database, "select count(*) from rows"),
        number(&database, "select coalesce(max(number), 0) from rows"),
    );
    assert_eq!(count, last);
    last
}

/// Calls [`last_of_all`], and checks that the last row is the committed row or the next.
fn has_rows(path: &Path, committed: i64) -> i64 {
    let last = last_of_all(path);
    let may_be = committed..=committed + 1;
    assert!(may_be.contains(&last), "{last} after {committed}");
    last
}

#[test]
fn rows_committed_by_sqlite_survive_a_kill_of_sqlite_at_any_moment() {
    let test = "rows_committed_by_sqlite_survive_a_kill_of_sqlite_at_any_moment";
    let Some(mounted) = DatabaseMount::new(test) else {
        return;
    };
    let path = mounted.dir().join("a.db");
    drop(opened(&path));
    let (rng, mut last) = (Rng::new(11), 0);
    for round in 0..rounds(12) {
        let mut committing = CommittingProgram::start(&mut program(&path, 0));
        last = committing.wait_beyond(last + 1 + rng.below(40).cast_signed(), &rng);
        last = committing.last(last);
        assert!(!path.with_extension("db-journal").exists(), "round {round}");
        last = has_rows(&path, last);
    }
    mounted.finish();
}

/// A process killed during a commit releases its locks at once, but its files are known to be closed only a little
/// later. The next holder of the lock must not find uncommitted data in the page cache. (When such data was left in the
/// cache, the database was malformed after some tens of kills.)
#[test]
fn a_concurrent_committer_sees_no_uncommitted_data_of_a_killed_process() {
    let test = "a_concurrent_committer_sees_no_uncommitted_data_of_a_killed_process";
    let Some(mounted) = DatabaseMount::new(test) else {
        return;
    };
    let path = mounted.dir().join("a.db");
    drop(opened(&path));
    let rng = Rng::new(13);
    let mut lasts = [0, EACH, 2 * EACH];
    for _ in 0..rounds(2) {
        let all =
            lasts.map(|last| CommittingProgram::start(&mut program(&path, last / EACH * EACH)));
        let mut all: Vec<CommittingProgram> = all.into_iter().collect();
        for (one, last) in all.iter_mut().zip(&mut lasts) {
            *last = one.wait_beyond(*last + 1 + rng.below(3).cast_signed(), &rng);
        }
        // One after the other, so that the other processes go on.
        for (mut one, last) in all.into_iter().zip(&mut lasts) {
            one.kill();
            *last = one.last(*last);
        }
        let database = opened(&path);
        is_sound(&database);
        for last in &mut lasts {
            let from = *last / EACH * EACH;
            let there = last_row(&database, from);
            let query =
                format!("select count(*) from rows where number > {from} and number <= {there}");
            assert_eq!(number(&database, &query), there - from);
            assert!((*last..=*last + 1).contains(&there), "{there} after {last}");
            *last = there;
        }
    }
    mounted.finish();
}

/// Modes in which this build of SQLite commits in one atomic change, and keeps no journal in a file; and its own log.
/// Without a journal (`off`), SQLite guarantees nothing after a crash, here as elsewhere.
#[test]
fn rows_committed_by_sqlite_survive_a_daemon_kill_at_any_moment() {
    let test = "rows_committed_by_sqlite_survive_a_daemon_kill_at_any_moment";
    for mode in ["delete", "truncate", "persist", "memory", "wal"] {
        let Some(mounted) = DatabaseMount::new(test) else {
            return;
        };
        let path = mounted.dir().join("a.db");
        let start = |_| {
            let mut program = program(&path, 0);
            program.env(MODE, mode);
            program
        };
        let check = || {
            assert!(!path.with_extension("db-journal").exists(), "{mode}");
            last_of_all(&path)
        };
        drop(opened(&path));
        daemon_killed((&format!("sqlite, {mode}"), &mounted), 2, start, check);
        mounted.finish();
    }
}

/// Debian's SQLite does not use atomic changes: all its journals are files. In mode `memory` it guarantees nothing
/// after a crash. In mode `delete` it makes the end of the journal durable, and with it the commit, only with
/// `synchronous = extra`.
#[test]
fn rows_committed_by_the_system_sqlite_survive_a_daemon_kill() {
    let test = "rows_committed_by_the_system_sqlite_survive_a_daemon_kill";
    if !installed(test, &["sqlite3", "stdbuf"]) {
        return;
    }
    let scratch = tempfile::tempdir().expect("made");
    let script = scratch.path().join("script");
    for mode in ["delete", "truncate", "persist", "wal"] {
        let Some(mounted) = DatabaseMount::new(test) else {
            return;
        };
        let path = mounted.dir().join("a.db");
        drop(opened(&path));
        let start = |_| {
            write_script(&script, mode).expect("written");
            let mut program = Command::new("stdbuf");
            program
                .args(["-oL", "sqlite3", "-batch", "-bail"])
                .arg(&path);
            program.stdin(File::open(&script).expect("opened"));
            program
        };
        let what = format!("sqlite of the system, {mode}");
        daemon_killed((&what, &mounted), 1, start, || last_of_all(&path));
        mounted.finish();
    }
}

/// Writes a script for the system's SQLite, with transactions like those of this program.
fn write_script(path: &Path, mode: &str) -> io::Result<()> {
    let mut script = io::BufWriter::new(File::create(path)?);
    writeln!(
        script,
        "pragma busy_timeout = 60000; pragma synchronous = extra;"
    )?;
    writeln!(script, "pragma journal_mode = {mode};")?;
    for _ in 0..2000 {
        writeln!(
            script,
            "begin immediate;
             insert into rows select n + 1, randomblob((n + 1) * 7919 % 20000)
                 from (select coalesce(max(number), 0) as n from rows);
             update rows set data = randomblob(length(data))
                 where number = (select max(number) / 2 from rows);
             commit;
             select 'row ' || max(number) from rows;"
        )?;
    }
    script.flush()
}
