//! POSIX regular expressions, basic and extended, as GNU grep understands them: the leftmost match,
//! and of those the longest; back-references; characters in the order of the locale.
//!
//! [`Regex::new`] reads a list of patterns; [`Regex::find_line`] looks for the next line that one of
//! them matches, through many lines at once; [`Regex::find_in_line`] says where the match is,
//! leftmost and longest.
//!
//! ```
//! use regex_posix::{Options, Regex, Remarks, Syntax};
//!
//! let options = Options { syntax: Syntax::Extended, utf8: true, eol: b'\n', ..Options::default() };
//! let patterns = [b"(a|ab)(c|bcd)".to_vec()];
//! let mut remarks = Remarks::default();
//! let mut regex = Regex::new(&patterns, options, &mut remarks).expect("the pattern is right");
//! let text = b"nothing here\nxabcd\n";
//! let line = regex.find_line(text, 0).unwrap().expect("the second line");
//! assert_eq!(line, 13..18);
//! // An engine that prefers the first alternative would find `abc`.
//! assert_eq!(regex.find_in_line(&text[line], 0), Ok(Some(1..5)));
//! ```
//!
//! GNU grep finds lines with an automaton of its own and matches with the C library, which also
//! decides about lines where the automaton cannot; the two differ in small things. So patterns are
//! read twice, and it is decided (`motif`) what goes to whom.
//!
//! Lines are searched with the `regex` project's automata: whether a line matches at all does not
//! depend on which match is preferred, so the searcher with all of that project's shortcuts serves,
//! over whole buffers (`lines`). Where the C library would decide, they look for a superset of the
//! lines, and `matches` decides, by automata that know all matches (`spans`) or, where those are
//! not enough, by trying (`backtrack`).

mod ast;
mod backtrack;
mod bracket;
mod classes;
mod collate;
mod error;
mod library;
mod lines;
mod lower;
mod matches;
mod motif;
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

pub use backtrack::TooDeep;
pub use error::Error;
pub use parse::Syntax;

use ast::{Assert, Node};
use library::Pattern;
use lines::Lines;
use lower::{Accuracy, Lowering};
use matches::Matches;
use motif::Plan;
use parse::{Reader, Rules};
use search::Search;

/// Bytes that an automaton may have before it is determinised.
const NFA_BYTES: usize = 512 << 20;

/// How to read patterns and lines.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// How patterns are written.
    pub syntax: Syntax,
    /// Upper and lower case are the same.
    pub icase: bool,
    /// Characters are UTF-8, not bytes.
    pub utf8: bool,
    /// The locale has an order of characters that is not that of their codes.
    pub collates: bool,
    /// Ends a line.
    pub eol: u8,
    /// A match is a whole line.
    pub whole_lines: bool,
    /// A match has no part of a word before and behind it.
    pub whole_words: bool,
}

/// Patterns, ready to search.
pub struct Regex {
    lines: Lines,
    matches: Matches,
    check: Check,
}

/// What a line that was found has still to pass.
enum Check {
    None,
    /// This searcher has to find a match in it.
    Again(Search),
    /// It is one of these.
    Whole(BTreeSet<Vec<u8>>),
    /// A match has to be found as GNU grep looks for one.
    Matches,
}

/// What GNU grep says about patterns.
#[derive(Debug, Default)]
pub struct Remarks {
    /// What is odd.
    pub warnings: Vec<&'static str>,
    /// If there are any, it does not search.
    pub errors: Vec<Error>,
}

impl Regex {
    /// Reads `patterns`; a line matches if any of them does. Says in `remarks` what is odd or wrong;
    /// `None` if anything is wrong.
    pub fn new(patterns: &[Vec<u8>], options: Options, remarks: &mut Remarks) -> Option<Regex> {
        let regex = match motif::plan(patterns, options) {
            Plan::Texts(texts) => Regex::of_texts(&texts, options),
            Plan::Expressions {
                automaton,
                library,
                extended,
            } => {
                let rules = Rules {
                    reader: Reader::Library,
                    extended,
                    icase: options.icase,
                    utf8: options.utf8,
                    collates: options.collates,
                };
                // The library gets each pattern alone first, to see whether it is right.
                let lines = automaton.split(|b| *b == b'\n');
                let wrong = lines.filter_map(|p| parse::parse(p, rules, &mut Vec::new()).err());
                remarks.errors.extend(wrong);
                if !remarks.errors.is_empty() {
                    return None;
                }
                Regex::of_expressions(&automaton, &library, rules, options, remarks)
            }
        };
        regex.map_err(|error| remarks.errors.push(error)).ok()
    }

    fn of_texts(texts: &[Vec<u8>], options: Options) -> Result<Regex, Error> {
        let texts = texts.iter();
        let texts = texts.map(|text| parse::literal(text, options.icase, options.utf8));
        let nodes: Vec<_> = texts.collect();
        let whole_texts = whole_texts(&nodes, options);
        let node = alternatives(nodes);
        let words = options.whole_words && !options.whole_lines;
        let (hir, check) = match whole_texts {
            Some(texts) => {
                let anywhere = texts.iter().map(|text| Hir::literal(&text[..]));
                (Hir::alternation(anywhere.collect()), Check::Whole(texts))
            }
            None => {
                let hir = superset(options).lower(&whole(node.clone(), options));
                (hir, if words { Check::Matches } else { Check::None })
            }
        };
        let pattern = Pattern::new(node, false, options);
        Ok(Regex {
            lines: Lines::new(&hir, options.eol)?,
            matches: Matches::new(options, vec![pattern], true),
            check,
        })
    }

