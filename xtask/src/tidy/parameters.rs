//! Parameters that take a tuple apart, such as `(rt, name): (&Rt, &str)`.
//!
//! Unlike things that belong together have a type with a name, and all others are parameters of their own (STYLE.md).
//! Items of one type, such as a start and a length, may stay a tuple. Closures and test code do not count.

use std::ops::Range;

use super::rust::{RustSource, RustToken};
use super::{ProjectTree, TidyProblem, limits};

const UNLIKE: &str = "functions with a tuple of unlike items as a parameter";

/// Compares the number of functions with such parameters with its limit.
pub(super) fn check(tree: &ProjectTree, sources: &[RustSource]) -> Vec<TidyProblem> {
    let count = sources.iter().map(|source| lines(source).len()).sum();
    limits::check(tree, &[(UNLIKE, count)], "cargo xtask parameters")
}

/// Prints the places of functions with such parameters, and their number.
pub(super) fn print(sources: &[RustSource]) {
    let mut count = 0;
    for source in sources {
        for line in lines(source) {
            println!("{}:{line}", source.path);
            count += 1;
        }
    }
    println!("{count:6}  {UNLIKE}");
}

/// Returns the lines of functions with such parameters, outside test code.
fn lines(source: &RustSource) -> Vec<usize> {
    let tokens = &source.tokens;
    let has_one = |at| {
        let all = parameters(tokens, at);
        all.is_some_and(|mut all| all.any(|one| is_unlike(tokens, one)))
    };
    (0..tokens.len())
        .filter(|&at| tokens[at].text == "fn" && !source.is_test(tokens[at].line))
        .filter(|&at| has_one(at))
        .map(|at| tokens[at].line)
        .collect()
}

/// Returns the parameters of the function whose `fn` is at `at`. `None` for a type, such as `fn(u8) -> u8`.
fn parameters(
    tokens: &[RustToken],
    at: usize,
) -> Option<impl Iterator<Item = Range<usize>> + use<>> {
    tokens.get(at + 1).filter(|name| name.text != "(")?;
    // Generic parameters stand before the list, and may contain parentheses.
    let head = outside_generics(tokens, at + 2..tokens.len());
    let open = head.into_iter().find(|&at| tokens[at].text == "(")?;
    Some(items(tokens, open + 1..tokens[open].close).into_iter())
}

/// Returns true if a parameter takes a tuple apart whose items have several types, or whose type is an alias.
fn is_unlike(tokens: &[RustToken], parameter: Range<usize>) -> bool {
    let pattern = behind_reference(tokens, parameter.start);
    let is_tuple = |at: usize| tokens[at].text == "(";
    if !is_tuple(pattern) || items(tokens, pattern + 1..tokens[pattern].close).len() < 2 {
        return false;
    }
    // The type follows the closing parenthesis and a colon.
    let typed = behind_reference(tokens, tokens[pattern].close + 2);
    let types = items(tokens, typed + 1..tokens[typed].close);
    let text = |item: &Range<usize>| tokens[item.clone()].iter().map(|token| &token.text);
    !is_tuple(typed)
        || types
            .windows(2)
            .any(|pair| text(&pair[0]).ne(text(&pair[1])))
}

/// Returns the index of the first token from `at` on that does not belong to `&`, `&mut` or `&'a`.
fn behind_reference(tokens: &[RustToken], at: usize) -> usize {
    match tokens[at].text.as_str() {
        "&" | "mut" => behind_reference(tokens, at + 1),
        "'" => behind_reference(tokens, at + 2),
        _ => at,
    }
}

/// Returns the items of a list that commas separate.
fn items(tokens: &[RustToken], list: Range<usize>) -> Vec<Range<usize>> {
    let (mut start, end) = (list.start, list.end);
    let mut found = Vec::new();
    for at in outside_generics(tokens, list) {
        if tokens[at].text == "," {
            found.push(start..at);
            start = at + 1;
        }
    }
    found.push(start..end);
    found.retain(|item| !item.is_empty());
    found
}

/// Returns the indices of the tokens in a range that are not inside brackets or generic parameters.
fn outside_generics(tokens: &[RustToken], range: Range<usize>) -> Vec<usize> {
    let (mut found, mut depth, mut at) = (Vec::new(), 0, range.start);
    while at < range.end {
        match tokens[at].text.as_str() {
            "<" => depth += 1,
            // The end of an arrow is no bracket.
            ">" if tokens[at - 1].text != "-" => depth -= 1,
            _ if depth == 0 => found.push(at),
            _ => {}
        }
        at = tokens[at].close + 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::limits::PAGE;
    use super::*;

    fn found(text: &str) -> Vec<usize> {
        lines(&RustSource::parse("crates/x/src/lib.rs", text).unwrap())
    }

    #[test]
    fn tuples_of_unlike_items_are_found() {
        for parameters in [
            "(rt, name): (&Rt, &str)",
            "&self, (at, data): (u64, Buf), last: u8",
            "(a, b): Alias<'_>",
            "&(a, b): &(u8, u16)",
            "map: BTreeMap<u8, u16>, (a, _): (Vec<(u8, u8)>, Vec<u8>)",
            "(a, b, c): (u8, u8, fn(u8) -> u8)",
        ] {
            for head in ["fn f", "async fn f<T, F: Fn((T, u8)) -> Option<T>>"] {
                let text = format!("{head}({parameters}) {{}}");
                assert_eq!(found(&text), [1], "{text}");
            }
        }
    }

    #[test]
    fn other_parameters_are_permitted() {
        for parameters in [
            "",
            "a: (u8, u16)",
            "(start, len): (u64, u64), last: u8",
            "(x, y): (Range<f64>, Range<f64>)",
            "Pair(a, b): Pair",
            "(): ()",
            "each: impl Fn((u8, u16)) -> u8",
        ] {
            let text = format!("fn f({parameters}) {{ g(|(a, b): (u8, u16)| a); }}");
            assert_eq!(found(&text), [0; 0], "{text}");
        }
        let test = "#[cfg(test)]\nmod tests { fn f((a, b): (u8, u16)) {} }\ntype A = fn(u8);";
        assert_eq!(found(test), [0; 0]);
    }

    #[test]
    fn their_number_has_a_limit() {
        let page = format!("| {UNLIKE} | 0 |\n");
        let tree = ProjectTree::of(&[(PAGE, &page)]);
        let source = RustSource::parse("a.rs", "fn f((a, b): (u8, u16)) {}").unwrap();
        let problems = check(&tree, &[source]);
        let texts: Vec<String> = problems.iter().map(TidyProblem::to_string).collect();
        let text = format!("{UNLIKE}: 1, limit 0: `cargo xtask parameters` shows where");
        assert_eq!(texts, [format!("{PAGE}:1: {text}")]);
    }
}
