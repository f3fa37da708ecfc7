//! `-latency` and `-level`: the time to read a file, and the level that it comes from (the paper's section 4.3 on
//! `find`).

use std::collections::BTreeMap;
use std::fs::File;

use rustix::fs::{FileType, Mode, OFlags};
use sleds::{DescribeError, Estimator, HiddenResidency, ReadEstimate, hidden_residency};

use super::entry::VisitedFile;
use super::expr::NumericComparison;
use super::report;
use sleds_common::quantity;

/// Estimates for the files of a walk, and the files skipped because of them.
#[derive(Default)]
pub(super) struct WalkCosts {
    /// Made on first use, since it reads the table of devices.
    estimator: Option<Estimator>,
    /// The last examined file, by path.
    last: Option<(Vec<u8>, Option<ReadEstimate>)>,
    skipped: SkippedFiles,
    /// Number of files whose time is not known, by the reason.
    unknown: BTreeMap<UnknownTime, u64>,
}

/// Reason for which the time to read a file is not known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum UnknownTime {
    /// The cached pages are not known.
    Residency(HiddenResidency),
    /// The device is not known.
    Device,
}

impl UnknownTime {
    /// Returns the reason, and the remedy.
    fn text(self) -> &'static str {
        match self {
            UnknownTime::Residency(HiddenResidency::NotPermitted) => {
                "because the kernel reports the cached pages of a file only to its owner and to \
                 users that may write to it (run as such a user, or as root)"
            }
            UnknownTime::Residency(HiddenResidency::NotSupported) => {
                "because the kernel or a sandbox refuses cachestat and mincore (Linux 6.5 and \
                 later have both)"
            }
            UnknownTime::Device => {
                "because the speed of the device is not known (sleds calibrate measures it)"
            }
        }
    }
}

/// Files that `-latency` or `-level` rejected.
#[derive(Default)]
struct SkippedFiles {
    files: u64,
    bytes: u64,
    seconds: f64,
    /// Bytes with an unknown time.
    unknown_bytes: u64,
    last: Option<Vec<u8>>,
}

/// Returns true if a time in seconds is less than, more than, or (rounded to the unit) equal to a number of units.
pub(super) fn compares(seconds: f64, compare: NumericComparison, value: f64, unit_s: f64) -> bool {
    let units = seconds / unit_s;
    match compare {
        NumericComparison::Equal => units.round() == value,
        _ => compare.holds(units, value),
    }
}

impl WalkCosts {
    /// Returns the estimate for the file; `None` if the file is not readable data, or cannot be examined.
    fn estimate(&mut self, entry: &VisitedFile<'_>) -> Option<&ReadEstimate> {
        let is_known = |last: &(Vec<u8>, Option<ReadEstimate>)| last.0 == entry.path;
        if !self.last.as_ref().is_some_and(is_known) {
            let estimate = self.examine(entry);
            self.last = Some((entry.path.to_vec(), estimate));
        }
        self.last
            .as_ref()
            .and_then(|(_, estimate)| estimate.as_ref())
    }

    fn examine(&mut self, entry: &VisitedFile<'_>) -> Option<ReadEstimate> {
        match entry.kind() {
            Ok(FileType::RegularFile | FileType::BlockDevice) => {}
            Ok(_) => return None,
            Err(errno) => {
                report::file_error(entry.path, errno);
                return None;
            }
        }
        let mut flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        if !entry.follow {
            flags |= OFlags::NOFOLLOW;
        }
        let file = match rustix::fs::openat(entry.dir, entry.name, flags, Mode::empty()) {
            Ok(fd) => File::from(fd),
            Err(errno) => {
                report::file_error(entry.path, errno);
                return None;
            }
        };
        let estimator = self.estimator.get_or_insert_with(estimator);
        match estimator.estimate(&file) {
            Ok(estimate) => {
                if estimate.delivery.known().is_none() {
                    // A file that cannot be examined now was examined a moment before.
                    let hidden = hidden_residency(&file).ok().flatten();
                    let why = hidden.map_or(UnknownTime::Device, UnknownTime::Residency);
                    *self.unknown.entry(why).or_default() += 1;
                }
                Some(estimate)
            }
            Err(DescribeError::Directory | DescribeError::Stream) => None,
            Err(DescribeError::Io(error)) => {
                report::file_error(entry.path, report::errno_of(&error));
                None
            }
        }
    }

    /// Returns true if `ask` accepts the time in seconds that reading the file takes. Returns false if the time is not
    /// known.
    pub(super) fn latency(&mut self, entry: &VisitedFile<'_>, ask: impl Fn(f64) -> bool) -> bool {
        let estimate = self.estimate(entry);
        let known = estimate.and_then(|estimate| estimate.delivery.known());
        known.is_some_and(|seconds| ask(seconds.median))
    }

    /// Returns true if the slowest level that the file needs has this name. The name of a zone follows a colon, and may
    /// be omitted.
    pub(super) fn level(&mut self, entry: &VisitedFile<'_>, name: &str) -> bool {
        self.estimate(entry).is_some_and(|estimate| {
            let level = estimate.level.name();
            level == name
                || level
                    .split_once(':')
                    .is_some_and(|(device, _)| device == name)
        })
    }

    /// Counts a rejected file.
    pub(super) fn skip(&mut self, entry: &VisitedFile<'_>) {
        if self.skipped.last.as_deref() == Some(entry.path) {
            return;
        }
        let Some(estimate) = self.estimate(entry).cloned() else {
            return;
        };
        self.skipped.last = Some(entry.path.to_vec());
        self.skipped.files += 1;
        self.skipped.bytes += estimate.length;
        self.skipped.seconds += estimate.delivery.seconds.median;
        self.skipped.unknown_bytes += estimate.delivery.unknown_bytes;
    }

    /// Prints warnings and, if requested, the report.
    pub(super) fn finish(&self, report: bool) {
        for (why, files) in &self.unknown {
            let files = match files {
                1 => "1 file".to_owned(),
                n => format!("{n} files"),
            };
            let why = why.text();
            report::say(format!(
                "warning: the time for {files} is not known, {why}; -latency matches none of them"
            ));
        }
        if report {
            report::say(self.skipped.text());
        }
    }
}

/// Makes an estimator with this machine's table. Reports a fault of the table.
fn estimator() -> Estimator {
    let estimator = Estimator::new();
    if let Some(problem) = estimator.describer().problem() {
        report::say(format!("warning: {problem}"));
    }
    estimator
}

impl SkippedFiles {
    fn text(&self) -> String {
        let files = match self.files {
            1 => "1 file".to_owned(),
            n => format!("{n} files"),
        };
        let mut text = format!(
            "skipped {files}, {}, about {}",
            quantity::bytes(self.bytes),
            quantity::seconds(self.seconds)
        );
        if self.unknown_bytes > 0 {
            let unknown = quantity::bytes(self.unknown_bytes);
            text.push_str(&format!(", and a time not known for {unknown}"));
        }
        text
    }
}
