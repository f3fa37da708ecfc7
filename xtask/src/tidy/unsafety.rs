//! Permitted places of `unsafe`.
//!
//! The compiler denies `unsafe` everywhere. A module that needs it has a permission at its top, with the reason, and is
//! listed in ARCHITECTURE.md, so that all code to audit is known.

use super::rust::RustSource;
use super::{ProjectTree, TidyProblem};
use forebay_doc_tables::{plain, tables};

const DOCUMENT: &str = "ARCHITECTURE.md";

/// Checks every `unsafe` and every permission for it against the list.
pub(super) fn check(tree: &ProjectTree, sources: &[RustSource]) -> Vec<TidyProblem> {
    let listed = listed(tree);
    let mut problems = Vec::new();
    let mut used = Vec::new();
    for source in sources {
        let found = source.find(&["unsafe"]);
        let permission = permission(source);
        problems.extend(bad_permissions(source));
        match (found.first(), permission) {
            (Some(&first), None) => {
                let text = "`unsafe` in a module without `#![allow(unsafe_code, reason = …)]`";
                problems.push(TidyProblem::new(
                    &source.path,
                    source.tokens[first].line,
                    text,
                ));
            }
            (None, Some(line)) => {
                let text = "allows unsafe code and has none";
                problems.push(TidyProblem::new(&source.path, line, text));
            }
            (Some(_), Some(line)) => {
                let row = listed.iter().find(|(_, place)| covers(place, &source.path));
                if let Some((_, place)) = row {
                    used.push(place.clone());
                } else {
                    let text = format!("not in the list of unsafe modules in {DOCUMENT}");
                    problems.push(TidyProblem::new(&source.path, line, text));
                }
            }
            (None, None) => {}
        }
    }
    for (line, place) in listed.iter().filter(|(_, place)| !used.contains(place)) {
        let text = format!("`{place}` has no unsafe code");
        problems.push(TidyProblem::new(DOCUMENT, *line, text));
    }
    problems
}

/// Returns the places listed in the tables headed `unsafe in | …`, with their lines.
fn listed(tree: &ProjectTree) -> Vec<(usize, String)> {
    let tables = tables(tree.text(DOCUMENT).unwrap_or_default());
    let rows = tables
        .into_iter()
        .filter(|table| table.header[0] == "unsafe in");
    let rows = rows.flat_map(|table| table.rows);
    rows.filter(|(_, row)| !row[0].contains("(to come)"))
        .map(|(line, row)| (line, plain(&row[0])))
        .collect()
}

/// Returns true if a listed place is the file or, if it ends in `/`, a directory above it.
fn covers(place: &str, path: &str) -> bool {
    place == path || (place.ends_with('/') && path.starts_with(place))
}

const PERMISSION: [&str; 9] = [
    "#",
    "!",
    "[",
    "allow",
    "(",
    "unsafe_code",
    ",",
    "reason",
    "=",
];

/// Returns the line of the module's permission.
fn permission(source: &RustSource) -> Option<usize> {
    let at = *source.find(&PERMISSION).first()?;
    Some(source.tokens[at].line)
}

/// Returns permissions that are wider or narrower than one module, or give no reason.
fn bad_permissions(source: &RustSource) -> Vec<TidyProblem> {
    let mut problems = Vec::new();
    let file = source.path.rsplit('/').next().unwrap_or_default();
    let root = source.path.contains("/src/") && matches!(file, "lib.rs" | "main.rs");
    let words = source.find(&["unsafe_code"]);
    // The word occurs outside the permission's own place.
    let good = source.find(&PERMISSION).first().map(|at| at + 5);
    for at in words {
        let line = source.tokens[at].line;
        if root {
            let text = "opens the whole crate to unsafe code; open one module";
            problems.push(TidyProblem::new(&source.path, line, text));
        } else if Some(at) != good {
            let text = "write `#![allow(unsafe_code, reason = …)]` once, at the module's top";
            problems.push(TidyProblem::new(&source.path, line, text));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "#![allow(unsafe_code, reason = \"raw memory\")]\nfn f() { unsafe {} }";

    fn problems(path: &str, text: &str, list: &str) -> Vec<String> {
        let document = format!("| unsafe in | why |\n|---|---|\n{list}");
        let tree = ProjectTree::of(&[(DOCUMENT, &document)]);
        let found = check(&tree, &[RustSource::parse(path, text).unwrap()]);
        found.iter().map(TidyProblem::to_string).collect()
    }

    const FILE: &str = "crates/x/src/a.rs";
    const LISTED: &str = "| `crates/x/src/a.rs` | w |\n| `crates/y/` (to come) | w |\n";

    #[test]
    fn a_listed_module_with_a_reason_passes_alone_or_by_its_directory() {
        assert_eq!(problems(FILE, GOOD, LISTED), [""; 0]);
        assert_eq!(problems(FILE, GOOD, "| `crates/x/src/` | w |\n"), [""; 0]);
    }

    #[test]
    fn unsafe_code_without_permission_is_found_even_in_a_macro_call() {
        let found = problems(FILE, "fn f() { m!(unsafe { g() }) }", "");
        assert!(found[0].contains("without `#![allow"), "{found:?}");
        assert_eq!(
            problems(FILE, "// unsafe\nconst A: &str = \"unsafe\";", ""),
            [""; 0]
        );
    }

    #[test]
    fn an_unlisted_module_and_a_list_that_is_out_of_date_are_found() {
        assert!(problems(FILE, GOOD, "")[0].contains("not in the list"));
        assert!(problems(FILE, "fn f() {}", LISTED)[0].contains("has no unsafe code"));
    }

    #[test]
    fn unneeded_unexplained_and_too_broad_permissions_are_found() {
        let idle = "#![allow(unsafe_code, reason = \"none\")]";
        assert!(problems(FILE, idle, "")[0].contains("and has none"));
        let mute = "#![allow(unsafe_code)]\nfn f() { unsafe {} }";
        assert!(problems(FILE, mute, "")[0].contains("at the module's top"));
        let item = "#[allow(unsafe_code, reason = \"x\")]\nfn f() { unsafe {} }";
        assert!(problems(FILE, item, "")[0].contains("at the module's top"));
        let root = problems(
            "crates/x/src/lib.rs",
            GOOD,
            "| `crates/x/src/lib.rs` | w |\n",
        );
        assert!(root[0].contains("whole crate"), "{root:?}");
    }
}
