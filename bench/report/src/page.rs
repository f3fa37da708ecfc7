//! A page of Markdown with figures.

use std::borrow::Borrow;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// File name of a report.
const FILE: &str = "report.md";
/// Columns of a line of text.
const COLUMNS: usize = 120;

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

    /// Adds a paragraph, or a list. Breaks long lines between words.
    pub fn paragraph(&mut self, text: &str) {
        for line in text.lines() {
            self.line(&wrapped(line));
        }
        self.line("");
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

/// Breaks a line of Markdown into lines of at most [`COLUMNS`]. Headings, tables and figures are single lines.
fn wrapped(line: &str) -> String {
    if line.starts_with(['#', '|', '!']) {
        return line.to_owned();
    }
    let indent = if line.starts_with("- ") { "  " } else { "" };
    let options = textwrap::Options::new(COLUMNS)
        .subsequent_indent(indent)
        .break_words(false)
        .word_splitter(textwrap::WordSplitter::NoHyphenation);
    textwrap::fill(line, options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_of_text_are_broken_between_words_and_tables_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let mut page = ReportPage::begin(folder.path(), "A title").unwrap();
        let words = "several-words ".repeat(20);
        page.paragraph(&format!("{words}\n- {words}\n- short"));
        page.table(&["a"], [vec![words.clone()]]);
        let (text, table) = page.text().split_once("| a |").unwrap();
        assert!(text.lines().all(|line| line.len() <= COLUMNS), "{text}");
        assert_eq!(text.matches("several-words").count(), 40);
        assert!(text.contains("\n- several-words") && text.contains("\n  several-words"));
        assert!(text.ends_with("\n- short\n\n"), "{text}");
        assert!(table.contains(words.trim_end()), "{table}");
    }

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
