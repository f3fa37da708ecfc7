//! Tests of error messages, and of parsing the command line.

use std::fs;

use crate::support::{GnuCase, is_gnu, scratch};

#[test]
fn command_lines_are_parsed_like_in_gnu_grep() {
    if !is_gnu("command_lines_are_parsed_like_in_gnu_grep", "grep") {
        return;
    }
    let dir = scratch();
    fs::write(dir.path().join("f"), "foo\nbar\nfoo\n\nbaz\n").expect("a file");
    fs::write(dir.path().join("-x"), "foo\n").expect("a file");
    fs::write(dir.path().join("p"), "foo\nbaz\n").expect("a file");
    fs::write(dir.path().join("empty"), "").expect("a file");
    let lines: &[&[&str]] = &[
        &[],
        &["-E"],
        &["--foo"],
        &["--no"],
        &["--fixed", "foo", "f"],
        &["-A", "x", "foo"],
        &["-A", "-1", "foo"],
        &["-m", "x", "foo"],
        &["-e"],
        &["--binary-files=foo", "x"],
        &["-d", "foo", "x"],
        &["-D", "foo", "x"],
        &["-f", "nope", "f"],
        &["-E", "-F", "x", "f"],
        &["-E", "-E", "x", "f"],
        &["--context=1", "--cont=0", "bar", "f"],
        &["-1", "bar", "f"],
        &["-1", "-2", "bar", "f"],
        &["-01", "bar", "f"],
        &["-1n0", "bar", "f"],
        &["-1", "f", "-0", "-ebar"],
        &["--include", "x"],
        &["foo", "f", "--", "-c"],
        &["-c", "--", "-x", "f"],
        &["-c", "foo", "f", "-n"],
        &["foo", "f", "nope"],
        &["-s", "foo", "f", "nope"],
        &["-q", "foo", "nope", "f"],
        &["foo", "."],
        &["-s", "foo", "."],
        &["-d", "skip", "foo", "."],
        &["-f", "p", "f"],
        &["-vf", "p", "f"],
        &["-f", "empty", "f"],
        &["-vf", "empty", "f"],
        &["-wvf", "empty", "f"],
        &["-cxf", "empty", "f"],
        &["-m0", "foo", "f"],
        &["-m0", "-c", "foo", "f"],
        &["-m0", "-L", "foo", "f"],
        &["-m-1", "foo", "f"],
        &["-m1", "-A9", "foo", "f"],
        &["-u", "foo", "f"],
        &["\\-x", "f"],
        &["-y", "FOO", "f"],
        &["-LvZ", "foo", "f", "-x"],
        &["-Hc", "foo", "f"],
        &["--regexp=foo", "--regexp", "bar", "f"],
        &["-efoo\nbar", "f"],
        &["foo\nbaz", "f"],
        &["--colour", "foo", "f"],
        &["-T", "foo", "f"],
        &["-TnbH", "foo", "f"],
        &["-Tno", "o*", "f"],
        &["-nA0", "foo", "f"],
        &["--exclude=f", "foo", "f", "p"],
        &["--include=p", "foo", "f", "p"],
        &["-ho", "b[a-z]", "f", "p"],
        &["--exclude-from=nope", "foo", "f"],
        &["--null", "-l", "foo", "f"],
        &["-5q", "foo", "f"],
    ];
    for line in lines {
        for locale in ["C", "C.UTF-8"] {
            GnuCase::new("grep", dir.path())
                .args(*line)
                .env("LC_ALL", locale)
                .check(0);
        }
    }
}

#[test]
fn directories_are_searched_in_listing_order() {
    let name = "directories_are_searched_in_listing_order";
    if !is_gnu(name, "grep") {
        return;
    }
    let dir = scratch();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at("d/e/f")).expect("directories");
    fs::create_dir(at("d/.git")).expect("a directory");
    for name in [
        "d/a.c",
        "d/e/b.h",
        "d/e/f/c.c",
        "d/e/f/d",
        "d/.git/x",
        "top",
    ] {
        fs::write(at(name), format!("foo {name}\n")).expect("a file");
    }
    std::os::unix::fs::symlink("a.c", at("d/l")).expect("a link");
    std::os::unix::fs::symlink("e", at("d/le")).expect("a link");
    std::os::unix::fs::symlink("..", at("d/e/up")).expect("a link");
    std::os::unix::fs::symlink("nowhere", at("d/broken")).expect("a link");
    let lines: &[&[&str]] = &[
        &["-r", "foo", "d"],
        &["-R", "foo", "d"],
        &["-r", "foo"],
        &["-r", "foo", "."],
        &["-r", "foo", "d/"],
        &["-r", "foo", "d//", "top"],
        &["-r", "foo", "d//e///"],
        &["-R", "zzz", "d/e//"],
        &["foo", "d//a.c"],
        &["-r", "foo", "d", "top"],
        &["-r", "foo", "top"],
        &["-r", "foo", "d/le", "d/l"],
        &["-rh", "foo", "d"],
        &["-rl", "foo", "d"],
        &["-rL", "zzz", "d"],
        &["-rc", "foo", "d"],
        &["-rq", "foo", "d"],
        &["-r", "--include=*.c", "foo", "d"],
        &["-r", "--exclude=*.c", "foo", "d"],
        &["-r", "--exclude-dir=e", "foo", "d"],
        &["-r", "--exclude-dir=d", "foo", "d"],
        &["-r", "--exclude-dir=.git", "foo"],
        &["-r", "--exclude-dir=d/e", "foo", "d"],
        &["-r", "--exclude=d/a.c", "foo", "d"],
        &["--exclude=d/a.c", "foo", "d/a.c"],
        &["--exclude=a.c", "foo", "d/a.c"],
        &["--include=*.h", "--exclude=*.c", "-r", "foo", "d"],
        &["--exclude=*.c", "--include=*", "-r", "foo", "d"],
        &["--include=*.c", "--exclude=a*", "-r", "foo", "d"],
        &["-d", "recurse", "foo"],
        &["-d", "recurse", "foo", "d"],
        &["foo", "d", "d/a.c"],
        &["-s", "foo", "d"],
        &["-r", "--exclude-dir=.", "foo"],
        &["-r", "--exclude-dir=.", "foo", "."],
    ];
    for line in lines {
        GnuCase::new("grep", dir.path())
            .args(*line)
            .env("LC_ALL", "C")
            .check(0);
    }
}

