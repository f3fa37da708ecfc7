//! Check of the pages of docs/format against the `format.rs` files that they describe.
//!
//! This check compares names, and verifies that the pages' tables are well formed. A test of the crate itself reads the
//! page and compares the numbers (see docs/format/README.md).
//!
//! A `format.rs` of a protocol with an external specification has no page of ours; a line `//! Protocol: WHERE` at its
//! head gives the place of the specification.

use super::{ProjectTree, TidyProblem};
use forebay_doc_tables::{fields, is_layout, tables};

const PAGES: &str = "docs/format/";

/// Checks that each page names its code, and that each `format.rs` has a page and a test.
pub(super) fn check(tree: &ProjectTree) -> Vec<TidyProblem> {
    let mut problems = Vec::new();
    let mut described: Vec<String> = Vec::new();
    let pages = tree
        .ending(".md")
        .filter(|(path, _)| path.starts_with(PAGES));
    for (path, text) in pages.filter(|(path, _)| *path != "docs/format/README.md") {
        let code: Vec<String> = described_by(text);
        if code.is_empty() {
            let text = "names no code: write a line `Code: [crates/…/format.rs](…)`";
            problems.push(TidyProblem::new(path, 0, text));
        }
        for file in &code {
            if tree.text(file).is_none() || !file.ends_with("/format.rs") {
                let text = format!("`{file}` is no format.rs of this project");
                problems.push(TidyProblem::new(path, 0, text));
            }
        }
        described.extend(code);
        problems.extend(malformed(path, text));
    }
    for (path, text) in tree.ending("/format.rs") {
        let foreign = text.lines().any(|line| line.starts_with("//! Protocol: "));
        if foreign || !path.contains("/src/") {
            continue;
        }
        if !described.iter().any(|file| file == path) {
            let text = format!("no page in {PAGES} names it");
            problems.push(TidyProblem::new(path, 0, text));
        }
        if !is_compared(tree, path) {
            let text = "no test of the crate compares it with its page \
                        (it reads it by forebay_doc_tables; see docs/format/README.md)";
            problems.push(TidyProblem::new(path, 0, text));
        }
    }
    problems
}

/// Returns the files on the page's `Code:` lines.
fn described_by(page: &str) -> Vec<String> {
    let lines = page.lines().filter_map(|line| line.strip_prefix("Code: "));
    lines
        .flat_map(|line| line.split('[').skip(1))
        .filter_map(|link| Some(link.split_once(']')?.0.replace('`', "")))
        .collect()
}

fn malformed(path: &str, text: &str) -> Vec<TidyProblem> {
    let tables = tables(text);
    let bad = tables
        .iter()
        .filter(|table| is_layout(table))
        .filter_map(|table| {
            let problem = fields(table).err()?;
            Some(TidyProblem::new(
                path,
                table.line,
                format!("{}: {problem}", table.heading),
            ))
        });
    bad.collect()
}

/// Returns true if a Rust file of the same crate uses the reader of pages.
fn is_compared(tree: &ProjectTree, path: &str) -> bool {
    let (krate, _) = path.split_once("/src/").unwrap_or_default();
    tree.ending(".rs").any(|(file, text)| {
        file.starts_with(&format!("{krate}/")) && text.contains("forebay_doc_tables::")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_doc_tables::{constants, layout};

    const PAGE: &str = "\
# Log
Code: [crates/log/src/format.rs](../../crates/log/src/format.rs)

| constant | value |
|---|---|
| `MAGIC` | `0x10` |

## Header
| offset | size | field | meaning |
|---:|---:|---|---|
| 0 | 8 | `magic` | what it is |
| 8 | 4 | `count` | of extents |
| 12 | `count` × 24 | `extents` | |
";
    const TEST: &str = "use forebay_doc_tables::layout;";

    fn problems(page: &str, test: &str) -> Vec<String> {
        let found = check(&ProjectTree::of(&[
            ("docs/format/README.md", "how to"),
            ("docs/format/log.md", page),
            ("crates/log/src/format.rs", ""),
            ("crates/log/tests/format.rs", test),
        ]));
        found.iter().map(TidyProblem::to_string).collect()
    }

    #[test]
    fn a_page_that_names_its_code_and_a_crate_whose_tests_read_the_page_pass() {
        assert_eq!(problems(PAGE, TEST), [""; 0]);
    }

    #[test]
    fn code_without_a_page_a_test_or_the_right_name_is_found() {
        let nameless = problems(&PAGE.replace("Code: ", ""), TEST);
        assert!(nameless[0].contains("names no code"), "{nameless:?}");
        assert!(
            nameless[1].contains("no page in docs/format/"),
            "{nameless:?}"
        );
        let elsewhere = problems(&PAGE.replace("[crates/log", "[crates/gone"), TEST);
        assert!(
            elsewhere[0].contains("`crates/gone/src/format.rs` is no"),
            "{elsewhere:?}"
        );
        assert!(problems(PAGE, "")[0].contains("no test of the crate"));
    }

    #[test]
    fn a_protocol_with_an_external_specification_needs_no_page() {
        let found = |head: &str| {
            check(&ProjectTree::of(&[(
                "crates/nbd/src/codec/format.rs",
                head,
            )]))
            .len()
        };
        assert_eq!(found("//! Bytes.\n"), 2);
        assert_eq!(
            found("//! Bytes.\n//! Protocol: doc/proto.md of the NBD project\n"),
            0
        );
    }

    #[test]
    fn a_table_with_a_gap_an_overlap_or_a_late_fixed_field_is_found() {
        assert!(problems(&PAGE.replace("| 8 | 4", "| 9 | 4"), TEST)[0].contains("ends at 8"));
        assert!(problems(&PAGE.replace("| 8 | 4", "| 4 | 4"), TEST)[0].contains("ends at 8"));
        assert!(problems(&PAGE.replace("| 8 | 4", "| x | 4"), TEST)[0].contains("no number"));
        let late = format!("{PAGE}| 40 | 8 | `end` | |\n");
        assert!(problems(&late, TEST)[0].contains("after a variable one"));
    }

    #[test]
    fn a_test_reads_fields_and_constants_from_the_page() {
        let expected = [(0, 8, "magic".to_owned()), (8, 4, "count".to_owned())];
        assert_eq!(layout(PAGE, "Header"), expected);
        assert_eq!(constants(PAGE), [("MAGIC".to_owned(), "0x10".to_owned())]);
    }

    #[test]
    #[should_panic(expected = "under \"Footer\"")]
    fn a_structure_that_the_page_lacks_fails_the_test() {
        layout(PAGE, "Footer");
    }
}