    fn of_expressions(
        automaton: &[u8],
        library: &[Vec<u8>],
        rules: Rules,
        options: Options,
        remarks: &mut Remarks,
    ) -> Result<Regex, Error> {
        let patterns = library.iter().map(|text| {
            let parsed = parse::parse(text, rules, &mut Vec::new())?;
            Ok(Pattern::new(parsed.node, parsed.complex, options))
        });
        let patterns = patterns.collect::<Result<Vec<_>, _>>()?;
        let matches = Matches::new(options, patterns, false);
        let reader = Reader::Automaton;
        let rules = Rules { reader, ..rules };
        let found = parse::parse(automaton, rules, &mut remarks.warnings)?;
        let read =
            |text: Vec<u8>, reader| parse::parse(&text, Rules { reader, ..rules }, &mut Vec::new());
        let words = options.whole_words && !options.whole_lines;
        // With what it takes for the edges of words, the automaton cannot do in UTF-8.
        let beyond = found.beyond || words && options.utf8;
        // A parenthesis too many in a pattern ends the group that GNU grep puts around all.
        let odd = (options.whole_lines || options.whole_words)
            && read(motif::grouped(automaton, rules.extended), reader)?.node != found.node;
        let words = words && !odd;
        let node = match odd {
            true => {
                let reader = match beyond {
                    true => Reader::Superset,
                    false => reader,
                };
                read(motif::wrapped(automaton, rules.extended, options), reader)?.node
            }
            false => whole(found.node, options),
        };
        // Where both read the same, and the automata here know all of it, there is nothing to check.
        let only = matches.only();
        let only = only.filter(|only| whole(only.node.clone(), options) == node);
        let same = !words && !odd && only.is_some_and(|only| !only.full());
        // Only where both number the groups alike is it known what a reference is to.
        let hir = match only.is_some() && !odd && !options.icase {
            true => superset(options).lower(&node.with_groups_for_backrefs()),
            false => superset(options).lower(&node),
        };
        let check = match beyond {
            true if same => Check::None,
            true => Check::Matches,
            false if words => Check::Again(Search::new(&surrounded(&hir, options), options.eol)?),
            false => Check::None,
        };
        Ok(Regex {
            lines: Lines::new(&hir, options.eol)?,
            matches,
            check,
        })
    }

    /// The first line that matches in `lines`, which holds whole lines, at or after `from`, where a
    /// line begins. The range is without the line's end.
    pub fn find_line(
        &mut self,
        lines: &[u8],
        mut from: usize,
    ) -> Result<Option<Range<usize>>, TooDeep> {
        while let Some(line) = self.lines.find(lines, from) {
            if self.passes(&lines[line.clone()])? {
                return Ok(Some(line));
            }
            from = line.end + 1;
        }
        Ok(None)
    }

    /// How many of `lines` match.
    pub fn count_lines(&mut self, lines: &[u8]) -> Result<u64, TooDeep> {
        if matches!(self.check, Check::None) {
            return Ok(self.lines.count(lines));
        }
        let (mut from, mut count) = (0, 0);
        while let Some(line) = self.find_line(lines, from)? {
            count += 1;
            from = line.end + 1;
        }
        Ok(count)
    }

    fn passes(&mut self, line: &[u8]) -> Result<bool, TooDeep> {
        match &mut self.check {
            Check::None => Ok(true),
            Check::Again(search) => Ok(search.place(line, 0).is_some()),
            Check::Whole(texts) => Ok(texts.contains(line)),
            Check::Matches => self.matches.any(line),
        }
    }

    /// Where the first match at or after `from` is in `line`, which is without its end and matches. If
    /// GNU grep takes the line's end for part of it, the range ends one behind the line.
    pub fn find_in_line(
        &mut self,
        line: &[u8],
        from: usize,
    ) -> Result<Option<Range<usize>>, TooDeep> {
        self.matches.find(line, from)
    }
}

/// `node`, with `-x` for whole lines.
fn whole(node: Node, options: Options) -> Node {
    if !options.whole_lines {
        return node;
    }
    let (start, end) = (Assert::LineStart, Assert::LineEnd);
    Node::Concat(vec![Node::Assert(start), node, Node::Assert(end)])
}

fn alternatives(mut nodes: Vec<Node>) -> Node {
    match nodes.len() {
        1 => nodes.remove(0),
        _ => Node::Alternate(nodes),
    }
}

fn superset(options: Options) -> Lowering {
    lowering(options, Accuracy::Superset)
}

fn lowering(options: Options, accuracy: Accuracy) -> Lowering {
    Lowering {
        utf8: options.utf8,
        eol: options.eol,
        accuracy,
    }
}

/// `hir` between characters that are not part of words, or at the ends of the line.
fn surrounded(hir: &Hir, options: Options) -> Hir {
    let last = parse::last(options.utf8);
    let other = Node::Set(classes::word(options.utf8).inverse(last));
    let edge = |assert| Node::Alternate(vec![Node::Assert(assert), other.clone()]);
    let lowering = lowering(options, Accuracy::Exact);
    Hir::concat(vec![
        lowering.lower(&edge(Assert::LineStart)),
        hir.clone(),
        lowering.lower(&edge(Assert::LineEnd)),
    ])
}

/// The lines that match, if they are these and no others. They are looked for anywhere, which is much
/// quicker than an automaton that knows of ends of lines.
fn whole_texts(nodes: &[Node], options: Options) -> Option<BTreeSet<Vec<u8>>> {
    let lowering = superset(options);
    let text = |node: &Node| match lowering.lower(node).kind() {
        HirKind::Literal(text) => Some(text.0.to_vec()),
        _ => None,
    };
    let whole = options.whole_lines && !nodes.is_empty();
    whole.then(|| nodes.iter().map(text).collect())?
}
