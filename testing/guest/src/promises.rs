//! Comparison of the files with the durable acts.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};

use crate::acts::WriterPlan;
use crate::writers::{directory, file};

/// Unit in which overwritten files are compared: no device tears a smaller write.
const SECTOR: usize = 512;
/// Maximum number of listed faults.
const SHOWN_MAX: usize = 20;

/// Results of a verification.
#[derive(Debug)]
pub(crate) struct VerifyFindings {
    files: u64,
    acts: u64,
    /// Faults, one line each.
    broken: Vec<String>,
}

impl VerifyFindings {
    /// Returns the extent of the verification.
    ///
    /// # Errors
    /// If a file differs, or fewer than `least` acts were durable. In the second case nothing was tested.
    pub(crate) fn judged(&self, least: u64) -> Result<String> {
        let VerifyFindings {
            files,
            acts,
            broken,
        } = self;
        let shown = broken[..broken.len().min(SHOWN_MAX)].join("\n");
        ensure!(
            broken.is_empty(),
            "{} of {files} files are not as promised:\n{shown}",
            broken.len()
        );
        ensure!(
            *acts >= least,
            "only {acts} acts were promised, which tests nothing; {least} are wanted"
        );
        Ok(format!("{files} files of {acts} acts are as promised"))
    }
}

/// Checks every file that the acts of each plan created. `promised` contains the durable acts of each plan; of the next
/// `open` acts, any may have been done in part.
pub(crate) fn verify(
    dir: &Path,
    plans: &[WriterPlan],
    promised: &[u64],
    open: u64,
) -> Result<VerifyFindings> {
    ensure!(plans.len() == promised.len(), "a number for each writer");
    let mut found = VerifyFindings {
        files: 0,
        acts: promised.iter().sum(),
        broken: Vec::new(),
    };
    for (plan, &promised) in plans.iter().zip(promised) {
        let directory = directory(dir, plan.writer);
        for (act, later) in plan.files(promised, open) {
            found.files += 1;
            let path = file(&directory, act);
            let versions: Vec<Vec<u8>> = [act]
                .iter()
                .chain(&later)
                .map(|act| plan.content(*act))
                .collect();
            let wrong = match fs::read(&path) {
                Ok(content) => wrong(&content, &versions),
                Err(error) => Some(error.to_string()),
            };
            found
                .broken
                .extend(wrong.map(|wrong| format!("{}: {wrong}", path.display())));
        }
    }
    Ok(found)
}

/// Returns the fault of a file, each of whose sectors may be from any of the versions.
fn wrong(content: &[u8], versions: &[Vec<u8>]) -> Option<String> {
    let len = versions[0].len();
    if content.len() != len {
        return Some(format!("{} bytes instead of {len}", content.len()));
    }
    let sectors = (0..len).step_by(SECTOR);
    let bad: Vec<usize> = sectors
        .filter(|&at| {
            let range = at..len.min(at + SECTOR);
            versions
                .iter()
                .all(|version| version[range.clone()] != content[range.clone()])
        })
        .collect();
    let first = bad.first()?;
    Some(format!(
        "{} of {} sectors differ, the first at byte {first}",
        bad.len(),
        len.div_ceil(SECTOR)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Ledger;
    use crate::writers::write;

    /// Creates a directory in which two writers have done 30 acts each.
    fn written() -> (tempfile::TempDir, Vec<WriterPlan>) {
        let dir = tempfile::tempdir().unwrap();
        let plans = vec![WriterPlan::new(3, 0), WriterPlan::new(3, 1)];
        let ledger = Ledger::open(&dir.path().join("ledger")).unwrap();
        // In two runs, as after a crash.
        write(dir.path(), plans.clone(), &ledger, Some(12)).unwrap();
        assert_eq!(
            write(dir.path(), plans.clone(), &ledger, Some(30)).unwrap(),
            36
        );
        assert_eq!(ledger.counts(2).unwrap(), [30, 30]);
        (dir, plans)
    }

    #[test]
    fn written_files_verify_as_guaranteed() {
        let (dir, plans) = written();
        let found = verify(dir.path(), &plans, &[30, 30], 1).unwrap();
        assert_eq!(
            found.judged(60).unwrap(),
            "40 files of 60 acts are as promised"
        );
        assert!(found.judged(61).is_err());
    }

    #[test]
    fn an_act_without_a_guarantee_may_have_happened_or_not() {
        let (dir, plans) = written();
        // Act 29 overwrote a file.
        for (promised, open, good) in [(29, 1, true), (28, 2, true), (29, 0, false)] {
            let found = verify(dir.path(), &plans, &[promised, promised], open).unwrap();
            assert_eq!(found.judged(1).is_ok(), good, "{promised} {open}");
        }
    }

    #[test]
    fn a_changed_truncated_or_missing_file_is_named_in_the_error() {
        let (dir, plans) = written();
        let path = |n| dir.path().join(format!("writer1/file{n}"));
        let mut content = fs::read(path(0)).unwrap();
        content[0] ^= 1;
        fs::write(path(0), &content).unwrap();
        fs::remove_file(path(3)).unwrap();
        fs::write(path(4), b"").unwrap();
        let found = verify(dir.path(), &plans, &[30, 30], 1).unwrap();
        let said = found.judged(1).unwrap_err().to_string();
        assert!(said.contains("3 of 40 files"), "{said}");
        for part in ["file0: 1 of", "file3: No such file", "file4: 0 bytes"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}
