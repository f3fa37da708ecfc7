//! A filesystem that is not in use: a check of the space that it is on, and then of itself; and what lies there.
//!
//! Both are of what an attach would find: the space is recovered in memory. Nothing is removed there that a crash left
//! without a name.

use std::ops::Range;
use std::rc::Rc;

use forebay_device::Device;
use forebay_dfs::{Clock, DumpItem, Fs, FsError, Time};
use forebay_rt::Rt;
use forebay_vsl::{OpenError, Space};
use serde::Serialize;

use crate::space::{self, SpaceCheck, SpaceVerdict};
use crate::{Part, StackError};

/// Problems that are listed at most; the others are counted.
const PROBLEMS_MAX: usize = 100;

/// What a check of a filesystem found.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct FilesCheck {
    /// Of the space that it is on. Its verdict is that on both.
    #[serde(flatten)]
    pub space: SpaceCheck,
    /// Files, directories among them.
    pub files: u64,
    /// Directories.
    pub directories: u64,
    /// Names.
    pub names: u64,
    /// Files that have no name, and were in use when the filesystem was left.
    pub nameless: u64,
    /// Data of files, in bytes.
    pub data_bytes: u64,
    /// What is wrong with which file, in words: the first of it.
    pub file_problems: Vec<String>,
    /// How many more there are.
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

    /// Whether anything is wrong with the filesystem itself.
    pub(crate) fn has_problems(&self) -> bool {
        !self.file_problems.is_empty()
    }

    fn problem(&mut self, text: String) {
        match self.file_problems.len() < PROBLEMS_MAX {
            true => self.file_problems.push(text),
            false => self.more_problems += 1,
        }
    }
}

/// Nothing is changed, so nobody asks when it was.
fn no_clock() -> Clock {
    Rc::new(Time::default)
}

/// Checks a filesystem and the space that it is on. Changes nothing.
///
/// # Errors
/// If it is none, or the device fails.
pub(crate) async fn check(
    rt: &Rt,
    data: &Part,
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
        // What cannot be read was said already.
        Err(FsError::Space(_)) if !damaged.is_empty() => {
            report.problem("the rest was not looked at, since this cannot be read".into());
        }
        Err(error) => report.problem(error.to_string()),
    }
}

/// Gives every structure of the filesystem in a space to `out`.
///
/// # Errors
/// If there is none, or it cannot be read.
pub(crate) async fn dump(
    rt: &Rt,
    device: &Rc<dyn Device>,
    out: &mut dyn FnMut(DumpItem),
) -> Result<(), DumpError> {
    let space: Space = space::in_memory(rt, device).await?;
    let fs = forebay_dfs::look(space, no_clock()).await?;
    Ok(fs.dump(out).await?)
}

/// Why a filesystem's structures cannot be given.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DumpError {
    /// The space cannot be taken up.
    #[error(transparent)]
    Space(#[from] OpenError),
    /// There is no filesystem in it.
    #[error(transparent)]
    Files(#[from] forebay_dfs::OpenError),
    /// Something cannot be read.
    #[error(transparent)]
    Fs(#[from] FsError),
}
