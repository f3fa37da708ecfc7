//! Perl's regular expressions: PCRE2, asked line by line.
//!
//! Bytes that are no characters match nothing, and divide a line: a match lies before, between or
//! behind them, where `^` and `$` hold only at the line's own ends. PCRE2 sees to that.

mod sys;

use std::ops::Range;

use memchr::memchr;

use sys::Code;
pub(super) use sys::Failure;

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
    eol: u8,
}

impl Regex {
    /// Reads `pattern`, or says in PCRE2's words what is wrong with it.
    pub(super) fn new(pattern: &[u8], options: Options) -> Result<Regex, String> {
        let words = options.whole_words && !options.whole_lines;
        let pattern = match words {
            true => [b"(?<!\\w)(?:", pattern, b")(?!\\w)"].concat(),
            false => pattern.to_vec(),
        };
        Ok(Regex {
            code: Code::new(&pattern, options)?,
            eol: options.eol,
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
            let end = memchr(self.eol, &lines[from..]).map_or(lines.len(), |at| from + at);
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
        self.code.find(line, from)
    }
}
