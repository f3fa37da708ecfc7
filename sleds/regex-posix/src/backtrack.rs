//! Matching by backtracking, for patterns that automata cannot handle.
//!
//! Such patterns have back-references, or assertions about words in lines that are not only ASCII. All ways to match
//! are tried, so the longest match is found, not the first match.

use super::ast::{PatternAssertion, PatternNode};
use super::classes::CharRules;
use super::text::{PatternChar, decode, word_at, word_before};

/// Nested calls before the attempt is abandoned.
const DEPTH_MAX: usize = 200_000;
/// Nested calls that fit into the stack of any thread. A level takes less than 2 KiB of stack.
const DEPTH_HERE: usize = 1000;
/// Stack size of a thread for deeper nesting.
const STACK_BYTES: usize = 1 << 30;

/// The line nests the pattern's repetitions too deeply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NestingTooDeep;

type GroupSpans = [Option<(usize, usize)>; 10];

/// One attempt at a place.
struct MatchAttempt<'l> {
    line: &'l [u8],
    rules: CharRules,
    icase: bool,
    groups: GroupSpans,
    depth: usize,
    depth_max: usize,
    too_deep: bool,
}

/// Continuation with the end of a part's match. Returns true if no other ends are wanted.
type MatchContinuation<'a, 'l> = &'a mut dyn FnMut(&mut MatchAttempt<'l>, usize) -> bool;

/// Settings of the comparison of lines with the pattern.
#[derive(Clone, Copy)]
pub(super) struct BacktrackMatcher {
    pub(super) rules: CharRules,
    pub(super) icase: bool,
}

impl BacktrackMatcher {
    /// Returns the end of the longest match of `node` that begins at `start`.
    pub(super) fn longest(
        self,
        node: &PatternNode,
        line: &[u8],
        start: usize,
    ) -> Result<Option<usize>, NestingTooDeep> {
        let attempt = |depth_max| self.attempt(node, line, start, depth_max);
        attempt(DEPTH_HERE).or_else(|NestingTooDeep| {
            // Few patterns and lines need this, and a thread takes longer than a small file.
            std::thread::scope(|scope| {
                let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
                let thread = thread.spawn_scoped(scope, || attempt(DEPTH_MAX));
                let outcome = thread.ok().and_then(|thread| thread.join().ok());
                outcome.unwrap_or(Err(NestingTooDeep))
            })
        })
    }

    fn attempt(
        self,
        node: &PatternNode,
        line: &[u8],
        start: usize,
        depth_max: usize,
    ) -> Result<Option<usize>, NestingTooDeep> {
        let mut attempt = MatchAttempt {
            line,
            rules: self.rules,
            icase: self.icase,
            groups: [None; 10],
            depth: 0,
            depth_max,
            too_deep: false,
        };
        let mut best = None;
        attempt.node(node, start, &mut |_, end| {
            best = best.max(Some(end));
            end == line.len()
        });
        if attempt.too_deep {
            Err(NestingTooDeep)
        } else {
            Ok(best)
        }
    }
}

impl<'l> MatchAttempt<'l> {
    fn node(&mut self, node: &PatternNode, at: usize, then: MatchContinuation<'_, 'l>) -> bool {
        if self.depth >= self.depth_max {
            self.too_deep = true;
            return true;
        }
        self.depth += 1;
        let stop = self.kinds(node, at, then);
        self.depth -= 1;
        stop
    }

    fn kinds(&mut self, node: &PatternNode, at: usize, then: MatchContinuation<'_, 'l>) -> bool {
        match node {
            PatternNode::Empty => then(self, at),
            PatternNode::Set(_) | PatternNode::Byte(_) | PatternNode::Any => {
                match self.one(node, at) {
                    Some(next) => then(self, next),
                    None => false,
                }
            }
            PatternNode::Assert(assert) => self.holds(*assert, at) && then(self, at),
            PatternNode::Concat(nodes) => self.concat(nodes, at, then),
            PatternNode::Alternate(nodes) => nodes.iter().any(|n| self.node(n, at, then)),
            PatternNode::Repeat { node, min, max } => self.repeat(node, *min, *max, at, then),
            PatternNode::Group(number, inner) => {
                let Some(before) = self.groups.get(*number).copied() else {
                    return self.node(inner, at, then);
                };
                let stop = self.node(inner, at, &mut |attempt, end| {
                    let inside = attempt.groups[*number].replace((at, end));
                    let stop = then(attempt, end);
                    attempt.groups[*number] = inside;
                    stop
                });
                self.groups[*number] = before;
                stop
            }
            PatternNode::Backref(number) => match self.again(*number, at) {
                Some(end) => then(self, end),
                None => false,
            },
        }
    }

