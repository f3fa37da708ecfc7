//! Concurrent writers, each on a thread and in a directory of its own.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};

use crate::acts::{WriterAct, WriterPlan};
use crate::ledger::Ledger;

/// Returns the directory of a writer.
pub(crate) fn directory(dir: &Path, writer: u64) -> PathBuf {
    dir.join(format!("writer{writer}"))
}

/// Returns the file of an act.
pub(crate) fn file(directory: &Path, act: WriterAct) -> PathBuf {
    directory.join(format!("file{}", act.file))
}

/// Runs all writers, up to act `most` or without end. Returns the number of acts done.
///
/// # Errors
/// The first error of a writer. The other writers go on until they meet an error, too, or are done.
pub(crate) fn write(
    dir: &Path,
    plans: Vec<WriterPlan>,
    ledger: &Ledger,
    most: Option<u64>,
) -> Result<u64> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = plans
            .into_iter()
            .map(|plan| scope.spawn(move || write_one(dir, plan, ledger, most)))
            .collect();
        let mut done = 0;
        let mut failed = None;
        for thread in threads {
            match thread.join().map_err(|_| anyhow!("a writer panicked"))? {
                Ok(acts) => done += acts,
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(done), Err)
    })
}

fn write_one(dir: &Path, plan: WriterPlan, ledger: &Ledger, most: Option<u64>) -> Result<u64> {
    let directory = directory(dir, plan.writer);
    fs::create_dir_all(&directory)?;
    File::open(dir)?.sync_all()?;
    let before = ledger.count(plan.writer)?;
    let mut number = before;
    while most.is_none_or(|most| number < most) {
        let act = plan.act(number);
        carry_out(&directory, plan, act)
            .with_context(|| format!("writer {}, act {number}", plan.writer))?;
        number += 1;
        ledger.note(plan.writer, number)?;
    }
    Ok(number - before)
}

/// Does an act, which may have been done in part before, and waits until the result is durable.
fn carry_out(directory: &Path, plan: WriterPlan, act: WriterAct) -> Result<()> {
    let (path, content) = (file(directory, act), plan.content(act));
    if act.creates() {
        let mut file = File::create(path)?;
        file.write_all(&content)?;
        file.sync_all()?;
        File::open(directory)?.sync_all()?;
    } else {
        let file = File::options().write(true).open(path)?;
        file.write_all_at(&content, 0)?;
        file.sync_data()?;
    }
    Ok(())
}
