//! Check of links in Markdown pages: the file and, in a page, the heading must exist.

use super::tree::resolve;
use super::{ProjectTree, TidyProblem};

/// Checks every relative link of every page.
pub(super) fn check(tree: &ProjectTree) -> Vec<TidyProblem> {
    let mut problems = Vec::new();
    for (path, text) in tree.ending(".md") {
        for (line, target) in links(text) {
            if let Some(text) = broken(tree, path, &target) {
                problems.push(TidyProblem::new(
                    path,
                    line,
                    format!("link `{target}`: {text}"),
                ));
            }
        }
    }
    problems
}

/// Returns the lines of a page outside fenced blocks, numbered from 1, without inline code.
fn prose(page: &str) -> impl Iterator<Item = (usize, String)> {
    let mut fenced = false;
    page.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        let text: Vec<&str> = line.split('`').step_by(2).collect();
        (!fenced && !fence).then(|| (index + 1, text.join("``")))
    })
}

/// Returns the targets of `[text](target)` and `[text]: target`, with their lines.
fn links(page: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(page) {
        let inline = line
            .split("](")
            .skip(1)
            .filter_map(|rest| Some(rest.split_once(')')?.0));
        found.extend(inline.map(|target| (number, target.to_owned())));
        let named = line
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("]: "));
        found.extend(named.map(|(_, target)| (number, target.trim().to_owned())));
    }
    found
}

fn broken(tree: &ProjectTree, page: &str, target: &str) -> Option<&'static str> {
    if target.starts_with("https://") || target.starts_with("http://") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = match file {
        "" => page.to_owned(),
        _ => match resolve(page, file) {
            Some(path) => path,
            None => return Some("leaves the project"),
        },
    };
    if !tree.has(&path) {
        return Some("no such file");
    }
    let headings = || tree.text(&path).unwrap_or_default();
    let known = anchor.is_empty() || anchors(headings()).any(|one| one == anchor);
    (!known).then_some("no such heading")
}

/// Returns the anchors of a page's headings, as the usual forges make them.
fn anchors(page: &str) -> impl Iterator<Item = String> {
    let mut fenced = false;
    page.lines().filter_map(move |line| {
        fenced ^= line.trim_start().starts_with("```");
        let heading = line.trim_start_matches('#');
        (!fenced && heading.starts_with(' ') && heading.len() < line.len()).then(|| anchor(heading))
    })
}

fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept
        .chars()
        .filter(|&c| c.is_alphanumeric() || " -_".contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(page: &str) -> Vec<String> {
        let found = check(&ProjectTree::of(&[
            ("docs/a.md", page),
            ("README.md", "# What it is, `forebay`\n"),
            ("crates/x/src/lib.rs", ""),
        ]));
        found.iter().map(TidyProblem::to_string).collect()
    }

    #[test]
    fn links_to_files_directories_headings_and_the_web_pass() {
        let page = "# Top\n[a](../README.md) [b](../crates/x) [c](#top) [d](https://a.b/c)\n\
                    [e](../README.md#what-it-is-forebay)\n`[no](link)`\n```\n[nor](this)\n```\n";
        assert_eq!(problems(page), [""; 0]);
    }

    #[test]
    fn broken_links_are_found() {
        assert_eq!(
            problems("\n[a](b.md)"),
            ["docs/a.md:2: link `b.md`: no such file"]
        );
        assert!(problems("[a](../../b.md)")[0].contains("leaves the project"));
        assert!(problems("[a](../README.md#no)")[0].contains("no such heading"));
        assert!(problems("[a]: gone.md")[0].contains("no such file"));
    }
}
