//! Where in a line the matches are, leftmost first and as long as possible.
//!
//! All kinds of matches begin at the same place, the leftmost, so the searcher that finds lines says
//! where. A forward automaton that follows all matches finds the longest end from there.

use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::meta;
use regex_automata::nfa::thompson::{Config, NFA, WhichCaptures};
use regex_automata::util::look::LookMatcher;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind};
use regex_syntax::hir::Hir;

use super::error::Error;
use super::lines;

/// Bytes that the automaton may take for the states that it has met.
const CACHE_BYTES: usize = 16 << 20;

pub(super) struct Spans {
    starts: meta::Regex,
    starts_cache: meta::Cache,
    forward: DFA,
    forward_cache: Cache,
}

impl Spans {
    pub(super) fn new(hir: &Hir, eol: u8) -> Result<Spans, Error> {
        let starts = lines::searcher(hir, eol)?;
        let forward = dfa(hir, eol)?;
        Ok(Spans {
            starts_cache: starts.create_cache(),
            starts,
            forward_cache: forward.create_cache(),
            forward,
        })
    }

    /// The first place at or after `from` where a match begins.
    pub(super) fn start(&mut self, line: &[u8], from: usize) -> Option<usize> {
        let input = Input::new(line).range(from..);
        let found = self.starts.search_with(&mut self.starts_cache, &input);
        found.map(|found| found.start())
    }

    /// The end of the longest match that begins at `start` and ends at most at `limit`.
    pub(super) fn longest(&mut self, line: &[u8], start: usize, limit: usize) -> Option<usize> {
        let input = Input::new(line).range(start..limit).anchored(Anchored::Yes);
        let found = self.forward.try_search_fwd(&mut self.forward_cache, &input);
        found.ok().flatten().map(|half| half.offset())
    }
}

fn dfa(hir: &Hir, eol: u8) -> Result<DFA, Error> {
    let mut look = LookMatcher::new();
    look.set_line_terminator(eol);
    let nfa = NFA::compiler()
        .syntax(syntax::Config::new().utf8(false))
        .configure(
            Config::new()
                .utf8(false)
                .look_matcher(look)
                .which_captures(WhichCaptures::None)
                .nfa_size_limit(Some(super::NFA_BYTES)),
        )
        .build_from_hir(hir)
        .map_err(|_| Error::TooBig)?;
    DFA::builder()
        .configure(
            DFA::config()
                .match_kind(MatchKind::All)
                .cache_capacity(CACHE_BYTES)
                .skip_cache_capacity_check(true),
        )
        .build_from_nfa(nfa)
        .map_err(|_| Error::TooBig)
}
