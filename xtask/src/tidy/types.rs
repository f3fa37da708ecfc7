//! Names of types: how many are a single word, and how many are those of another type as well.
//!
//! A type's name must carry its subject, so that a search finds this type and nothing else (STYLE.md). Associated types
//! do not count, since the trait gives their names.

use std::collections::BTreeMap;

use super::limits::per_thousand;
use super::rust::{RustSource, RustToken};
use super::{ProjectTree, TidyProblem, limits};

const ONE_WORD: &str = "types with a name of one word, per 1,000 types";
const SHARED: &str = "types that share their name with another type, per 1,000 types";

/// A definition of a type.
#[derive(Debug, PartialEq, Eq)]
struct TypeDefinition<'a> {
    name: &'a str,
    path: &'a str,
    line: usize,
}

/// Compares the rates of names with their limits.
pub(super) fn check(tree: &ProjectTree, sources: &[RustSource]) -> Vec<TidyProblem> {
    limits::check(tree, &rates(&definitions(sources)), "cargo xtask types")
}

/// Prints the types whose name is one word or shared, and the rates.
pub(super) fn print(sources: &[RustSource]) {
    let all = definitions(sources);
    let counts = counts(&all);
    for one in &all {
        let is_shared = counts[one.name] > 1;
        let why = match (is_one_word(one.name), is_shared) {
            (true, true) => "one word, shared",
            (true, false) => "one word",
            (false, true) => "shared",
            (false, false) => continue,
        };
        println!("{}:{}: {}: {why}", one.path, one.line, one.name);
    }
    println!("{} types", all.len());
    for (name, rate) in rates(&all) {
        println!("{rate:6}  {name}");
    }
}

fn rates(all: &[TypeDefinition<'_>]) -> [(&'static str, usize); 2] {
    let counts = counts(all);
    let one_word = all.iter().filter(|one| is_one_word(one.name)).count();
    let shared = all.iter().filter(|one| counts[one.name] > 1).count();
    [
        (ONE_WORD, per_thousand(one_word, all.len())),
        (SHARED, per_thousand(shared, all.len())),
    ]
}

fn counts<'a>(all: &[TypeDefinition<'a>]) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    for one in all {
        *counts.entry(one.name).or_default() += 1;
    }
    counts
}

/// Returns true if a name has at most one capital letter that begins a word: `Device`, `Fd`, not `IoRing`.
fn is_one_word(name: &str) -> bool {
    name.chars().filter(char::is_ascii_uppercase).count() <= 1
}

fn definitions(sources: &[RustSource]) -> Vec<TypeDefinition<'_>> {
    sources.iter().flat_map(of_file).collect()
}

fn of_file(source: &RustSource) -> Vec<TypeDefinition<'_>> {
    let mut found = Vec::new();
    // The end of the `impl` or `trait` block that contains the token.
    let mut block_end = 0;
    for (at, pair) in source.tokens.windows(2).enumerate() {
        let [keyword, name] = pair else { continue };
        let is_type = match keyword.text.as_str() {
            "impl" | "trait" if at >= block_end => {
                block_end = end_of_block(&source.tokens, at);
                keyword.text == "trait"
            }
            "struct" | "enum" | "union" => true,
            "type" => at >= block_end,
            _ => false,
        };
        if is_type
            && name
                .text
                .starts_with(|first: char| first.is_ascii_uppercase())
        {
            found.push(TypeDefinition {
                name: &name.text,
                path: &source.path,
                line: name.line,
            });
        }
    }
    found
}

/// Returns the index behind the first block in braces after `at`. `at` itself if a semicolon comes first.
fn end_of_block(tokens: &[RustToken], at: usize) -> usize {
    let end = tokens[at..]
        .iter()
        .find(|token| matches!(token.text.as_str(), "{" | ";"));
    match end {
        Some(token) if token.text == "{" => token.close,
        _ => at,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let source = RustSource::parse("crates/x/src/lib.rs", text).unwrap();
        of_file(&source)
            .iter()
            .map(|one| one.name.to_owned())
            .collect()
    }

    #[test]
    fn definitions_are_found_and_associated_types_are_not() {
        let text = "pub struct LogLayout;\nenum LogKind { Struct }\npub(crate) trait SegmentStore { type Error; }\n\
            impl SegmentStore for LogLayout { type Error = LogKind; }\ntype LogResult = Result<(), LogKind>;\n\
            fn f() { struct InnerState; }";
        assert_eq!(
            names(text),
            [
                "LogLayout",
                "LogKind",
                "SegmentStore",
                "LogResult",
                "InnerState"
            ]
        );
    }

    #[test]
    fn names_of_one_word_and_shared_names_are_counted() {
        let parse = |path, text| RustSource::parse(path, text).unwrap();
        let sources = [
            parse("a.rs", "struct State; struct LogLayout;"),
            parse("b.rs", "struct LogLayout; enum IoRing {}"),
        ];
        let rates = rates(&definitions(&sources));
        assert_eq!(rates, [(ONE_WORD, 250), (SHARED, 500)]);
    }
}
