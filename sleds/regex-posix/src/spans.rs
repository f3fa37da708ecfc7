//! Length of the longest match that begins at a place.

use regex_automata::hybrid::dfa::{Cache, DFA};
use regex_automata::nfa::thompson::{Config, NFA};
use regex_automata::util::look::LookMatcher;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind};
use regex_syntax::hir::Hir;

use super::error::PatternError;
use super::search::NFA_BYTES;

/// Maximum bytes of each automaton's cached states.
const CACHE_BYTES: usize = 16 << 20;

/// An automaton that follows all matches to the last.
pub(super) struct SpanAutomaton {
    dfa: DFA,
    cache: Cache,
}

impl SpanAutomaton {
    pub(super) fn new(hir: &Hir, eol: u8) -> Result<SpanAutomaton, PatternError> {
        let dfa = dfa(hir, eol)?;
        Ok(SpanAutomaton {
            cache: dfa.create_cache(),
            dfa,
        })
    }

    /// Returns the end of the longest match that begins at `start`.
    pub(super) fn longest(&mut self, line: &[u8], start: usize) -> Option<usize> {
        let input = Input::new(line).range(start..).anchored(Anchored::Yes);
        let found = self.dfa.try_search_fwd(&mut self.cache, &input);
        found.ok().flatten().map(|half| half.offset())
    }
}

fn dfa(hir: &Hir, eol: u8) -> Result<DFA, PatternError> {
    let mut look = LookMatcher::new();
    look.set_line_terminator(eol);
    let nfa = NFA::compiler()
        .syntax(syntax::Config::new().utf8(false))
        .configure(
            Config::new()
                .utf8(false)
                .look_matcher(look)
                .which_captures(regex_automata::nfa::thompson::WhichCaptures::None)
                .nfa_size_limit(Some(NFA_BYTES)),
        )
        .build_from_hir(hir)
        .map_err(|_| PatternError::TooBig)?;
    DFA::builder()
        .configure(
            DFA::config()
                .match_kind(MatchKind::All)
                .cache_capacity(CACHE_BYTES)
                .skip_cache_capacity_check(true),
        )
        .build_from_nfa(nfa)
        .map_err(|_| PatternError::TooBig)
}
