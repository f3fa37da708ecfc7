//! Forbidden constructs in code or in tests.
//!
//! - Left-overs of work: `todo!`, `unimplemented!`, `dbg!`.
//! - `#[ignore]`: ignored tests are never run. A test that lacks a requirement reports this and returns.
//! - Sleeping threads in tests: a test waits for an event. If the sleep *is* the test
//!   (a kill at a random moment), `// sleeps: REASON` on the line or the line above permits it.
//! - Clock, files, threads, sockets and randomness of the operating system in a crate that the
//!   crate table does not give `system`: the actions of such a crate must depend on its inputs alone.

use super::crates::listed;
use super::rust::RustSource;
use super::{ProjectTree, TidyProblem};

/// Parts of the standard library that use the operating system, and their replacements.
const SYSTEM: [(&str, &str, &str); 7] = [
    ("Instant", "now", "take the time from the executor's clock"),
    (
        "SystemTime",
        "now",
        "take the time from the executor's clock",
    ),
    ("std", "fs", "take a device"),
    ("std", "net", "belongs to a front end"),
    ("std", "process", "belongs to a program"),
    ("thread", "spawn", "a volume runs on one thread"),
    ("thread", "sleep", "sleep on the executor's clock"),
];

/// Checks every source for forbidden constructs.
pub(super) fn check(tree: &ProjectTree, sources: &[RustSource]) -> Vec<TidyProblem> {
    let (crates, _) = listed(tree);
    let mut problems = Vec::new();
    for source in sources {
        problems.extend(left_overs(source));
        problems.extend(sleeps(source, tree.text(&source.path).unwrap_or_default()));
        let row = crates.iter().find(|row| source.is_of(&row.name));
        if row.is_some_and(|row| !row.system) {
            problems.extend(system(source));
        }
    }
    problems
}

fn left_overs(source: &RustSource) -> Vec<TidyProblem> {
    let mut problems = Vec::new();
    for word in ["todo", "unimplemented", "dbg"] {
        for at in source.find(&[word, "!", "("]) {
            let line = source.tokens[at].line;
            problems.push(TidyProblem::new(
                &source.path,
                line,
                format!("`{word}!` is a left-over"),
            ));
        }
    }
    for at in source.find(&["#", "[", "ignore"]) {
        let text = "`#[ignore]` hides a test; let it say what it lacks, and return";
        problems.push(TidyProblem::new(&source.path, source.tokens[at].line, text));
    }
    problems
}

fn sleeps(source: &RustSource, text: &str) -> Vec<TidyProblem> {
    let lines: Vec<&str> = text.lines().collect();
    let permits = |line: usize| {
        lines
            .get(line - 1)
            .and_then(|text| text.split_once("// sleeps: "))
            .is_some_and(|(_, reason)| !reason.trim().is_empty())
    };
    let sleeping = source.paths("thread", "sleep").into_iter();
    sleeping
        .filter(|&line| source.is_test(line))
        .filter(|&line| !permits(line) && (line == 1 || !permits(line - 1)))
        .map(|line| {
            let text = "a test sleeps; wait for the event itself, or say `// sleeps: REASON`";
            TidyProblem::new(&source.path, line, text)
        })
        .collect()
}

fn system(source: &RustSource) -> Vec<TidyProblem> {
    let mut problems = Vec::new();
    for (first, second, instead) in SYSTEM {
        for line in source.paths(first, second) {
            if !source.is_test(line) {
                let text = format!(
                    "`{first}::{second}` in a crate that does not use the system: {instead}"
                );
                problems.push(TidyProblem::new(&source.path, line, text));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str =
        "| level | crate | system |\n|---|---|---|\n| 0 | `x` | |\n| 1 | `y` | yes |\n";

    fn problems(path: &str, text: &str) -> Vec<String> {
        let tree = ProjectTree::of(&[("ARCHITECTURE.md", TABLE), (path, text)]);
        let found = check(&tree, &[RustSource::parse(path, text).unwrap()]);
        found.iter().map(TidyProblem::to_string).collect()
    }

    #[test]
    fn debugging_leftovers_are_found_in_code_and_tests() {
        let text = "fn f() { dbg!(1); todo!() }\n#[test]\n#[ignore = \"slow\"]\nfn g() {}";
        assert_eq!(problems("crates/y/src/a.rs", text).len(), 3);
        assert_eq!(problems("crates/y/tests/a.rs", text).len(), 3);
        assert_eq!(
            problems("crates/y/src/a.rs", "// todo!()\nfn f(todo: u8) {}"),
            [""; 0]
        );
    }

    #[test]
    fn a_sleep_in_a_test_is_found_unless_it_gives_a_reason() {
        let path = "crates/y/tests/a.rs";
        let bare = "fn f() {\n std::thread::sleep(d);\n}";
        assert!(problems(path, bare)[0].contains("a.rs:2: a test sleeps"));
        let above =
            "fn f() {\n // sleeps: the kill comes at a random moment\n std::thread::sleep(d);\n}";
        assert_eq!(problems(path, above), [""; 0]);
        let mute = "fn f() {\n std::thread::sleep(d); // sleeps: \n}";
        assert_eq!(problems(path, mute).len(), 1);
        assert_eq!(problems("crates/y/src/a.rs", bare), [""; 0]);
    }

    #[test]
    fn only_crates_that_may_use_the_system_do() {
        let text = "use std::{fs, io};\nfn f() { std::time::Instant::now(); }\n\
                    #[cfg(test)]\nmod tests { use std::fs; }";
        let found = problems("crates/x/src/a.rs", text);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("Instant::now") && found[1].contains("std::fs"));
        assert_eq!(problems("crates/y/src/a.rs", text), [""; 0]);
    }
}
