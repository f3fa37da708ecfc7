//! Dependencies that a crate declares and does not use.
//!
//! A crate uses a dependency if its name is a token of one of the crate's Rust files. Each dependency costs every build
//! and hides the real relations between crates.

use super::crates::CargoPackage;
use super::rust::RustSource;
use super::{ProjectTree, TidyProblem};

/// Finds the dependencies whose name no file of their crate contains.
pub(super) fn check(
    tree: &ProjectTree,
    packages: &[CargoPackage],
    sources: &[RustSource],
) -> Vec<TidyProblem> {
    let mut problems = Vec::new();
    for package in packages {
        let manifest = package.manifest(tree);
        let directory = manifest.trim_end_matches("Cargo.toml");
        let files: Vec<&RustSource> = sources
            .iter()
            .filter(|source| source.path.starts_with(directory))
            .collect();
        for name in package.dependency_names() {
            let wanted = name.replace('-', "_");
            let is_used = files.iter().any(|file| file.has_word(&wanted));
            if !is_used {
                let text = format!("no file of the crate uses `{name}`: remove the dependency");
                problems.push(TidyProblem::new(&manifest, 0, text));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(code: &str) -> Vec<String> {
        let package: CargoPackage = serde_json::from_str(
            r#"{"manifest_path": "/project/crates/x/Cargo.toml", "license": null,
                "dependencies": [{"name": "forebay-ring-log", "path": null, "kind": "dev"}]}"#,
        )
        .unwrap();
        let tree = ProjectTree::of(&[]);
        let sources = [
            RustSource::parse("crates/x/src/lib.rs", code).unwrap(),
            RustSource::parse("crates/y/src/lib.rs", "use forebay_ring_log;").unwrap(),
        ];
        let found = check(&tree, &[package], &sources);
        found.iter().map(TidyProblem::to_string).collect()
    }

    #[test]
    fn a_dependency_that_no_file_of_the_crate_names_is_found() {
        let text = "crates/x/Cargo.toml: no file of the crate uses `forebay-ring-log`: remove the dependency";
        assert_eq!(problems("// forebay_ring_log\nfn f() {}"), [text]);
        assert_eq!(problems("use forebay_ring_log::RingLog;"), [""; 0]);
        assert_eq!(problems("fn f() { forebay_ring_log::open() }"), [""; 0]);
    }
}
