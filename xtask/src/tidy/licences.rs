//! Licences and lints of every package.

use super::crates::CargoPackage;
use super::{ProjectTree, TidyProblem};

const LICENCE: &str = "MIT OR Apache-2.0";
const HOLDER: &str = "The Forebay authors";

/// Checks that the licence files exist, and that every package has the licence and the workspace's lints.
pub(super) fn check(tree: &ProjectTree, packages: &[CargoPackage]) -> Vec<TidyProblem> {
    let mut problems = Vec::new();
    for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
        if !tree.text(file).is_some_and(|text| text.contains(HOLDER)) {
            let text = format!("must be there and name \"{HOLDER}\"");
            problems.push(TidyProblem::new(file, 0, text));
        }
    }
    for package in packages {
        let manifest = package.manifest(tree);
        if package.license.as_deref() != Some(LICENCE) {
            let text = format!("the licence must be \"{LICENCE}\"");
            problems.push(TidyProblem::new(&manifest, 0, text));
        }
        let text = tree.text(&manifest).unwrap_or_default();
        if !text.contains("[lints]\nworkspace = true") {
            let text = "must take the workspace's lints: `[lints]`, `workspace = true`";
            problems.push(TidyProblem::new(&manifest, 0, text));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_licences_and_lints_are_found() {
        let package: CargoPackage = serde_json::from_str(
            r#"{"manifest_path": "/project/crates/x/Cargo.toml",
                "license": "MIT", "dependencies": []}"#,
        )
        .unwrap();
        let tree = ProjectTree::of(&[("LICENSE-MIT", "Copyright (c) The Forebay authors")]);
        let found = check(&tree, &[package]);
        let paths: Vec<&str> = found.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(
            paths,
            [
                "LICENSE-APACHE",
                "crates/x/Cargo.toml",
                "crates/x/Cargo.toml"
            ]
        );
    }
}
