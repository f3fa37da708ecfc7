//! What configurations came to, kept in a file: a study that was ended goes on where it was, and one with a new system
//! runs that system only.

use std::collections::{BTreeSet, HashMap};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::Mutex;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::run::Found;

/// Results in memory, and the file that they are appended to, if one is wished.
pub struct Kept {
    commit: String,
    found: HashMap<String, Line>,
    file: Option<Mutex<File>>,
}

/// A line of the file: one configuration.
#[derive(Serialize, Deserialize)]
struct Line {
    /// The commit of the program that ran it.
    commit: String,
    /// All that the configuration is.
    configuration: String,
    /// What came of it.
    found: Found,
}

impl Kept {
    /// Keeps nothing.
    pub fn nowhere() -> Kept {
        Kept {
            commit: String::new(),
            found: HashMap::new(),
            file: None,
        }
    }

    /// Reads what `path` has, if it exists, and appends to it what is run from now on, as results of `commit`.
    ///
    /// # Errors
    /// If the file cannot be read or written, or has anything else in it. A last line that was cut when a run was
    /// ended is left out.
    pub fn open(path: &Path, commit: &str) -> Result<Kept> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        };
        let mut found = HashMap::new();
        let whole = text.rfind('\n').map_or(0, |last| last + 1);
        for (number, line) in text[..whole].lines().enumerate() {
            let line: Line = serde_json::from_str(line)
                .with_context(|| format!("{}, line {}", path.display(), number + 1))?;
            found.insert(line.configuration.clone(), line);
        }
        let mut options = OpenOptions::new();
        let file = options.create(true).truncate(false).write(true).open(path);
        let mut file = file.with_context(|| path.display().to_string())?;
        file.set_len(whole as u64)?;
        std::io::Seek::seek(&mut file, std::io::SeekFrom::End(0))?;
        Ok(Kept {
            commit: commit.to_owned(),
            found,
            file: Some(Mutex::new(file)),
        })
    }

    /// What a configuration came to before.
    pub(crate) fn get(&self, configuration: &str) -> Option<&Found> {
        self.found.get(configuration).map(|line| &line.found)
    }

    /// Keeps what a configuration came to.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn put(&self, configuration: String, found: &Found) -> Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let line = Line {
            commit: self.commit.clone(),
            configuration,
            found: found.clone(),
        };
        let text = serde_json::to_string(&line)? + "\n";
        let mut file = file.lock().expect("no panic holds it");
        file.write_all(text.as_bytes())?;
        Ok(())
    }

    /// The commits whose results the file had.
    fn commits(&self) -> Vec<&str> {
        let commits: BTreeSet<&str> = (self.found.values())
            .map(|line| line.commit.as_str())
            .collect();
        commits.into_iter().collect()
    }

    /// What a report has to say of it.
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
    fn what_is_kept_is_found_again_and_a_cut_line_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kept.jsonl");
        let refused: Found = Err("refused".into());
        let kept = Kept::open(&path, "one").unwrap();
        kept.put("first".into(), &refused).unwrap();
        std::fs::write(
            &path,
            std::fs::read_to_string(&path).unwrap() + "{\"commit\": \"on",
        )
        .unwrap();
        let kept = Kept::open(&path, "two").unwrap();
        assert_eq!(kept.get("first"), Some(&refused));
        assert!(kept.get("second").is_none());
        kept.put("second".into(), &refused).unwrap();
        let kept = Kept::open(&path, "three").unwrap();
        assert_eq!(kept.get("second"), Some(&refused));
        assert_eq!(kept.commits(), ["one", "two"]);
    }

    #[test]
    fn a_file_of_something_else_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes");
        std::fs::write(&path, "something else\n").unwrap();
        assert!(Kept::open(&path, "one").is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "something else\n");
    }
}
