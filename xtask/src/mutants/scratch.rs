//! The copy of the tree in which mutants are built, and the simulator that runs there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

/// A copy of the tracked files and a build directory for it, both under `target/`.
pub(super) struct TreeCopy {
    tree: PathBuf,
    build: PathBuf,
}

/// Result of a hunt for a violation.
#[derive(Default)]
pub(super) struct HuntResult {
    /// Checker that reported a violation.
    pub(super) caught_by: Option<String>,
    /// Scenarios run until then.
    pub(super) scenarios: u64,
    /// Processor time of the simulator until then.
    pub(super) took: Duration,
}

impl TreeCopy {
    pub(super) fn new(root: &Path) -> Result<TreeCopy> {
        let place = root.join("target/mutants");
        let (tree, build) = (place.join("tree"), place.join("build"));
        fs::create_dir_all(&tree).with_context(|| tree.display().to_string())?;
        Ok(TreeCopy { tree, build })
    }

    /// Makes the copy equal to the project's files. Equal files are not touched, so that cargo builds only changed
    /// crates.
    pub(super) fn restore(&self, root: &Path) -> Result<()> {
        let files = crate::tracked(root)?;
        for path in &files {
            // A tracked file may be deleted from the working tree.
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

    pub(super) fn tree(&self) -> &Path {
        &self.tree
    }

    pub(super) fn build(&self) -> Result<()> {
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
        let output = Command::new(cargo)
            .args([
                "build",
                "--release",
                "--quiet",
                "--package",
                "forebay-sim-targets",
            ])
            .arg("--target-dir")
            .arg(&self.build)
            .current_dir(&self.tree)
            .env_remove("CARGO_MANIFEST_DIR")
            // Each mutant changes a few functions, and the build is never shipped.
            .env("CARGO_PROFILE_RELEASE_INCREMENTAL", "true")
            .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
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

    fn program(&self) -> PathBuf {
        self.build.join("release/forebay-sim")
    }

    fn as_it_is(&self) -> PathBuf {
        self.build.join("forebay-sim-as-it-is")
    }

    /// Keeps the simulator of the unchanged code, which was built last, for comparison.
    pub(super) fn keep_as_it_is(&self) -> Result<()> {
        fs::copy(self.program(), self.as_it_is()).context("the simulator just built")?;
        Ok(())
    }

    /// Looks for a scenario, from this seed on, that has a violation with the mutant and none without, until the
    /// simulator has used this much processor time.
    pub(super) fn hunt(&self, system: &str, seed: u64, time: Duration) -> Result<HuntResult> {
        let (began, mut seed) = (Instant::now(), seed);
        let mut out = HuntResult::default();
        // A busy machine gets more time, within a limit.
        while out.took + Duration::from_secs(1) < time && began.elapsed() < 3 * time {
            let left = (time - out.took).as_secs().to_string();
            let from = seed.to_string();
            let explore = ["explore", "--seed", &from, "--seconds", &left];
            let of_system = ["--system", system];
            let (found, said) = run(&self.program(), &[&explore[..], &of_system].concat())?;
            let explored = ExploreSummary::parse(&said).with_context(|| said.clone())?;
            out.scenarios += explored.scenarios;
            out.took += explored.processor;
            seed += explored.scenarios;
            if !found {
                continue;
            }
            let Some((in_scenario, checker)) = violation(&said) else {
                out.caught_by = Some("its own end".to_owned());
                break;
            };
            let scenario = in_scenario.to_string();
            let replay = ["replay", &scenario, "--system", system];
            if !run(&self.as_it_is(), &replay)?.0 {
                out.caught_by = Some(checker);
                break;
            }
            seed = in_scenario + 1;
        }
        Ok(out)
    }
}

/// Runs the simulator. Returns true if it found a violation, and its output.
fn run(program: &Path, arguments: &[&str]) -> Result<(bool, String)> {
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| program.display().to_string())?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    // A simulator that does not start proves nothing.
    ensure!(
        output.status.code() != Some(2),
        "the simulator was called wrongly:\n{said}"
    );
    Ok((!output.status.success(), said))
}

/// Parses the seed and the checker from the simulator's output: `seed N digest D: CHECKER: WHAT`.
fn violation(output: &str) -> Option<(u64, String)> {
    output.lines().find_map(|line| {
        let (head, rest) = line.split_once(": ")?;
        let seed = head
            .strip_prefix("seed ")?
            .split(' ')
            .next()?
            .parse()
            .ok()?;
        Some((seed, rest.split(": ").next()?.to_owned()))
    })
}

/// The last line of an exploration: `scenarios N crash_points N … cycles_per_s_per_core N …`.
#[derive(PartialEq, Debug)]
struct ExploreSummary {
    scenarios: u64,
    /// Processor time of the simulator's threads.
    processor: Duration,
}

impl ExploreSummary {
    fn parse(output: &str) -> Option<ExploreSummary> {
        let line = output.lines().find(|line| line.starts_with("scenarios "))?;
        let words: Vec<&str> = line.split(' ').collect();
        let number = |name: &str| -> Option<f64> {
            let at = words.iter().position(|word| *word == name)?;
            words.get(at + 1)?.parse().ok()
        };
        let (cycles, rate) = (number("crash_points")?, number("cycles_per_s_per_core")?);
        Some(ExploreSummary {
            scenarios: number("scenarios")? as u64,
            processor: Duration::from_secs_f64(cycles / rate.max(1.0)),
        })
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_the_simulator_is_parsed() {
        let said = "first seed 7\nseed 9 digest 00ab: turns (I6): a write of home: 3\n\
                    scenarios 3 crash_points 120 violations 1 cycles_per_s_per_core 30 wall_s 9\n";
        assert_eq!(violation(said), Some((9, "turns (I6)".to_owned())));
        let (scenarios, processor) = (3, Duration::from_secs(4));
        assert_eq!(
            ExploreSummary::parse(said),
            Some(ExploreSummary {
                scenarios,
                processor
            })
        );
        assert_eq!(violation("scenarios 3 violations 0"), None);
    }
}
