//! Tests of files that change during counting: several results are correct, but not all.

use std::fs::{self, File};
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{GnuCase, scratch, seed};
use forebay_rng::Rng;

/// Sixteen bytes, three words.
const LINE: &[u8; 16] = b"one two 3456789\n";
const LINES: usize = 40_000;
const ROUNDS: usize = 20;

/// Counts a file of [`LINES`] lines while `change` is applied to it repeatedly. Returns lines, words, bytes.
fn while_it_changes(change: impl Fn(&File, &Rng) + Sync) -> Vec<[u64; 3]> {
    let seed = seed();
    let dir = scratch();
    let path = dir.path().join("f");
    fs::write(&path, LINE.repeat(LINES)).unwrap();
    let file = File::options().append(true).open(&path).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let rng = Rng::new(seed);
            while !done.load(Ordering::Relaxed) {
                change(&file, &rng);
            }
        });
        let counts = (0..ROUNDS).map(|round| {
            let plan = ["auto", "best", "linear"][round % 3];
            let case = GnuCase::new("wc", dir.path())
                .ours(["--plan", plan])
                .args(["f"]);
            let outcome = case.run_ours();
            let told = String::from_utf8_lossy(&outcome.out).into_owned();
            let err = String::from_utf8_lossy(&outcome.err);
            assert_eq!(
                outcome.code,
                Some(0),
                "seed {seed}, {plan}: {told}{err}{:?}",
                outcome.signal
            );
            let figures: Vec<u64> = told
                .split_whitespace()
                .filter_map(|word| word.parse().ok())
                .collect();
            figures.try_into().expect("three figures")
        });
        let counts = counts.collect();
        done.store(true, Ordering::Relaxed);
        counts
    })
}

#[test]
fn a_growing_file_is_counted_up_to_one_of_its_intermediate_ends() {
    let counts = while_it_changes(|mut file, rng| {
        let length = file.metadata().unwrap().len();
        if length < 8 << 20 {
            let n = 1 + rng.below(300) as usize;
            file.write_all(&LINE.repeat(n)).unwrap();
        }
    });
    for [lines, words, bytes] in counts {
        let length = LINE.len() as u64;
        assert!(bytes >= length * LINES as u64, "{bytes} bytes");
        assert_eq!(lines, bytes / length, "{bytes} bytes");
        // The last line may be read in part.
        let part = &LINE[..(bytes % length) as usize];
        let more = part.split(|b| *b == b' ').filter(|w| !w.is_empty()).count();
        assert_eq!(words, lines * 3 + more as u64, "{bytes} bytes");
    }
}

#[test]
fn a_shrinking_file_is_counted_without_failure() {
    let counts = while_it_changes(|mut file, rng| {
        file.set_len(LINE.len() as u64 * rng.below(LINES as u64))
            .unwrap();
        let missing = LINES - file.metadata().unwrap().len() as usize / LINE.len();
        file.write_all(&LINE.repeat(missing)).unwrap();
    });
    for [lines, words, bytes] in counts {
        assert!(bytes <= (LINE.len() * LINES) as u64, "{bytes} bytes");
        assert!(
            lines * LINE.len() as u64 <= bytes + 16 && words <= bytes / 4,
            "{lines} {words} {bytes}"
        );
    }
}
