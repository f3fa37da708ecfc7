//! Corner cases of patterns that the random comparison found. GNU grep matches in two ways, by its automaton and by the
//! C library. If the two disagree, a pattern has a single meaning in `sleds grep`.

use std::fs;
use std::path::Path;

use crate::support::{GnuCase, is_gnu, make_locale, scratch, skip};

/// Compares the output for `text`, in the C locale and in UTF-8.
fn compare(test: &str, text: &[u8], searches: &[&[&str]]) {
    if !is_gnu(test, "grep") {
        return;
    }
    let dir = scratch();
    fs::write(dir.path().join("f"), text).expect("a file");
    for locale in ["C", "C.UTF-8"] {
        for search in searches {
            case(dir.path(), search).env("LC_ALL", locale).check(0);
        }
    }
}

fn case(dir: &Path, search: &[&str]) -> GnuCase {
    GnuCase::new("grep", dir).args(search).args(["f"])
}

#[test]
fn a_word_is_searched_in_shorter_matches_and_then_further_on() {
    compare(
        "a_word_is_searched_in_shorter_matches_and_then_further_on",
        b"foo foo-bx\nabab ab\nxabab abab\naa a\n foo\nfoox foo-\n",
        &[
            &["-w", "foo\\|foo-b"],
            &["-w", "-e\\(ab\\)\\1", "-eab"],
            &["-ow", "-e\\(ab\\)\\1", "-eab"],
            &["-ow", "-e\\(a*\\)b\\1", "-efoo", "-e\\(a\\)\\1"],
            &["-cw", "-e\\(.\\).*\\1", "-ex"],
            &["-ow", "-eab", "-e"],
            &["-w", "-e-", "-e"],
            &["-wF", "-eab", "-e-"],
            &["-ow", "a.*\\>"],
        ],
    );
}

#[test]
fn assertions_may_be_repeated() {
    compare(
        "assertions_may_be_repeated",
        b"x\nx$\na b\n*a\na*\n1}a\n{1}\nxb}\n",
        &[
            &["x$*"],
            &["-o", "x$*"],
            &["-oE", "a\\>+ b"],
            &["-E", "a\\>+ b"],
            &["^*a"],
            &["-E", "\\b{0}"],
            &["-E", "(^a)* b"],
            &["\\<\\{1\\}"],
        ],
    );
}

#[test]
fn intervals_and_operators_without_an_operand_behave_like_in_gnu_grep() {
    compare(
        "intervals_and_operators_without_an_operand_behave_like_in_gnu_grep",
        b"a\n1}a\n2}a\n{1}\na{}\na{1,2\n(*a)\n",
        &[
            &["-E", "{1}a"],
            &["-E", "-e{1}a", "-e("],
            &["-E", "-e{1}a", "-eb{"],
            &["-E", "a{}"],
            &["-E", "a{,}"],
            &["-E", "a{1,2"],
            &["-oE", "a{1,2"],
            &["-oE", "-ea{1,2*", "-e[[:upper:]]"],
            &["-E", "a{2,1}"],
            &["-E", "a{99999}"],
            &["-E", "(*a)"],
            &["a\\{1"],
        ],
    );
}

#[test]
fn a_letter_after_a_backslash_is_a_letter() {
    compare(
        "a_letter_after_a_backslash_is_a_letter",
        "d\nD\nxd\né\nÉ\n".as_bytes(),
        &[&["-i", "\\d"], &["-io", "\\D"], &["-i", "\\é"]],
    );
}

#[test]
fn an_unmatched_closing_parenthesis_is_text() {
    compare(
        "an_unmatched_closing_parenthesis_is_text",
        b"a)b\nab)\na)\nx a)b\n)\nq\n",
        &[
            &["-E", "a)b"],
            &["-Ew", "-ea)b", "-ex"],
            &["a$)"],
            &["a$)b"],
            &["a$|b"],
        ],
    );
}

