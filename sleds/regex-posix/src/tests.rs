use super::*;

fn options(syntax: RegexSyntax, utf8: bool) -> RegexOptions {
    RegexOptions {
        syntax,
        utf8,
        ..RegexOptions::default()
    }
}

fn regex(pattern: &str, options: RegexOptions) -> PosixRegex {
    let regex = PosixRegex::new(&[pattern], options);
    regex.unwrap_or_else(|errors| panic!("{pattern}: {errors:?}"))
}

fn first(pattern: &str, line: &str, options: RegexOptions) -> Option<String> {
    let found = regex(pattern, options).find_in_line(line.as_bytes(), 0);
    let range = found.expect("it is not deep")?;
    Some(line[range].to_owned())
}

#[test]
fn the_leftmost_match_is_the_longest_possible() {
    let ere = options(RegexSyntax::Extended, true);
    assert_eq!(first("a|ab|abc", "xabcd", ere).as_deref(), Some("abc"));
    assert_eq!(first("(a|ab)(c|bcd)", "abcd", ere).as_deref(), Some("abcd"));
    assert_eq!(first("b+|a", "bba", ere).as_deref(), Some("bb"));
    assert_eq!(first("x*", "aax", ere).as_deref(), Some(""));
}

#[test]
fn basic_expressions_have_operators_with_a_backslash() {
    let bre = options(RegexSyntax::Basic, false);
    assert_eq!(first("a\\{2\\}", "aaa", bre).as_deref(), Some("aa"));
    assert_eq!(first("a{2}", "aa a{2}", bre).as_deref(), Some("a{2}"));
    assert_eq!(first("*a", "b*a", bre).as_deref(), Some("*a"));
    assert_eq!(first("a\\|b", "xb", bre).as_deref(), Some("b"));
    assert_eq!(first("x^y$z", "x^y$z", bre).as_deref(), Some("x^y$z"));
}

#[test]
fn a_back_reference_matches_the_same_text_again() {
    let bre = options(RegexSyntax::Basic, true);
    assert_eq!(
        first("\\(a*\\)b\\1", "aabaaa", bre).as_deref(),
        Some("aabaa")
    );
    assert_eq!(first("\\(.\\)\\1", "abccd", bre).as_deref(), Some("cc"));
    assert_eq!(first("\\(.\\)\\1", "abcd", bre), None);
}

#[test]
fn words_may_contain_letters_outside_ascii() {
    let bre = options(RegexSyntax::Basic, true);
    assert_eq!(first("a\\b", "aé", bre), None);
    assert_eq!(first("\\<\\w*", "…été", bre).as_deref(), Some("été"));
}

#[test]
fn a_broken_pattern_is_refused_with_the_messages_of_the_library() {
    let error = |pattern: &str, syntax| {
        let errors = PosixRegex::new(&[pattern], options(syntax, true)).err();
        let error = errors.and_then(|errors| errors.first().copied());
        error.map(|e| e.to_string()).unwrap_or_default()
    };
    for (pattern, words) in [
        ("[a", "Unmatched [, [^, [:, [., or [="),
        ("\\(a", "Unmatched ( or \\("),
        ("a\\)", "Unmatched ) or \\)"),
        ("a\\{1", "Unmatched \\{"),
        ("a\\{2,1\\}", "Invalid content of \\{\\}"),
        ("a\\", "Trailing backslash"),
        ("\\1", "Invalid back reference"),
        ("[z-a]", "Invalid range end"),
        ("[[:foo:]]", "Invalid character class name"),
        ("[[.ab.]]", "Invalid collation character"),
        ("a\\{99999\\}", "Regular expression too big"),
    ] {
        assert_eq!(error(pattern, RegexSyntax::Basic), words, "{pattern}");
    }
    assert_eq!(error("a{1", RegexSyntax::Extended), "");
    assert_eq!(error("a)", RegexSyntax::Extended), "");
}

#[test]
fn lines_are_found_in_a_buffer_of_many_lines() {
    let mut regex = regex("^$\\|b", options(RegexSyntax::Basic, true));
    let lines = b"a\nab\n\nc\n";
    let mut at = 0;
    let mut found = Vec::new();
    while let Some(range) = regex.find_line(lines, at).expect("it is not deep") {
        at = range.end + 1;
        found.push(range);
    }
    assert_eq!(found, [2..4, 5..5]);
}

#[test]
fn the_copies_of_a_group_match_like_its_back_references() {
    let bre = options(RegexSyntax::Basic, true);
    for (pattern, line, found) in [
        ("\\(ab\\|cd\\)x*\\1", "-abxcdxcd", Some("cdxcd")),
        ("\\(\\(a\\)b\\2\\)c\\1", "abacaba", Some("abacaba")),
        ("\\(^a\\)b\\1", "aba", Some("aba")),
        ("\\(a*\\)*\\1", "aaa", Some("aaa")),
        ("\\([^a]\\)\\1", "aaébb", Some("bb")),
        ("\\(.\\)\\1", "\u{e9}\u{e8}", None),
    ] {
        assert_eq!(first(pattern, line, bre).as_deref(), found, "{pattern}");
    }
}

#[test]
fn plain_text_in_whole_line_mode_does_not_match_parts_of_lines() {
    let fixed = RegexOptions {
        whole_lines: true,
        ..options(RegexSyntax::Fixed, false)
    };
    let mut regex = PosixRegex::new(&["ab", "b"], fixed).unwrap();
    let lines = b"abab\nb\nxab\nab\n";
    assert_eq!(regex.count_lines(lines), Ok(2));
    assert_eq!(regex.find_line(lines, 0), Ok(Some(5..6)));
    assert_eq!(regex.find_in_line(b"ab", 0), Ok(Some(0..2)));
}

#[test]
fn one_repetition_finds_its_longest_match_first() {
    let ere = options(RegexSyntax::Extended, true);
    assert_eq!(first("xa*ab", "-xaaab", ere).as_deref(), Some("xaaab"));
    assert_eq!(first("[éü]+.", "aéüb", ere).as_deref(), Some("éüb"));
    assert_eq!(first("a*(ab)?", "aab", ere).as_deref(), Some("aab"));
    assert_eq!(first("(a|ab)c?", "abc", ere).as_deref(), Some("abc"));
}
