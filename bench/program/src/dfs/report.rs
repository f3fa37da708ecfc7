//! The report of the measurements.

mod databases;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use forebay_file_loads::apps::App;
use forebay_report::plot::{self, CurveSet, FigureFrame};
use forebay_report::{Circumstances, ReportPage};

use super::places::{BINDFS, COPYING, EXT4, F2FS, FOREBAY, FUSE2FS, RAW};
use super::{DfsBenchScale, DfsMeasurements, NAMES, PlaceRounds};

/// Results in all places.
type RoundsByPlace = BTreeMap<&'static str, PlaceRounds>;

/// Order of the places in tables.
const ORDER: [&str; 9] = [
    RAW, COPYING, FOREBAY, EXT4, "xfs", "btrfs", F2FS, BINDFS, FUSE2FS,
];

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn rates(rounds: &PlaceRounds) -> Vec<f64> {
    rounds
        .iter()
        .map(|(count, took)| took.rate(*count))
        .collect()
}

/// Returns the median of the ratios, round by round.
fn ratio(places: &RoundsByPlace, ours: &str, theirs: &str) -> Option<f64> {
    let (ours, theirs) = (rates(places.get(ours)?), rates(places.get(theirs)?));
    Some(median(
        ours.iter().zip(theirs).map(|(a, b)| a / b).collect(),
    ))
}

fn times(ratio: Option<f64>) -> String {
    ratio.map_or("–".into(), |ratio| format!("{ratio:.2} ×"))
}

/// Formats a ratio beside its bar.
fn judged(ratio: Option<f64>, bar: f64) -> String {
    match ratio {
        Some(ratio) if ratio < bar => format!("{ratio:.2} ×: **missed**"),
        ratio => times(ratio),
    }
}

fn there(all: &BTreeMap<impl Ord, RoundsByPlace>) -> Vec<&'static str> {
    let is_there = |name: &&str| all.values().any(|places| places.contains_key(name));
    ORDER.into_iter().filter(is_there).collect()
}

/// Writes the report and returns its path.
pub(super) fn write(
    folder: &Path,
    circumstances: &Circumstances,
    scale: &DfsBenchScale,
    measured: &DfsMeasurements,
) -> Result<PathBuf> {
    let mut page = ReportPage::begin(folder, "Speed of the filesystem")?;
    page.paragraph(
        "Measured by `forebay-bench dfs`: Forebay's filesystem beside others, each on an image of the same size on \
         the same disk. The other filesystems use a loop device with direct I/O. All stay mounted and are measured \
         alternately, in rounds. The tables show medians; ratios are calculated for each round. *Processor time* is \
         that of the whole machine during a measurement, divided by the number of requests: of loads, servers, \
         kernel threads, and all other processes.",
    );
    page.paragraph(&circumstances.text());
    page.paragraph(&format!(
        "Rounds: {}. Images of {} MiB. {} {}",
        scale.rounds,
        scale.image >> 20,
        way(),
        lines()
    ));
    random(&mut page, scale, measured)?;
    names(&mut page, scale, measured);
    apps(&mut page, measured);
    databases::databases(&mut page, &scale.databases, &measured.databases);
    page.end()
}

/// Returns a sentence about the transport of FUSE requests on this kernel.
fn way() -> &'static str {
    let switch = std::fs::read_to_string("/sys/module/fuse/parameters/enable_uring");
    if switch.is_ok_and(|on| on.trim() == "Y") {
        "FUSE over io_uring is enabled: Forebay's requests use it, those of the other servers use `/dev/fuse`."
    } else {
        "FUSE over io_uring is disabled: all requests use `/dev/fuse`."
    }
}

fn random(page: &mut ReportPage, scale: &DfsBenchScale, measured: &DfsMeasurements) -> Result<()> {
    page.heading("Random 4 KiB, past the page cache");
    page.paragraph(&format!(
        "In an allocated file of {} MiB; each thread has one request at a time. *Copying* is a FUSE file that only \
         copies memory, served by one thread. Bars: writes at least 1.0 of the copying file's and of ext4's rate, \
         reads at least 0.9 of the copying file's.",
        scale.file >> 20
    ));
    let names = there(&measured.random);
    for (is_write, what) in [(true, "writes"), (false, "reads")] {
        let bar = if is_write { 1.0 } else { 0.9 };
        let mut header = vec![format!("{what} per second, by threads")];
        header.extend(names.iter().map(|name| (*name).to_owned()));
        header.extend(["forebay to copying".into(), "forebay to ext4".into()]);
        let of = |threads: &u64| measured.random.get(&(is_write, *threads));
        let row = |threads: &u64| {
            let places = of(threads)?;
            let mut row = vec![threads.to_string()];
            let rate = |name: &&str| places.get(name).map(|rounds| median(rates(rounds)));
            row.extend(names.iter().map(|name| said(rate(name))));
            row.push(judged(ratio(places, FOREBAY, COPYING), bar));
            let beside = ratio(places, FOREBAY, EXT4);
            row.push(if is_write {
                judged(beside, 1.0)
            } else {
                times(beside)
            });
            Some(row)
        };
        page.table(&header, scale.threads.iter().filter_map(row));
        let value = |threads: &u64, name: &&str| {
            let rounds = of(threads).and_then(|places| places.get(name));
            rounds.map_or(f64::NAN, |rounds| median(rates(rounds)))
        };
        let places: Vec<String> = scale.threads.iter().map(u64::to_string).collect();
        let curve = |name: &&str| {
            let values = scale.threads.iter().map(|threads| value(threads, name));
            ((*name).to_owned(), values.collect())
        };
        let curves: Vec<(String, Vec<f64>)> = names.iter().map(curve).collect();
        let (title, file) = (format!("Random 4 KiB {what}"), format!("random-{what}.svg"));
        let frame = FigureFrame {
            title: &title,
            x: "threads",
            y: "per second",
        };
        let curves = CurveSet {
            places: &places,
            logarithmic: true,
            curves: &curves,
        };
        plot::lines(&page.figure(&file), &frame, &curves)?;
        page.show(&title, &file);
    }
    processor(page, &names, measured);
    Ok(())
}

