//! Rust files as flat lists of tokens.
//!
//! Checks need little grammar: the ranges of functions, the lines of test code, and patterns of words. A brace in a
//! string or a comment would confuse a count of braces. A full parser (`syn`) knows far more than needed, does not look
//! into macro calls, and takes long to build. The solution in between is the real lexer (`proc-macro2`), and patterns
//! over its tokens.

use std::ops::Range;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use super::{ProjectTree, TidyProblem};

/// A token and its place.
#[derive(Debug)]
pub(super) struct RustToken {
    /// The word, the punctuation character, the bracket, or the literal with its quotes.
    pub(super) text: String,
    /// Line, counted from 1.
    pub(super) line: usize,
    /// For an opening bracket, the index of its partner; otherwise the token's own.
    pub(super) close: usize,
}

/// A function with a body.
#[derive(Debug)]
pub(super) struct RustFunction {
    pub(super) name: String,
    /// First line and the line after the last, from `fn` to the closing brace.
    pub(super) lines: Range<usize>,
}

/// A Rust file.
#[derive(Debug)]
pub(super) struct RustSource {
    pub(super) path: String,
    pub(super) lines: usize,
    pub(super) tokens: Vec<RustToken>,
    /// Lines of items under `#[cfg(test)]`; all lines of a file that contains only tests.
    pub(super) tests: Vec<Range<usize>>,
    pub(super) functions: Vec<RustFunction>,
}

/// Reads every Rust file of the tree. Returns also the problems of files that are not valid Rust.
pub(super) fn sources(tree: &ProjectTree) -> (Vec<RustSource>, Vec<TidyProblem>) {
    let (mut sources, mut problems) = (Vec::new(), Vec::new());
    for (path, text) in tree.ending(".rs") {
        match RustSource::parse(path, text) {
            Ok(source) => sources.push(source),
            Err(error) => problems.push(TidyProblem::new(path, 0, format!("not Rust: {error}"))),
        }
    }
    (sources, problems)
}

impl RustSource {
    pub(super) fn parse(path: &str, text: &str) -> Result<RustSource, String> {
        let stream: TokenStream = text.parse().map_err(|error| format!("{error}"))?;
        let mut source = RustSource {
            path: path.to_owned(),
            lines: text.lines().count(),
            tokens: Vec::new(),
            tests: Vec::new(),
            functions: Vec::new(),
        };
        flatten(stream, &mut source.tokens);
        source.tests = if is_test_file(path) {
            std::iter::once(0..usize::MAX).collect()
        } else {
            test_items(&source.tokens)
        };
        source.functions = functions(&source.tokens);
        Ok(source)
    }

    pub(super) fn is_test(&self, line: usize) -> bool {
        self.tests.iter().any(|lines| lines.contains(&line))
    }

    /// Returns the number of lines that are not test code.
    pub(super) fn code_lines(&self) -> usize {
        (1..=self.lines).filter(|&line| !self.is_test(line)).count()
    }

    /// Returns true if the file belongs to the crate with this name in the crate table.
    pub(super) fn is_of(&self, krate: &str) -> bool {
        let path = self.path.strip_prefix("crates/").unwrap_or(&self.path);
        path.strip_prefix(krate)
            .is_some_and(|rest| rest.starts_with('/'))
    }

    /// Returns true if `word` is a token of the file.
    pub(super) fn has_word(&self, word: &str) -> bool {
        self.tokens.iter().any(|token| token.text == word)
    }

    /// Returns the lines with `first::second`, or with `first::{…}` and `second` among the names.
    pub(super) fn paths(&self, first: &str, second: &str) -> Vec<usize> {
        let mut lines = Vec::new();
        for at in self.find(&[first, ":", ":"]) {
            let Some(next) = self.tokens.get(at + 3) else {
                continue;
            };
            let named = match next.text.as_str() {
                "{" => &self.tokens[at + 3..next.close],
                _ => &self.tokens[at + 3..=at + 3],
            };
            let hits = named.iter().filter(|token| token.text == second);
            lines.extend(hits.map(|token| token.line));
        }
        lines
    }

    /// Returns the indices at which the tokens of `pattern` occur one after the other.
    pub(super) fn find(&self, pattern: &[&str]) -> Vec<usize> {
        (0..self.tokens.len())
            .filter(|&at| stands(&self.tokens, at, pattern))
            .collect()
    }
}

