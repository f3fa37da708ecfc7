//! Tests of files that change during a search: several results are correct, but not all.

use std::fs::{self, File};
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{GnuCase, ProgramOutcome, scratch, seed};
use forebay_rng::Rng;

const LINE: &[u8; 16] = b"one two 3456789\n";
const LINES: usize = 40_000;
const ROUNDS: usize = 12;

/// Searches a file of [`LINES`] lines while `change` is applied to it repeatedly.
fn while_it_changes(args: &[&str], change: impl Fn(&File, &Rng) + Sync) -> Vec<ProgramOutcome> {
    let seed = seed();
    let dir = scratch();
    let path = dir.path().join("f");
    fs::write(&path, LINE.repeat(LINES)).expect("a file");
    let file = File::options().append(true).open(&path);
    let file = file.expect("the file");
    let done = AtomicBool::new(false);
    let outcomes = std::thread::scope(|scope| {
        scope.spawn(|| {
            let rng = Rng::new(seed);
            while !done.load(Ordering::Relaxed) {
                change(&file, &rng);
            }
        });
        let outcomes = (0..ROUNDS).map(|round| {
            let plan = ["auto", "best", "linear"][round % 3];
            let case = GnuCase::new("grep", dir.path()).ours(["--plan", plan]);
            let outcome = case.args(args).args(["f"]).run_ours();
            (plan, outcome)
        });
        let outcomes: Vec<_> = outcomes.collect();
        done.store(true, Ordering::Relaxed);
        outcomes
    });
    // If a page is truncated during the read, zeroes may be read.
    let binary = b"sleds grep: f: binary file matches\n";
    let checked = outcomes.into_iter().map(|(plan, outcome)| {
        assert!(
            matches!(outcome.code, Some(0 | 1))
                && (outcome.err.is_empty() || outcome.err == binary),
            "seed {seed}, {plan}: {:?} {:?} {}",
            outcome.code,
            outcome.signal,
            String::from_utf8_lossy(&outcome.err)
        );
        outcome
    });
    checked.collect()
}

fn grow(mut file: &File, rng: &Rng) {
    let length = file.metadata().expect("its length").len();
    if length < 4 << 20 {
        let n = 1 + rng.below(300) as usize;
        file.write_all(&LINE.repeat(n)).expect("write");
    }
}

fn shrink(mut file: &File, rng: &Rng) {
    file.set_len(LINE.len() as u64 * rng.below(LINES as u64))
        .expect("truncate");
    let length = file.metadata().expect("its length").len() as usize;
    file.write_all(&LINE.repeat(LINES - length / LINE.len()))
        .expect("write");
}

fn lines(outcome: &ProgramOutcome) -> Vec<String> {
    let text = String::from_utf8_lossy(&outcome.out);
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_growing_file_is_searched_up_to_one_of_its_intermediate_ends() {
    for outcome in while_it_changes(&["-n", "one"], grow) {
        let lines = lines(&outcome);
        assert!(lines.len() >= LINES, "{} lines", lines.len());
        for (at, line) in lines.iter().enumerate() {
            let whole = format!("{}:one two 3456789", at + 1);
            // The last line may be read in part.
            let part = at + 1 == lines.len() && whole.starts_with(line.as_str());
            assert!(*line == whole || part, "line {}: {line}", at + 1);
        }
    }
    for outcome in while_it_changes(&["-c", "one"], grow) {
        let told = lines(&outcome);
        let count: usize = told[0].parse().expect("a number");
        assert!(count >= LINES, "{count}");
    }
}

#[test]
fn a_shrinking_file_is_searched_without_failure() {
    for args in [&["-a", "one"], &["-a", "-C1", "one"][..]] {
        for outcome in while_it_changes(args, shrink) {
            let lines = lines(&outcome);
            assert!(lines.len() <= LINES, "{} lines", lines.len());
            for line in lines {
                // Data truncated during the read may be read as zeroes; lines of zeroes only are printed between
                // groups.
                for part in line.split('\0') {
                    assert!(line == "--" || "one two 3456789".contains(part), "{line:?}");
                }
            }
        }
    }
    for args in [
        &["-q", "one"],
        &["-c", "one"],
        &["-o", "one"],
        &["-l", "one"],
    ] {
        while_it_changes(args, shrink);
    }
}
