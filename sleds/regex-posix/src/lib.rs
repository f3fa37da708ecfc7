//! POSIX regular expressions, basic and extended, with GNU's extensions: the leftmost match, and of
//! those that begin there the longest; back-references; `\w`, `\<` and their like; characters in the
//! order of the locale.
//!
//! [`PosixRegex::new`] reads a list of patterns, any of which may match; [`PosixRegex::find_line`] looks for the
//! next line that matches, through many lines at once; [`PosixRegex::find_in_line`] says where the match is.
//!
//! ```
//! use regex_posix::{Options, Regex, Syntax};
//!
//! let options = Options { syntax: Syntax::Extended, utf8: true, ..Options::default() };
//! let mut regex = Regex::new(&["(a|ab)(c|bcd)"], options).expect("the pattern is right");
//! let text = b"nothing here\nxabcd\n";
//! let line = regex.find_line(text, 0).unwrap().expect("the second line");
//! assert_eq!(line, 13..18);
//! // An engine that prefers the first alternative would find `abc`.
//! assert_eq!(regex.find_in_line(&text[line], 0), Ok(Some(1..5)));
//! ```
//!
//! Lines are found by the `regex` project's automata: whether a line matches at all does not depend on
//! which match is preferred, so the searcher with all of that project's shortcuts serves, over whole
//! buffers (`lines.rs`). What automata cannot do (back-references; conditions about words, in lines of
//! more than ASCII) they search for a superset of, and `matcher.rs` decides, by trying
//! (`backtrack.rs`). How long a match is, an automaton says that follows all matches to the last
//! (`spans.rs`).
//!
//! Which characters are letters, and the cases of letters, are those of glibc, whatever the system has
//! (`classes.rs`). Only for [`RegexOptions::collates`] the C library is asked, whose locale the program has
//! to set first.

mod ast;
mod backtrack;
mod bracket;
mod classes;
mod collate;
mod error;
mod lines;
mod lower;
mod matcher;
mod options;
mod parse;
mod repeat;
mod search;
mod spans;
mod text;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::ops::Range;

use regex_syntax::hir::{Hir, HirKind};

pub use backtrack::NestingTooDeep;
pub use error::PatternError;
pub use options::{RegexOptions, RegexSyntax};

use ast::{PatternAssertion, PatternNode};
use lines::LineSearcher;
use lower::LoweringAccuracy;
use matcher::PatternMatcher;

/// Patterns, ready to search. Searching remembers states of automata, so it needs `&mut`.
pub struct PosixRegex {
    lines: LineSearcher,
    matcher: PatternMatcher,
    check: LineCheck,
    warnings: Vec<&'static str>,
}

/// What a line that was found has still to pass.
enum LineCheck {
    None,
    /// It is one of these.
    Whole(BTreeSet<Vec<u8>>),
    /// A match has to be found in it.
    Match,
}

impl PosixRegex {
    /// Reads `patterns`; a line matches if any of them does, so none does if there are none. Says of
    /// each pattern that is wrong why.
    pub fn new<P: AsRef<[u8]>>(
        patterns: &[P],
        options: RegexOptions,
    ) -> Result<PosixRegex, Vec<PatternError>> {
        let (mut nodes, mut errors, mut warnings) = (Vec::new(), Vec::new(), Vec::new());
        for pattern in patterns {
            match parse::parse(pattern.as_ref(), options, &mut warnings) {
                Ok(node) => nodes.push(node),
                Err(error) => errors.push(error),
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        PosixRegex::of(nodes, options, warnings).map_err(|error| vec![error])
    }

    fn of(
        mut nodes: Vec<PatternNode>,
        options: RegexOptions,
        warnings: Vec<&'static str>,
    ) -> Result<PosixRegex, PatternError> {
        let texts = whole_texts(&nodes, options);
        let node = match nodes.len() {
            1 => nodes.remove(0),
            _ => PatternNode::Alternate(nodes),
        };
        let matcher = PatternMatcher::new(bounded(node, options), options);
        let (lines, check) = match texts {
            Some(texts) => {
                let anywhere = texts.iter().map(|text| Hir::literal(&text[..])).collect();
                (Hir::alternation(anywhere), LineCheck::Whole(texts))
            }
            None if matcher.full() => (matcher.superset(), LineCheck::Match),
            None => (matcher.superset(), LineCheck::None),
        };
        Ok(PosixRegex {
            lines: LineSearcher::new(&lines, options.eol)?,
            matcher,
            check,
            warnings,
        })
    }

    /// What is odd about the patterns, in words.
    pub fn warnings(&self) -> &[&'static str] {
        &self.warnings
    }

    /// The first line that matches in `lines`, which holds whole lines, at or after `from`, where a
    /// line begins. The range is without the line's end.
    pub fn find_line(
        &mut self,
        lines: &[u8],
        mut from: usize,
    ) -> Result<Option<Range<usize>>, NestingTooDeep> {
        while let Some(line) = self.lines.find(lines, from) {
            if self.passes(&lines[line.clone()])? {
                return Ok(Some(line));
            }
            from = line.end + 1;
        }
        Ok(None)
    }

    /// How many of `lines` match.
    pub fn count_lines(&mut self, lines: &[u8]) -> Result<u64, NestingTooDeep> {
        if matches!(self.check, LineCheck::None) {
            return Ok(self.lines.count(lines));
        }
        let (mut from, mut count) = (0, 0);
        while let Some(line) = self.find_line(lines, from)? {
            count += 1;
            from = line.end + 1;
        }
        Ok(count)
    }

    fn passes(&mut self, line: &[u8]) -> Result<bool, NestingTooDeep> {
        match &self.check {
            LineCheck::None => Ok(true),
            LineCheck::Whole(texts) => Ok(texts.contains(line)),
            LineCheck::Match => Ok(self.matcher.find(line, 0)?.is_some()),
        }
    }

    /// Where the leftmost-longest match at or after `from` is in `line`, which is without its end.
    pub fn find_in_line(
        &mut self,
        line: &[u8],
        from: usize,
    ) -> Result<Option<Range<usize>>, NestingTooDeep> {
        self.matcher.find(line, from)
    }
}

/// `node` between what [`RegexOptions::whole_lines`] and [`RegexOptions::whole_words`] ask for.
fn bounded(node: PatternNode, options: RegexOptions) -> PatternNode {
    let (before, behind) = match (options.whole_lines, options.whole_words) {
        (true, _) => (PatternAssertion::LineStart, PatternAssertion::LineEnd),
        (false, true) => (
            PatternAssertion::NoWordBefore,
            PatternAssertion::NoWordBehind,
        ),
        (false, false) => return node,
    };
    PatternNode::Concat(vec![
        PatternNode::Assert(before),
        node,
        PatternNode::Assert(behind),
    ])
}

/// The lines that match, if they are these and no others. They are looked for anywhere, which is much
/// quicker than an automaton that knows of ends of lines.
fn whole_texts(nodes: &[PatternNode], options: RegexOptions) -> Option<BTreeSet<Vec<u8>>> {
    let lowering = options.lowering(LoweringAccuracy::Exact);
    let text = |node: &PatternNode| match (node, lowering.lower(node).kind()) {
        (PatternNode::Backref(_), _) => None,
        (_, HirKind::Literal(text)) => Some(text.0.to_vec()),
        _ => None,
    };
    let whole = options.whole_lines && !nodes.is_empty();
    whole.then(|| nodes.iter().map(text).collect())?
}
