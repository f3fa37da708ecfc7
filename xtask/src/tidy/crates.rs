//! Permitted dependencies: the tables of ARCHITECTURE.md against cargo's metadata.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::{ProjectTree, TidyProblem};
use forebay_doc_tables::{plain, tables};

const DOCUMENT: &str = "ARCHITECTURE.md";
const TO_COME: &str = "(to come)";
/// Directories of crates that do not ship.
const ROOMS_THAT_STAY: [&str; 2] = ["bench/", "testing/"];

/// A package of the workspace, from `cargo metadata`.
#[derive(Deserialize)]
pub(super) struct CargoPackage {
    manifest_path: String,
    pub(super) license: Option<String>,
    pub(super) dependencies: Vec<CargoDependency>,
}

/// A dependency of a package, in its manifest.
#[derive(Deserialize)]
pub(super) struct CargoDependency {
    pub(super) name: String,
    /// Path of the package, if it belongs to the workspace.
    pub(super) path: Option<String>,
    /// `dev` if only tests use the dependency.
    kind: Option<String>,
}

impl CargoDependency {
    /// Returns true if only tests use the dependency.
    pub(super) fn is_of_tests(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

#[derive(Deserialize)]
struct CargoMetadata {
    packages: Vec<CargoPackage>,
}

impl CargoPackage {
    /// Returns the manifest's path from the project's root.
    pub(super) fn manifest(&self, tree: &ProjectTree) -> String {
        from_root(tree, &self.manifest_path)
    }

    /// The names of all dependencies, those of tests included.
    pub(super) fn dependency_names(&self) -> impl Iterator<Item = &str> {
        self.dependencies.iter().map(|one| one.name.as_str())
    }

    /// Returns the crate's name in the table.
    fn listed_as(&self, tree: &ProjectTree) -> String {
        let manifest = self.manifest(tree);
        listed_as(manifest.trim_end_matches("/Cargo.toml")).to_owned()
    }
}

/// Returns the name in the table of the crate in `directory`, a path from the project's root.
fn listed_as(directory: &str) -> &str {
    directory.strip_prefix("crates/").unwrap_or(directory)
}

/// Returns a path from the project's root.
pub(super) fn from_root(tree: &ProjectTree, path: &str) -> String {
    let root = format!("{}/", tree.root().display());
    path.strip_prefix(&root).unwrap_or(path).to_owned()
}

/// Returns the workspace's packages. Reads only the manifests, so no network is needed.
pub(super) fn packages(tree: &ProjectTree) -> Result<Vec<CargoPackage>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(tree.root())
        .output()
        .context("cargo metadata could not be run")?;
    ensure!(
        output.status.success(),
        "cargo metadata: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let metadata: CargoMetadata = serde_json::from_slice(&output.stdout)?;
    Ok(metadata.packages)
}

/// A row of the crate table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CrateRow {
    pub(super) name: String,
    line: usize,
    /// The crate may use crates of levels below this number.
    below: u32,
    /// Level of the crate; `None` for a crate that does not ship. Shipping crates may not use such a crate.
    level: Option<u32>,
    to_come: bool,
    /// True if the crate may use the operating system directly.
    pub(super) system: bool,
}

/// Returns the rows of the crate table, and the problems of the table.
pub(super) fn listed(tree: &ProjectTree) -> (Vec<CrateRow>, Vec<TidyProblem>) {
    let (mut rows, mut problems) = (Vec::new(), Vec::new());
    for table in tables(tree.text(DOCUMENT).unwrap_or_default()) {
        if !table
            .header
            .starts_with(&["level".into(), "crate".into(), "system".into()])
        {
            continue;
        }
        for (line, row) in table.rows {
            match read_row(line, &row) {
                Some(listed) => rows.push(listed),
                None => problems.push(TidyProblem::new(
                    DOCUMENT,
                    line,
                    "not a row of the crate table",
                )),
            }
        }
    }
    if rows.is_empty() {
        let text = "no table `level | crate | system | …`";
        problems.push(TidyProblem::new(DOCUMENT, 0, text));
    }
    (rows, problems)
}

fn read_row(line: usize, row: &[String]) -> Option<CrateRow> {
    let [level, name, system, ..] = row else {
        return None;
    };
    let (below, level) = match level.strip_suffix('*') {
        Some("–") => (0, None),
        Some(highest) => (highest.parse::<u32>().ok()? + 1, None),
        None => (level.parse().ok()?, Some(level.parse().ok()?)),
    };
    Some(CrateRow {
        name: plain(&name.replace(TO_COME, "")),
        line,
        below,
        level,
        to_come: name.contains(TO_COME),
        system: match system.as_str() {
            "yes" => true,
            "" | "no" => false,
            _ => return None,
        },
    })
}

/// Compares packages and their dependencies with the tables.
pub(super) fn check(tree: &ProjectTree, packages: &[CargoPackage]) -> Vec<TidyProblem> {
    let (listed, mut problems) = listed(tree);
    let present: Vec<String> = packages.iter().map(|one| one.listed_as(tree)).collect();
    for row in &listed {
        if row.level.is_some()
            && ROOMS_THAT_STAY
                .iter()
                .any(|room| row.name.starts_with(room))
        {
            let text = format!("`{}` does not ship: its level needs a star", row.name);
            problems.push(TidyProblem::new(DOCUMENT, row.line, text));
        }
        let text = match (present.contains(&row.name), row.to_come) {
            (true, true) => format!("`{}` is there, and said {TO_COME}", row.name),
            (false, false) => format!("`{}` is not there, and not said {TO_COME}", row.name),
            _ => continue,
        };
        problems.push(TidyProblem::new(DOCUMENT, row.line, text));
    }
    for (package, name) in packages.iter().zip(&present) {
        let manifest = package.manifest(tree);
        let Some(row) = listed.iter().find(|row| row.name == *name) else {
            let text = format!("`{name}` is not in the crate table of {DOCUMENT}");
            problems.push(TidyProblem::new(&manifest, 0, text));
            continue;
        };
        for dependency in &package.dependencies {
            let text = match &dependency.path {
                Some(path) => {
                    let path = from_root(tree, path);
                    refusal(row, &path, dependency.is_of_tests(), &listed)
                }
                None => undocumented(tree, &dependency.name),
            };
            problems.extend(text.map(|text| TidyProblem::new(&manifest, 0, text)));
        }
    }
    problems.extend(stale(tree));
    if present.iter().any(|name| name == "cli")
        && !has_line(tree, "default-members = [\"crates/cli\"]")
    {
        let text = "default-members must be [\"crates/cli\"], so that `cargo run -- try` works";
        problems.push(TidyProblem::new("Cargo.toml", 0, text));
    }
    problems
}

/// Returns the reason why `row`'s crate may not use the crate at `path`, if it may not. Tests and crates that do not
/// ship may use crates that do not ship.
fn refusal(row: &CrateRow, path: &str, only_tests: bool, listed: &[CrateRow]) -> Option<String> {
    let name = listed_as(path);
    let (user, below) = (&row.name, row.below);
    match listed.iter().find(|one| one.name == name)?.level {
        None if only_tests || row.level.is_none() => None,
        None => Some(format!("`{user}` uses `{name}`, which does not ship")),
        Some(level) if level >= below => Some(format!(
            "`{user}` may use crates below level {below}, and `{name}` is of level {level}"
        )),
        Some(_) => None,
    }
}

/// A name in the first column of the tables headed `dependency | …`.
pub(super) struct ExternalName {
    line: usize,
    pub(super) name: String,
    /// True if the name has a star: the program `forebay` must not contain it.
    pub(super) stays_out: bool,
}

/// Returns the names of the dependency tables.
pub(super) fn external(tree: &ProjectTree) -> Vec<ExternalName> {
    let tables = tables(tree.text(DOCUMENT).unwrap_or_default());
    let mut names = Vec::new();
    for table in tables
        .iter()
        .filter(|table| table.header[0] == "dependency")
    {
        for (line, row) in &table.rows {
            names.extend(row[0].split(',').map(|cell| {
                let cell = plain(cell);
                let name = cell.trim_end_matches(['*', '\\']);
                ExternalName {
                    line: *line,
                    stays_out: name.len() < cell.len(),
                    name: name.to_owned(),
                }
            }));
        }
    }
    names
}

fn undocumented(tree: &ProjectTree, name: &str) -> Option<String> {
    let known = external(tree).iter().any(|one| one.name == name);
    (!known).then(|| format!("`{name}` is not in the dependency table of {DOCUMENT}"))
}

/// Returns rows of the dependency table that the workspace no longer has.
fn stale(tree: &ProjectTree) -> Vec<TidyProblem> {
    let gone = external(tree)
        .into_iter()
        .filter(|one| !has_line(tree, &format!("{} = ", one.name)));
    gone.map(|ExternalName { line, name, .. }| {
        let text = format!("`{name}` is not in Cargo.toml's [workspace.dependencies]");
        TidyProblem::new(DOCUMENT, line, text)
    })
    .collect()
}

/// Returns true if a line of the root manifest begins with `start`.
fn has_line(tree: &ProjectTree, start: &str) -> bool {
    let manifest = tree.text("Cargo.toml").unwrap_or_default();
    manifest.lines().any(|line| line.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLES: &str = "\
| level | crate | system | what |
|---|---|---|---|
| 0 | `low` | | |
| 1 | `left` | | |
| 1 | `right` | yes | |
| 2 | `late` (to come) | | |
| 1* | `rig` | yes | |

| dependency | why |
|---|---|
| `libc`, `serde` | because |
";
    const MANIFEST: &str = "libc = \"1\"\nserde = \"1\"\n";

    fn package(name: &str, uses: &[&str]) -> CargoPackage {
        let dependency = |name: &&str| CargoDependency {
            path: name.contains('/').then(|| format!("/project/{name}")),
            name: name.replace("crates/", "forebay-"),
            kind: None,
        };
        CargoPackage {
            manifest_path: format!("/project/crates/{name}/Cargo.toml"),
            license: None,
            dependencies: uses.iter().map(dependency).collect(),
        }
    }

    fn problems(document: &str, manifest: &str, packages: &[CargoPackage]) -> Vec<String> {
        let tree = ProjectTree::of(&[(DOCUMENT, document), ("Cargo.toml", manifest)]);
        let found = check(&tree, packages);
        found.iter().map(TidyProblem::to_string).collect()
    }

    fn good() -> Vec<CargoPackage> {
        vec![
            package("low", &["libc"]),
            package("left", &["crates/low", "serde"]),
            package("right", &["crates/low"]),
            package("rig", &["crates/left", "crates/right"]),
        ]
    }

    #[test]
    fn crates_that_use_only_lower_levels_pass() {
        assert_eq!(problems(TABLES, MANIFEST, &good()), [""; 0]);
    }

    #[test]
    fn a_crate_may_not_use_its_own_level_nor_a_higher_one() {
        let mut packages = good();
        packages[1] = package("left", &["crates/right"]);
        packages[0] = package("low", &["crates/left"]);
        let found = problems(TABLES, MANIFEST, &packages);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("`low` may use crates below level 0"));
        assert!(found[1].contains("`right` is of level 1"));
    }

    #[test]
    fn shipping_crates_must_not_use_crates_that_do_not_ship() {
        let mut packages = good();
        packages[2] = package("right", &["crates/rig"]);
        let found = problems(TABLES, MANIFEST, &packages);
        assert!(found[0].contains("`rig`, which does not ship"), "{found:?}");
        packages[2].dependencies[0].kind = Some("dev".into());
        assert_eq!(
            problems(TABLES, MANIFEST, &packages),
            [""; 0],
            "its tests may"
        );
        let mut packages = good();
        packages.push(package("tests", &["crates/rig"]));
        let document = TABLES.replace("| 1* |", "| –* | `tests` | | |\n| 1* |");
        assert_eq!(problems(&document, MANIFEST, &packages), [""; 0]);
    }

    #[test]
    fn measurements_and_test_systems_do_not_ship() {
        let document = TABLES.replace("| 1* | `rig`", "| 1 | `bench/rig`");
        let mut packages = good();
        packages[3].manifest_path = "/project/bench/rig/Cargo.toml".into();
        let found = problems(&document, MANIFEST, &packages);
        assert!(found[0].contains("`bench/rig` does not ship"), "{found:?}");
        let document = TABLES.replace("`rig`", "`bench/rig`");
        packages[3].dependencies.clear();
        assert_eq!(problems(&document, MANIFEST, &packages), [""; 0]);
    }

    #[test]
    fn a_crate_missing_from_the_table_or_from_the_tree_is_found() {
        let mut packages = good();
        packages[2] = package("stray", &[]);
        let found = problems(TABLES, MANIFEST, &packages);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("`right` is not there"));
        assert!(found[1].contains("`stray` is not in the crate table"));
    }

