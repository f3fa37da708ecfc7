//! SQLite, built to look for F2FS's atomic writes: it finds them here, and commits without a journal.

use std::io::{BufRead as _, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use forebay_rng::Rng;
use rusqlite::{Connection, TransactionBehavior};

use crate::harness::{Mounted, for_a_moment, rounds, this_program};

const DATABASE: &str = "FOREBAY_TEST_DATABASE";
/// From which number on who commits rows does so, if not from 0: so several do at a time.
const FROM: &str = "FOREBAY_TEST_FROM";
/// How many numbers there are for each then.
const EACH: i64 = 1_000_000;

fn opened(path: &Path) -> Connection {
    let database = Connection::open(path).expect("opened");
    // Others may be at it for long, on a busy machine.
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

/// The last row of who commits from a number on.
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

/// Commits row after row and says each, when another test starts it for that; until it is killed.
#[test]
fn commits_rows_when_another_test_starts_it_for_that() {
    let Some(path) = std::env::var_os(DATABASE) else {
        return;
    };
    let mut database = opened(Path::new(&path));
    let from = std::env::var(FROM).map_or(0, |from| from.parse().expect("a number"));
    let mut next = 1 + last_row(&database, from);
    loop {
        // Others may be at it.
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
    let Some(mounted) = Mounted::new("sqlite_commits_without_a_journal") else {
        return;
    };
    let path = mounted.dir().join("a.db");
    let journal = mounted.dir().join("a.db-journal");
    // A journal would stay, with a header of zeroes.
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
    // What does not fit a batch goes by the journal, as everywhere.
    let many = "with recursive n (value) as (select 100 union all select value + 1 from n where value < 199)
        insert into rows select value, randomblob(1000000) from n";
    database.execute(many, []).expect("committed");
    assert_eq!(number(&database, "select count(*) from rows"), 104);
    is_sound(&database);
    drop(database);
    mounted.finish();
}

/// A program that commits row after row.
struct Committing {
    program: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Committing {
    fn start(path: &Path) -> Committing {
        Committing::start_from(path, 0)
    }

    fn start_from(path: &Path, from: i64) -> Committing {
        let test = "sqlite::commits_rows_when_another_test_starts_it_for_that";
        let mut program = this_program(test, DATABASE, path)
            .env(FROM, from.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("started");
        let lines = BufReader::new(program.stdout.take().expect("piped")).lines();
        Committing { program, lines }
    }

    /// Waits until it has committed a row, and then for a moment.
    fn wait_beyond(&mut self, wanted: i64, rng: &Rng) -> i64 {
        let mut last = 0;
        while last < wanted {
            let line = self.lines.next().expect("it goes on").expect("read");
            last = row(&line).unwrap_or(last);
        }
        for_a_moment(rng);
        last
    }

    /// The last row it says that it committed, when it is no more.
    fn last(mut self, before: i64) -> i64 {
        let _ = self.program.kill();
        self.program.wait().expect("gone");
        let rows = self.lines.map_while(Result::ok);
        rows.filter_map(|line| row(&line)).last().unwrap_or(before)
    }
}

fn row(line: &str) -> Option<i64> {
    line.split_once("row ")?.1.parse().ok()
}

/// That it is sound, and has all rows up to one of those that were committed, or the one that was about to be. Says which.
fn has_rows(path: &Path, committed: i64) -> i64 {
    let database = opened(path);
    is_sound(&database);
    let (count, last) = (
        number(&database, "select count(*) from rows"),
        number(&database, "select coalesce(max(number), 0) from rows"),
    );
    assert_eq!(count, last);
    let may_be = committed..=committed + 1;
    assert!(may_be.contains(&last), "{last} after {committed}");
    last
}

#[test]
fn rows_that_sqlite_committed_are_there_after_it_was_killed_at_any_moment() {
    let test = "rows_that_sqlite_committed_are_there_after_it_was_killed_at_any_moment";
    let Some(mounted) = Mounted::new(test) else {
        return;
    };
    let path = mounted.dir().join("a.db");
    drop(opened(&path));
    let (rng, mut last) = (Rng::new(11), 0);
    for round in 0..rounds(12) {
        let mut committing = Committing::start(&path);
        last = committing.wait_beyond(last + 1 + rng.below(40).cast_signed(), &rng);
        last = committing.last(last);
        assert!(!path.with_extension("db-journal").exists(), "round {round}");
        last = has_rows(&path, last);
    }
    mounted.finish();
}

/// Who is killed in the middle of a commit gives its locks up at once, and is known to have closed its files a little later: who
/// waits for the locks must not find in the page cache what was never committed. (With what is kept left there, the database was
/// malformed after some tens of kills.)
#[test]
fn who_commits_beside_one_that_is_killed_finds_nothing_of_what_that_did_not_commit() {
    let test = "who_commits_beside_one_that_is_killed";
    let Some(mounted) = Mounted::new(test) else {
        return;
    };
    let path = mounted.dir().join("a.db");
    drop(opened(&path));
    let rng = Rng::new(13);
    let mut lasts = [0, EACH, 2 * EACH];
    for _ in 0..rounds(2) {
        let all = lasts.map(|last| Committing::start_from(&path, last / EACH * EACH));
        let mut all: Vec<Committing> = all.into_iter().collect();
        for (one, last) in all.iter_mut().zip(&mut lasts) {
            *last = one.wait_beyond(*last + 1 + rng.below(3).cast_signed(), &rng);
        }
        // One after the other, so that others go on.
        for (mut one, last) in all.into_iter().zip(&mut lasts) {
            one.program.kill().expect("killed");
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

#[test]
fn rows_that_sqlite_committed_are_there_after_the_daemon_was_killed_at_any_moment() {
    daemon_killed(
        "rows_that_sqlite_committed_are_there_after_the_daemon",
        None,
    );
}

#[test]
fn rows_that_sqlite_committed_to_a_log_are_there_after_the_daemon_was_killed_at_any_moment() {
    let test = "rows_that_sqlite_committed_to_a_log_are_there_after_the_daemon";
    daemon_killed(test, Some("wal"));
}

/// Kills who serves the files while rows are committed, without a journal or in another mode.
fn daemon_killed(test: &str, mode: Option<&str>) {
    let Some(mounted) = Mounted::new(test) else {
        return;
    };
    let path = mounted.dir().join("a.db");
    let database = opened(&path);
    if let Some(mode) = mode {
        // It stays so.
        let set = database.pragma_update(None, "journal_mode", mode);
        set.expect("set");
    }
    drop(database);
    let (rng, mut last) = (Rng::new(12), 0);
    for round in 0..rounds(3) {
        let mut committing = Committing::start(&path);
        last = committing.wait_beyond(last + 1 + rng.below(40).cast_signed(), &rng);
        mounted.kill();
        last = committing.last(last);
        mounted.mount_again(&rng);
        assert!(!path.with_extension("db-journal").exists(), "round {round}");
        last = has_rows(&path, last);
    }
    mounted.finish();
}