#[test]
fn a_file_that_is_also_the_output_is_not_searched() {
    if !is_gnu("a_file_that_is_also_the_output_is_not_searched", "grep") {
        return;
    }
    for options in [
        "foo f",
        "-c foo f",
        "-m1 foo f",
        "-q foo f",
        "foo < f",
        "-v bar f",
    ] {
        let run = |program: &str| {
            let dir = scratch();
            let path = dir.path().join("f");
            fs::write(&path, "foo\nfoo\n").expect("a file");
            let script = format!("{program} {options} >> f");
            let output = std::process::Command::new("sh")
                .args(["-c", &script])
                .current_dir(dir.path())
                .output();
            let output = output.expect("a shell");
            let said = String::from_utf8_lossy(&output.stderr).replace("sleds grep", "grep");
            (
                output.status.code(),
                said,
                fs::read(&path).expect("the file"),
            )
        };
        let ours = format!("{} grep", env!("CARGO_BIN_EXE_sleds"));
        assert_eq!(run("grep"), run(&ours), "{options}");
    }
}

#[test]
fn standard_input_has_the_final_offset_of_gnu_grep() {
    if !is_gnu("standard_input_has_the_final_offset_of_gnu_grep", "grep") {
        return;
    }
    let dir = scratch();
    // Longer than the data that GNU grep reads at once.
    let text = "x\nfoo\nfoo\nbar\nbaz\n".to_owned() + &"y\n".repeat(100_000) + "end\n";
    fs::write(dir.path().join("f"), text).expect("a file");
    for options in [
        "-q foo",
        "-q end",
        "-l end",
        "-l none",
        "-L foo",
        "-lm2 foo",
        "-m1 foo",
        "-m2 foo",
        "-A1 -m1 foo",
        "-c foo",
        "-l foo",
        "-m1 foo >/dev/null",
        "-m1 -c foo",
        "-vm1 foo",
        "-m1 -L foo",
        "-b -m1 foo",
        "-m2 -c foo",
    ] {
        let run = |program: &str| {
            // The data that the program leaves in a pipe depends on the pace of the writer.
            let piped = if options.contains(['q', 'l', 'L']) {
                String::new()
            } else {
                format!("; cat f | ({program} {options}; cat)")
            };
            let script = format!("(read line; {program} {options}; cat) < f{piped}");
            let output = std::process::Command::new("sh")
                .args(["-c", &script])
                .current_dir(dir.path())
                .output();
            let output = output.expect("a shell");
            (
                output.status.code(),
                String::from_utf8_lossy(&output.stdout).into_owned(),
            )
        };
        let ours = format!("{} grep", env!("CARGO_BIN_EXE_sleds"));
        assert_eq!(run("grep"), run(&ours), "{options}");
    }
}

#[test]
fn colors_of_the_former_variable_are_used_if_they_are_valid() {
    let name = "colors_of_the_former_variable_are_used_if_they_are_valid";
    if !is_gnu(name, "grep") {
        return;
    }
    let dir = scratch();
    fs::write(dir.path().join("f"), "foo\n").expect("a file");
    for old in ["1;32", "x", "1;x", ";", "", "7"] {
        for new in [
            None,
            Some("mt=4"),
            Some(""),
            Some("mc=4:fn=1"),
            Some("mc=1:ms=4"),
        ] {
            let mut case = GnuCase::new("grep", dir.path())
                .args(["--color=always", "o", "f"])
                .env("GREP_COLOR", old)
                .env("LC_ALL", "C");
            if let Some(new) = new {
                case = case.env("GREP_COLORS", new);
            }
            case.check(0);
        }
    }
}
