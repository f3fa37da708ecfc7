//! A filesystem that is not in use: a check of its space and then of the filesystem, and a dump of its structures.
//!
//! Both see the state that attaching would find: the space is recovered in memory. Files that a crash left without a
//! name are not removed.

use std::ops::Range;
use std::rc::Rc;

use forebay_device::Device;
use forebay_dfs::{FileTime, Fs, FsClock, FsDumpItem, FsError};
use forebay_rt::Rt;
use forebay_vsl::{Space, SpaceOpenError};
use serde::Serialize;

use crate::space::{self, SpaceCheck, SpaceVerdict};
use crate::{OpenDevice, StackError};

/// Maximum number of problems that are listed; further problems are only counted.
const PROBLEMS_MAX: usize = 100;

/// Findings of a check of a filesystem.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FilesCheck {
    /// Findings on the space. Its verdict covers space and filesystem.
    #[serde(flatten)]
    pub space: SpaceCheck,
    /// Number of files, including directories.
    pub files: u64,
    /// Number of directories.
    pub directories: u64,
    /// Number of names.
    pub names: u64,
    /// Files without a name that were still in use at the end of the last mount.
    pub nameless: u64,
    /// Bytes of file data.
    pub data_bytes: u64,
    /// The first problems of files, in words.
    pub file_problems: Vec<String>,
    /// Number of further problems.
    pub more_problems: u64,
}

impl FilesCheck {
    fn of(space: SpaceCheck) -> FilesCheck {
        FilesCheck {
            space,
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
    pub(crate) fn has_problems(&self) -> bool {
        !self.file_problems.is_empty()
    }

    fn problem(&mut self, text: String) {
        if self.file_problems.len() < PROBLEMS_MAX {
            self.file_problems.push(text)
        } else {
            self.more_problems += 1
        }
    }
}

/// Returns a constant clock: nothing is changed, so no time is needed.
fn no_clock() -> FsClock {
    Rc::new(FileTime::default)
}

/// Checks a filesystem and its space. Changes nothing.
///
/// # Errors
/// If the device does not hold a filesystem, or fails.
pub(crate) async fn check(
    rt: &Rt,
    data: &OpenDevice,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<FilesCheck, StackError> {
    let seen = space::look(rt, &data.device, progress).await;
    let seen = seen.map_err(|error| StackError::not_a_space(&data.spec, error))?;
    let mut report = FilesCheck::of(seen.report);
    let Some(space) = seen.space else {
        return Ok(report);
    };
    match forebay_dfs::look(space, no_clock()).await {
        Ok(fs) => look_over(&fs, &seen.damaged, &mut report).await,
        Err(error) => report.problem(error.to_string()),
    }
    if report.has_problems() {
        report.space.verdict = SpaceVerdict::Damaged;
    }
    report.space.len = report.space.mappable_bytes;
    Ok(report)
}

async fn look_over(fs: &Fs, damaged: &[Range<u64>], report: &mut FilesCheck) {
    for run in damaged {
        report.problem(fs.describe(run.clone()));
    }
    let mut problems = Vec::new();
    let checked = fs.check(&mut |problem| problems.push(problem)).await;
    for problem in problems {
        let file = problem.file;
        let what = problem.what;
        report.problem(format!("file {file}: {what}"));
    }
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
pub(crate) async fn dump(
    rt: &Rt,
    device: &Rc<dyn Device>,
    out: &mut dyn FnMut(FsDumpItem),
) -> Result<(), DumpError> {
    let space: Space = space::in_memory(rt, device).await?;
    let fs = forebay_dfs::look(space, no_clock()).await?;
    Ok(fs.dump(out).await?)
}

/// Reason why a filesystem's structures cannot be dumped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DumpError {
    /// The space cannot be recovered.
    #[error(transparent)]
    Space(#[from] SpaceOpenError),
    /// The space does not hold a filesystem.
    #[error(transparent)]
    Files(#[from] forebay_dfs::FsOpenError),
    /// A structure cannot be read.
    #[error(transparent)]
    Fs(#[from] FsError),
}