    #[test]
    fn an_existing_crate_must_not_be_listed_as_to_come() {
        let mut packages = good();
        packages.push(package("late", &[]));
        let found = problems(TABLES, MANIFEST, &packages);
        assert!(
            found[0].contains("`late` is there, and said (to come)"),
            "{found:?}"
        );
    }

    #[test]
    fn external_dependencies_and_their_table_must_agree() {
        let mut packages = good();
        packages[0] = package("low", &["rand"]);
        let found = problems(TABLES, "libc = \"1\"\n", &packages);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("`rand` is not in the dependency table"));
        assert!(found[1].contains("`serde` is not in Cargo.toml's"));
    }

    #[test]
    fn a_document_without_the_table_or_with_a_strange_row_is_a_problem() {
        assert!(problems("", MANIFEST, &[])[0].contains("no table"));
        let strange = TABLES.replace("| 0 |", "| low |");
        assert!(problems(&strange, MANIFEST, &good())[0].contains("not a row"));
    }

    #[test]
    fn the_program_must_be_the_default_member_for_cargo_run() {
        let document = TABLES.replace("`right`", "`cli`");
        let packages = [
            package("low", &[]),
            package("left", &[]),
            package("cli", &[]),
            package("rig", &[]),
        ];
        assert!(problems(&document, MANIFEST, &packages)[0].contains("default-members"));
        let manifest = format!("{MANIFEST}default-members = [\"crates/cli\"]\n");
        assert_eq!(problems(&document, &manifest, &packages), [""; 0]);
    }
}
