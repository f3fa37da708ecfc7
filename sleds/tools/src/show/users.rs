//! `sleds show --pid` and `--cgroup`: the files that processes use, with their cached pages.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use forebay_units::ByteLen;
use serde::Serialize;
use sleds::{DescribeError, Estimator};
use sleds_common::quantity::{count, percent, seconds};

use super::{SCHEMA, ShowArgs, in_memory, open, unwritten};
use crate::output::{Screen, result_line};
use crate::process::group::{GroupMemory, ProcessGroup};
use crate::process::{FileKey, FileSighting, FoundProcess};

/// A file that processes use.
#[derive(Serialize)]
struct UsedFile {
    path: String,
    deleted: bool,
    length: u64,
    /// Bytes in memory; `None` if the kernel does not report them.
    cached: Option<u64>,
    dirty: Option<u64>,
    writeback: Option<u64>,
    /// Seconds to read the file, if known.
    delivery_s: Option<f64>,
    /// Bytes of address space in all processes.
    mapped: u64,
    /// Number of open descriptors in all processes.
    open: usize,
    processes: BTreeSet<u32>,
}

#[derive(Serialize)]
struct UsingProcess {
    pid: u32,
    command: String,
}

/// The files of a process, or of the processes of a cgroup.
#[derive(Serialize)]
struct UsageReport {
    schema: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    cgroup: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory: Option<GroupMemory>,
    processes: Vec<UsingProcess>,
    length: u64,
    cached: u64,
    dirty: u64,
    writeback: u64,
    /// Files whose cached pages the kernel does not report.
    unknown_files: usize,
    /// The files with most bytes in memory first.
    files: Vec<UsedFile>,
    errors: Vec<String>,
}

/// Shows the files of the named processes and cgroups. Returns false if something could not be examined.
pub(super) fn show(args: &ShowArgs, screen: Screen, estimator: &mut Estimator) -> bool {
    let mut complete = true;
    // An empty line separates the reports.
    let mut shown = args.files.len();
    let mut present = |report: Result<UsageReport, String>| {
        if shown > 0 && !args.json && !args.summary {
            result_line!("");
        }
        shown += 1;
        let errors = match &report {
            Ok(report) => {
                print(args, screen, report);
                report.errors.iter().collect()
            }
            Err(error) => vec![error],
        };
        for error in &errors {
            eprintln!("sleds show: {error}");
        }
        complete &= errors.is_empty();
    };
    for pid in &args.pid {
        present(of_process(*pid, estimator));
    }
    for path in &args.cgroup {
        present(of_group(path, estimator));
    }
    complete
}

fn of_process(pid: u32, estimator: &mut Estimator) -> Result<UsageReport, String> {
    let process = FoundProcess::find(pid)?;
    if process.pid != pid {
        let name = process.name();
        eprintln!("sleds show: {pid} is a thread of {name}, whose files are shown");
    }
    let mut collector = UsageCollector::new(estimator);
    collector.add(process);
    Ok(collector.finish())
}

fn of_group(path: &Path, estimator: &mut Estimator) -> Result<UsageReport, String> {
    let group = ProcessGroup::find(path).map_err(|why| format!("{}: {why}", path.display()))?;
    let mut collector = UsageCollector::new(estimator);
    let mut errors = Vec::new();
    let memory = group.memory().map_err(|error| errors.push(error)).ok();
    for pid in group.processes(&mut errors) {
        match FoundProcess::find(pid) {
            Ok(process) => collector.add(process),
            Err(error) => errors.push(error),
        }
    }
    let mut report = collector.finish();
    report.cgroup = Some(group.path.display().to_string());
    report.memory = memory;
    report.errors.splice(0..0, errors);
    Ok(report)
}

/// Files found so far. A file that several processes use is examined once.
struct UsageCollector<'e> {
    estimator: &'e mut Estimator,
    processes: Vec<UsingProcess>,
    /// `None` for a file that could not be examined.
    files: BTreeMap<FileKey, Option<UsedFile>>,
    errors: Vec<String>,
}

