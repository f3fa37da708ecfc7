//! Tests in locales other than C and UTF-8, and of characters with special rules.

use std::fs;

use crate::support::{GnuCase, is_gnu, make_locale, scratch, skip};

#[test]
fn letters_of_encodings_with_one_byte_are_those_of_the_locale() {
    let test = "letters_of_encodings_with_one_byte_are_those_of_the_locale";
    let dir = scratch();
    if !is_gnu(test, "grep") {
        return;
    }
    // é É ÿ ß × and a word with ä; the lower case of İ in ISO-8859-9 is i.
    let text = b"\xe9\n\xc9\n\xff\n\xdf\n\xd7\nj\xe4 x\nab\ni\nI\n\xdd\n\xfd\nx\xe9y\xc9\n";
    fs::write(dir.path().join("f"), text).expect("a file");
    for (source, charset) in [("de_DE", "ISO-8859-1"), ("tr_TR", "ISO-8859-9")] {
        let Some(name) = make_locale(dir.path(), source, charset) else {
            skip(test, &format!("no locale {source}.{charset}"));
            return;
        };
        for args in [
            &["-n", "\\w"][..],
            &["-no", "\\w*"],
            &["-n", "\\W"],
            &["-n", "[[:alpha:]]"],
            &["-no", "[[:upper:]]"],
            &["-n", "[[:punct:]]"],
            &["-n", "-i", "i"],
            &["-n", "-i", "\u{49}"],
            &["-nw", "x"],
            &["-now", "j."],
            &["-n", "b\\b"],
            &["-no", "\\<.\\>"],
            &["-nE", "(.)y\\1"],
            &["-niE", "(.)y\\1"],
        ] {
            let mut case = GnuCase::new("grep", dir.path())
                .args(args)
                .args(["f"])
                .env("LC_ALL", &name);
            case = case.env("LOCPATH", &dir.path().display().to_string());
            case.check(0);
        }
    }
}

#[test]
fn turkish_has_two_pairs_of_the_letter_i() {
    let test = "turkish_has_two_pairs_of_the_letter_i";
    let dir = scratch();
    if !is_gnu(test, "grep") {
        return;
    }
    let Some(name) = make_locale(dir.path(), "tr_TR", "UTF-8") else {
        skip(test, "no locale tr_TR.UTF-8");
        return;
    };
    fs::write(dir.path().join("f"), "i\nI\nı\nİ\nki\nk\n\u{212a}\n").expect("a file");
    for pattern in ["i", "I", "ı", "İ", "[i]", "[I]", "k", "K"] {
        GnuCase::new("grep", dir.path())
            .args(["-in", pattern, "f"])
            .env("LC_ALL", &name)
            .env("LOCPATH", &dir.path().display().to_string())
            .check(0);
    }
}

#[test]
fn an_encoding_without_support_gives_a_warning() {
    let test = "an_encoding_without_support_gives_a_warning";
    let dir = scratch();
    let Some(name) = make_locale(dir.path(), "ja_JP", "EUC-JP") else {
        skip(test, "no locale ja_JP.EUC-JP");
        return;
    };
    fs::write(dir.path().join("f"), "a\n").expect("a file");
    let outcome = GnuCase::new("grep", dir.path())
        .args(["a", "f"])
        .env("LC_ALL", &name)
        .env("LOCPATH", &dir.path().display().to_string())
        .run_ours();
    assert_eq!((outcome.code, &outcome.out[..]), (Some(0), &b"a\n"[..]));
    let err = String::from_utf8_lossy(&outcome.err).into_owned();
    assert!(
        err.contains("warning: EUC-JP is searched byte by byte"),
        "{err}"
    );
}

#[test]
fn ranges_of_digits_contain_only_digits_in_every_locale() {
    let test = "ranges_of_digits_contain_only_digits_in_every_locale";
    let dir = scratch();
    let Some(name) = make_locale(dir.path(), "en_US", "UTF-8") else {
        skip(test, "no locale en_US.UTF-8");
        return;
    };
    fs::write(dir.path().join("f"), "10 m²\n½\n٣\n7\n").expect("a file");
    let case = |args: &[&str]| {
        let case = GnuCase::new("grep", dir.path()).args(args).args(["f"]);
        let case = case.env("LC_ALL", &name);
        case.env("LOCPATH", &dir.path().display().to_string())
    };
    assert_eq!(case(&["-oE", "[0-9]+"]).run_ours().out, b"10\n7\n");
    assert_eq!(case(&["-oE", "[1-9]"]).run_ours().out, b"1\n7\n");
    if is_gnu(test, "grep") {
        for args in [&["-nE", "[0-9]"][..], &["-c", "[1-3]"]] {
            case(args).check(0);
        }
    }
}
