//! Compares `sleds cat` with GNU's `cat`, and tests its free order of lines.

#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::process::{Command, Stdio};

use forebay_rng::Rng;
use support::content::{any, write};
use support::{CaseInput, GnuCase, cache_only, cases, cool, is_gnu, scratch, seed, settle};

#[test]
fn output_equals_that_of_gnu_cat() {
    if !is_gnu("output_equals_that_of_gnu_cat", "cat") {
        return;
    }
    let seed = seed();
    let rng = Rng::new(seed);
    let dir = scratch();
    let names: Vec<String> = (0..150).map(|n| format!("f{n}")).collect();
    for name in &names {
        let bytes = any(&rng);
        write(&dir.path().join(name), &bytes, &rng);
    }
    settle(dir.path());
    for _ in 0..cases(60) {
        let some: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut operands: Vec<&str> = (0..rng.below(5)).map(|_| rng.pick(&some)).collect();
        if rng.one_in(3) {
            operands.push(rng.pick(&["-", ".", "nope", "-u", "no pe", "/proc/version"]));
            rng.shuffle(&mut operands);
        }
        for name in &names {
            cool(&dir.path().join(name), &rng);
        }
        let file = dir.path().join(rng.pick(&names));
        let bytes = fs::read(&file).unwrap();
        let from = rng.below(bytes.len() as u64 + 1);
        let inputs = [
            CaseInput::Pipe(bytes),
            CaseInput::File(file.clone()),
            CaseInput::FileAt(file, from),
        ];
        let plan = rng.pick(&["auto", "best", "linear"]);
        GnuCase::new("cat", dir.path())
            .ours(["--plan", plan])
            .args(operands)
            .input(rng.pick(&inputs))
            .env("LC_ALL", "C")
            .check(seed);
    }
}

#[test]
fn unordered_output_contains_every_line_uncut() {
    let seed = seed();
    let rng = Rng::new(seed);
    let dir = scratch();
    let path = dir.path().join("f");
    for round in 0..40 {
        let (flag, end): (&[&str], u8) = if round % 2 == 0 {
            (&[], b'\n')
        } else {
            (&["-z"], 0)
        };
        let bytes = any(&rng);
        write(&path, &bytes, &rng);
        settle(dir.path());
        cool(&path, &rng);
        let outcome = GnuCase::new("cat", dir.path())
            .ours(["--unordered", "--plan=best"])
            .args(flag)
            .args(["f"])
            .run_ours();
        assert_eq!(
            (outcome.code, outcome.err.as_slice()),
            (Some(0), &b""[..]),
            "seed {seed}"
        );
        let sorted = |bytes: &[u8]| {
            let mut lines: Vec<Vec<u8>> = bytes
                .split_inclusive(|b| *b == end)
                .map(Vec::from)
                .collect();
            lines.sort_unstable();
            lines
        };
        let whole = fs::read(&path).unwrap();
        assert!(
            sorted(&outcome.out) == sorted(&whole),
            "seed {seed}, round {round}"
        );
    }
}

#[test]
fn a_record_longer_than_the_memory_is_copied_uncut() {
    let dir = scratch();
    let path = dir.path().join("f");
    let lines = "a line\n".repeat(100_000);
    let length: u64 = 400 << 20;
    let file = fs::File::create(&path).unwrap();
    file.write_all_at(lines.as_bytes(), 0).unwrap();
    file.set_len(length).unwrap();
    let end = length - lines.len() as u64 - 1;
    file.write_all_at(format!("\n{lines}").as_bytes(), end)
        .unwrap();
    settle(dir.path());
    cache_only(&path, &[(4096, 4096), (100 << 20, 4096)]);
    for plan in ["best", "auto", "linear"] {
        let script = format!("ulimit -v 300000; $0 cat --unordered --plan={plan} f");
        let output = Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_sleds")])
            .current_dir(dir.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(output.stdout.len() as u64, length);
        let mut records = output.stdout.split(|b| *b == b'\n');
        let zeros = |record: &&[u8]| record.len() as u64 == end - lines.len() as u64;
        assert_eq!(records.clone().filter(zeros).count(), 1);
        assert_eq!(
            records.by_ref().filter(|r| *r == b"a line").count(),
            200_000
        );
    }
}

#[test]
fn a_file_is_not_copied_to_itself() {
    if !is_gnu("a_file_is_not_copied_to_itself", "cat") {
        return;
    }
    let dir = scratch();
    for (name, text) in [("f", "text\n"), ("other", "more\n"), ("empty", "")] {
        fs::write(dir.path().join(name), text).unwrap();
    }
    for operands in [&["f"][..], &["other", "f"], &["f", "other"], &["empty"]] {
        for out in ["f", "empty"] {
            let case = GnuCase::new("cat", dir.path())
                .args(operands)
                .output(dir.path().join(out));
            let read = || fs::read(dir.path().join(out)).unwrap();
            let before = read();
            let gnu = case.run_gnu();
            let after_gnu = read();
            fs::write(dir.path().join(out), &before).unwrap();
            let mut ours = case.run_ours();
            assert_eq!(read(), after_gnu, "{operands:?} into {out}");
            fs::write(dir.path().join(out), &before).unwrap();
            if let Some(at) = ours.err.windows(6).position(|w| w == b"sleds ") {
                ours.err.drain(at..at + 6);
            }
            if let Some(what) = case.between(&gnu, &ours) {
                panic!("{what}");
            }
        }
    }
}

#[test]
fn a_failed_write_of_the_output_gives_the_error_message_of_gnu() {
    if !is_gnu(
        "a_failed_write_of_the_output_gives_the_error_message_of_gnu",
        "cat",
    ) {
        return;
    }
    let dir = scratch();
    fs::write(dir.path().join("f"), "text\n").unwrap();
    GnuCase::new("cat", dir.path())
        .args(["f", "nope", "f"])
        .output("/dev/full")
        .check(0);
}

#[test]
fn a_closed_output_pipe_ends_the_program_silently() {
    use std::os::unix::process::ExitStatusExt as _;
    let dir = scratch();
    let path = dir.path().join("f");
    fs::write(&path, "more than a pipe can hold\n".repeat(100_000)).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_sleds"))
        .args(["cat", "--unordered"])
        .arg(&path)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(13), "{:?}", output.status);
    assert!(output.stderr.is_empty());
}
