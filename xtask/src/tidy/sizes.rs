//! Lengths of files and functions, without lines of tests.

use super::ratchet::{LimitedCount, Ratchet};
use super::rust::{RustFunction, RustSource};
use super::{ProjectTree, TidyProblem};

const FILE_LINES_MAX: usize = 500;
const FUNCTION_LINES_MAX: usize = 70;

/// Checks every file and function, except test code, against the limits.
pub(super) fn check(sources: &[RustSource], ratchet: &mut Ratchet) -> Vec<TidyProblem> {
    let mut problems = Vec::new();
    for source in sources {
        problems.extend(ratchet.exactly(LimitedCount {
            what: &source.path,
            line: 0,
            number: source.code_lines(),
            unit: "lines",
            max: FILE_LINES_MAX,
        }));
        for function in functions(source) {
            problems.extend(ratchet.exactly(LimitedCount {
                what: &format!("{}::{}", source.path, function.name),
                line: function.lines.start,
                number: function.lines.len(),
                unit: "lines",
                max: FUNCTION_LINES_MAX,
            }));
        }
    }
    problems
}

/// Returns a table with the lengths of each crate's source and functions.
pub(super) fn table(tree: &ProjectTree, sources: &[RustSource]) -> String {
    let mut text = String::from(
        "| crate | lines | files | longest file | functions | p50 | p90 | longest |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for directory in tree.crates() {
        let files: Vec<&RustSource> = of_crate(sources, directory).collect();
        if files.is_empty() {
            continue;
        }
        let lines: Vec<usize> = sorted(files.iter().map(|file| file.code_lines()));
        let bodies = files.iter().flat_map(|file| functions(file));
        let bodies = sorted(bodies.map(|function| function.lines.len()));
        text.push_str(&format!(
            "| {directory} | {} | {} | {} | {} | {} | {} | {} |\n",
            lines.iter().sum::<usize>(),
            files.len(),
            percentile(&lines, 100),
            bodies.len(),
            percentile(&bodies, 50),
            percentile(&bodies, 90),
            percentile(&bodies, 100),
        ));
    }
    text
}

/// Returns the files of the crate in `directory` that contain more than tests.
fn of_crate<'a>(
    sources: &'a [RustSource],
    directory: &str,
) -> impl Iterator<Item = &'a RustSource> {
    let within = format!("{directory}/src/");
    let all = sources.iter();
    all.filter(move |source| source.path.starts_with(&within) && source.code_lines() > 0)
}

fn functions(source: &RustSource) -> impl Iterator<Item = &RustFunction> {
    let all = source.functions.iter();
    all.filter(|function| !source.is_test(function.lines.start))
}

fn sorted(numbers: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut numbers: Vec<usize> = numbers.collect();
    numbers.sort_unstable();
    numbers
}

/// Returns the smallest of the sorted `numbers` that `percent` of them do not exceed; 0 for an empty list.
fn percentile(numbers: &[usize], percent: usize) -> usize {
    let rank = (numbers.len() * percent).div_ceil(100).max(1);
    numbers.get(rank - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::ratchet::RATCHET;
    use super::*;

    /// Returns the problems of a file of `lines` lines with one function `f` of `body` lines, under an exception.
    fn problems(lines: usize, body: usize, ratchet: &str) -> Vec<String> {
        let function = format!("fn f() {{{}}}\n", "\n".repeat(body - 1));
        let text = format!("{function}{}", "// x\n".repeat(lines - body));
        let source = RustSource::parse("crates/x/src/lib.rs", &text).unwrap();
        judged(&[source], ratchet)
    }

    fn judged(sources: &[RustSource], exceptions: &str) -> Vec<String> {
        let tree = ProjectTree::of(&[(RATCHET, exceptions), ("crates/x/Cargo.toml", "")]);
        let (mut ratchet, mut found) = Ratchet::of(&tree);
        found.extend(check(sources, &mut ratchet));
        found.extend(ratchet.left());
        found.iter().map(TidyProblem::to_string).collect()
    }

    #[test]
    fn sizes_at_the_limit_are_allowed_and_one_line_more_is_not() {
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
    fn test_code_does_not_count() {
        let module = format!(
            "#[cfg(test)]\nmod tests {{\nfn f() {{{}}}\n}}\n",
            "\n".repeat(600)
        );
        let source = RustSource::parse("crates/x/src/lib.rs", &module).unwrap();
        assert_eq!(judged(&[source], ""), [""; 0]);
    }

    #[test]
    fn an_exception_holds_only_for_the_exact_number_of_lines() {
        let exception = "# why\n80 crates/x/src/lib.rs::f\n";
        assert_eq!(problems(100, 80, exception), [""; 0]);
        assert!(problems(100, 81, exception)[0].contains("grew to 81"));
        assert!(problems(100, 79, exception)[0].contains("write 79 instead of 80"));
        assert!(problems(100, 70, exception)[0].contains("needs no exception"));
        assert!(problems(100, 70, "many x")[0].contains("not `NUMBER WHAT`"));
    }

    #[test]
    fn the_table_has_percentiles_of_functions_for_each_crate() {
        let functions: Vec<String> = (1..=10)
            .map(|lines| format!("fn f() {{{}}}\n", "\n".repeat(lines - 1)))
            .collect();
        let source = RustSource::parse("crates/x/src/lib.rs", &functions.concat()).unwrap();
        let tree = ProjectTree::of(&[("crates/x/Cargo.toml", ""), ("Cargo.toml", "")]);
        let table = table(&tree, &[source]);
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(rows, ["| crates/x | 55 | 1 | 55 | 10 | 5 | 9 | 10 |"]);
    }
}
