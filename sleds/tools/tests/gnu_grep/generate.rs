//! Generates patterns, options and files for `grep`.

use crate::perl;
use crate::support::content;
use forebay_rng::Rng;

/// Building blocks with equal notation in both syntaxes.
const ATOMS: &[&str] = &[
    "a",
    "b",
    "ab",
    "the",
    "x",
    ".",
    "[ab]",
    "[^a]",
    "[a-c]",
    "[[:alpha:]]",
    "[[:upper:]]",
    "[[:space:]]",
    "[^[:alnum:]]",
    "[[=a=]]",
    "[[.-.]]",
    "[]a]",
    "[a-]",
    "\\w",
    "\\W",
    "\\s",
    "\\S",
    "é",
    "ж",
    "[éx]",
    "0",
    "-",
    " ",
    "\\.",
    "[.]",
    "ss",
    "K",
    "ſ",
    "w😀",
];

/// Assertions.
const ASSERTS: &[&str] = &["^", "$", "\\<", "\\>", "\\b", "\\B"];

/// Difficult patterns in either syntax.
const NASTY: &[&str] = &[
    "",
    "*",
    "**",
    "*a",
    "^*",
    "a**",
    "\\(*a\\)",
    "a\\{1",
    "a\\{1,2",
    "a\\{2,1\\}",
    "a\\{,2\\}",
    "a\\{x\\}",
    "\\{1\\}",
    "a{1",
    "a{,2}",
    "a{1,x}",
    "a{2}{3}",
    "(a",
    "a)",
    ")",
    "()",
    "(|a)",
    "a||b",
    "|a",
    "a|",
    "\\(\\)",
    "\\|a",
    "a\\|",
    "[a",
    "[]",
    "[^]",
    "[z-a]",
    "[a-a-c]",
    "[--z]",
    "[%--]",
    "[[:foo:]]",
    "[:space:]",
    "[[:alpha:",
    "[[.ab.]]",
    "[[=ab=]]",
    "[[:alpha:]-z]",
    "[a-[:alpha:]]",
    "\\1",
    "\\(a\\)\\2",
    "(a)\\2",
    "\\d",
    "\\}",
    "\\{",
    "\\+",
    "\\?a",
    "+a",
    "?a",
    "a+*?",
    "a\\+\\?",
    "^^",
    "$$",
    "a^b",
    "a$b",
    "^$",
    "(^a)",
    "(a$)",
    "\\(^a\\)",
    "\\(a$\\)",
    "a\\(^b\\)",
    "\\`a",
    "a\\'",
    "(^|b)a",
    "\\(a\\|ab\\)\\(c\\|bcd\\)",
    "[\\]",
    "[a\\]",
    "a.b",
    "\\-a",
    "^.*$",
    "(a*)*",
    "(a*)+",
    "(a|b)*c",
    "a{0}",
    "a{0}b",
    "[[:space:]",
    "a\\{65536\\}",
    "a{65536}",
    "\\(a\\{1,2\\}\\)*",
    "(a{2}){2}",
    "\\<a\\>",
    "\\ba\\b",
    "\\w\\+",
    "\\w+",
    "[^[:space:]]*",
    ".",
    ".*",
    "a|b|",
    "(",
    "\\(",
    "\\)",
    "a\\(b",
    "((a))",
    "(a(b)c)",
    "a?b?",
    "e",
    "t",
    "o",
    "x$*",
    "^*a",
    "a\\>*",
    "\\<*a",
    "\\b+e",
    "(^a)*b",
    "(a$)*",
    "(\\<a)?b",
    "\\(\\<a\\)*b",
    "{1}",
    "{1}a",
    "{,2}a",
    "({1}a)",
    "^{1}a",
    "a|{1}",
    "a{}",
    "a{,}",
    "a{1,2",
    "a{2,1}",
    "x\\<{1",
    "x\\<\\{1",
    "(*a)",
    "(*)",
    "a)b",
    "a)|(b)",
    "a$)",
    "a$|b",
    "a$)b",
    "a\\",
    "\\",
    "\\\\",
    "a\\.",
    "[\\1]",
    "[à-ü]",
    "[a-é]",
    "[Z-a]",
    "[_-z]",
    "[a-[.c.]]",
    "[[=a=]-c]",
    "[[.é.]]",
    "[[=é=]]",
    "[0-9]",
    "[^0-9]",
    "-a",
    "a-",
];

/// Patterns with back-references, without slow ones.
const BACK: &[&str] = &[
    "\\(.\\)\\1",
    "\\(a*\\)b\\1",
    "\\(ab*\\)x*\\1",
    "^\\(.\\).*\\1$",
    "\\(a\\|b\\)\\1",
    "\\([a-z]\\)\\1",
    "\\(e\\)[^e]*\\1",
    "\\(\\w\\)\\1",
    "\\(a\\)\\(b\\)\\2\\1",
];

