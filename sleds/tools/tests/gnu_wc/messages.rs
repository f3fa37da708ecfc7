//! Tests of error messages.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;

use crate::support::{CaseInput, GnuCase, scratch, seed};
use crate::{any, can_compare};
use forebay_rng::Rng;

#[test]
fn names_in_messages_are_quoted_like_in_gnu_wc() {
    if !can_compare("names_in_messages_are_quoted_like_in_gnu_wc") {
        return;
    }
    let seed = seed();
    let rng = Rng::new(seed);
    let dir = scratch();
    let odd =
        b"ab/.,:;'\"\\ \t\n\r\x07\x1b\x7f!#$%&()*+-<=>?@[]^_`{|}~\x80\xc3\xa9\xe4\xb8\x96\xff";
    let mut names: Vec<OsString> = (1..=255).map(|b| OsString::from_vec(vec![b])).collect();
    for _ in 0..1500 {
        let n = 1 + rng.below(8);
        names.push(OsString::from_vec((0..n).map(|_| rng.pick(odd)).collect()));
    }
    let names = names.into_iter().filter(|n| n != "." && n != "-");
    let names: Vec<OsString> = names
        .map(|n| [OsString::from("no/"), n].into_iter().collect())
        .collect();
    for locale in ["C", "C.UTF-8"] {
        for some in names.chunks(100) {
            GnuCase::new("wc", dir.path())
                .args(["--"])
                .args(some)
                .env("LC_ALL", locale)
                .check(seed);
        }
    }
}

#[test]
fn names_with_newlines_are_quoted_in_the_counts() {
    if !can_compare("names_with_newlines_are_quoted_in_the_counts") {
        return;
    }
    let dir = scratch();
    let names = ["a\nb", "a b", "it's", "it's\n", "é\n", "plain"];
    for name in names {
        fs::write(dir.path().join(name), "some words\n").unwrap();
    }
    for locale in ["C", "C.UTF-8"] {
        GnuCase::new("wc", dir.path())
            .args(names)
            .env("LC_ALL", locale)
            .check(0);
    }
}

#[test]
fn wrong_command_lines_give_the_messages_and_exit_code_of_gnu_wc() {
    if !can_compare("wrong_command_lines_give_the_messages_and_exit_code_of_gnu_wc") {
        return;
    }
    let dir = scratch();
    fs::write(dir.path().join("f"), "x\n").unwrap();
    fs::write(dir.path().join("list"), "f\0").unwrap();
    for args in [
        &["-x"][..],
        &["-lx", "f"],
        &["--what"],
        &["--what=ever"],
        &["--lines=3"],
        &["--files0-from"],
        &["--files0-from=list", "f"],
        &["--files0-from=nope"],
        &["--files0-from=."],
        &["--", "-l"],
        &["f", "-l", "--", "-w"],
        &["-", "f", "-l"],
        &["--l", "f"],
        &["--max", "f"],
        &["--by", "--ch", "--wo", "f"],
    ] {
        for posix in [false, true] {
            let mut case = GnuCase::new("wc", dir.path()).args(args).env("LC_ALL", "C");
            if posix {
                case = case.env("POSIXLY_CORRECT", "");
            }
            case.check(0);
        }
    }
}

#[test]
fn lists_of_names_are_read_like_in_gnu_wc() {
    if !can_compare("lists_of_names_are_read_like_in_gnu_wc") {
        return;
    }
    let seed = seed();
    let rng = Rng::new(seed);
    let dir = scratch();
    let known = ["f0", "f1", "f2", "f3"];
    for name in known {
        fs::write(dir.path().join(name), any(&rng)).unwrap();
    }
    let odd = ["", "-", "nope", "f0\n", ".", "no pe"];
    for _ in 0..60 {
        let mut list = Vec::new();
        for _ in 0..rng.below(6) {
            let from: &[&str] = if rng.one_in(3) { &odd } else { &known };
            list.extend_from_slice(rng.pick::<&str>(from).as_bytes());
            list.push(0);
        }
        if rng.one_in(2) {
            list.pop();
        }
        let path = dir.path().join("list");
        fs::write(&path, &list).unwrap();
        let columns = super::content::columns(&rng);
        let case = GnuCase::new("wc", dir.path())
            .args(columns)
            .env("LC_ALL", "C.UTF-8");
        case.clone().args(["--files0-from=list"]).check(seed);
        for input in [CaseInput::Pipe(list), CaseInput::File(path)] {
            case.clone()
                .args(["--files0-from=-"])
                .input(input)
                .check(seed);
        }
    }
}

#[test]
fn a_failed_write_of_the_output_is_an_error() {
    if !can_compare("a_failed_write_of_the_output_is_an_error") {
        return;
    }
    let dir = scratch();
    fs::write(dir.path().join("f"), "x\n").unwrap();
    for args in [&["f"][..], &["-l", "f", "f"], &["nope", "f"]] {
        GnuCase::new("wc", dir.path())
            .args(args)
            .output("/dev/full")
            .check(0);
    }
}

#[test]
fn the_total_option_determines_the_total_line() {
    let dir = scratch();
    fs::write(dir.path().join("a"), "one two\n").unwrap();
    fs::write(dir.path().join("b"), "three\n").unwrap();
    let said = |args: &[&str]| {
        let outcome = GnuCase::new("wc", dir.path()).args(args).run_ours();
        assert_eq!(outcome.code, Some(0), "{args:?}");
        String::from_utf8(outcome.out).unwrap()
    };
    assert_eq!(said(&["--total=always", "a"]), "1 2 8 a\n1 2 8 total\n");
    assert_eq!(
        said(&["--total=never", "a", "b"]),
        " 1  2  8 a\n 1  1  6 b\n"
    );
    assert_eq!(said(&["--total=only", "a", "b"]), "2 3 14\n");
    assert_eq!(said(&["--total=au", "a"]), "1 2 8 a\n");
    let wrong = GnuCase::new("wc", dir.path())
        .args(["--total=a", "a"])
        .run_ours();
    assert_eq!(wrong.code, Some(1));
}
