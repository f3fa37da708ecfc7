//! Check that files and functions in the documents exist.
//!
//! The check covers text in backticks in the pages about the code: `write.rs` or a longer end of a path; `flush()`;
//! `Log::append`; `write.rs::append`, a function or type in that file; and names of five words and more, as tests have.
//! A line with *(to come)* may name future items.

use std::collections::BTreeSet;

use super::rust::RustSource;
use super::{ProjectTree, TidyProblem};

/// Pages about the code, and directories of such pages. Other pages name user interfaces.
const PAGES: [&str; 5] = [
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "docs/testing.md",
    "docs/design/",
    "docs/format/",
];

/// Minimum number of words in a name with underscores that can only be a name of this project.
const LONG_NAME_WORDS: usize = 5;

/// Checks every name in every page.
pub(super) fn check(tree: &ProjectTree, sources: &[RustSource]) -> Vec<TidyProblem> {
    let known = SourceNames::of(sources);
    let mut problems = Vec::new();
    for (path, text) in tree.ending(".md") {
        if !PAGES.iter().any(|page| path.starts_with(page)) {
            continue;
        }
        for (line, word) in code(text) {
            let missing = known.missing(word);
            problems.extend(missing.map(|text| TidyProblem::new(path, line, text)));
        }
    }
    problems
}

/// Names in the sources.
struct SourceNames<'a> {
    sources: &'a [RustSource],
    words: BTreeSet<&'a str>,
    functions: BTreeSet<&'a str>,
}

impl<'a> SourceNames<'a> {
    fn of(sources: &'a [RustSource]) -> SourceNames<'a> {
        let tokens = || sources.iter().flat_map(|source| &source.tokens);
        let pairs = tokens().zip(tokens().skip(1));
        let functions = pairs.filter(|(word, _)| word.text == "fn");
        SourceNames {
            sources,
            words: tokens().map(|token| token.text.as_str()).collect(),
            functions: functions.map(|(_, name)| name.text.as_str()).collect(),
        }
    }

    /// Returns a problem if `word` names a missing file or function.
    fn missing(&self, word: &str) -> Option<String> {
        if let Some((file, name)) = word.split_once(".rs::") {
            return self.missing_in(&format!("{file}.rs"), name);
        }
        if word.ends_with(".rs") && !word.contains(|c: char| !is_of_path(c)) {
            let absent = self.files(word).next().is_none();
            return absent.then(|| format!("there is no `{word}`"));
        }
        if let Some(name) = word.strip_suffix("()") {
            let name = name.rsplit("::").next().filter(|name| is_name(name))?;
            let absent = !self.functions.contains(name);
            return absent.then(|| format!("there is no function `{name}`"));
        }
        let mut parts = word.split("::");
        let is_path = word.contains("::") && parts.clone().all(is_name);
        let is_long = is_name(word) && word.split('_').count() >= LONG_NAME_WORDS;
        let absent = parts.find(|part| !self.knows(part))?;
        (is_path || is_long).then(|| format!("there is no `{absent}` in the code"))
    }

    /// Returns true if the code contains `word`, even in a string: the kernel has long names, too.
    fn knows(&self, word: &str) -> bool {
        let mut texts = self.words.iter().filter(|text| text.contains('"'));
        self.words.contains(word) || texts.any(|text| text.contains(word))
    }

    /// Returns a problem if a function or type is missing in a file.
    fn missing_in(&self, file: &str, name: &str) -> Option<String> {
        let mut files = self.files(file).peekable();
        if files.peek().is_none() {
            return Some(format!("there is no `{file}`"));
        }
        let names: Vec<&str> = name.trim_end_matches("()").split("::").collect();
        let holds = |source: &RustSource| {
            names.iter().all(|name| {
                let mut tokens = source.tokens.iter();
                tokens.any(|token| token.text == *name)
            })
        };
        let absent = !files.any(holds);
        absent.then(|| format!("there is no `{name}` in {file}"))
    }

    /// Returns the files with this end of their path.
    fn files(&self, end: &str) -> impl Iterator<Item = &'a RustSource> {
        let below = format!("/{end}");
        let end = end.to_owned();
        let all = self.sources.iter();
        all.filter(move |source| source.path == end || source.path.ends_with(&below))
    }
}

/// Returns true if `word` can be a name in Rust.
fn is_name(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn is_of_path(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-./".contains(c)
}

/// Returns the text in backticks, with its line, outside fenced blocks and lines about future items.
fn code(page: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    page.lines().enumerate().flat_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        let is_checked = !fenced && !fence && !line.contains("(to come)");
        let words = line.split('`').skip(1).step_by(2);
        words
            .filter(move |_| is_checked)
            .map(move |word| (index + 1, word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "struct Log;\nimpl Log { fn append(&self) {} }\ntrait T { fn flush(&self); }\n\
                        fn what_was_flushed_is_there_again() {}\n\
                        const K: &str = \"queue/a_b_c_d_e\";";

    fn problems(page: &str) -> Vec<String> {
        let source = RustSource::parse("crates/log/src/write.rs", CODE).unwrap();
        let tree = ProjectTree::of(&[("docs/design/a.md", page), ("docs/status.md", "`gone()`")]);
        let found = check(&tree, &[source]);
        found.iter().map(TidyProblem::to_string).collect()
    }

    #[test]
    fn existing_names_and_foreign_names_pass() {
        let page = "`write.rs`, `src/write.rs`, `flush()`, `Log::append`, `Log::append()`\n\
                    `write.rs::Log::append`, `write.rs::append`, `what_was_flushed_is_there_again`, `a_b_c_d_e`\n\
                    `mincore(2)`, `…_tests.rs`, `nbd_start_device_ioctl`, `gone.rs` (to come)\n\
                    ```\n`gone()`\n```\n";
        assert_eq!(problems(page), [""; 0]);
    }

    #[test]
    fn removed_names_are_reported_with_their_line() {
        let page = "\n`gone.rs`\n`log/write.rs`\n`gone()`\n`Log::gone`\n`write.rs::gone`\n\
                    `gone.rs::append`\n`what_was_flushed_is_gone_again`";
        assert_eq!(
            problems(page),
            [
                "docs/design/a.md:2: there is no `gone.rs`",
                "docs/design/a.md:3: there is no `log/write.rs`",
                "docs/design/a.md:4: there is no function `gone`",
                "docs/design/a.md:5: there is no `gone` in the code",
                "docs/design/a.md:6: there is no `gone` in write.rs",
                "docs/design/a.md:7: there is no `gone.rs`",
                "docs/design/a.md:8: there is no `what_was_flushed_is_gone_again` in the code",
            ]
        );
    }
}