fn repeat(rng: &Rng, extended: bool) -> String {
    let bare = rng.pick(&["*", "+", "?", "{2}", "{1,2}", "{,2}", "{2,}", "{0}"]);
    match (bare, extended) {
        ("*", _) | (_, true) => bare.into(),
        (_, false) => bare
            .replace('+', "\\+")
            .replace('?', "\\?")
            .replace('{', "\\{")
            .replace('}', "\\}"),
    }
}

fn branch(rng: &Rng, extended: bool, depth: u64) -> String {
    let mut text = String::new();
    for _ in 0..rng.below(4) {
        match rng.below(12) {
            0 | 1 => text.push_str(rng.pick::<&str>(ASSERTS)),
            2 | 3 if depth > 0 => {
                let inner = alternatives(rng, extended, depth - 1);
                let (open, close) = if extended { ("(", ")") } else { ("\\(", "\\)") };
                text.push_str(&format!("{open}{inner}{close}"));
                if ASSERTS.iter().any(|assert| inner.contains(assert)) {
                    // The C library misses matches of several such groups in a row.
                    let once = rng.pick(&["", "", "*", "\\?", "\\{0\\}"]);
                    if extended {
                        text.push_str(&once.replace('\\', ""));
                    } else {
                        text.push_str(once);
                    }
                    continue;
                }
            }
            _ => text.push_str(rng.pick::<&str>(ATOMS)),
        }
        if rng.one_in(4) {
            text.push_str(&repeat(rng, extended));
        }
    }
    text
}

fn alternatives(rng: &Rng, extended: bool, depth: u64) -> String {
    let mut text = branch(rng, extended, depth);
    while rng.one_in(4) {
        text.push_str(if extended { "|" } else { "\\|" });
        text.push_str(&branch(rng, extended, depth));
    }
    text
}

/// Returns a pattern in `language`.
pub(crate) fn pattern(rng: &Rng, language: PatternLanguage) -> String {
    let extended = match language {
        PatternLanguage::Perl => return perl::pattern(rng),
        PatternLanguage::Extended => true,
        PatternLanguage::Basic => false,
    };
    match rng.below(10) {
        0 | 1 => rng.pick(NASTY).into(),
        2 => {
            let back = rng.pick(BACK);
            if extended {
                back.replace("\\(", "(")
                    .replace("\\)", ")")
                    .replace("\\|", "|")
            } else {
                back.into()
            }
        }
        3 | 4 => rng.pick(ATOMS).into(),
        _ => alternatives(rng, extended, 2),
    }
}

/// Returns true if `pattern` has assertions about words.
pub(crate) fn asserts_words(pattern: &str) -> bool {
    ASSERTS[2..].iter().any(|assert| pattern.contains(assert))
}

/// Returns true if `pattern` has an assertion about a line's ends at a place where it may have matched a newline, or
/// may match one next. At the beginning of the pattern nothing has matched yet, and in brackets `^` is not an
/// assertion.
pub(crate) fn may_meet_a_newline(pattern: &str) -> bool {
    let mut carets = pattern.match_indices('^');
    pattern.contains('$') || carets.any(|(at, _)| at > 0 && !pattern[..at].ends_with('['))
}

/// Returns true if GNU grep's automaton and the C library, which it also uses, interpret the patterns differently, or
/// if the library's result is clearly wrong. `patterns.rs` tests the behaviour of `sleds grep` for such patterns.
pub(crate) fn of_two_minds(args: &[String], patterns: &[String], locale: &str) -> bool {
    let has = |option: &str| args.iter().any(|arg| arg == option);
    if has("-w") && has("-x") && (has("-o") || has("--color=always")) {
        return true;
    }
    if has("-F") {
        return false;
    }
    if has("-w") {
        // For a second match in a line, GNU grep tries too few alternatives; and it finds empty matches inside
        // characters.
        let operators = |pattern: &String| pattern.contains(['|', '*', '+', '?', '{']);
        let shows = has("-o") || has("--color=always");
        if shows && (patterns.len() > 1 || patterns.iter().any(operators)) {
            return true;
        }
        if locale != "C"
            && patterns
                .iter()
                .any(|pattern| may_be_empty(pattern, has("-E")))
        {
            return true;
        }
    }
    let mut nasty = vec!["(*)"];
    if has("-E") {
        nasty.extend(["{1}", "{1}a", "{,2}a", "({1}a)", "^{1}a", "a|{1}"]);
        if has("-x") || has("-w") {
            nasty.extend(["a)", ")", "a)b", "a)|(b)", "a$)", "a$)b"]);
        }
    } else {
        nasty.extend(["a$)", "a$|b", "a$)b"]);
    }
    if has("-i") || has("-y") {
        nasty.extend(["[--z]", "[Z-a]", "[_-z]", "[%--]", "\\d"]);
    }
    if locale == "C.UTF-8" {
        nasty.extend(["[à-ü]", "[a-é]", "[[=é=]]"]);
    }
    if locale != "C" {
        nasty.extend(["[[.é.]]", "[a-[.c.]]"]);
    }
    if patterns.len() > 1 {
        // The last of several texts may end in a backslash.
        nasty.extend(["a\\", "\\"]);
    }
    let repeats = |(at, assert): (usize, &str), pattern: &str| {
        let rest = pattern[at + assert.len()..].trim_start_matches('\\');
        rest.starts_with(['*', '+', '?', '{'])
    };
    let repeated = |pattern: &String| {
        let mut asserts = ASSERTS
            .iter()
            .flat_map(|assert| pattern.match_indices(assert));
        asserts.any(|assert| repeats(assert, pattern))
    };
    let odd = |pattern: &String| nasty.contains(&&pattern[..]) || repeated(pattern);
    patterns.iter().any(odd)
}