#[test]
fn searches_with_inconsistent_results_in_gnu_grep_have_one_result() {
    let dir = scratch();
    for (args, text, printed) in [
        // Each word is found, also the second in a line, and no word inside another word.
        (&["-ow", "foo\\|foo-b"][..], "foo foo-bx\n", "foo\nfoo\n"),
        (
            &["-ow", "foo$\\|foo-*"],
            "foo foo-bx\nfoox foo-\n",
            "foo\nfoo\nfoo-\n",
        ),
        // With `-x`, `-w` makes no difference.
        (&["-xwo", "a*"], "a\naaa\n\nb a\na", "a\naaa\na\n"),
        (
            &["-xwo", "-ea", "-e\\(a\\)\\1*"],
            "a\naaa\nb a\n",
            "a\naaa\n",
        ),
        (&["-xwFo", "a"], "a\naaa\n", "a\n"),
        // Assertions may be repeated. Other operators with nothing to repeat have no effect.
        (&["a\\>*"], "a b\n*b\n", "a b\n"),
        (&["-oE", "^*a"], "ba\n", "a\n"),
        (&["-oE", "{1}a"], "1}a\n", "a\n"),
        (&["-oE", "*{2}a"], "2}a\n", "a\n"),
        (&["-E", "x(*)"], "x\ny\n", "x\n"),
        // A lower-case letter after a backslash is that letter.
        (&["-io", "\\d"], "d\nD\n", "d\nD\n"),
        (&["-i", "[[.-.]]\\|\\d"], "d\n-\nx\n", "d\n-\n"),
        // An unmatched closing parenthesis is text, also with `-w` and `-x`.
        (&["-Ew", "a)b"], "a)b\nab)\nx a)b\n", "a)b\nx a)b\n"),
        (&["-Exo", "a)b"], "a)b\nab)\n", "a)b\n"),
        (
            &["-Ex", "-e[ab]", "-ea)", "-e\\`a"],
            "a)b\nab)\na)\n",
            "a)\n",
        ),
        (&["a$|b"], "a$|b\na\n", "a$|b\n"),
        // If case does not matter, a range contains both cases of its characters.
        (&["-i", "[--z]"], "Z\n[\n_\n~\n", "Z\n[\n_\n"),
        (&["-i", "[Z-a]"], "z\n_\nA\nb\n", "z\n_\nA\n"),
        // A line that ends in a zero byte has its ends there, not at newlines inside.
        (&["-zoE", "\\s^|$\\s|b"], "a\nb\n", "b\0"),
    ] {
        fs::write(dir.path().join("f"), text).expect("a file");
        for locale in ["C", "C.UTF-8"] {
            let ours = case(dir.path(), args).env("LC_ALL", locale).run_ours();
            let out = String::from_utf8_lossy(&ours.out);
            assert_eq!((&*out, ours.code), (printed, Some(0)), "{args:?}");
        }
    }
}

#[test]
fn characters_without_a_collation_order_are_ordered_by_code() {
    let dir = scratch();
    fs::write(dir.path().join("f"), "é\nü\nz\nÿ\n").expect("a file");
    for (pattern, printed) in [
        ("[à-ü]", "é\nü\n"),
        ("[a-é]", "é\nz\n"),
        ("[[=é=]]", "é\n"),
        ("[[.é.]]", "é\n"),
    ] {
        let ours = case(dir.path(), &[pattern]).env("LC_ALL", "C.UTF-8");
        let out = ours.run_ours().out;
        assert_eq!(String::from_utf8_lossy(&out), printed, "{pattern}");
    }
}

#[test]
fn newlines_within_a_record_do_not_split_it() {
    compare(
        "newlines_within_a_record_do_not_split_it",
        b"x \na b\n\0a\nb\0",
        &[
            &["-zc", "^a"],
            &["-zc", "^[a-b]"],
            &["-zob", "^[a-b]\\|x"],
            &["-zoE", "(\\ba|x)$| "],
            &["-zxc", "a"],
        ],
    );
}

#[test]
fn a_trailing_backslash_does_not_join_patterns() {
    compare(
        "a_trailing_backslash_does_not_join_patterns",
        b"a\\\nb\n",
        &[
            &["-ea\\"],
            &["-ea\\", "-eb"],
            &["-eb.", "-ea\\"],
            &["-Fo", "-eb", "-ea\\"],
        ],
    );
}

#[test]
fn range_ends_must_be_characters_with_an_order_in_the_locale() {
    let test = "range_ends_must_be_characters_with_an_order_in_the_locale";
    let text = "é\nü\nz\nA\n[\nß\nα\n-\n_\ne\nab\n[Z-a]\n0٣\n";
    // Without the locale's own order, GNU grep rejects the first pattern, and ignores case in none of the others.
    let of_locales: &[&[&str]] = &[
        &["[à-ü]"],
        &["[a-é]"],
        &["[[=é=]]"],
        &["-i", "[--z]"],
        &["-io", "[--z]"],
        &["-i", "[Z-a]"],
        &["-i", "[_-z]"],
        &["-i", "[]-~]"],
        &["-io", "[]-~]"],
    ];
    let searches: &[&[&str]] = &[
        &["-o", "[a-z]"],
        &["[^a-z]"],
        &["[0-9]"],
        &["[[=e=]]"],
        &["[[=a=]-c]"],
        &["-i", "[!-~]"],
    ];
    compare(test, text.as_bytes(), searches);
    // In the locale's own order, GNU grep loses `ß` between `a` and `z` if case does not matter, and finds `[` between
    // `[.a.]` and `c`.
    let of_codes: &[&[&str]] = &[&["-io", "[a-z]"], &["-o", "[[.a.]-c]"]];
    compare(test, text.as_bytes(), of_codes);
    let (dir, locales) = (scratch(), scratch());
    fs::write(dir.path().join("f"), text).expect("a file");
    for source in ["en_US", "sv_SE"] {
        let Some(name) = make_locale(locales.path(), source, "UTF-8") else {
            skip(
                test,
                &format!("no locale {source}: are the package locales' sources there?"),
            );
            continue;
        };
        let path = locales.path().to_string_lossy();
        for search in searches.iter().chain(of_locales) {
            // Not all categories of the locale: GNU grep would use its language.
            let case = case(dir.path(), search).env("LC_CTYPE", &name);
            case.env("LC_COLLATE", &name).env("LOCPATH", &path).check(0);
        }
    }
}

