//! The patches: a header that says what is broken, then a unified diff.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Where the patches lie.
pub(super) const DIRECTORY: &str = "xtask/mutants";

/// One deliberate mistake.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Mutant {
    /// The patch's file name without its ending.
    pub(super) name: String,
    /// What is broken, in a line.
    pub(super) broken: String,
    /// Which invariant or promise of the design page of its subject that breaks.
    pub(super) breaks: String,
    /// The simulator's subject that is to show it; the cache if the patch does not say.
    pub(super) subject: String,
    diff: String,
}

impl Mutant {
    pub(super) fn parse(name: &str, text: &str) -> Result<Mutant> {
        let field = |key: &str| {
            let line = text.lines().take_while(|line| !line.starts_with("--- "));
            let mut values = line.filter_map(|line| line.strip_prefix(key));
            let value = values
                .next()
                .with_context(|| format!("{name}.patch has no line `{key}`"))?;
            ensure!(
                !value.trim().is_empty(),
                "{name}.patch: `{key}` says nothing"
            );
            Ok(value.trim().to_owned())
        };
        let at = text
            .find("--- ")
            .with_context(|| format!("{name}.patch has no diff"))?;
        Ok(Mutant {
            name: name.to_owned(),
            broken: field("Broken:")?,
            breaks: field("Breaks:")?,
            subject: field("Subject:").unwrap_or_else(|_| "cache".to_owned()),
            diff: text[at..].to_owned(),
        })
    }

    /// The files it changes.
    #[cfg(test)]
    pub(super) fn files(&self) -> Vec<&str> {
        let lines = self.diff.lines();
        lines
            .filter_map(|line| line.strip_prefix("+++ b/"))
            .collect()
    }

    /// Whether it applies to the tree at `root`; changes nothing.
    #[cfg(test)]
    pub(super) fn check(&self, root: &Path) -> Result<()> {
        self.git_apply(root, &["--check"])
    }

    pub(super) fn apply(&self, root: &Path) -> Result<()> {
        self.git_apply(root, &[])
    }

    fn git_apply(&self, root: &Path, more: &[&str]) -> Result<()> {
        let mut git = Command::new("git")
            .args(["apply", "--whitespace=nowarn"])
            .args(more)
            .current_dir(root)
            // A tree below target/ lies in the project's own repository, and git would take the
            // paths for the repository's: it is to see no repository above the tree.
            .env("GIT_CEILING_DIRECTORIES", root.parent().unwrap_or(root))
            .env_remove("GIT_DIR")
            .env_remove("GIT_INDEX_FILE")
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("git applies the patches, and could not be run")?;
        let mut stdin = git.stdin.take().context("git has a standard input")?;
        stdin.write_all(self.diff.as_bytes())?;
        drop(stdin);
        let output = git.wait_with_output()?;
        let why = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "git apply: {}", why.trim());
        Ok(())
    }
}

/// All mutants, by name.
pub(super) fn load(root: &Path) -> Result<Vec<Mutant>> {
    let directory = root.join(DIRECTORY);
    let mut mutants = Vec::new();
    for entry in std::fs::read_dir(&directory).with_context(|| directory.display().to_string())? {
        let path = entry?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if let Some(name) = name.strip_suffix(".patch") {
            mutants.push(Mutant::parse(name, &std::fs::read_to_string(&path)?)?);
        }
    }
    mutants.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(mutants)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "Broken: it\nBreaks: I1\n\n--- a/x.rs\n+++ b/x.rs\n@@ -1 +1 @@\n-a\n+b\n";

    #[test]
    fn a_patch_says_what_it_breaks_and_where() {
        let mutant = Mutant::parse("m", PATCH).unwrap();
        assert_eq!((&*mutant.broken, &*mutant.breaks), ("it", "I1"));
        assert_eq!(mutant.subject, "cache");
        let other = format!("Subject: space\n{PATCH}");
        assert_eq!(Mutant::parse("m", &other).unwrap().subject, "space");
        assert_eq!(mutant.files(), ["x.rs"]);
    }

    #[test]
    fn a_patch_without_its_header_or_diff_is_refused() {
        for without in ["Broken: it\n", "Breaks: I1\n"] {
            assert!(Mutant::parse("m", &PATCH.replace(without, "")).is_err());
        }
        assert!(Mutant::parse("m", "Broken: it\nBreaks: I1\n").is_err());
    }
}
