//! Perl's regular expressions: PCRE2, called line by line.
//!
//! Bytes that are not characters match nothing, and divide a line. A match lies before, between or after them, and `^`
//! and `$` hold only at the line's own ends. PCRE2 implements this.

mod sys;

use std::ops::Range;

use memchr::memchr;

use sys::PcreCode;
pub(super) use sys::PcreError;

/// Options of the pattern and of lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct PerlOptions {
    pub(super) icase: bool,
    /// Characters are UTF-8, not bytes.
    pub(super) utf8: bool,
    /// The byte that ends a line.
    pub(super) eol: u8,
    /// A match is a whole line.
    pub(super) whole_lines: bool,
    /// A match has no word character directly before or after it.
    pub(super) whole_words: bool,
}

/// A pattern, ready to search.
pub(super) struct PerlRegex {
    code: PcreCode,
    eol: u8,
}

impl PerlRegex {
    /// Compiles `pattern`. The error is PCRE2's text.
    pub(super) fn new(pattern: &[u8], options: PerlOptions) -> Result<PerlRegex, String> {
        let words = options.whole_words && !options.whole_lines;
        let pattern = if words {
            [b"(?<!\\w)(?:", pattern, b")(?!\\w)"].concat()
        } else {
            pattern.to_vec()
        };
        Ok(PerlRegex {
            code: PcreCode::new(&pattern, options)?,
            eol: options.eol,
        })
    }

    /// Returns the first matching line in `lines`, which holds whole lines, at or after `from`, where a line begins.
    /// The range excludes the line's terminator.
    pub(super) fn find_line(
        &mut self,
        lines: &[u8],
        mut from: usize,
    ) -> Result<Option<Range<usize>>, PcreError> {
        while from < lines.len() {
            let end = memchr(self.eol, &lines[from..]).map_or(lines.len(), |at| from + at);
            if self.find(&lines[from..end], 0)?.is_some() {
                return Ok(Some(from..end));
            }
            from = end + 1;
        }
        Ok(None)
    }

    /// Returns the first match at or after `from` in `line`, which has no terminator.
    pub(super) fn find(
        &mut self,
        line: &[u8],
        from: usize,
    ) -> Result<Option<Range<usize>>, PcreError> {
        self.code.find(line, from)
    }
}
