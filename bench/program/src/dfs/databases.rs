//! Databases: MariaDB under sysbench, without doublewrite where the filesystem permits it, and commits of SQLite in
//! each of its journal modes.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_file_loads::mariadb::{self, DoublewriteMode, MariadbServer, MariadbSize};
use forebay_file_loads::sqlite::{IS_BUILT_IN, SqliteDatabase, SqliteMode};
use forebay_file_loads::{TimeTaken, measured, names};
use forebay_scratch::place::ScratchDir;
use forebay_scratch::stop::UserStop;

use super::places::{BenchPlace, EXT4, FOREBAY};

/// Amount of the measurements.
pub(super) struct DatabaseAmount {
    pub(super) size: MariadbSize,
    /// Duration of each load of MariaDB.
    pub(super) load: Duration,
    /// Duration of the commits of SQLite in each mode.
    pub(super) commits: Duration,
}

impl DatabaseAmount {
    pub(super) fn of(quick: bool) -> DatabaseAmount {
        let (pool, log, rows, load, commits) = if quick {
            (16 << 20, 16 << 20, 50_000, 4, 500)
        } else {
            (64 << 20, 64 << 20, 250_000, 20, 3_000)
        };
        DatabaseAmount {
            size: MariadbSize {
                pool,
                log,
                tables: 4,
                rows,
                threads: 4,
            },
            load: Duration::from_secs(load),
            commits: Duration::from_millis(commits),
        }
    }
}

/// Results of a database in one round.
pub(super) struct DatabaseRound {
    pub(super) transactions: u64,
    pub(super) took: TimeTaken,
    /// Bytes written to the device in this time, and until all data was durable.
    pub(super) written: u64,
    /// Pages that went through the doublewrite buffer.
    pub(super) pages_twice: u64,
}

/// Results in all places, round by round.
pub(super) type DatabaseRounds = BTreeMap<&'static str, Vec<DatabaseRound>>;

/// All measurements.
#[derive(Default)]
pub(super) struct DatabaseMeasurements {
    /// By doublewrite mode, since the places support different modes.
    pub(super) mariadb: BTreeMap<DoublewriteMode, DatabaseRounds>,
    /// Reason why MariaDB was not measured.
    pub(super) no_mariadb: Option<String>,
    /// By the index in [`SqliteMode::ALL`].
    pub(super) sqlite: BTreeMap<usize, DatabaseRounds>,
}

/// Places for MariaDB. Other places would give no further insight.
const SERVED: [&str; 3] = [FOREBAY, EXT4, "xfs"];

/// Returns the doublewrite modes of a place: the default, and pages written once.
fn pages(place: &BenchPlace) -> [DoublewriteMode; 2] {
    match place.name {
        FOREBAY => [DoublewriteMode::Twice, DoublewriteMode::AtomicIfFound],
        _ => [DoublewriteMode::Twice, DoublewriteMode::Unsafe],
    }
}

/// Measures all databases, in the given number of rounds.
pub(super) fn measure(
    scratch: &ScratchDir,
    places: &[BenchPlace],
    amount: &DatabaseAmount,
    rounds: u32,
    stop: &UserStop,
) -> CommandResult<DatabaseMeasurements> {
    let mut all = DatabaseMeasurements::default();
    let served = places.iter().filter(|place| SERVED.contains(&place.name));
    let served: Vec<(&BenchPlace, PathBuf)> = served
        .filter_map(|place| Some((place, place.dir.as_ref()?.join("mariadb"))))
        .collect();
    if let Err(why) = prepare(scratch, &served, amount, stop)? {
        eprintln!("forebay-bench: MariaDB is omitted: {why}");
        all.no_mariadb = Some(why);
    }
    if !IS_BUILT_IN {
        eprintln!("forebay-bench: SQLite is omitted: it is not built in, see the report");
    }
    for round in 1..=rounds {
        if all.no_mariadb.is_none() {
            mariadb_round(&served, amount, round, &mut all, stop)?;
        }
        if IS_BUILT_IN {
            sqlite_round(places, amount, round, &mut all, stop)?;
        }
    }
    for (_, data) in &served {
        if data.exists() {
            fs::remove_dir_all(data).map_err(CommandFailure::io)?;
        }
    }
    Ok(all)
}

