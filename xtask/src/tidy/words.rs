//! Text that has a meaning on one machine only, or that was not meant to stay.

use super::{ProjectTree, TidyProblem};

/// Forbidden strings, with the reasons.
///
/// They are put together here so that this file does not contain them either.
const FORBIDDEN: [(&str, &str); 6] = [
    (concat!("../", "shared"), "a path outside the project"),
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("/ho", "me/"), "a path of one machine"),
    (concat!("/Us", "ers/"), "a path of one machine"),
    (concat!("<<<<", "<<< "), "a merge that was not finished"),
    (concat!(">>>>", ">>> "), "a merge that was not finished"),
];

const INDEX: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Checks every line of every file, and the sources of packages.
pub(super) fn check(tree: &ProjectTree) -> Vec<TidyProblem> {
    let mut problems = Vec::new();
    for (path, text) in tree.iter() {
        for (index, line) in text.lines().enumerate() {
            for (word, why) in FORBIDDEN {
                if line.contains(word) {
                    problems.push(TidyProblem::new(
                        path,
                        index + 1,
                        format!("`{word}`: {why}"),
                    ));
                }
            }
        }
    }
    problems.extend(sources(tree));
    problems
}

/// Checks that a clone needs only the public registry to build.
fn sources(tree: &ProjectTree) -> Vec<TidyProblem> {
    let mut problems = Vec::new();
    let lock = tree.text("Cargo.lock").unwrap_or_default();
    for (index, line) in lock.lines().enumerate() {
        if line.starts_with("source = ") && !line.contains(INDEX) {
            let text = "a package that is not from crates.io";
            problems.push(TidyProblem::new("Cargo.lock", index + 1, text));
        }
    }
    for (path, text) in tree.ending(".cargo/config.toml") {
        for (index, line) in text.lines().enumerate() {
            if ["[source", "[registr", "replace-with"]
                .iter()
                .any(|start| line.starts_with(start))
            {
                let text = "packages come from crates.io; say otherwise in your own configuration";
                problems.push(TidyProblem::new(path, index + 1, text));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_forbidden_string_is_reported_with_its_line() {
        for (word, why) in FORBIDDEN {
            let text = format!("fine\nnot {word}fine\n");
            let found = check(&ProjectTree::of(&[("a.sh", &text)]));
            assert_eq!(
                found,
                [TidyProblem::new("a.sh", 2, format!("`{word}`: {why}"))]
            );
        }
    }

    #[test]
    fn packages_from_outside_the_public_registry_are_found() {
        let lock = format!("source = \"{INDEX}\"\nsource = \"git+https://a.example/b\"\n");
        let config = "[alias]\n[source.crates-io]\nreplace-with = \"x\"\n";
        let found = check(&ProjectTree::of(&[
            ("Cargo.lock", &lock),
            (".cargo/config.toml", config),
        ]));
        let lines: Vec<usize> = found.iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [2, 2, 3]);
    }
}
