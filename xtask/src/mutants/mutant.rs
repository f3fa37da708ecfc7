//! One deliberate mistake: texts of the source and their replacements.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::tokens::Tokens;

/// The directory with a file for each mutant.
pub(super) const DIRECTORY: &str = "testing/mutants";

/// One deliberate mistake.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Mutant {
    /// The file name without its extension.
    pub(super) name: String,
    pub(super) recipe: MutantRecipe,
}

/// The content of a mutant's file.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MutantRecipe {
    /// The mistake, in a line.
    pub(super) broken: String,
    /// The invariant or guarantee of the design page that the mistake breaks.
    pub(super) breaks: String,
    /// The simulator's system under test that must show the mistake.
    #[serde(default = "cache")]
    pub(super) system: String,
    changes: Vec<SourceChange>,
}

/// One replacement in the sources of a crate.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SourceChange {
    /// The crate's directory below `crates`.
    #[serde(rename = "crate")]
    directory: String,
    /// Source text that occurs once in the crate. Only its tokens count, not its layout.
    find: String,
    replace: String,
}

fn cache() -> String {
    "cache".to_owned()
}

impl Mutant {
    pub(super) fn parse(name: &str, text: &str) -> Result<Mutant> {
        let recipe: MutantRecipe = toml::from_str(text).with_context(|| format!("{name}.toml"))?;
        let is_described = !recipe.broken.is_empty() && !recipe.breaks.is_empty();
        ensure!(is_described, "{name}.toml: `broken` or `breaks` is empty");
        ensure!(!recipe.changes.is_empty(), "{name}.toml changes nothing");
        Ok(Mutant {
            name: name.to_owned(),
            recipe,
        })
    }

    /// The crates that the mutant changes.
    #[cfg(test)]
    pub(super) fn crates(&self) -> impl Iterator<Item = &str> {
        self.recipe.changes.iter().map(|change| &*change.directory)
    }

    /// Finds the place of each change in the tree at `root`, and changes nothing.
    #[cfg(test)]
    pub(super) fn check(&self, root: &Path) -> Result<()> {
        for change in &self.recipe.changes {
            change.place(root)?;
        }
        Ok(())
    }

    /// Makes the mistake in the tree at `root`.
    ///
    /// # Errors
    /// If a text to replace is missing or occurs twice, or a file cannot be read or written.
    pub(super) fn apply(&self, root: &Path) -> Result<()> {
        for change in &self.recipe.changes {
            let (path, mut text, range) = change.place(root)?;
            text.replace_range(range, change.replace.trim());
            fs::write(&path, text).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }
}

impl SourceChange {
    /// Returns the file to change, its text, and the range to replace.
    fn place(&self, root: &Path) -> Result<(PathBuf, String, Range<usize>)> {
        let wanted = Tokens::of(&self.find);
        let mut found = Vec::new();
        for path in sources(&root.join("crates").join(&self.directory).join("src"))? {
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            let places = Tokens::of(&text).find(&wanted);
            found.extend(
                places
                    .into_iter()
                    .map(|range| (path.clone(), text.clone(), range)),
            );
        }
        let count = found.len();
        match found.pop() {
            Some(place) if count == 1 => Ok(place),
            _ => bail!(
                "crates/{} has this {count} times, not once:\n{}",
                self.directory,
                self.find.trim()
            ),
        }
    }
}

/// Returns the Rust files below a directory, without those of tests.
fn sources(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let entries = fs::read_dir(directory).with_context(|| directory.display().to_string())?;
    for entry in entries {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if name.contains("tests") {
            continue;
        }
        if path.is_dir() {
            files.extend(sources(&path)?);
        } else if name.ends_with(".rs") {
            files.push(path);
        }
    }
    Ok(files)
}

/// Returns all mutants, by name.
pub(super) fn load(root: &Path) -> Result<Vec<Mutant>> {
    let directory = root.join(DIRECTORY);
    let mut mutants = Vec::new();
    for entry in fs::read_dir(&directory).with_context(|| directory.display().to_string())? {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if let Some(name) = name.strip_suffix(".toml") {
            mutants.push(Mutant::parse(name, &fs::read_to_string(&path)?)?);
        }
    }
    mutants.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(mutants)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "broken = 'it'\nbreaks = 'I1'\n\
        [[changes]]\ncrate = 'x'\nfind = 'a(b)'\nreplace = 'c'\n";

    fn tree(text: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let source = root.path().join("crates/x/src/deep");
        fs::create_dir_all(&source).unwrap();
        fs::write(source.join("lib.rs"), text).unwrap();
        fs::write(source.join("lib_tests.rs"), "a(b)").unwrap();
        root
    }

    #[test]
    fn a_mutant_states_its_broken_invariant_and_its_crates() {
        let mutant = Mutant::parse("m", FILE).unwrap();
        let recipe = &mutant.recipe;
        assert_eq!((&*recipe.broken, &*recipe.breaks), ("it", "I1"));
        assert_eq!(recipe.system, "cache");
        let other = format!("system = 'space'\n{FILE}");
        assert_eq!(Mutant::parse("m", &other).unwrap().recipe.system, "space");
        assert_eq!(mutant.crates().collect::<Vec<_>>(), ["x"]);
    }

    #[test]
    fn a_mutant_without_its_description_or_changes_is_refused() {
        for without in ["broken = 'it'\n", "breaks = 'I1'\n", "find = 'a(b)'\n"] {
            assert!(Mutant::parse("m", &FILE.replace(without, "")).is_err());
        }
        assert!(Mutant::parse("m", "broken = 'it'\nbreaks = 'I1'\nchanges = []").is_err());
        assert!(Mutant::parse("m", &FILE.replace("'it'", "''")).is_err());
    }

    #[test]
    fn a_text_is_replaced_only_if_it_occurs_exactly_once() {
        let mutant = Mutant::parse("m", FILE).unwrap();
        let root = tree("fn f() { a(\n    b,\n) }");
        mutant.check(root.path()).unwrap();
        mutant.apply(root.path()).unwrap();
        let text = fs::read_to_string(root.path().join("crates/x/src/deep/lib.rs")).unwrap();
        assert_eq!(text, "fn f() { c }");
        for text in ["fn f() { a(c) }", "fn f() { a(b); a(b) }"] {
            assert!(mutant.apply(tree(text).path()).is_err());
        }
    }
}
