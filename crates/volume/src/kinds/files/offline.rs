//! A filesystem that is not in use: a check of its space and then of the filesystem, and a dump of its structures.
//!
//! Both see the state that attaching would find: the space is recovered in memory. Files that a crash left without a
//! name are not removed.

use std::ops::Range;
use std::rc::Rc;

use forebay_device::CheckVerdict;
use forebay_dfs::{FileTime, Fs, FsClock, FsDumpItem, FsError, FsProblem, UnreadableRange};
use forebay_rt::Rt;
use serde::Serialize;

use super::error::FilesError;
use crate::error::VolumeError;
use crate::kind::ProgressSink;
use crate::kinds::space::{self, SpaceCheck, SpaceVolumeError};
use crate::open::OpenDevice;
use crate::report::LayerDumpItem;

/// Maximum number of problems that are listed; further problems are only counted.
const PROBLEMS_MAX: usize = 100;

/// Findings of a check of a filesystem.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct FilesCheck {
    /// Findings on the space. Its verdict covers space and filesystem.
    #[serde(flatten)]
    pub(super) space: SpaceCheck,
    /// Version of the filesystem's format. The space has its own.
    pub(super) filesystem_version: u32,
    /// Number of files, including directories.
    pub(super) files: u64,
    /// Number of directories.
    pub(super) directories: u64,
    /// Number of names.
    pub(super) names: u64,
    /// Files without a name that were still in use at the end of the last mount.
    pub(super) nameless: u64,
    /// Bytes of file data.
    pub(super) data_bytes: u64,
    /// The first problems of files, in words.
    pub(super) file_problems: Vec<String>,
    /// Number of further problems.
    pub(super) more_problems: u64,
}

impl FilesCheck {
    fn of(space: SpaceCheck) -> FilesCheck {
        FilesCheck {
            space,
            filesystem_version: forebay_dfs::FS_VERSION,
            files: 0,
            directories: 0,
            names: 0,
            nameless: 0,
            data_bytes: 0,
            file_problems: Vec::new(),
            more_problems: 0,
        }
    }

    /// Returns true if the filesystem itself has problems.
    pub(super) fn has_problems(&self) -> bool {
        !self.file_problems.is_empty()
    }

    fn problem(&mut self, text: String) {
        if self.file_problems.len() < PROBLEMS_MAX {
            self.file_problems.push(text);
        } else {
            self.more_problems += 1;
        }
    }

    /// Adds problems of files, with the paths of the files that have one.
    async fn problems(&mut self, fs: &Fs, problems: Vec<FileProblem>) {
        let listed = problems.iter().take(PROBLEMS_MAX);
        let files = listed.filter_map(|problem| problem.file).collect();
        let paths = fs.paths(&files).await;
        for FileProblem { file, what } in problems {
            let path = file.and_then(|file| paths.get(&file));
            self.problem(match (file, path) {
                (Some(file), Some(path)) => {
                    format!("{} (file {file}): {what}", path.escape_ascii())
                }
                (Some(file), None) => format!("file {file}: {what}"),
                (None, _) => what,
            });
        }
    }
}

/// A problem of a file, or of the filesystem.
struct FileProblem {
    file: Option<u64>,
    what: String,
}

/// Returns a constant clock: nothing is changed, so no time is needed.
fn no_clock() -> FsClock {
    Rc::new(FileTime::default)
}

/// Checks a filesystem and its space. Changes nothing.
///
/// # Errors
/// If the device does not hold a filesystem, or fails.
pub(super) async fn check(
    rt: &Rt,
    data: &OpenDevice,
    progress: ProgressSink<'_>,
) -> Result<FilesCheck, VolumeError> {
    let seen = space::look(rt, &data.device, progress).await;
    let seen = seen.map_err(|error| SpaceVolumeError::not_a_space(&data.spec, error))?;
    let mut report = FilesCheck::of(seen.report);
    let Some(space) = seen.space else {
        return Ok(report);
    };
    match forebay_dfs::look(space, no_clock()).await {
        Ok(fs) => look_over(&fs, &seen.damaged, &mut report).await,
        Err(error) => report.problem(error.to_string()),
    }
    if report.has_problems() {
        report.space.verdict = CheckVerdict::Damaged;
    }
    report.space.len = report.space.mappable_bytes;
    Ok(report)
}

async fn look_over(fs: &Fs, damaged: &[Range<u64>], report: &mut FilesCheck) {
    let unreadable = damaged.iter().map(|run| fs.unreadable(run.clone()));
    let unreadable = unreadable.map(|UnreadableRange { file, what }| FileProblem { file, what });
    let mut problems: Vec<FileProblem> = unreadable.collect();
    let checked = fs
        .check(&mut |FsProblem { file, what }| {
            let file = Some(file);
            problems.push(FileProblem { file, what });
        })
        .await;
    report.problems(fs, problems).await;
    match checked {
        Ok(checked) => {
            report.files = checked.files;
            report.directories = checked.directories;
            report.names = checked.names;
            report.nameless = checked.orphans;
            report.data_bytes = checked.data_sectors * forebay_units::SECTOR_BYTES;
        }
        // The unreadable ranges are already in the report.
        Err(FsError::Space(_)) if !damaged.is_empty() => {
            report.problem("the rest was not checked, since this cannot be read".into());
        }
        Err(error) => report.problem(error.to_string()),
    }
}

/// Passes every structure of the filesystem in a space to `out`.
///
/// # Errors
/// If the device does not hold a filesystem, or it cannot be read.
pub(super) async fn dump(
    rt: &Rt,
    data: &OpenDevice,
    out: &mut dyn FnMut(LayerDumpItem),
) -> Result<(), VolumeError> {
    let path = data.spec.to_string();
    let space = space::in_memory(rt, &data.device).await;
    let space = space.map_err(|error| SpaceVolumeError::not_a_space(&data.spec, error))?;
    let fs = match forebay_dfs::look(space, no_clock()).await {
        Ok(fs) => fs,
        Err(error) => return Err(FilesError::NotFiles { data: path, error }.into()),
    };
    let mut each = |item: FsDumpItem| out(LayerDumpItem::new(&item));
    let dumped = fs.dump(&mut each).await;
    dumped.map_err(|error| FilesError::Read { path, error }.into())
}
