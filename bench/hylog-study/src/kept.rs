//! Results of configurations in a file. An interrupted study continues from this file, and a study with an additional
//! system runs only the additional configurations.

use std::collections::{BTreeSet, HashMap};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::run::StudyResult;

/// Results of earlier runs in memory, and the file to which new results are appended, if any.
pub struct ResultStore {
    commit: String,
    found: HashMap<String, ResultRecord>,
    file: Option<Mutex<File>>,
}

/// A line of the file: one configuration.
#[derive(Serialize, Deserialize)]
struct ResultRecord {
    /// The commit of the program that ran the configuration.
    commit: String,
    /// Description of the whole configuration, which identifies the result.
    configuration: String,
    /// The result.
    found: StudyResult,
}

impl ResultStore {
    /// Returns an empty store without a file.
    pub fn nowhere() -> ResultStore {
        ResultStore {
            commit: String::new(),
            found: HashMap::new(),
            file: None,
        }
    }

    /// Reads the results in `path`, if the file exists, and opens the file for new results of `commit`. An incomplete
    /// last line, left by an interrupted run, is removed.
    ///
    /// # Errors
    /// If the file cannot be read or written, or contains other lines than results.
    pub fn open(path: &Path, commit: &str) -> Result<ResultStore> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        let mut found = HashMap::new();
        let whole = text.rfind('\n').map_or(0, |last| last + 1);
        for (number, line) in text[..whole].lines().enumerate() {
            let line: ResultRecord = serde_json::from_str(line)
                .with_context(|| format!("{}, line {}", path.display(), number + 1))?;
            found.insert(line.configuration.clone(), line);
        }
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(false).write(true).open(path);
        let mut file = file.with_context(|| path.display().to_string())?;
        file.set_len(whole as u64)?;
        std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0))?;
        Ok(ResultStore {
            commit: commit.to_owned(),
            found,
            file: Some(Mutex::new(file)),
        })
    }

    /// Returns the result of a configuration, if an earlier run stored this result.
    pub(crate) fn get(&self, configuration: &str) -> Option<&StudyResult> {
        self.found.get(configuration).map(|line| &line.found)
    }

    /// Appends the result of a configuration to the file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn put(&self, configuration: String, found: &StudyResult) -> Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let line = ResultRecord {
            commit: self.commit.clone(),
            configuration,
            found: found.clone(),
        };
        let text = serde_json::to_string(&line)? + "\n";
        let mut file = file.lock().expect("no panic holds it");
        file.write_all(text.as_bytes())?;
        Ok(())
    }

    /// Returns the commits of the results in the file.
    fn commits(&self) -> Vec<&str> {
        let commits: BTreeSet<&str> = (self.found.values())
            .map(|line| line.commit.as_str())
            .collect();
        commits.into_iter().collect()
    }

    /// Returns the report's sentence about results of earlier runs. The sentence is empty if the file had no results.
    pub(crate) fn text(&self) -> String {
        match self.found.len() {
            0 => String::new(),
            count => format!(
                "{count} configurations were run earlier, by commit {}, and taken from a file.",
                self.commits().join(", ")
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_results_are_found_again_and_a_truncated_line_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept.jsonl");
        let refused: StudyResult = Err("refused".into());
        let kept = ResultStore::open(&path, "one").unwrap();
        kept.put("first".into(), &refused).unwrap();
        std::fs::write(
            &path,
            std::fs::read_to_string(&path).unwrap() + "{\"commit\": \"on",
        )
        .unwrap();
        let kept = ResultStore::open(&path, "two").unwrap();
        assert_eq!(kept.get("first"), Some(&refused));
        assert!(kept.get("second").is_none());
        kept.put("second".into(), &refused).unwrap();
        let kept = ResultStore::open(&path, "three").unwrap();
        assert_eq!(kept.get("second"), Some(&refused));
        assert_eq!(kept.commits(), ["one", "two"]);
    }

    #[test]
    fn a_file_that_is_not_a_result_store_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes");
        std::fs::write(&path, "something else\n").unwrap();
        assert!(ResultStore::open(&path, "one").is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "something else\n");
    }
}
