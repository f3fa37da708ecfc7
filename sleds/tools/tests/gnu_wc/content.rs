//! Tests of files of all kinds, in all states of the page cache.

use std::path::{Path, PathBuf};

use crate::support::content::{sentences, text, write};
use crate::support::{CaseInput, GnuCase, cases, cool, scratch, seed, settle};
use crate::{any, can_compare};
use forebay_rng::Rng;

const FILES: usize = 2500;
const CALLS: u64 = 200;
const FILES_A_CALL: u64 = 80;

/// Returns a random subset of the options for counts.
pub(crate) fn columns(rng: &Rng) -> Vec<&'static str> {
    let all = ["-c", "-m", "-l", "-L", "-w"];
    all.into_iter().filter(|_| rng.one_in(3)).collect()
}

/// Sets a random environment.
fn environment(case: GnuCase, rng: &Rng) -> GnuCase {
    let name = rng.pick(&["LC_ALL", "LC_CTYPE", "LANG"]);
    let value = rng.pick(&["C", "C.UTF-8", "C.UTF-8", "POSIX", "xx_XX.UTF-8"]);
    let case = case.env(name, value);
    if rng.one_in(8) {
        case.env("POSIXLY_CORRECT", "1")
    } else {
        case
    }
}

fn files(dir: &Path, number: usize, rng: &Rng) -> Vec<PathBuf> {
    let make = |n: usize| {
        let path = dir.join(format!("f{n}"));
        let bytes = any(rng);
        write(&path, &bytes, rng);
        path
    };
    let files = (0..number).map(make).collect();
    settle(dir);
    files
}

#[test]
fn counts_equal_those_of_gnu_wc_for_any_content_and_cache_state() {
    if !can_compare("counts_equal_those_of_gnu_wc_for_any_content_and_cache_state") {
        return;
    }
    let seed = seed();
    let rng = Rng::new(seed);
    for _ in 0..cases(CALLS).div_ceil(CALLS) {
        let dir = scratch();
        let files = files(dir.path(), FILES, &rng);
        for _ in 0..CALLS {
            let number = 1 + rng.below(FILES_A_CALL);
            let some: Vec<PathBuf> = (0..number).map(|_| rng.pick(&files)).collect();
            for file in &some {
                cool(file, &rng);
            }
            let plan = rng.pick(&["auto", "best", "best", "linear"]);
            let case = GnuCase::new("wc", dir.path())
                .ours(["--plan", plan])
                .args(columns(&rng));
            let names = some.iter().map(|path| path.file_name().unwrap());
            environment(case, &rng).args(names).check(seed);
        }
    }
}

#[test]
fn counts_of_partly_cached_files_equal_those_of_gnu_wc() {
    if !can_compare("counts_of_partly_cached_files_equal_those_of_gnu_wc") {
        return;
    }
    let seed = seed();
    let rng = Rng::new(seed);
    let dir = scratch();
    // Many times the size of a read, so that the order of the pieces can vary.
    let names = ["words", "scripts", "odd"];
    for name in names {
        let mut bytes = Vec::new();
        while bytes.len() < 5 << 20 {
            let n = rng.below(200_000) as usize;
            bytes.extend_from_slice(&match name {
                "words" => text(&rng, n, b"\n"),
                "scripts" => sentences(&rng, n),
                _ => any(&rng),
            });
        }
        std::fs::write(dir.path().join(name), bytes).unwrap();
    }
    settle(dir.path());
    for plan in ["best", "best", "best", "auto"] {
        let columns = columns(&rng);
        for name in names {
            for _ in 0..3 {
                cool(&dir.path().join(name), &rng);
            }
        }
        let case = GnuCase::new("wc", dir.path()).ours(["--plan", plan]);
        let case = environment(case.args(columns), &rng);
        case.args(names).check(seed);
    }
}

#[test]
fn counts_of_one_file_and_standard_input_equal_those_of_gnu_wc() {
    if !can_compare("counts_of_one_file_and_standard_input_equal_those_of_gnu_wc") {
        return;
    }
    let seed = seed();
    let rng = Rng::new(seed);
    let dir = scratch();
    let files = files(dir.path(), 60, &rng);
    for file in &files {
        let bytes = std::fs::read(file).unwrap();
        let columns = columns(&rng);
        // For a file whose size is a multiple of a page, GNU's -c counts too little from the middle.
        let from = if bytes.len() % 4096 == 0 {
            0
        } else {
            rng.below(bytes.len() as u64 + 10)
        };
        for input in [
            CaseInput::Nothing,
            CaseInput::File(file.clone()),
            CaseInput::FileAt(file.clone(), from),
            CaseInput::Pipe(bytes),
        ] {
            cool(file, &rng);
            let operands = rng.pick::<&[&str]>(&[&[], &["-"], &["-", "-"], &["f0", "-"]]);
            let case = GnuCase::new("wc", dir.path())
                .ours(["--plan=best"])
                .args(&columns)
                .args(operands);
            environment(case, &rng).input(input).check(seed);
        }
    }
}

#[test]
fn a_character_may_be_cut_at_every_byte() {
    if !can_compare("a_character_may_be_cut_at_every_byte") {
        return;
    }
    let dir = scratch();
    let cuts = [4096usize, 16 << 10, 64 << 10, 128 << 10, 256 << 10];
    let odd: [&[u8]; 5] = [
        "\u{a0}w".as_bytes(),
        "w\u{2003}世".as_bytes(),
        "w😀\t".as_bytes(),
        "\u{10fffd} ".as_bytes(),
        b"\xf0\x9f\x98\xf0\x9f\x98\x80\x80",
    ];
    let mut names = Vec::new();
    for cut in cuts {
        for (number, odd) in odd.iter().enumerate() {
            for early in 0..=odd.len() {
                let name = format!("{cut}-{number}-{early}");
                let filler = if number % 2 == 0 { b'x' } else { b' ' };
                let bytes = [&vec![filler; cut - early][..], odd, b"x y"].concat();
                std::fs::write(dir.path().join(&name), bytes).unwrap();
                names.push(name);
            }
        }
    }
    for locale in ["C", "C.UTF-8"] {
        for plan in ["best", "linear"] {
            GnuCase::new("wc", dir.path())
                .ours(["--plan", plan])
                .args(["-lwmcL"])
                .args(&names)
                .env("LC_ALL", locale)
                .check(0);
        }
    }
}

#[test]
fn every_unicode_character_counts_like_in_gnu_wc() {
    if !can_compare("every_unicode_character_counts_like_in_gnu_wc") {
        return;
    }
    let dir = scratch();
    let mut names = Vec::new();
    // Each character stands between letters, to show which characters separate words. Several files narrow down a
    // difference.
    for first in (0..=0x10_ffffu32).step_by(0x1000) {
        let text: String = (first..first + 0x1000)
            .filter_map(char::from_u32)
            .map(|c| format!("a{c}b{c}\n"))
            .collect();
        let name = format!("{first:x}");
        std::fs::write(dir.path().join(&name), text).unwrap();
        names.push(name);
    }
    for posix in [false, true] {
        let mut case = GnuCase::new("wc", dir.path())
            .args(["-wLm"])
            .args(&names)
            .env("LC_ALL", "C.UTF-8");
        if posix {
            case = case.env("POSIXLY_CORRECT", "1");
        }
        case.check(0);
    }
}
