//! Tests of files with holes, and of inputs without line ends.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;

use crate::support::{GnuCase, is_gnu, scratch};

/// Length of the file with holes. Reading so many bytes would take minutes.
const LENGTH: u64 = 1 << 40;

const SEARCHES: &[&[&str]] = &[
    &["needle"],
    &["-n", "needle"],
    &["-c", "needle"],
    &["-c", "-m1", "needle"],
    &["-l", "needle"],
    &["-L", "needle"],
    &["-q", "needle"],
    &["-I", "needle"],
    &["-Ic", "needle"],
    &["-c", "no such thing"],
    &["-vc", "^$\\|needle"],
    &["-zc", "needle"],
    &["-zn", "needle"],
    &["-z", "needle"],
    &["-Pc", "needle"],
];

/// Makes a file with two parts of data in a hole.
fn sparse(path: &Path) {
    let file = File::create(path).expect("a file");
    file.set_len(LENGTH).expect("a length");
    let lines = "text\n".repeat(50_000) + "a needle\nmore text\n";
    for at in [LENGTH / 4, LENGTH / 2] {
        file.write_all_at(lines.as_bytes(), at).expect("a write");
    }
}

#[test]
fn holes_are_skipped_with_the_output_of_gnu_grep() {
    if !is_gnu("holes_are_skipped_with_the_output_of_gnu_grep", "grep") {
        return;
    }
    let dir = scratch();
    sparse(&dir.path().join("f"));
    for search in SEARCHES {
        let case = GnuCase::new("grep", dir.path())
            .args(*search)
            .args(["f"])
            .env("LC_ALL", "C");
        let gnu = case.run_gnu();
        for plan in ["--plan=best", "--plan=auto", "--plan=linear"] {
            if let Some(what) = case.clone().ours([plan]).difference_from(&gnu) {
                panic!("{what}");
            }
        }
    }
}

/// Runs a script with `sleds` as `$0` and at most `kilobytes` of address space. Returns the exit code, the output and
/// the messages.
fn confined(dir: &Path, kilobytes: u64, script: &str) -> (Option<i32>, String, String) {
    let output = Command::new("sh")
        .args(["-c", &format!("ulimit -v {kilobytes}; {script}")])
        .arg(env!("CARGO_BIN_EXE_sleds"))
        .env("LC_ALL", "C")
        .current_dir(dir)
        .output()
        .expect("a shell");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn zero_bytes_take_no_memory() {
    let dir = scratch();
    let zeros = "head -c 600M /dev/zero";
    let (code, out, err) = confined(dir.path(), 300_000, &format!("{zeros} | $0 grep -c x"));
    assert_eq!((code, &*out, &*err), (Some(1), "0\n", ""));
    let script = format!("({zeros}; echo; echo x here) | $0 grep x");
    let (code, out, err) = confined(dir.path(), 300_000, &script);
    let message = "sleds grep: (standard input): binary file matches\n";
    assert_eq!((code, &*out, &*err), (Some(0), "", message));
}

#[test]
fn a_line_too_long_for_the_memory_is_an_error_and_the_next_file_is_searched() {
    let dir = scratch();
    std::fs::write(dir.path().join("f"), "x here\n").expect("a file");
    let script = "head -c 600M /dev/zero | tr '\\0' y | $0 grep -h x - f";
    let (code, out, err) = confined(dir.path(), 300_000, script);
    let message = "sleds grep: (standard input): memory exhausted\n";
    assert_eq!((code, &*out, &*err), (Some(2), "x here\n", message));
}
