//! POSIX regular expressions, basic and extended, with GNU's extensions: the leftmost match, and of the matches that
//! begin there the longest; back-references; extensions such as `\w` and `\<`; characters in the order of the locale.
//!
//! [`PosixRegex::new`] reads a list of patterns, any of which may match; [`PosixRegex::find_line`] looks for the next
//! matching line in a buffer of many lines; [`PosixRegex::find_in_line`] returns the place of the match.
//!
//! ```
//! use regex_posix::{PosixRegex, RegexOptions, RegexSyntax};
//!
//! let options = RegexOptions { syntax: RegexSyntax::Extended, utf8: true, ..RegexOptions::default() };
//! let mut regex = PosixRegex::new(&["(a|ab)(c|bcd)"], options).expect("the pattern is right");
//! let text = b"nothing here\nxabcd\n";
//! let line = regex.find_line(text, 0).unwrap().expect("the second line");
//! assert_eq!(line, 13..18);
//! // An engine that prefers the first alternative would find `abc`.
//! assert_eq!(regex.find_in_line(&text[line], 0), Ok(Some(1..5)));
//! ```
//!
//! The automata of the `regex` project find lines. Whether a line matches does not depend on the preferred match, so
//! that project's searcher with all its optimisations runs over whole buffers (`lines.rs`). Automata cannot handle
//! back-references, or conditions about words in lines that are not only ASCII. For these they search for a superset,
//! and `matcher.rs` decides by backtracking (`backtrack.rs`). Another automaton follows all matches to the last, and
//! returns the length of the match (`spans.rs`).
//!
//! The classes and the cases of letters are those of glibc, on every system (`classes.rs`). The C library is used only
//! for [`RegexOptions::collates`]; the program must set its locale first.

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
mod prefilter;
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
pub use classes::ByteTable;
pub use error::PatternError;
pub use options::{RegexOptions, RegexSyntax};

use ast::{PatternAssertion, PatternNode};
use lines::LineSearcher;
use lower::LoweringAccuracy;
use matcher::PatternMatcher;

/// Patterns, ready to search. Searching caches states of automata, so it needs `&mut`.
pub struct PosixRegex {
    lines: LineSearcher,
    matcher: PatternMatcher,
    check: LineCheck,
    warnings: Vec<&'static str>,
}

/// Remaining check of a line that was found.
enum LineCheck {
    None,
    /// The line must be one of these.
    Whole(BTreeSet<Vec<u8>>),
    /// The line must contain a match.
    Match,
}

impl PosixRegex {
    /// Parses `patterns`. A line matches if any of the patterns matches; an empty list matches no line. Returns an
    /// error for each incorrect pattern.
    ///
    /// # Errors
    /// An error for each incorrect pattern.
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

    /// Returns warnings about the patterns.
    pub fn warnings(&self) -> &[&'static str] {
        &self.warnings
    }

    /// Returns the first matching line in `lines`, which contains whole lines, at or after `from`, where a line begins.
    /// The range excludes the line's end.
    ///
    /// # Errors
    /// If groups are nested too deeply for matching.
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

    /// Returns the number of matching lines.
    ///
    /// # Errors
    /// Those of [`PosixRegex::find_line`].
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

    /// Returns the leftmost-longest match at or after `from` in `line`, which excludes its end.
    ///
    /// # Errors
    /// Those of [`PosixRegex::find_line`].
    pub fn find_in_line(
        &mut self,
        line: &[u8],
        from: usize,
    ) -> Result<Option<Range<usize>>, NestingTooDeep> {
        self.matcher.find(line, from)
    }
}

/// Returns `node` between the conditions of [`RegexOptions::whole_lines`] and [`RegexOptions::whole_words`].
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

/// Returns the matching lines, if the patterns match a fixed set of lines. The search finds their text anywhere, which
/// is much faster than an automaton with conditions on ends of lines.
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
