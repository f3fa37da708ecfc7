//! Tests of large, partly cached files, which are searched out of order.

use std::fs::{self, File};
use std::path::Path;

use sleds::{FileReader, ReadOptions, ReadPlan, ReadUnit};

use crate::support::{CaseInput, GnuCase, cache_only, is_gnu, scratch, seed, settle};
use forebay_rng::Rng;

const ROUNDS: u64 = 2;

/// Searches whose output depends on the lines before and after a match, and searches without this dependency.
const SEARCHES: &[&[&str]] = &[
    &["-n", "needle"],
    &["-nb", "-C3", "needle"],
    &["-A2", "-B1", "-m7", "needle"],
    &["-o", "-b", "e[a-z]*"],
    &["-c", "e"],
    &["-vc", "e"],
    &["-c", "-m1", "needle"],
    &["-m1", "-n", "needle"],
    &["-q", "needle"],
    &["-q", "no such thing"],
    &["-l", "needle"],
    &["-L", "needle"],
    &["-L", "no such thing"],
    &["-l", "no such thing"],
    &["-vn", "[a-m]"],
    &["-I", "-n", "needle"],
    &["-w", "--color=always", "needle"],
];

/// Returns lines of which few contain `needle`. With `zeroes` the file is binary, as its beginning shows.
fn haystack(rng: &Rng, zeroes: bool) -> Vec<u8> {
    let length = (3 << 20) + rng.below(4 << 20) as usize;
    let mut out = Vec::with_capacity(length + 100_000);
    while out.len() < length {
        for _ in 0..rng.below(60) {
            out.push(b'a' + rng.below(26) as u8);
        }
        match rng.below(2000) {
            0 => out.extend_from_slice(b" needle "),
            // A line longer than one read.
            1 if rng.one_in(40) => out.extend(std::iter::repeat_n(b'x', 90_000)),
            2 if zeroes => out.push(0),
            _ => {}
        }
        out.push(b'\n');
    }
    if zeroes {
        // After the offset at which standard input may be positioned.
        out[10_000] = 0;
    }
    if rng.one_in(2) {
        out.extend_from_slice(b"needle without an end");
    }
    out
}

/// Returns true if a reader returns the pieces of `path` in an order other than the file's.
fn comes_out_of_order(path: &Path) -> bool {
    let file = File::open(path).expect("the file");
    let options = ReadOptions {
        plan: ReadPlan::Best,
        unit: ReadUnit::Records(b'\n'),
        ..ReadOptions::default()
    };
    let mut reader = FileReader::new(&file, options).expect("a reader");
    assert_eq!(reader.plan(), ReadPlan::Best);
    let (mut next, mut turns) = (0, 0);
    while let Some(piece) = reader.next_piece().expect("a piece") {
        turns += u64::from(piece.offset != next);
        next = piece.offset + piece.data.len() as u64;
    }
    turns > 0
}

#[test]
fn zero_bytes_late_in_a_file_hide_their_own_line_and_later_lines() {
    let dir = scratch();
    let path = dir.path().join("f");
    let rest = "y\n".repeat(1 << 20);
    let text = format!("needle 1\n{rest}needle\0 2\nneedle 3\n{rest}needle 4\n");
    fs::write(&path, text).expect("a file");
    settle(dir.path());
    let far = 3 << 20;
    for plan in ["--plan=best", "--plan=auto", "--plan=linear"] {
        cache_only(&path, &[(far, 4096)]);
        let case = GnuCase::new("grep", dir.path()).ours([plan]);
        let shown = case.clone().args(["needle", "f"]).run_ours();
        assert_eq!(String::from_utf8_lossy(&shown.out), "needle 1\n");
        assert_eq!(shown.err, b"sleds grep: f: binary file matches\n");
        let counted = case.args(["-c", "", "f"]).run_ours();
        let lines = format!("{}\n", (2 << 20) + 5);
        assert_eq!(counted.out, lines.as_bytes(), "a line ends at a zero byte");
    }
}

#[test]
fn output_equals_that_of_gnu_grep_for_out_of_order_pieces() {
    let name = "output_equals_that_of_gnu_grep_for_out_of_order_pieces";
    if !is_gnu(name, "grep") {
        return;
    }
    let first = seed();
    let mut out_of_order = 0;
    for round in 0..ROUNDS {
        let seed = first.wrapping_add(round);
        let rng = &Rng::new(seed);
        let dir = scratch();
        let path = dir.path().join("f");
        let bytes = haystack(rng, round % 2 == 1);
        fs::write(&path, &bytes).expect("a file");
        settle(dir.path());
        // The ranges do not include the beginning, or reading would begin in order.
        let mut ranges = Vec::new();
        for _ in 0..1 + rng.below(4) {
            let at = ((1 << 20) + rng.below(bytes.len() as u64 - (2 << 20))) & !4095;
            ranges.push((at, 4096 * (1 + rng.below(300))));
        }
        cache_only(&path, &ranges);
        out_of_order += u64::from(comes_out_of_order(&path));
        for search in SEARCHES {
            let mut case = GnuCase::new("grep", dir.path())
                .args(*search)
                .env("LC_ALL", rng.pick::<&str>(&["C", "C.UTF-8"]));
            case = if rng.one_in(4) {
                case.input(CaseInput::FileAt(path.clone(), rng.below(5000)))
            } else {
                case.args(["f"])
            };
            let gnu = case.run_gnu();
            for plan in ["--plan=best", "--plan=auto", "--plan=linear"] {
                cache_only(&path, &ranges);
                let case = case.clone().ours([plan]);
                let mut ours = case.run_ours();
                ours.err = String::from_utf8_lossy(&ours.err)
                    .replace("sleds grep", "grep")
                    .into_bytes();
                if let Some(what) = case.between(&gnu, &ours) {
                    panic!("FOREBAY_SEED={seed}: {what}");
                }
            }
        }
    }
    // On a filesystem that does not evict, all data is cached, and the test does not exercise the order.
    if out_of_order == 0 {
        crate::support::skip(
            name,
            "nothing leaves the page cache here, so all came in order",
        );
    }
}