    fn concat(
        &mut self,
        nodes: &[PatternNode],
        at: usize,
        then: MatchContinuation<'_, 'l>,
    ) -> bool {
        match nodes {
            [] => then(self, at),
            [last] => self.node(last, at, then),
            [first, rest @ ..] => self.node(first, at, &mut |attempt, end| {
                attempt.concat(rest, end, then)
            }),
        }
    }

    fn repeat(
        &mut self,
        node: &PatternNode,
        min: u32,
        max: Option<u32>,
        at: usize,
        then: MatchContinuation<'_, 'l>,
    ) -> bool {
        if matches!(
            node,
            PatternNode::Set(_) | PatternNode::Byte(_) | PatternNode::Any
        ) {
            return self.repeat_one(node, min, max, at, then);
        }
        if max == Some(0) {
            return then(self, at);
        }
        let (least, most) = (min.saturating_sub(1), max.map(|max| max - 1));
        let longer = self.node(node, at, &mut |attempt, end| {
            // After the minimum, an empty repetition cannot lead to a new match.
            if end == at && min == 0 {
                return false;
            }
            attempt.repeat(node, least, most, end, then)
        });
        longer || (min == 0 && then(self, at))
    }

    /// Repeats a node that matches one character, the most repetitions first.
    fn repeat_one(
        &mut self,
        node: &PatternNode,
        min: u32,
        max: Option<u32>,
        at: usize,
        then: MatchContinuation<'_, 'l>,
    ) -> bool {
        let mut ends = vec![at];
        let mut last = at;
        while max.is_none_or(|max| ends.len() <= max as usize) {
            let Some(next) = self.one(node, last) else {
                break;
            };
            ends.push(next);
            last = next;
        }
        let enough = ends.iter().skip(min as usize).rev();
        enough.copied().any(|end| then(self, end))
    }

    /// Returns the end of the character at `at`, if the character matches `node`.
    fn one(&self, node: &PatternNode, at: usize) -> Option<usize> {
        let (c, len) = decode(&self.line[at..], self.rules.utf8)?;
        let is = match (node, c) {
            (PatternNode::Set(set), PatternChar::Code(c)) => set.contains(c),
            (PatternNode::Any, PatternChar::Code(_)) => true,
            (PatternNode::Byte(b), PatternChar::Byte(c)) => *b == c,
            _ => false,
        };
        is.then_some(at + len)
    }

    fn holds(&self, assert: PatternAssertion, at: usize) -> bool {
        let before = || word_before(self.line, at, self.rules);
        let after = || word_at(self.line, at, self.rules);
        match assert {
            PatternAssertion::LineStart => at == 0,
            PatternAssertion::LineEnd => at == self.line.len(),
            PatternAssertion::WordStart => !before() && after(),
            PatternAssertion::WordEnd => before() && !after(),
            PatternAssertion::WordEdge => before() != after(),
            PatternAssertion::NotWordEdge => before() == after(),
            PatternAssertion::NoWordBefore => !before(),
            PatternAssertion::NoWordBehind => !after(),
        }
    }

    /// Returns the end of the group's text, if the text occurs at `at` again.
    fn again(&self, number: usize, at: usize) -> Option<usize> {
        let (start, end) = self.groups[number]?;
        let what = &self.line[start..end];
        if !self.icase {
            return self.line[at..].starts_with(what).then_some(at + what.len());
        }
        let (mut what, mut end) = (what, at);
        while let Some((c, len)) = decode(what, self.rules.utf8) {
            let (other, other_len) = decode(&self.line[end..], self.rules.utf8)?;
            if self.upper(c) != self.upper(other) {
                return None;
            }
            what = &what[len..];
            end += other_len;
        }
        Some(end)
    }

    fn upper(&self, c: PatternChar) -> PatternChar {
        match c {
            PatternChar::Code(c) => PatternChar::Code(self.rules.upper(c)),
            c @ PatternChar::Byte(_) => c,
        }
    }
}
