//! Random searches of random files.

use std::time::{Duration, Instant};

use crate::generate;
use crate::support::rng::Rng;
use crate::support::{Case, Input, content, cool, is_gnu, scratch, seed, settle};

/// Searches made when nothing else is asked for. It is cut short on a slow machine.
const ROUNDS: u64 = 6000;

/// GNU's matcher takes ages for some patterns on long lines.
const LONG: usize = 60_000;

#[test]
fn prints_what_gnu_grep_prints() {
    if !is_gnu("prints_what_gnu_grep_prints", "grep") {
        return;
    }
    let asked = std::env::var("FOREBAY_ROUNDS")
        .ok()
        .and_then(|r| r.parse().ok());
    let end = Instant::now() + Duration::from_secs(30);
    let first = seed();
    let keep_going = std::env::var_os("FOREBAY_KEEP_GOING").is_some();
    let mut differences = 0;
    for round in 0..asked.unwrap_or(ROUNDS) {
        if asked.is_none() && Instant::now() > end {
            break;
        }
        let seed = first.wrapping_add(round);
        if let Some(what) = search(seed) {
            assert!(keep_going, "FOREBAY_SEED={seed}: {what}");
            eprintln!("FOREBAY_SEED={seed}: {what}\n");
            differences += 1;
        }
    }
    assert_eq!(differences, 0);
}

/// One random search; what differs, if anything does.
fn search(seed: u64) -> Option<String> {
    let mut rng = Rng::new(seed);
    let rng = &mut rng;
    let dir = scratch();
    let (mut args, extended) = generate::matchers(rng);
    let mut patterns = Vec::new();
    for _ in 0..1 + rng.below(2) * rng.below(3) {
        patterns.push(generate::pattern(rng, extended));
    }
    args.extend(generate::outputs(rng));
    args.extend(patterns.iter().map(|p| format!("-e{p}")));
    if args.iter().any(|a| a == "-z" || a == "--null-data") {
        // GNU grep's two matchers differ in whether a line begins behind a newline then.
        patterns
            .iter_mut()
            .for_each(|p| p.retain(|c| c != '^' && c != '$'));
        args.retain(|a| !a.starts_with("-e"));
        args.extend(patterns.iter().map(|p| format!("-e{p}")));
    }
    let backs = patterns
        .iter()
        .any(|p| p.contains("\\1") || p.contains("\\2"));
    if args.iter().any(|a| a == "-w") && is_doubtful_word(&args, &patterns) {
        return None;
    }
    let words = ["\\<", "\\>", "\\b", "\\B"];
    let about_words = patterns.iter().any(|p| words.iter().any(|w| p.contains(w)));
    let mut names = Vec::new();
    for number in 0..1 + rng.below(2) * rng.below(3) {
        let mut bytes = generate::content(rng);
        if backs && !args.contains(&"-F".to_owned()) {
            bytes.truncate(2000);
        } else if args
            .iter()
            .any(|a| a == "-o" || a == "-w" || a == "--color=always")
        {
            bytes.truncate(LONG);
        }
        if about_words {
            // Where words end beside bytes that are no characters, GNU grep's matchers disagree.
            bytes = String::from_utf8_lossy(&bytes).into_owned().into_bytes();
        }
        if args
            .iter()
            .any(|a| a.starts_with('-') && a.contains(['A', 'B', 'C']))
        {
            // A line that is no text at the end of what GNU grep reads at once separates groups.
            bytes.truncate(LONG);
        }
        let name = format!("f{number}");
        let path = dir.path().join(&name);
        content::write(&path, &bytes, rng);
        names.push(name);
    }
    if rng.chance(30) {
        names.push("missing".into());
    }
    let mut case = Case::new("grep", dir.path()).args(&args);
    case = case.env("LC_ALL", rng.pick::<&str>(&["C", "C.UTF-8"]));
    if rng.chance(20) {
        case = case.env(
            "GREP_COLORS",
            rng.pick::<&str>(&["sl=1:cx=2:rv", "ne:mt=7", "fn=1:bad=x:ln=4", "se=:mc=3"]),
        );
    }
    if rng.chance(6) {
        case = case.input(Input::File(dir.path().join(&names[0])));
        if rng.chance(2) {
            case = case.args(["-"]);
        }
    } else {
        case = case.args(&names);
    }
    if rng.chance(2) {
        settle(dir.path());
        for name in &names {
            cool(&dir.path().join(name), rng);
        }
    }
    case = case.ours([*rng.pick(&["--plan=auto", "--plan=best", "--plan=linear"])]);
    case.difference()
}

/// With `-w`, GNU grep looks for words in two ways, which do not find the same for a pattern that
/// matches an empty text, or that has collating elements.
fn is_doubtful_word(args: &[String], patterns: &[String]) -> bool {
    let collates = patterns
        .iter()
        .any(|p| p.contains("[.") || p.contains("[="));
    let mut empty = Case::new("grep", std::path::Path::new("/"));
    let search = args
        .iter()
        .filter(|a| a.starts_with("-e") || *a == "-E" || *a == "-F");
    empty = empty.args(search).input(Input::Pipe(b"\n".to_vec()));
    collates || empty.run_gnu().code != Some(1)
}