impl<'e> UsageCollector<'e> {
    fn new(estimator: &'e mut Estimator) -> UsageCollector<'e> {
        UsageCollector {
            estimator,
            processes: Vec::new(),
            files: BTreeMap::new(),
            errors: Vec::new(),
        }
    }

    fn add(&mut self, process: FoundProcess) {
        let problems = process.files(&mut |sighting| self.sighting(process.pid, sighting));
        self.errors.extend(problems);
        self.processes.push(UsingProcess {
            pid: process.pid,
            command: process.command,
        });
    }

    fn sighting(&mut self, pid: u32, sighting: FileSighting) {
        let key = sighting.key;
        if !self.files.contains_key(&key) {
            let examined = examine(self.estimator, &sighting);
            let file = examined.map_err(|error| {
                let name = sighting.name.display();
                self.errors.push(format!("{name}: {error}"));
            });
            self.files.insert(key, file.ok());
        }
        if let Some(Some(file)) = self.files.get_mut(&key) {
            file.mapped += sighting.mapped;
            file.open += sighting.open;
            file.processes.insert(pid);
        }
    }

    fn finish(self) -> UsageReport {
        let mut files: Vec<UsedFile> = self.files.into_values().flatten().collect();
        files.sort_by(|a, b| b.cached.cmp(&a.cached).then_with(|| a.path.cmp(&b.path)));
        let sum = |of: fn(&UsedFile) -> Option<u64>| files.iter().filter_map(of).sum();
        UsageReport {
            schema: SCHEMA,
            cgroup: None,
            memory: None,
            processes: self.processes,
            length: files.iter().map(|file| file.length).sum(),
            cached: sum(|file| file.cached),
            dirty: sum(|file| file.dirty),
            writeback: sum(|file| file.writeback),
            unknown_files: files.iter().filter(|file| file.cached.is_none()).count(),
            files,
            errors: self.errors,
        }
    }
}

fn examine(estimator: &mut Estimator, sighting: &FileSighting) -> Result<UsedFile, DescribeError> {
    let file = open(&sighting.handle)?;
    let estimate = estimator.estimate(&file)?;
    let counts = sleds::cache_counts(&file)?;
    Ok(UsedFile {
        path: sighting.name.display().to_string(),
        deleted: sighting.deleted,
        length: estimate.length,
        cached: estimate.cached,
        dirty: counts.map(|counts| counts.dirty),
        writeback: counts.map(|counts| counts.writeback),
        delivery_s: estimate.delivery.known().map(|time| time.median),
        mapped: 0,
        open: 0,
        processes: BTreeSet::new(),
    })
}

fn print(args: &ShowArgs, screen: Screen, report: &UsageReport) {
    if args.json {
        let json = serde_json::to_string(report).expect("strings and finite numbers");
        result_line!("{json}");
        return;
    }
    let files = report.files.len();
    result_line!(
        "{}{}, {}, {}{}",
        subject(report),
        count(files, "file", "files"),
        ByteLen(report.length),
        in_memory(report.cached, report.length, files, report.unknown_files),
        unwritten(report.dirty, report.writeback)
    );
    if let Some(memory) = &report.memory {
        let figure = |bytes: Option<u64>| bytes.map_or("?".to_owned(), |n| ByteLen(n).to_string());
        result_line!(
            "  memory.stat: file {}, file_mapped {}, file_dirty {}, file_writeback {}",
            figure(memory.file),
            figure(memory.file_mapped),
            figure(memory.file_dirty),
            figure(memory.file_writeback)
        );
    }
    if args.summary || report.files.is_empty() {
        return;
    }
    // The heads and the cursor's line need space as well.
    let fitting = screen.size.map(|(_, rows)| rows.saturating_sub(5).max(1));
    let limit = match args.limit {
        _ if args.all => usize::MAX,
        Some(limit) => limit,
        None => fitting.unwrap_or(usize::MAX),
    };
    result_line!(
        "  {:>10} {:>6} {:>10} {:>10} {:>9}  {:<11}  PATH",
        "CACHED",
        "SHARE",
        "LENGTH",
        "DIRTY",
        "TIME",
        "USE"
    );
    for file in report.files.iter().take(limit) {
        result_line!("{}", line(file));
    }
    if let Some(more) = report.files.len().checked_sub(limit).filter(|n| *n > 0) {
        result_line!("  … and {more} more");
    }
}

fn subject(report: &UsageReport) -> String {
    match (&report.cgroup, &report.processes[..]) {
        (Some(path), processes) => {
            let processes = count(processes.len(), "process", "processes");
            format!("cgroup {path}: {processes}, ")
        }
        (None, [process]) => format!("process {} ({}): ", process.pid, process.command),
        (None, _) => String::new(),
    }
}

fn line(file: &UsedFile) -> String {
    let known = |bytes: Option<u64>| bytes.map_or("?".to_owned(), |n| ByteLen(n).to_string());
    let unwritten = file.dirty.zip(file.writeback);
    let used = match (file.mapped > 0, file.open > 0) {
        (true, true) => "mapped,open",
        (true, false) => "mapped",
        _ => "open",
    };
    format!(
        "  {:>10} {:>6} {:>10} {:>10} {:>9}  {used:<11}  {}{}",
        known(file.cached),
        file.cached
            .map_or("?".to_owned(), |cached| percent(cached, file.length)),
        ByteLen(file.length).to_string(),
        known(unwritten.map(|(dirty, writeback)| dirty + writeback)),
        file.delivery_s.map_or("?".to_owned(), seconds),
        file.path,
        if file.deleted { " (deleted)" } else { "" }
    )
}