fn processor(page: &mut ReportPage, names: &[&'static str], measured: &DfsMeasurements) {
    let mut header = vec!["processor time of each, in µs".to_owned()];
    header.extend(names.iter().map(|name| (*name).to_owned()));
    let rows = measured.random.iter().map(|((is_write, threads), places)| {
        let what = if *is_write { "write" } else { "read" };
        let each = |name: &&str| {
            let rounds = places.get(name)?.iter();
            Some(median(
                rounds
                    .map(|(count, took)| took.micros_each(*count))
                    .collect(),
            ))
        };
        let mut row = vec![format!("{what}, {threads} threads")];
        row.extend(names.iter().map(|name| match each(name) {
            Some(micros) => format!("{micros:.1}"),
            None => "–".into(),
        }));
        row
    });
    page.table(&header, rows);
}

fn said(rate: Option<f64>) -> String {
    rate.map_or("–".into(), |rate| format!("{rate:.0}"))
}

fn names(page: &mut ReportPage, scale: &DfsBenchScale, measured: &DfsMeasurements) {
    page.heading("Many small files");
    let [small, durable, files] = scale.names;
    page.paragraph(&format!(
        "{small} files of 128 bytes, 10,000 in a directory; {durable} of which each is synced before the next is \
         created; a tree of {files} files, like that of the kernel's sources. One thread. Bars: at least the rate of \
         the best other filesystem in a process, and a third of ext4's; with `fsync`, ext4's rate."
    ));
    let places = there(&measured.names);
    let mut header = vec!["files per second".to_owned()];
    header.extend(places.iter().map(|name| (*name).to_owned()));
    header.extend(["to the best other through FUSE".into(), "to ext4".into()]);
    let rows = measured.names.iter().map(|(n, of)| {
        let mut row = vec![NAMES[*n].to_owned()];
        let rate = |name: &&str| of.get(name).map(|rounds| median(rates(rounds)));
        row.extend(places.iter().map(|name| said(rate(name))));
        let others = [BINDFS, FUSE2FS].into_iter();
        let best = others.filter_map(|other| ratio(of, FOREBAY, other));
        row.push(judged(best.reduce(f64::min), 1.0));
        let bar = if NAMES[*n].contains("fsync") {
            1.0
        } else {
            1.0 / 3.0
        };
        row.push(judged(ratio(of, FOREBAY, EXT4), bar));
        row
    });
    page.table(&header, rows);
}

fn apps(page: &mut ReportPage, measured: &DfsMeasurements) {
    page.heading("The paper's applications");
    page.paragraph(
        "Reimplemented, smaller, and each started with empty caches. The paper's values are for ext3 and its DFS on \
         a FusionIO card, whose flash translation layer, in the kernel, was the space below DFS.",
    );
    let places = there(&measured.apps);
    let mut header = vec!["application, seconds".to_owned()];
    header.extend(places.iter().map(|name| (*name).to_owned()));
    header.extend(["times as fast as ext4".into(), "paper: as ext3".into()]);
    let rows = measured.apps.iter().map(|(n, of)| {
        let app = App::ALL[*n];
        let mut row = vec![format!("{}: {}", app.name(), app.does())];
        let time = |name: &&str| of.get(name).map(|rounds| 1.0 / median(rates(rounds)));
        row.extend(places.iter().map(|name| match time(name) {
            Some(seconds) => format!("{seconds:.2}"),
            None => "–".into(),
        }));
        row.push(times(ratio(of, FOREBAY, EXT4)));
        row.push(format!("{:.2} ×", app.papers()));
        row
    });
    page.table(&header, rows);
}

/// Returns the length of the filesystem's source, if the source tree of this build exists.
fn lines() -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dfs/src");
    match count(&source) {
        0 => String::new(),
        lines => format!(
            "The filesystem (`crates/dfs`, without tests, comments and empty lines) has {lines} lines; the paper's 3,300 \
             in C, and ext3 24,700 there."
        ),
    }
}

fn count(dir: &Path) -> usize {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let of = |path: PathBuf| match path.extension() {
        _ if path.is_dir() => count(&path),
        Some(extension) if extension == "rs" && !path.to_string_lossy().ends_with("_tests.rs") => {
            code(&std::fs::read_to_string(&path).unwrap_or_default())
        }
        _ => 0,
    };
    entries.map(|entry| of(entry.path())).sum()
}

/// Counts the lines of a file before its tests, without comments and empty lines.
fn code(text: &str) -> usize {
    let before = text.split("#[cfg(test)]\nmod tests {").next();
    let lines = before.unwrap_or_default().lines().map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_code_are_neither_comments_nor_tests() {
        let text = "//! What.\n\nfn a() {\n    // Why.\n}\n\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
        assert_eq!(code(text), 2);
    }

    #[test]
    fn a_value_below_its_target_is_reported_as_missed() {
        assert_eq!(judged(Some(0.5), 1.0), "0.50 ×: **missed**");
        assert_eq!(judged(Some(1.0), 1.0), "1.00 ×");
        assert_eq!(judged(None, 1.0), "–");
    }
}
