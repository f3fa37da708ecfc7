//! Random searches of random files.

use std::path::Path;

use crate::generate::{self, PatternLanguage};
use crate::support::{
    CaseInput, GnuCase, cases, content, cool, is_gnu, make_locale, scratch, seed, settle, skip,
};
use forebay_rng::Rng;

/// Default number of searches for each seed.
const CASES: u64 = 300;

/// First seeds, in addition to the seed that all tests share.
const SEEDS: [u64; 2] = [1, 1_000_003];

/// Maximum length of files for patterns that are very slow in GNU grep on long lines.
const LONG: usize = 60_000;

/// Maximum length of files with a zero byte at the end. The part that decides if a file is text is longer in GNU grep,
/// which reads more at once.
const SHORT: usize = 96_000;

/// Minimum length of a run of zeroes that GNU grep skips. (GNU grep skips zeroes if it concludes that empty lines are
/// not selected; with `-P` the conclusion is wrong for some patterns.)
const ZEROES: usize = 32 << 10;

/// A locale, with its path if it is not one of the system's.
#[derive(Clone, Copy)]
struct TestLocale<'a> {
    name: &'a str,
    path: Option<&'a Path>,
}

impl<'a> TestLocale<'a> {
    fn of_system(name: &'a str) -> TestLocale<'a> {
        TestLocale { name, path: None }
    }
}

#[test]
fn output_equals_that_of_gnu_grep() {
    if is_gnu("output_equals_that_of_gnu_grep", "grep") {
        searches(TestLocale::of_system("C"), CASES);
    }
}

#[test]
fn output_equals_that_of_gnu_grep_in_utf8() {
    if is_gnu("output_equals_that_of_gnu_grep_in_utf8", "grep") {
        searches(TestLocale::of_system("C.UTF-8"), CASES);
    }
}

#[test]
fn output_equals_that_of_gnu_grep_in_a_locale_with_collation() {
    let test = "output_equals_that_of_gnu_grep_in_a_locale_with_collation";
    if !is_gnu(test, "grep") {
        return;
    }
    let locales = scratch();
    let Some(name) = make_locale(locales.path(), "en_US", "UTF-8") else {
        return skip(
            test,
            "no locale en_US: are the package locales' sources there?",
        );
    };
    let path = Some(locales.path());
    searches(TestLocale { name: &name, path }, CASES / 4);
}

/// Searches from each seed on. `FOREBAY_KEEP_GOING` continues after a difference, so that all differences are shown.
fn searches(locale: TestLocale<'_>, usual: u64) {
    let keep_going = std::env::var_os("FOREBAY_KEEP_GOING").is_some();
    let asked = std::env::var_os("FOREBAY_SEED").is_some();
    let seeds = SEEDS.into_iter().filter(|_| !asked).chain([seed()]);
    let mut differences = 0;
    for first in seeds {
        eprintln!("FOREBAY_SEED={first}");
        for case in 0..cases(usual) {
            let seed = first.wrapping_add(case);
            if let Some(what) = search(seed, locale) {
                assert!(keep_going, "FOREBAY_SEED={seed}: {what}");
                eprintln!("FOREBAY_SEED={seed}: {what}\n");
                differences += 1;
            }
        }
    }
    assert_eq!(differences, 0);
}

/// Runs one random search, and returns the difference.
fn search(seed: u64, locale: TestLocale<'_>) -> Option<String> {
    let rng = &Rng::new(seed);
    let dir = scratch();
    let (mut args, language) = generate::matchers(rng);
    let mut patterns = Vec::new();
    // Perl patterns are given in lists only by mistake.
    let several = language != PatternLanguage::Perl || rng.one_in(20);
    for _ in 0..1 + u64::from(several) * rng.below(2) * rng.below(3) {
        patterns.push(generate::pattern(rng, language));
    }
    args.extend(generate::outputs(rng));
    args.extend(patterns.iter().map(|p| format!("-e{p}")));
    let backs = patterns
        .iter()
        .any(|p| p.contains("\\1") || p.contains("\\2"));
    let nul_lines = args.iter().any(|a| a == "-z" || a == "--null-data");
    let context = args.iter().any(|a| is_context(a));
    let utf8 = locale.name != "C";
    let folds = args.iter().any(|a| a == "-i" || a == "-y");
    if folds && utf8 && patterns.len() > 1 && patterns.iter().any(|p| p.contains("[.")) {
        // The C library then misses matches of the other patterns (seeds 130003781, 130004081).
        return None;
    }
    if nul_lines && patterns.iter().any(|p| generate::may_meet_a_newline(p)) {
        // The C library then matches `$` before a newline, and `^` after one.
        return None;
    }
    let word_asserts = patterns.iter().any(|p| generate::asserts_words(p));
    if language != PatternLanguage::Perl && generate::of_two_minds(&args, &patterns, locale.name) {
        return None;
    }
    let mut names = Vec::new();
    for number in 0..1 + rng.below(4) {
        let mut bytes = generate::content(rng);
        if utf8 && word_asserts {
            // At word edges, the C library takes a byte that is not a character for a Latin-1 character.
            bytes = String::from_utf8_lossy(&bytes).into_owned().into_bytes();
        }
        if context && utf8 {
            // Around lines that are not text, GNU grep prints the context of other lines.
            bytes = String::from_utf8_lossy(&bytes).into_owned().into_bytes();
        }
        if bytes[bytes.len().min(SHORT)..].contains(&0) {
            // `sleds grep` does not take a file for binary because of a zero byte at such a large offset.
            bytes.truncate(SHORT);
        }
        if backs && !args.contains(&"-F".to_owned()) {
            bytes.truncate(2000);
        } else if args
            .iter()
            .any(|a| a == "-o" || a == "-w" || a == "--color=always")
        {
            bytes.truncate(LONG);
        }
        let name = format!("f{number}");
        let path = dir.path().join(&name);
        let left_out = nul_lines || language == PatternLanguage::Perl;
        if left_out {
            // GNU grep skips long runs of zeroes, and then miscounts bytes and context lines.
            bytes.truncate(ZEROES);
        }
        if let (true, Err(error)) = (context && utf8, std::str::from_utf8(&bytes)) {
            // The text was cut inside a character.
            bytes.truncate(error.valid_up_to());
        }
        // A hole behind a long text is at too large an offset as well.
        let holes = !left_out && rng.one_in(12) && bytes.len() < SHORT;
        content::write_with(&path, &bytes, holes, rng);
        names.push(name);
    }
    if rng.one_in(30) {
        names.push("missing".into());
    }
    let mut case = GnuCase::new("grep", dir.path()).args(&args);
    case = case.env("LC_ALL", locale.name);
    if let Some(path) = locale.path {
        case = case.env("LOCPATH", &path.to_string_lossy());
    }
    if rng.one_in(20) {
        case = case.env(
            "GREP_COLORS",
            rng.pick::<&str>(&["sl=1:cx=2:rv", "ne:mt=7", "fn=1:bad=x:ln=4", "se=:mc=3"]),
        );
    }
    if rng.one_in(6) {
        case = case.input(CaseInput::File(dir.path().join(&names[0])));
        if rng.one_in(2) {
            case = case.args(["-"]);
        }
    } else {
        case = case.args(&names);
    }
    if rng.one_in(16) {
        settle(dir.path());
        for name in &names {
            cool(&dir.path().join(name), rng);
        }
    }
    case = case.ours([rng.pick(&["--plan=auto", "--plan=best", "--plan=linear"])]);
    let gnu = case.run_gnu();
    if gnu.signal.is_some() {
        // For some patterns its automaton detects its own error, and aborts.
        return None;
    }
    let difference = case.difference_from(&gnu);
    if difference.is_some() && std::env::var_os("FOREBAY_KEEP_FILES").is_some() {
        let _ = dir.keep();
    }
    difference
}

/// Returns true if the option requests lines around selected lines.
fn is_context(arg: &str) -> bool {
    let mut chars = arg.strip_prefix('-').unwrap_or_default().chars();
    chars
        .next()
        .is_some_and(|c| matches!(c, 'A'..='C' | '0'..='9'))
}