fn may_be_empty(pattern: &str, extended: bool) -> bool {
    let options = regex_posix::RegexOptions {
        syntax: if extended {
            regex_posix::RegexSyntax::Extended
        } else {
            regex_posix::RegexSyntax::Basic
        },
        ..regex_posix::RegexOptions::default()
    };
    let regex = regex_posix::PosixRegex::new(&[pattern], options);
    regex.is_ok_and(|mut regex| regex.find_in_line(b"", 0) != Ok(None))
}

/// Syntax of patterns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatternLanguage {
    Basic,
    Extended,
    Perl,
}

/// Returns options that select the matcher and the syntax.
pub(crate) fn matchers(rng: &Rng) -> (Vec<String>, PatternLanguage) {
    let mut args: Vec<String> = Vec::new();
    let mut language = PatternLanguage::Basic;
    match rng.below(6) {
        0 | 1 => {
            args.push("-E".into());
            language = PatternLanguage::Extended;
        }
        2 => args.push("-F".into()),
        3 => {
            args.push("-P".into());
            language = PatternLanguage::Perl;
        }
        _ => {}
    }
    if rng.one_in(4) {
        args.push("-i".into());
    }
    match rng.below(12) {
        0 | 1 => args.push("-w".into()),
        2 => args.push("-x".into()),
        3 => args.extend(["-w".into(), "-x".into()]),
        _ => {}
    }
    (args, language)
}

/// Returns options that control the output.
pub(crate) fn outputs(rng: &Rng) -> Vec<String> {
    let mut args: Vec<String> = Vec::new();
    for (one_in, option) in [
        (4, "-v"),
        (3, "-n"),
        (4, "-b"),
        (6, "-c"),
        (12, "-l"),
        (12, "-L"),
        (16, "-q"),
        (16, "-s"),
        (5, "-o"),
        (6, "-H"),
        (12, "-h"),
        (16, "-z"),
        (12, "-Z"),
        (5, "-a"),
        (16, "-I"),
        (24, "-T"),
        (30, "-U"),
        (30, "--line-buffered"),
        (8, "--color=always"),
        (40, "--no-group-separator"),
        (40, "--group-separator=XX"),
        (24, "--label=in"),
        (40, "--colour=never"),
        (40, "--binary-files=text"),
        (40, "--null-data"),
        (40, "-y"),
    ] {
        if rng.one_in(one_in) {
            args.push(option.into());
        }
    }
    for (one_in, option) in [(6, "-m"), (8, "-A"), (8, "-B"), (10, "-C")] {
        if rng.one_in(one_in) {
            args.push(format!("{option}{}", rng.below(5)));
        }
    }
    if rng.one_in(20) {
        args.push(format!("-{}", rng.below(12)));
    }
    rng.shuffle(&mut args);
    args
}

/// Returns true for bytes that GNU grep's matchers interpret differently: one of them accepts characters beyond
/// Unicode, another does not.
fn doubtful(bytes: &[u8]) -> bool {
    bytes
        .windows(2)
        .any(|w| w[0] == 0xed && w[1] >= 0xa0 || w[0] == 0xf4 && w[1] >= 0x90)
        || bytes.iter().any(|b| *b >= 0xf5)
}

/// Returns the content of a file to search.
pub(crate) fn content(rng: &Rng) -> Vec<u8> {
    loop {
        let bytes = match rng.below(5) {
            0 | 1 => lines(rng),
            2 => {
                let n = rng.below(3000) as usize;
                content::sentences(rng, n)
            }
            _ => content::any(rng),
        };
        if !doubtful(&bytes) {
            return bytes;
        }
    }
}

/// Returns short lines made of the patterns' building blocks, with many matches.
fn lines(rng: &Rng) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..rng.below(60) {
        for _ in 0..rng.below(7) {
            out.extend_from_slice(
                rng.pick(&[
                    "a", "b", "c", "ab", "the", "x", "A", "B", " ", "-", "_", "0", "é", "É", "ж",
                    "Ж", "ss", "ß", "k", "\u{212a}", "ſ", "aa", "bb", "*", ".", "\\", "{1}", "[",
                    "]", ",", "\t", "^", "$", "(", ")", "|", "+", "?", "😀",
                ])
                .as_bytes(),
            );
        }
        match rng.below(40) {
            0 => out.push(rng.pick(&[0x80, 0xc3, 0xff_u8 - 0x40, 0xe2])),
            1 if rng.one_in(3) => out.push(0),
            2 => out.push(b'\r'),
            _ => {}
        }
        out.push(b'\n');
    }
    if rng.one_in(4) {
        out.pop();
    }
    out
}
