//! Search for lines that may match, through many lines at once.

use std::ops::Range;

use memchr::memmem;
use regex_automata::Input;
use regex_automata::meta::{self, Cache, Regex};
use regex_automata::nfa::thompson::WhichCaptures;
use regex_syntax::hir::{Hir, HirKind};

use super::error::PatternError;

/// Maximum bytes of an automaton before determinisation.
pub(super) const NFA_BYTES: usize = 512 << 20;

/// Maximum bytes of an automaton's cached states.
const CACHE_BYTES: usize = 16 << 20;

/// A searcher.
pub(super) enum HirSearcher {
    /// For one text.
    Text(Box<memmem::Finder<'static>>),
    Automata(Box<Regex>, Box<Cache>),
}

impl HirSearcher {
    /// Creates a searcher for matches of `hir`, which contain no line end.
    pub(super) fn new(hir: &Hir, eol: u8) -> Result<HirSearcher, PatternError> {
        if let HirKind::Literal(text) = hir.kind() {
            let finder = memmem::Finder::new(&text.0).into_owned();
            return Ok(HirSearcher::Text(Box::new(finder)));
        }
        let config = meta::Config::new()
            .utf8_empty(false)
            .line_terminator(eol)
            // The program has one thread; asking for the number of processors takes longer than a small file.
            .pool_capacity(1)
            .which_captures(WhichCaptures::Implicit)
            .nfa_size_limit(Some(NFA_BYTES))
            .hybrid_cache_capacity(CACHE_BYTES)
            .dfa(false)
            .onepass(false)
            .backtrack(false);
        let regex = meta::Builder::new().configure(config).build_from_hir(hir);
        let regex = regex.map_err(|_| PatternError::TooBig)?;
        let cache = regex.create_cache();
        Ok(HirSearcher::Automata(Box::new(regex), Box::new(cache)))
    }

    /// Returns true if the search does not step through every byte.
    pub(super) fn is_fast(&self) -> bool {
        match self {
            HirSearcher::Text(_) => true,
            HirSearcher::Automata(regex, _) => regex.is_accelerated(),
        }
    }

    /// Returns a place in the first line with a match in `range`.
    pub(super) fn place(&mut self, lines: &[u8], range: Range<usize>) -> Option<usize> {
        match self {
            HirSearcher::Text(text) => text.find(&lines[range.clone()]).map(|at| range.start + at),
            HirSearcher::Automata(regex, cache) => {
                let input = Input::new(lines).range(range).earliest(true);
                let half = regex.search_half_with(cache, &input)?;
                Some(half.offset())
            }
        }
    }

    /// Returns the leftmost match at or after `from`. Of the matches that begin there, it prefers the most of each
    /// repetition, and the first of the alternatives.
    pub(super) fn first(&mut self, line: &[u8], from: usize) -> Option<Range<usize>> {
        match self {
            HirSearcher::Text(text) => {
                let start = from + text.find(&line[from..])?;
                Some(start..start + text.needle().len())
            }
            HirSearcher::Automata(regex, cache) => {
                let input = Input::new(line).range(from..);
                let found = regex.search_with(cache, &input)?;
                Some(found.range())
            }
        }
    }
}
