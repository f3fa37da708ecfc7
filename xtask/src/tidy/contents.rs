//! Contents of the program `forebay`: no dependency with a star in the table of ARCHITECTURE.md, directly or through
//! other crates of the workspace.
//!
//! The levels of crates already keep crates without a level out of the program (`crates.rs`). An optional dependency
//! counts, since a feature could add it.

use std::collections::BTreeSet;

use super::crates::{CargoPackage, external, from_root};
use super::{ProjectTree, TidyProblem};

/// Manifest of the program.
const PROGRAM: &str = "crates/cli/Cargo.toml";

/// Finds the starred dependencies that the program would contain.
pub(super) fn check(tree: &ProjectTree, packages: &[CargoPackage]) -> Vec<TidyProblem> {
    let starred: BTreeSet<String> = external(tree)
        .into_iter()
        .filter(|one| one.stays_out)
        .map(|one| one.name)
        .collect();
    let (mut problems, mut seen) = (Vec::new(), BTreeSet::new());
    let mut left = vec![PROGRAM.to_owned()];
    while let Some(manifest) = left.pop() {
        let package = packages.iter().find(|one| one.manifest(tree) == manifest);
        let (Some(package), true) = (package, seen.insert(manifest.clone())) else {
            continue;
        };
        for dependency in package.dependencies.iter().filter(|one| !one.is_of_tests()) {
            let name = &dependency.name;
            match &dependency.path {
                Some(path) => left.push(format!("{}/Cargo.toml", from_root(tree, path))),
                None if starred.contains(name) => {
                    let text = format!("the program `forebay` would contain `{name}`");
                    problems.push(TidyProblem::new(&manifest, 0, text));
                }
                None => {}
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(directory: &str, dependencies: &str) -> CargoPackage {
        let manifest = format!("/project/{directory}/Cargo.toml");
        let text = format!(
            r#"{{"manifest_path": "{manifest}", "license": null, "dependencies": [{dependencies}]}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn starred_dependencies_are_found_in_all_crates_below_the_program_but_not_in_tests() {
        let table =
            "| dependency | why |\n|---|---|\n| `libc` | all |\n| `plotters`\\* | reports |\n";
        let tree = ProjectTree::of(&[("ARCHITECTURE.md", table)]);
        let problems = |kind: &str| {
            let plotters = format!(r#"{{"name": "plotters", "path": null, "kind": {kind}}}"#);
            let packages = [
                package(
                    "crates/cli",
                    r#"{"name": "forebay-below", "path": "/project/crates/below", "kind": null}"#,
                ),
                package(
                    "crates/below",
                    &format!(r#"{{"name": "libc", "path": null, "kind": null}}, {plotters}"#),
                ),
                package("bench/report", &plotters),
            ];
            let found = check(&tree, &packages);
            found.iter().map(TidyProblem::to_string).collect::<Vec<_>>()
        };
        let text = "crates/below/Cargo.toml: the program `forebay` would contain `plotters`";
        assert_eq!(problems("null"), [text]);
        assert_eq!(problems("\"dev\""), [""; 0]);
    }
}
