//! A page of Markdown that shows figures.

use std::borrow::Borrow;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// What a report's file is called.
const FILE: &str = "report.md";

/// A report that is being written, in a folder with its figures.
pub struct ReportPage {
    folder: PathBuf,
    text: String,
}

impl ReportPage {
    /// A page with nothing but its title, in a folder that is made if need be.
    ///
    /// # Errors
    /// If the folder cannot be made.
    pub fn begin(folder: &Path, title: &str) -> Result<ReportPage> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(ReportPage {
            folder: folder.to_owned(),
            text: format!("# {title}\n\n"),
        })
    }

    /// Where a figure is to be drawn.
    pub fn figure(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Shows a figure that was drawn.
    pub fn show(&mut self, what: &str, name: &str) {
        self.paragraph(&format!("![{what}]({name})"));
    }

    /// A line as it is.
    pub fn line(&mut self, text: &str) {
        self.text.push_str(text);
        self.text.push('\n');
    }

    /// Begins a section.
    pub fn heading(&mut self, text: &str) {
        self.paragraph(&format!("## {text}"));
    }

    /// A paragraph.
    pub fn paragraph(&mut self, text: &str) {
        self.line(&format!("{text}\n"));
    }

    /// A table; all columns but the first are numbers.
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

    /// The text so far.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Writes the page; gives its path.
    ///
    /// # Errors
    /// If it cannot be written.
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
