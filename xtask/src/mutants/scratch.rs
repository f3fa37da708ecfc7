//! The copy of the tree that mutants are built in, and the simulator that is run there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::patch::Mutant;
use super::timed;

/// A copy of the tracked files and a build directory for it, both under `target/`.
pub(super) struct Scratch {
    tree: PathBuf,
    build: PathBuf,
}

/// What an exploration came to.
#[derive(Default)]
pub(super) struct Explored {
    pub(super) violation: bool,
    /// The checker that saw it.
    pub(super) checker: String,
    /// Worlds explored, as the simulator prints it.
    pub(super) worlds: String,
    pub(super) took: Duration,
    pub(super) output: String,
}

impl Scratch {
    pub(super) fn new(root: &Path) -> Result<Scratch> {
        let place = root.join("target/mutants");
        let (tree, build) = (place.join("tree"), place.join("build"));
        fs::create_dir_all(&tree).with_context(|| tree.display().to_string())?;
        Ok(Scratch { tree, build })
    }

    /// Makes the copy equal to the project's files. What is equal already is not touched, so that
    /// cargo builds only what has changed.
    pub(super) fn restore(&self, root: &Path) -> Result<()> {
        let files = crate::tracked(root)?;
        for path in &files {
            // A file that is tracked and deleted is not there to be copied.
            let Ok(bytes) = fs::read(root.join(path)) else {
                continue;
            };
            let copy = self.tree.join(path);
            if fs::read(&copy).is_ok_and(|there| there == bytes) {
                continue;
            }
            if let Some(parent) = copy.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(&copy, bytes).with_context(|| copy.display().to_string())?;
        }
        let known: BTreeSet<PathBuf> = files.iter().map(|path| self.tree.join(path)).collect();
        remove_others(&self.tree, &known)
    }

    pub(super) fn apply(&self, mutant: &Mutant) -> Result<()> {
        mutant.apply(&self.tree)
    }

    pub(super) fn build(&self) -> Result<()> {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let output = Command::new(cargo)
            .args(["build", "--release", "--quiet", "--package", "forebay-sim"])
            .arg("--target-dir")
            .arg(&self.build)
            .current_dir(&self.tree)
            .env_remove("CARGO_MANIFEST_DIR")
            .output()
            .context("cargo could not be run")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "it does not build:\n{}",
            said.trim()
        );
        Ok(())
    }

    /// Lets the simulator look for a violation.
    pub(super) fn explore(&self, seed: u64, seconds: u64) -> Result<Explored> {
        let program = self.build.join("release/forebay-sim");
        let (output, took) = timed(|| {
            Command::new(&program)
                .args(["explore", "--seed", &seed.to_string()])
                .args(["--seconds", &seconds.to_string()])
                .current_dir(&self.tree)
                .stdin(Stdio::null())
                .output()
        });
        let output = output.with_context(|| program.display().to_string())?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        // A simulator that does not even begin proves nothing.
        ensure!(
            output.status.code() != Some(2),
            "the simulator was called wrongly:\n{said}"
        );
        Ok(Explored {
            violation: !output.status.success(),
            checker: checker(&said),
            worlds: worlds(&said),
            took,
            output: said,
        })
    }
}

/// The first word that names what was seen, from the simulator's closing lines.
fn checker(output: &str) -> String {
    let named = output
        .lines()
        .find_map(|line| line.trim().strip_prefix("violation: "));
    let word = named.and_then(|rest| rest.split([':', ' ']).next());
    word.unwrap_or("a panic").to_owned()
}

/// How many worlds the simulator says it ran.
fn worlds(output: &str) -> String {
    let mut words = output
        .split_whitespace()
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
        .peekable();
    while let Some(word) = words.next() {
        if let Some(count) = word.strip_prefix("worlds=") {
            return count.to_owned();
        }
        if word.trim_matches(|c: char| !c.is_alphabetic()) == "worlds"
            && let Some(count) = words.peek()
        {
            return (*count).to_owned();
        }
    }
    String::new()
}

/// Removes the files below `directory` that are not in `known`.
fn remove_others(directory: &Path, known: &BTreeSet<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            remove_others(&path, known)?;
        } else if !known.contains(&path) {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}
