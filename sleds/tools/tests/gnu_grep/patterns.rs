//! Where GNU grep's two ways to match, its automaton and the C library, do not agree, and other
//! corners of patterns that the random comparison found.

use std::fs;
use std::path::Path;

use crate::support::{Case, is_gnu, make_locale, scratch, skip};

/// Compares what is printed about `text`, in the C locale and in UTF-8.
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

fn case(dir: &Path, search: &[&str]) -> Case {
    Case::new("grep", dir).args(search).args(["f"])
}

#[test]
fn a_word_is_looked_for_in_shorter_matches_and_then_further_on() {
    compare(
        "a_word_is_looked_for_in_shorter_matches_and_then_further_on",
        b"foo foo-bx\nabab ab\nxabab abab\naa a\n foo\nfoox foo-\n",
        &[
            // Of a second match in the line, GNU grep tries too short a part.
            &["-ow", "foo\\|foo-b"],
            &["-w", "foo\\|foo-b"],
            &["-w", "-e\\(ab\\)\\1", "-eab"],
            &["-ow", "-e\\(ab\\)\\1", "-eab"],
            &["-ow", "-e\\(a*\\)b\\1", "-efoo", "-e\\(a\\)\\1"],
            &["-cw", "-e\\(.\\).*\\1", "-ex"],
            &["-ow", "-eab", "-e"],
            &["-w", "-e-", "-e"],
            &["-wF", "-eab", "-e-"],
            &["-ow", "a.*\\>"],
            &["-ow", "foo$\\|foo-*"],
        ],
    );
}

#[test]
fn the_end_of_the_line_is_part_of_a_match_of_words_that_are_lines() {
    compare(
        "the_end_of_the_line_is_part_of_a_match_of_words_that_are_lines",
        b"a\naaa\n\nb a\na",
        &[
            &["-xwo", "a*"],
            &["-xwo", "a"],
            &["-xwob", "-T", "a*"],
            &["-xwFo", "a"],
            &["-xwFo", "-ea", "-eb a"],
            &["-xw", "--color=always", "a*"],
            &["-xwn", "--color=always", "-ea", "-eb a"],
            &["-xwo", "-ea", "-e\\(a\\)\\1*"],
        ],
    );
}

#[test]
fn repeated_assertions_mean_what_each_matcher_makes_of_them() {
    compare(
        "repeated_assertions_mean_what_each_matcher_makes_of_them",
        b"x\nx$\na b\n*a\na*\n1}a\n{1}\nxb}\n",
        &[
            &["x$*"],
            &["-o", "x$*"],
            &["a\\>*"],
            &["-oE", "a\\>+ b"],
            &["-E", "a\\>+ b"],
            &["^*a"],
            &["-oE", "^*a"],
            &["-E", "\\b{0}"],
            &["-E", "(^a)* b"],
            &["x\\<\\{1"],
            &["\\<\\{1\\}"],
        ],
    );
}

#[test]
fn intervals_and_operators_with_nothing_to_repeat_are_text_or_nothing_or_wrong() {
    compare(
        "intervals_and_operators_with_nothing_to_repeat_are_text_or_nothing_or_wrong",
        b"a\n1}a\n2}a\n{1}\na{}\na{1,2\n(*a)\n",
        &[
            &["-E", "{1}a"],
            &["-oE", "{1}a"],
            &["-E", "-e{1}a", "-e("],
            &["-E", "-e{1}a", "-eb{"],
            &["-oE", "*{2}a"],
            &["-E", "a{}"],
            &["-E", "a{,}"],
            &["-E", "a{1,2"],
            &["-oE", "a{1,2"],
            &["-oE", "-ea{1,2*", "-e[[:upper:]]"],
            &["-E", "a{2,1}"],
            &["-E", "a{99999}"],
            &["-E", "(*a)"],
            &["-E", "(*)"],
            &["-E", "(|*)"],
            &["a\\{1"],
        ],
    );
}

#[test]
fn a_small_letter_behind_a_backslash_is_lost_to_the_library_if_case_does_not_matter() {
    compare(
        "a_small_letter_behind_a_backslash_is_lost_to_the_library_if_case_does_not_matter",
        "d\nD\nxd\né\nÉ\n".as_bytes(),
        &[
            &["-i", "\\d"],
            &["-io", "\\d"],
            &["-io", "\\D"],
            &["-io", "x\\d"],
            &["-i", "[[.-.]]\\|\\d"],
            &["-i", "\\é"],
        ],
    );
}