/// Creates MariaDB's data once and copies the data to each place. Returns the reason if MariaDB cannot be measured.
fn prepare(
    scratch: &ScratchDir,
    served: &[(&BenchPlace, PathBuf)],
    amount: &DatabaseAmount,
    stop: &UserStop,
) -> CommandResult<Result<(), String>> {
    if let Some(program) = mariadb::missing() {
        return Ok(Err(format!("{program} is not installed")));
    }
    eprintln!("forebay-bench: MariaDB's tables");
    let data = scratch.dir().join("mariadb");
    if let Err(error) = MariadbServer::prepare(&data, amount.size, &|| stop.is_set()) {
        stop.check()?;
        return Ok(Err(error.to_string()));
    }
    for (place, to) in served {
        stop.check()?;
        copy(&data, to)
            .and_then(|()| names::sync(to))
            .map_err(|error| super::failed(place, "MariaDB's tables", &error))?;
    }
    fs::remove_dir_all(data).map_err(CommandFailure::io)?;
    Ok(Ok(()))
}

/// Copies a directory.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else {
            fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

fn mariadb_round(
    served: &[(&BenchPlace, PathBuf)],
    amount: &DatabaseAmount,
    round: u32,
    all: &mut DatabaseMeasurements,
    stop: &UserStop,
) -> CommandResult {
    for turn in 0..2 {
        for (place, data) in served {
            stop.check()?;
            let pages = pages(place)[turn];
            let name = place.name;
            eprintln!(
                "forebay-bench: MariaDB, round {round}, {name}, {}",
                how(pages)
            );
            let done = load(place, data, pages, amount, stop);
            let done = done.map_err(|error| stopped_or_failed(place, "MariaDB", &error, stop))?;
            let places = all.mariadb.entry(pages).or_default();
            places.entry(name).or_default().push(done);
        }
    }
    Ok(())
}

/// Measures the load of a server for a time.
fn load(
    place: &BenchPlace,
    data: &Path,
    pages: DoublewriteMode,
    amount: &DatabaseAmount,
    stop: &UserStop,
) -> io::Result<DatabaseRound> {
    let is_to_stop = || stop.is_set();
    let server = MariadbServer::start(data, amount.size, pages, &is_to_stop)?;
    let twice = "Innodb_dblwr_pages_written";
    let (pages_before, before) = (server.count(twice)?, place.written()?);
    let (transactions, took) = server.load(amount.load)?;
    names::sync(data)?;
    let done = DatabaseRound {
        transactions,
        took,
        written: place.written()?.saturating_sub(before),
        pages_twice: server.count(twice)?.saturating_sub(pages_before),
    };
    server.end()?;
    Ok(done)
}

fn sqlite_round(
    places: &[BenchPlace],
    amount: &DatabaseAmount,
    round: u32,
    all: &mut DatabaseMeasurements,
    stop: &UserStop,
) -> CommandResult {
    for (n, mode) in SqliteMode::ALL.into_iter().enumerate() {
        for place in places.iter().filter(|place| place.file.is_some()) {
            let Some(dir) = &place.dir else { continue };
            stop.check()?;
            let name = place.name;
            eprintln!(
                "forebay-bench: SQLite, round {round}, {name}, {}",
                mode.name()
            );
            let done = commits(place, &dir.join("sqlite"), mode, amount.commits);
            if let Some(done) = done.map_err(|error| super::failed(place, "SQLite", &error))? {
                let places = all.sqlite.entry(n).or_default();
                places.entry(name).or_default().push(done);
            }
        }
    }
    Ok(())
}

/// Measures the commits of a new database; `None` if the place does not support the mode.
fn commits(
    place: &BenchPlace,
    dir: &Path,
    mode: SqliteMode,
    lasts: Duration,
) -> io::Result<Option<DatabaseRound>> {
    fs::create_dir(dir)?;
    let mut done = None;
    if let Some(mut database) = SqliteDatabase::open(dir, mode)? {
        names::sync(dir)?;
        let before = place.written()?;
        let (transactions, took) = measured(|| database.commit(lasts))?;
        names::sync(dir)?;
        done = Some(DatabaseRound {
            transactions,
            took,
            written: place.written()?.saturating_sub(before),
            pages_twice: 0,
        });
    }
    fs::remove_dir_all(dir)?;
    Ok(done)
}

/// Returns the error of the stop flag if the flag is set, otherwise the failure.
fn stopped_or_failed(
    place: &BenchPlace,
    what: &str,
    error: &io::Error,
    stop: &UserStop,
) -> CommandFailure {
    match stop.check() {
        Err(stopped) => stopped,
        Ok(()) => super::failed(place, what, error),
    }
}

/// Returns the doublewrite mode in words.
pub(super) fn how(pages: DoublewriteMode) -> &'static str {
    match pages {
        DoublewriteMode::Twice => "each page twice",
        DoublewriteMode::AtomicIfFound => "each page once, since writes are atomic",
        DoublewriteMode::Unsafe => "each page once by `--skip-innodb-doublewrite`: **unsafe**",
    }
}
