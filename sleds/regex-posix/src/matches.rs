//! Which match of several patterns counts, and with `-w` and `-x` whether it does.
//!
//! GNU grep has ways of its own to find words (`EGexecute` and `Fexecute` there): from a match that is
//! no word it goes to shorter ones at the same place, and then on. They do not find every word, and
//! these do as they do.

use std::ops::Range;

use super::backtrack::TooDeep;
use super::library::Pattern;
use super::{Options, text};

/// The patterns of a search.
pub(super) struct Matches {
    options: Options,
    patterns: Vec<Pattern>,
    /// They are one pattern of texts, which GNU grep finds without the C library.
    texts: bool,
}

impl Matches {
    pub(super) fn new(options: Options, patterns: Vec<Pattern>, texts: bool) -> Matches {
        Matches {
            options,
            patterns,
            texts,
        }
    }

    /// The only pattern, if there is one.
    pub(super) fn only(&self) -> Option<&Pattern> {
        match &self.patterns[..] {
            [pattern] => Some(pattern),
            _ => None,
        }
    }

    /// True if the line matches.
    pub(super) fn any(&mut self, line: &[u8]) -> Result<bool, TooDeep> {
        let Options {
            whole_lines,
            whole_words,
            ..
        } = self.options;
        if self.texts && whole_words && !whole_lines {
            return Ok(self.word_of_texts(line, 0)?.is_some());
        }
        for pattern in &mut self.patterns {
            let Some(found) = pattern.find(line, 0)? else {
                continue;
            };
            let matches = match (whole_lines, whole_words) {
                (true, _) => found.len() == line.len(),
                (false, true) => word(pattern, self.options.utf8, line, 0, found)?.is_some(),
                (false, false) => true,
            };
            if matches {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The leftmost-longest match at or after `from`, in a line that matches. With `-w` and `-x`, the
    /// line's end is part of it.
    pub(super) fn find(
        &mut self,
        line: &[u8],
        from: usize,
    ) -> Result<Option<Range<usize>>, TooDeep> {
        let Options {
            whole_lines,
            whole_words,
            ..
        } = self.options;
        if self.texts && whole_words && !whole_lines {
            return self.word_of_texts(line, from);
        }
        let mut best: Option<Range<usize>> = None;
        for pattern in &mut self.patterns {
            let Some(found) = pattern.find(line, from)? else {
                continue;
            };
            let found = match (whole_lines, whole_words) {
                (_, false) => Some(found),
                (true, true) if self.texts => Some(found),
                (true, true) if found.len() == line.len() - from => Some(from..line.len() + 1),
                (true, true) => None,
                (false, true) => word(pattern, self.options.utf8, line, from, found)?,
            };
            let Some(found) = found else { continue };
            let key = |r: &Range<usize>| (std::cmp::Reverse(r.start), r.end);
            if best.as_ref().is_none_or(|best| key(&found) > key(best)) {
                best = Some(found);
            }
        }
        Ok(best)
    }

    /// A match of texts that is a word.
    fn word_of_texts(
        &mut self,
        line: &[u8],
        mut from: usize,
    ) -> Result<Option<Range<usize>>, TooDeep> {
        let utf8 = self.options.utf8;
        let Some(pattern) = self.patterns.first_mut() else {
            return Ok(None);
        };
        while from <= line.len() {
            let Some(Range { start, mut end }) = pattern.find(line, from)? else {
                break;
            };
            while !text::word_before(line, start, utf8) {
                if !text::word_at(line, end, utf8) {
                    return Ok(Some(start..end));
                }
                if end == start {
                    break;
                }
                match pattern.longest(line, start, end - 1)? {
                    Some(shorter) => end = shorter,
                    None => break,
                }
            }
            // No word begins within one.
            from = start;
            while text::word_at(line, from, utf8) {
                from += text::decode(&line[from..], utf8).map_or(1, |(_, len)| len);
            }
            from += 1;
        }
        Ok(None)
    }
}

/// The first word that is a match of `pattern`, from the match `found` on, which is the first at or
/// after `from`.
fn word(
    pattern: &mut Pattern,
    utf8: bool,
    line: &[u8],
    from: usize,
    mut found: Range<usize>,
) -> Result<Option<Range<usize>>, TooDeep> {
    loop {
        let Range { start, end } = found;
        let before = text::word_before(line, start, utf8);
        if !before && !text::word_at(line, end, utf8) {
            return Ok(Some(found));
        }
        // Of a shorter match, GNU grep forgets to count what is before `from`.
        let limit = end.saturating_sub(1 + from);
        if end > start
            && limit >= start
            && let Some(shorter) = pattern.longest(line, start, limit)?
            && shorter > start
        {
            found = start..shorter;
            continue;
        }
        let Some(next) = pattern.next(line, start) else {
            return Ok(None);
        };
        match pattern.find(line, next)? {
            Some(further) => found = further,
            None => return Ok(None),
        }
    }
}
