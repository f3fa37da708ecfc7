//! Check that a crate consists of its own files.
//!
//! A file that `#[path]` includes from another crate is compiled twice, and bypasses the table of permitted
//! dependencies. Code that two crates need belongs in a crate.

use super::ratchet::{LimitedCount, Ratchet};
use super::rust::RustSource;
use super::tree::resolve;
use super::{ProjectTree, TidyProblem};

/// Checks for every `#[path]` that leads out of its crate, except those that the ratchet permits.
pub(super) fn check(
    tree: &ProjectTree,
    sources: &[RustSource],
    ratchet: &mut Ratchet,
) -> Vec<TidyProblem> {
    let mut problems = Vec::new();
    for directory in tree.crates() {
        let within = format!("{directory}/");
        let files = sources
            .iter()
            .filter(|source| source.path.starts_with(&within));
        let out: Vec<TidyProblem> = files.flat_map(|source| leaving(source, &within)).collect();
        let verdict = ratchet.exactly(LimitedCount {
            what: directory,
            line: 0,
            number: out.len(),
            unit: "paths",
            max: 0,
        });
        if let Some(verdict) = verdict {
            problems.push(verdict);
            problems.extend(out);
        }
    }
    problems
}

/// Returns the `#[path]`s of the file that lead out of `within`, the directory of its crate.
fn leaving(source: &RustSource, within: &str) -> Vec<TidyProblem> {
    let mut problems = Vec::new();
    for at in source.find(&["#", "[", "path", "="]) {
        let Some(literal) = source.tokens.get(at + 4) else {
            continue;
        };
        let target = literal.text.trim_matches('"');
        let stays = resolve(&source.path, target).is_some_and(|path| path.starts_with(within));
        if !stays {
            let text = format!("`{target}` is another crate's; make it a dependency");
            problems.push(TidyProblem::new(&source.path, literal.line, text));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::super::ratchet::RATCHET;
    use super::*;

    fn problems(path: &str, text: &str, exceptions: &str) -> Vec<String> {
        let manifests = [("crates/x/Cargo.toml", ""), ("crates/y/Cargo.toml", "")];
        let tree = ProjectTree::of(&[manifests[0], manifests[1], (RATCHET, exceptions)]);
        let (mut ratchet, mut found) = Ratchet::of(&tree);
        found.extend(check(
            &tree,
            &[RustSource::parse(path, text).unwrap()],
            &mut ratchet,
        ));
        found.extend(ratchet.left());
        found.iter().map(TidyProblem::to_string).collect()
    }

    const OUT: &str = "\n#[path = \"../../y/src/a.rs\"]\nmod a;";

    #[test]
    fn a_file_of_another_crate_is_found_in_code_and_in_tests() {
        let found = problems("crates/x/src/lib.rs", OUT, "");
        assert!(found[0].contains("`crates/x` has 1 paths, limit 0"));
        assert!(found[1].starts_with("crates/x/src/lib.rs:2: `../../y/src/a.rs` is another"));
        assert_eq!(problems("crates/x/tests/a.rs", OUT, "").len(), 2);
        assert_eq!(
            problems("crates/x/src/lib.rs", OUT, "1 crates/x paths"),
            [""; 0]
        );
    }

    #[test]
    fn files_of_the_same_crate_pass() {
        let text = "#[path = \"../../src/a.rs\"]\nmod a;\n#[path = \"b_tests.rs\"]\nmod b;";
        assert_eq!(problems("crates/x/tests/c/main.rs", text, ""), [""; 0]);
        let gone = problems("crates/x/src/lib.rs", "", "1 crates/x paths");
        assert!(gone[0].contains("needs no exception"), "{gone:?}");
    }
}
