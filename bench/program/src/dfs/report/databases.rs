//! The section on databases.

use forebay_file_loads::mariadb::DoublewriteMode;
use forebay_file_loads::sqlite::{IS_BUILT_IN, SqliteMode};
use forebay_report::ReportPage;

use super::super::databases::{
    DatabaseAmount, DatabaseMeasurements, DatabaseRound, DatabaseRounds, how,
};
use super::super::places::{EXT4, FOREBAY};
use super::{ORDER, median, times};

/// Returns the median of a quantity over the rounds of a place.
fn of(
    places: Option<&DatabaseRounds>,
    name: &str,
    value: fn(&DatabaseRound) -> f64,
) -> Option<f64> {
    let rounds = places?.get(name)?;
    Some(median(rounds.iter().map(value).collect()))
}

/// Returns the median of the ratios, round by round.
fn ratio(
    ours: Option<&Vec<DatabaseRound>>,
    theirs: Option<&Vec<DatabaseRound>>,
    of: fn(&DatabaseRound) -> f64,
) -> String {
    let each = |(a, b): (&DatabaseRound, &DatabaseRound)| of(a) / of(b);
    let ratios = ours.zip(theirs).map(|(a, b)| a.iter().zip(b).map(each));
    times(ratios.map(|ratios| median(ratios.collect())))
}

fn rate(done: &DatabaseRound) -> f64 {
    done.took.rate(done.transactions)
}

fn bytes_each(done: &DatabaseRound) -> f64 {
    done.written as f64 / done.transactions.max(1) as f64
}

fn said(value: Option<f64>) -> String {
    value.map_or("–".into(), |value| format!("{value:.0}"))
}

pub(super) fn databases(
    page: &mut ReportPage,
    amount: &DatabaseAmount,
    measured: &DatabaseMeasurements,
) {
    page.heading("Databases");
    page.paragraph(
        "*Written* counts the bytes written to the device during the measurement, and until all data was durable. \
         For a filesystem on a loop device, these are the bytes written to the loop device; for Forebay, the bytes \
         that its daemon wrote to the image, with its log and the data that it moves.",
    );
    mariadb(page, amount, measured);
    sqlite(page, amount, measured);
}

fn mariadb(page: &mut ReportPage, amount: &DatabaseAmount, measured: &DatabaseMeasurements) {
    if let Some(why) = &measured.no_mariadb {
        page.paragraph(&format!("MariaDB is omitted: {why}."));
        return;
    }
    let size = amount.size;
    page.paragraph(&format!(
        "MariaDB as installed, under sysbench's `oltp_read_write`: {} threads, {} tables of {} rows, about {} MiB, \
         of which it keeps {} MiB in memory; direct I/O, every commit durable, {} seconds each. MariaDB writes each \
         page twice, to survive a power failure during a write, unless it is configured not to, or detects that \
         writes are atomic, as on Forebay's filesystem.",
        size.threads,
        size.tables,
        size.rows,
        (u64::from(size.tables) * u64::from(size.rows) * 240) >> 20,
        size.pool >> 20,
        amount.load.as_secs(),
    ));
    let header = [
        "MariaDB",
        "transactions per second",
        "to ext4, twice",
        "to ext4, once",
        "written, MiB",
        "bytes per transaction",
        "to ext4, twice",
        "to ext4, once",
        "pages written twice",
    ];
    let beside = |pages| measured.mariadb.get(&pages).and_then(|at| at.get(EXT4));
    let (safe, unsafe_) = (
        beside(DoublewriteMode::Twice),
        beside(DoublewriteMode::Unsafe),
    );
    let mut rows = Vec::new();
    for name in ORDER {
        for (pages, places) in &measured.mariadb {
            let Some(ours) = places.get(name) else {
                continue;
            };
            let (ours, value) = (Some(ours), |value| of(Some(places), name, value));
            rows.push(vec![
                format!("{name}, {}", how(*pages)),
                said(value(rate)),
                ratio(ours, safe, rate),
                ratio(ours, unsafe_, rate),
                said(value(|done| done.written as f64 / f64::from(1 << 20))),
                said(value(bytes_each)),
                ratio(ours, safe, bytes_each),
                ratio(ours, unsafe_, bytes_each),
                said(value(|done| done.pages_twice as f64)),
            ]);
        }
    }
    page.table(&header, rows);
}

fn sqlite(page: &mut ReportPage, amount: &DatabaseAmount, measured: &DatabaseMeasurements) {
    if !IS_BUILT_IN {
        page.paragraph(
            "SQLite is omitted, since this program was built without SQLite. To include it: `cargo run --release \
             -p forebay-bench --features sqlite -- dfs`.",
        );
        return;
    }
    page.paragraph(&format!(
        "SQLite, built in: transactions of one new and one changed row, each durable before the next (`synchronous = \
         full`), by one thread, {} ms in each mode. *{}*: the changes are one atomic batch, and no journal is \
         written, if the filesystem has the ioctls of F2FS and SQLite is built with \
         `SQLITE_ENABLE_BATCH_ATOMIC_WRITE`; the other modes are measured without these ioctls.",
        amount.commits.as_millis(),
        SqliteMode::Atomic.name(),
    ));
    let is_there = |name: &&str| measured.sqlite.values().any(|at| at.contains_key(name));
    let names: Vec<&str> = ORDER.into_iter().filter(is_there).collect();
    for (what, value) in [
        ("commits per second", rate as fn(&DatabaseRound) -> f64),
        ("bytes written per commit", bytes_each),
    ] {
        let mut header = vec![what.to_owned()];
        header.extend(names.iter().map(|name| (*name).to_owned()));
        header.extend(["forebay to ext4".into(), "to ext4's wal".into()]);
        let row = |(n, mode): (usize, SqliteMode)| {
            let at = |n: usize, name: &str| measured.sqlite.get(&n).and_then(|at| at.get(name));
            let mut row = vec![mode.name().to_owned()];
            let places = measured.sqlite.get(&n);
            row.extend(names.iter().map(|name| said(of(places, name, value))));
            row.push(ratio(at(n, FOREBAY), at(n, EXT4), value));
            let wal = SqliteMode::ALL
                .iter()
                .position(|mode| *mode == SqliteMode::Wal);
            let wal = wal.and_then(|wal| at(wal, EXT4));
            row.push(ratio(at(n, FOREBAY), wal, value));
            row
        };
        page.table(&header, SqliteMode::ALL.into_iter().enumerate().map(row));
    }
}