#[test]
fn a_parenthesis_too_many_ends_the_group_that_options_make() {
    compare(
        "a_parenthesis_too_many_ends_the_group_that_options_make",
        b"a)b\nab)\na)\nx a)b\n)\nq\n",
        &[
            &["-E", "a)b"],
            &["-Ew", "a)b"],
            &["-Ex", "a)b"],
            &["-Exo", "a)b"],
            &["-Ew", "-ea)b", "-ex"],
            &["-Ew", "-e[ab]", "-ea)", "-e\\`a"],
            &["-Ex", "-e[ab]", "-ea)", "-e\\`a"],
            &["-Ex", "-e[[:alpha:]]", "-ea)", "-e\\`a"],
            &["-Ex", "-ea$)b", "-e\\S"],
            &["a$)"],
            &["a$)b"],
            &["a$|b"],
        ],
    );
}

#[test]
fn newlines_within_a_record_do_not_divide_it() {
    compare(
        "newlines_within_a_record_do_not_divide_it",
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
fn a_backslash_may_end_the_last_of_several_texts() {
    compare(
        "a_backslash_may_end_the_last_of_several_texts",
        b"a\\\nb\n",
        &[
            &["-ea\\"],
            &["-eb", "-ea\\"],
            &["-ea\\", "-eb"],
            &["-eb.", "-ea\\"],
            &["-E", "-eb", "-e\\"],
            &["-Fo", "-eb", "-ea\\"],
        ],
    );
}

#[test]
fn the_ends_of_ranges_are_characters_that_the_locale_has_in_an_order() {
    let test = "the_ends_of_ranges_are_characters_that_the_locale_has_in_an_order";
    let text = "é\nü\nz\nA\n[\nß\nα\n-\n_\ne\nab\n[Z-a]\n0٣\n";
    let searches: &[&[&str]] = &[
        &["[à-ü]"],
        &["-i", "[à-ü]"],
        &["[a-é]"],
        &["-o", "[a-z]"],
        &["-io", "[a-z]"],
        &["[^a-z]"],
        &["[0-9]"],
        &["[[=e=]]"],
        &["[[=é=]]"],
        &["[[.é.]]"],
        &["-o", "[[.a.]-c]"],
        &["[[=a=]-c]"],
        // The library compares upper case, the automaton either.
        &["-i", "[--z]"],
        &["-io", "[--z]"],
        &["-iw", "--color=always", "[--z]"],
        &["-i", "[Z-a]"],
        &["-i", "[_-z]"],
        &["-i", "[]-~]"],
        &["-io", "[]-~]"],
        &["-i", "[!-~]"],
    ];
    compare(test, text.as_bytes(), searches);
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
        for search in searches {
            // Not all of the locale, or GNU grep speaks its language.
            let case = case(dir.path(), search).env("LC_CTYPE", &name);
            case.env("LC_COLLATE", &name).env("LOCPATH", &path).check(0);
        }
    }
}

#[test]
fn lines_that_are_no_text_count_as_printed_only_where_gnu_grep_begins_anew() {
    let test = "lines_that_are_no_text_count_as_printed_only_where_gnu_grep_begins_anew";
    let searches: &[&[&str]] = &[
        &["-A2", "x"],
        &["-C9", "x"],
        &["-B1", "-A1", "x"],
        &["-A1", "^x"],
    ];
    compare(test, b"\xffx\nx\na\nx\n", searches);
    compare(test, b"a\nb\nx\xff\nc\nx\n", searches);
    let searches: &[&[&str]] = &[&["-z", "-A2", "x"], &["-z", "-C2", "x", "f"]];
    compare(test, b"\xffx\0x\0a\0x\0", searches);
}

#[test]
fn perl_s_patterns_are_searched_for_as_gnu_grep_does() {
    let text = b"a)b\nthe x\n\xffab\nab\xff\nx\xffab\xffab\n\xc3(\n(\xc3\n\xff\n\n\xc3\xa9\n\xc3\x89x\naab b\n";
    let test = "perl_s_patterns_are_searched_for_as_gnu_grep_does";
    let mut searches: Vec<Vec<&str>> = Vec::new();
    for pattern in [
        "^ab",
        "ab$",
        "^",
        "$",
        "^$",
        "",
        "x.a",
        "(?<=x)",
        "(?<=a)b",
        "\\Z",
        "a(?=b)",
        "(?<!x)ab",
        "b*",
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
    // Where records end in zero bytes, lines within them do not matter.
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
fn a_perl_pattern_that_takes_too_long_ends_the_search() {
    let test = "a_perl_pattern_that_takes_too_long_ends_the_search";
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
