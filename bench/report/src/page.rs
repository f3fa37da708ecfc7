//! A page of Markdown with figures.

use std::borrow::Borrow;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// File name of a report.
const FILE: &str = "report.md";

/// An unfinished report, in a folder with its figures.
pub struct ReportPage {
    folder: PathBuf,
    text: String,
}

impl ReportPage {
    /// Begins a page with a title, in a folder that is created if missing.
    ///
    /// # Errors
    /// If the folder cannot be created.
    pub fn begin(folder: &Path, title: &str) -> Result<ReportPage> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(ReportPage {
            folder: folder.to_owned(),
            text: format!("# {title}\n\n"),
        })
    }

    /// Returns the path for the file of a figure.
    pub fn figure(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Adds a figure that was drawn.
    pub fn show(&mut self, what: &str, name: &str) {
        self.paragraph(&format!("![{what}]({name})"));
    }

    /// Adds a line without changes.
    pub fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    /// Begins a section.
    pub fn heading(&mut self, text: &str) {
        self.paragraph(&format!("## {text}"));
    }

    /// Adds a paragraph.
    pub fn paragraph(&mut self, text: &str) {
        self.line(&format!("{text}\n"));
    }

    /// Adds a table; all columns except the first are numbers.
    pub fn table<S: Borrow<str>>(
        &mut self,
        header: &[S],
        rows: impl IntoIterator<Item = Vec<String>>,
    ) {
        self.line(&format!("| {} |", header.join(" | ")));
        let numbers = "---:|".repeat(header.len() - 1);
        self.line(&format!("|---|{numbers}"));
        for row in rows {
            self.line(&format!("| {} |", row.join(" | ")));
        }
        self.line("");
    }

    /// Returns the text so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Writes the page and returns its path.
    ///
    /// # Errors
    /// If the page cannot be written.
    pub fn end(self) -> Result<PathBuf> {
        let path = self.folder.join(FILE);
        let text = self.text.trim_end().to_owned() + "\n";
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_its_title_its_tables_and_one_newline_at_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let within = folder.path().join("made");
        let mut page = ReportPage::begin(&within, "A title").unwrap();
        page.heading("A section");
        page.table(&["a", "b"], [vec!["1".into(), "2".into()]]);
        assert!(page.text().starts_with("# A title\n\n"));
        let path = page.end().unwrap();
        assert_eq!(path, within.join("report.md"));
        let text = fs::read_to_string(path).unwrap();
        assert!(
            text.ends_with("## A section\n\n| a | b |\n|---|---:|\n| 1 | 2 |\n"),
            "{text}"
        );
    }
}