#[test]
fn lines_that_are_not_text_are_omitted_without_effect_on_adjacent_lines() {
    // GNU grep prints the context of other lines here, and separators with nothing before them. The expected output is
    // therefore listed, not compared.
    let dir = scratch();
    for (args, text, printed) in [
        (&["-A2", "x"][..], &b"\xffx\nx\na\nx\n"[..], "x\na\nx\n"),
        (&["-C9", "x"], b"\xffx\nx\na\nx\n", "x\na\nx\n"),
        (&["-A2", "x"], b"a\nb\nx\xff\nc\nx\n", "c\nx\n"),
        (&["-B1", "-A1", "x"], b"a\nb\nx\xff\nc\nx\n", "b\nc\nx\n"),
        (&["-z", "-A2", "x"], b"\xffx\0x\0a\0x\0", "x\0a\0x\0"),
    ] {
        fs::write(dir.path().join("f"), text).expect("a file");
        let case = GnuCase::new("grep", dir.path()).env("LC_ALL", "C.UTF-8");
        let ours = case.args(args).args(["f"]).run_ours();
        assert_eq!(String::from_utf8_lossy(&ours.out), printed, "{args:?}");
        assert_eq!(
            ours.err, b"sleds grep: f: binary file matches\n",
            "{args:?}"
        );
    }
}

#[test]
fn perl_patterns_match_like_in_gnu_grep() {
    let text = b"a)b\nthe x\n\xffab\nab\xff\nx\xffab\xffab\n\xc3(\n(\xc3\n\xff\n\n\xc3\xa9\n\xc3\x89x\naab b\n";
    let test = "perl_patterns_match_like_in_gnu_grep";
    let mut searches: Vec<Vec<&str>> = Vec::new();
    for pattern in [
        "^ab",
        "ab$",
        "$",
        "^$",
        "x.a",
        "(?<=x)",
        "(?<=a)b",
        "\\Z",
        "a(?=b)",
        "(?<!x)ab",
        "a\\Kb",
        "\\w+",
        "\\bthe\\b",
        "(a)\\1",
        "\\x{e9}",
        "\\xe9",
        "(?i)\\xc9",
        "(",
        ")",
        "a)b",
        "[z-a]",
        "\\1",
        "*",
        "\\",
        "(*LIMIT_MATCH=1)(a+)+$",
        "(*NO_JIT)(*LIMIT_HEAP=0)(a+)+$",
        "(*UTF)x",
        "a\nb",
    ] {
        for options in [
            "-aPn", "-aPo", "-P", "-aPw", "-aPx", "-aPxw", "-aPi", "-aPc", "-aPv", "-Pz", "-sP",
            "-qP",
        ] {
            searches.push(vec![options, pattern]);
        }
    }
    searches.push(vec!["-P", "-ea", "-eb"]);
    searches.push(vec!["-P", "-ea", "-ea"]);
    searches.push(vec!["-P", "-E", "a"]);
    searches.push(vec!["-P", "-v", "-f/dev/null"]);
    let searches: Vec<&[&str]> = searches.iter().map(Vec::as_slice).collect();
    compare(test, text, &searches);
    // `sleds grep` begins a line before a byte that is not a character; GNU grep does not.
    for pattern in ["^", "", "b*"] {
        let options = ["-aPn", "-aPo", "-P", "-aPw", "-aPx", "-aPxw", "-aPv"];
        let searches = options.map(|option| [option, pattern]);
        let searches: Vec<&[&str]> = searches.iter().map(|search| &search[..]).collect();
        compare(test, b"a\n\n\xc3\xa9\nx\xff\nab\xffb\naab b\n", &searches);
    }
    // With records that end in zero bytes, lines inside them do not matter.
    let searches: &[&[&str]] = &[
        &["-zPc", "^b"],
        &["-zPc", "a$"],
        &["-zPc", "b$"],
        &["-zPc", "a.b"],
        &["-zPc", "(?m)^b$"],
        &["-zPxc", "b"],
        &["-zPo", "a\\nb"],
    ];
    compare(test, b"a\nb\n\0b\0", searches);
}

#[test]
fn a_perl_pattern_that_exceeds_the_backtracking_limit_ends_the_search() {
    let test = "a_perl_pattern_that_exceeds_the_backtracking_limit_ends_the_search";
    let text = format!("x\n{}b\nx\n", "a".repeat(40));
    compare(
        test,
        text.as_bytes(),
        &[
            &["-P", "(a+)+$"],
            &["-P", "x|(a+)+$"],
            &["-cP", "x|(a+)+$", "f"],
            &["-HP", "(a+)+$", "nope"],
        ],
    );
}