fn stands(tokens: &[RustToken], at: usize, pattern: &[&str]) -> bool {
    tokens.get(at..at + pattern.len()).is_some_and(|here| {
        let pairs = here.iter().zip(pattern);
        pairs.fold(true, |same, (token, text)| same && token.text == *text)
    })
}

/// Returns true if the whole file is test code by its place: `tests/…`, `…/tests/…`, `tests.rs` or, beside the file it
/// tests, `…_tests.rs`.
fn is_test_file(path: &str) -> bool {
    path.ends_with("_tests.rs")
        || path
            .split('/')
            .any(|part| part == "tests" || part == "tests.rs")
}

fn flatten(stream: TokenStream, tokens: &mut Vec<RustToken>) {
    let push = |tokens: &mut Vec<RustToken>, text: &str, line| {
        let close = tokens.len();
        tokens.push(RustToken {
            text: text.to_owned(),
            line,
            close,
        });
    };
    for tree in stream {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Ident(word) => push(tokens, &word.to_string(), line),
            TokenTree::Punct(mark) => push(tokens, &mark.to_string(), line),
            TokenTree::Literal(value) => push(tokens, &value.to_string(), line),
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => ("", ""),
                };
                let opened = tokens.len();
                push(tokens, open, group.span_open().start().line);
                flatten(group.stream(), tokens);
                tokens[opened].close = tokens.len();
                push(tokens, close, group.span_close().start().line);
            }
        }
    }
}

/// Returns the index of the token that ends the item beginning at `at`: its body's brace or a semicolon.
pub(super) fn item_end(tokens: &[RustToken], mut at: usize) -> Option<usize> {
    loop {
        let token = tokens.get(at)?;
        match token.text.as_str() {
            "{" => return Some(token.close),
            ";" => return Some(at),
            _ => at = token.close + 1,
        }
    }
}

fn test_items(tokens: &[RustToken]) -> Vec<Range<usize>> {
    const MARK: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let marked = (0..tokens.len()).filter(|&at| stands(tokens, at, &MARK));
    let lines = marked.filter_map(|at| {
        let end = item_end(tokens, at + MARK.len())?;
        Some(tokens[at].line..tokens[end].line + 1)
    });
    lines.collect()
}

fn functions(tokens: &[RustToken]) -> Vec<RustFunction> {
    let mut found = Vec::new();
    for at in (0..tokens.len()).filter(|&at| tokens[at].text == "fn") {
        // `fn(u8) -> u8` is a type.
        let Some(name) = tokens.get(at + 1).filter(|name| name.text != "(") else {
            continue;
        };
        if let Some(end) = item_end(tokens, at + 1).filter(|&end| tokens[end].text == "}") {
            found.push(RustFunction {
                name: name.text.clone(),
                lines: tokens[at].line..tokens[end].line + 1,
            });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_in_strings_comments_and_characters_do_not_end_a_function() {
        let text = "fn a() {\n  let s = \"}\"; // }\n  let c = '}';\n  r#\"}\"#;\n}\nfn b();\n";
        let source = RustSource::parse("crates/x/src/lib.rs", text).unwrap();
        let [function] = &source.functions[..] else {
            panic!("one function has a body: {:?}", source.functions);
        };
        assert_eq!(
            (function.name.as_str(), function.lines.clone()),
            ("a", 1..6)
        );
    }

    #[test]
    fn items_under_cfg_test_and_files_of_tests_are_test_code() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests {\n}\nfn b() {}\n";
        let source = RustSource::parse("crates/x/src/lib.rs", text).unwrap();
        assert!(!source.is_test(1) && source.is_test(2) && source.is_test(4) && !source.is_test(5));
        assert_eq!(source.code_lines(), 2);
        let source = RustSource::parse("crates/x/tests/a.rs", text).unwrap();
        assert!(source.is_test(1));
        assert_eq!(source.code_lines(), 0);
    }

    #[test]
    fn a_path_is_found_whole_and_inside_braces() {
        let text = "use std::thread::{self, sleep};\nfn a() { std::thread::sleep(x); asleep(); }";
        let source = RustSource::parse("crates/x/src/lib.rs", text).unwrap();
        assert_eq!(source.paths("thread", "sleep"), [1, 2]);
        assert!(source.is_of("x"));
        assert!(!source.is_of("y"));
    }

    #[test]
    fn a_file_that_is_not_rust_is_a_problem() {
        let (_, problems) = sources(&ProjectTree::of(&[("a.rs", "fn a( {")]));
        assert_eq!(problems.len(), 1);
    }
}
