//! How long files and functions are, and the ratchet for those that are too long.
//!
//! `xtask/ratchet.txt` lists exceptions, one a line: the number of lines allowed and what is
//! allowed them, a file or `FILE::FUNCTION`. An exception may only shrink: the number must be what
//! the thing has now, and goes once it is within the limit.

use std::collections::BTreeMap;

use super::rust::Source;
use super::{Problem, Tree};

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;
const RATCHET: &str = "xtask/ratchet.txt";

/// Every file and function that is no test code, against the limits.
pub(super) fn check(tree: &Tree, sources: &[Source]) -> Vec<Problem> {
    let (mut allowed, mut problems) = ratchet(tree);
    for source in sources {
        let lines = source.code_lines();
        let what = source.path.clone();
        problems.extend(judge(
            &mut allowed,
            what,
            &source.path,
            0,
            lines,
            FILE_LINES_MAX,
        ));
        for function in &source.functions {
            if !source.is_test(function.lines.start) {
                let what = format!("{}::{}", source.path, function.name);
                let (line, lines) = (function.lines.start, function.lines.len());
                let found = judge(
                    &mut allowed,
                    what,
                    &source.path,
                    line,
                    lines,
                    FUNCTION_LINES_MAX,
                );
                problems.extend(found);
            }
        }
    }
    for (what, (line, _)) in allowed {
        let text = format!("`{what}` needs no exception any more: remove this line");
        problems.push(Problem::new(RATCHET, line, text));
    }
    problems
}

/// The exceptions: what, the line it stands on, lines allowed.
type Allowed = BTreeMap<String, (usize, usize)>;

fn ratchet(tree: &Tree) -> (Allowed, Vec<Problem>) {
    let (mut allowed, mut problems) = (BTreeMap::new(), Vec::new());
    for (index, line) in tree.text(RATCHET).unwrap_or_default().lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let pair = line.split_once(' ');
        match pair.and_then(|(lines, what)| Some((lines.parse().ok()?, what.trim()))) {
            Some((lines, what)) => {
                allowed.insert(what.to_owned(), (index + 1, lines));
            }
            None => problems.push(Problem::new(RATCHET, index + 1, "not `LINES WHAT`")),
        }
    }
    (allowed, problems)
}

fn judge(
    allowed: &mut Allowed,
    what: String,
    path: &str,
    line: usize,
    lines: usize,
    max: usize,
) -> Option<Problem> {
    if lines <= max {
        return None;
    }
    match allowed.remove(&what) {
        None => Some(Problem::new(
            path,
            line,
            format!("`{what}` has {lines} lines, limit {max}"),
        )),
        Some((_, limit)) if lines > limit => {
            let text = format!("`{what}` grew to {lines} lines; its exception is for {limit}");
            Some(Problem::new(path, line, text))
        }
        Some((at, limit)) if lines < limit => {
            let text = format!("`{what}` shrank: write {lines} instead of {limit}");
            Some(Problem::new(RATCHET, at, text))
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of `lines` lines with one function `f` of `body` lines, under an exception.
    fn problems(lines: usize, body: usize, ratchet: &str) -> Vec<String> {
        let function = format!("fn f() {{{}}}\n", "\n".repeat(body - 1));
        let text = format!("{function}{}", "// x\n".repeat(lines - body));
        let tree = Tree::of(&[(RATCHET, ratchet)]);
        let source = Source::parse("crates/x/src/lib.rs", &text).unwrap();
        let found = check(&tree, &[source]);
        found.iter().map(Problem::to_string).collect()
    }

    #[test]
    fn the_limits_themselves_are_allowed_and_one_line_more_is_not() {
        assert_eq!(problems(500, 70, ""), [""; 0]);
        assert_eq!(
            problems(501, 71, ""),
            [
                "crates/x/src/lib.rs: `crates/x/src/lib.rs` has 501 lines, limit 500",
                "crates/x/src/lib.rs:1: `crates/x/src/lib.rs::f` has 71 lines, limit 70",
            ]
        );
    }

    #[test]
    fn tests_do_not_count() {
        let module = format!(
            "#[cfg(test)]\nmod tests {{\nfn f() {{{}}}\n}}\n",
            "\n".repeat(600)
        );
        let source = Source::parse("crates/x/src/lib.rs", &module).unwrap();
        assert_eq!(check(&Tree::of(&[]), &[source]), []);
    }

    #[test]
    fn an_exception_holds_only_for_the_exact_number_of_lines() {
        let exception = "# why\n80 crates/x/src/lib.rs::f\n";
        assert_eq!(problems(100, 80, exception), [""; 0]);
        assert!(problems(100, 81, exception)[0].contains("grew to 81"));
        assert!(problems(100, 79, exception)[0].contains("write 79 instead of 80"));
        assert!(problems(100, 70, exception)[0].contains("needs no exception"));
        assert!(problems(100, 70, "many x")[0].contains("not `LINES WHAT`"));
    }
}
