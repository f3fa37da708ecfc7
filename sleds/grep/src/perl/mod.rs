//! Perl's regular expressions: PCRE2, asked as GNU grep asks it.
//!
//! Lines are searched one by one. Bytes that are no characters match nothing, and divide a line: a
//! match lies before, between or behind them, where `^` and `$` hold only at the line's own ends.

mod sys;

use std::ops::Range;

use memchr::memchr;

use sys::Code;
pub(super) use sys::{Failure, Flags};

/// How to read the pattern and lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Options {
    pub(super) icase: bool,
    /// Characters are UTF-8, not bytes.
    pub(super) utf8: bool,
    /// Ends a line.
    pub(super) eol: u8,
    /// A match is a whole line.
    pub(super) whole_lines: bool,
    /// A match has no part of a word before and behind it.
    pub(super) whole_words: bool,
}

/// A pattern, ready to search.
pub(super) struct Regex {
    code: Code,
    options: Options,
    /// Whether the empty text matches: within a line, and at its start.
    empty: [Result<bool, Failure>; 2],
}

impl Regex {
    /// Reads `pattern`, or says in PCRE2's words what is wrong with it.
    pub(super) fn new(pattern: &[u8], options: Options) -> Result<Regex, String> {
        let words = options.whole_words && !options.whole_lines;
        let pattern = match words {
            true => [b"(?<!\\w)(?:", pattern, b")(?!\\w)"].concat(),
            false => pattern.to_vec(),
        };
        let mut code = Code::new(&pattern, options)?;
        let mut empty = |flags| Ok(code.find(b"", 0, flags)?.is_some());
        let within = Flags {
            within: true,
            ..Flags::default()
        };
        Ok(Regex {
            empty: [empty(within), empty(Flags::default())],
            code,
            options,
        })
    }

    /// The first line that matches in `lines`, which holds whole lines, at or after `from`, where a
    /// line begins. The range is without the line's end.
    pub(super) fn find_line(
        &mut self,
        lines: &[u8],
        mut from: usize,
    ) -> Result<Option<Range<usize>>, Failure> {
        while from < lines.len() {
            let end = memchr(self.options.eol, &lines[from..]).map_or(lines.len(), |at| from + at);
            if self.find(&lines[from..end], 0)?.is_some() {
                return Ok(Some(from..end));
            }
            from = end + 1;
        }
        Ok(None)
    }

    /// Where the first match at or after `from` is in `line`, which is without its end.
    pub(super) fn find(
        &mut self,
        line: &[u8],
        from: usize,
    ) -> Result<Option<Range<usize>>, Failure> {
        if !self.options.utf8 {
            return self.find_in(line, 0, from, Flags::of_search(from == 0));
        }
        // Where to search on, where the text begins that PCRE2 is shown, and whether the line begins
        // where the search does.
        let (mut at, mut text, mut start) = (from, 0, from == 0);
        loop {
            while at < line.len() && is_never_first(line[at]) {
                at += 1;
                text = at;
                start = false;
            }
            let flags = Flags::of_search(start);
            let Err(error) = std::str::from_utf8(&line[text..]) else {
                return self.find_in(line, text, at, flags);
            };
            let bad = text + error.valid_up_to();
            if at <= bad {
                let flags = Flags { cut: true, ..flags };
                if let Some(found) = self.find_in(&line[..bad], text, at, flags)? {
                    return Ok(Some(found));
                }
                at = bad + 1;
                start = false;
            }
            text = bad + 1;
        }
    }

    /// The first match at or after `at` in the text, all of it characters, from `text` to the end.
    fn find_in(
        &mut self,
        line: &[u8],
        text: usize,
        at: usize,
        flags: Flags,
    ) -> Result<Option<Range<usize>>, Failure> {
        if at == line.len() && !flags.cut {
            let matches = self.empty[usize::from(!flags.within)]?;
            return Ok(matches.then_some(at..at));
        }
        let found = self.code.find(&line[text..], at - text, flags)?;
        Ok(found.map(|found| text + found.start..text + found.end))
    }
}

/// True if no character begins with `byte` in UTF-8.
fn is_never_first(byte: u8) -> bool {
    matches!(byte, 0x80..=0xc1 | 0xf5..)
}
