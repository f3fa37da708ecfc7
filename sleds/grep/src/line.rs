//! Prints one line.

use super::block::LineBlock;
use super::config::{BinaryTreatment, GrepConfig};
use super::output::GrepOutput;
use super::regex::{CompiledPatterns, MatchLimitError};
use super::runs::count_ends;

/// A line without its terminator.
#[derive(Clone, Copy)]
pub(super) struct PrintedLine<'l> {
    pub(super) offset: u64,
    pub(super) text: &'l [u8],
    /// True for a selected line, false for a context line.
    pub(super) selected: bool,
}

impl PrintedLine<'_> {
    fn separator(self) -> u8 {
        if self.selected { b':' } else { b'-' }
    }
}

pub(super) struct LinePrinter<'a> {
    config: &'a GrepConfig,
    pub(super) out: &'a mut GrepOutput,
    /// The file's name, if lines begin with it.
    name: Option<&'a [u8]>,
    /// A line was not printed because it is not text.
    pub(super) invalid: bool,
    /// A byte of the file, and the number of lines that end before it.
    counted: (u64, u64),
    /// Minimum width of a number in columns.
    width: usize,
    /// Lines are printed whole and without colours.
    plain: bool,
    /// Lines are plain, and have no prefix.
    bare: bool,
}

impl<'a> LinePrinter<'a> {
    /// Makes a printer for a file of `length` bytes, if the length is known.
    pub(super) fn new(
        config: &'a GrepConfig,
        out: &'a mut GrepOutput,
        name: Option<&'a [u8]>,
        length: Option<u64>,
    ) -> Self {
        let colors = out.colors().on;
        let head = name.is_some() || config.line_number || config.byte_offset;
        LinePrinter {
            config,
            name,
            width: width(config, length),
            invalid: false,
            counted: (0, 0),
            plain: !config.only_matching && !colors,
            bare: !head && !config.only_matching && !colors && !config.line_buffered,
            out,
        }
    }

    pub(super) fn count_from(&mut self, offset: u64, lines: u64) {
        self.counted = (offset, lines);
    }

    /// Returns the number of lines counted so far.
    pub(super) fn lines(&self) -> u64 {
        self.counted.1
    }

    /// Counts the lines of a processed block.
    pub(super) fn count_block(&mut self, block: LineBlock<'_>) {
        if self.config.line_number {
            let end = block.offset + block.data.len() as u64;
            let lines = self.lines_before(end, block);
            self.count_from(end, lines);
        }
    }

    /// Returns the number of lines that end before byte `at`, which lies in `block` or before it.
    fn lines_before(&mut self, at: u64, block: LineBlock<'_>) -> u64 {
        let eol = self.config.eol;
        if at < self.counted.0 {
            // A line before the current block, or a line that is printed again.
            let to = (self.counted.0.min(block.offset + block.data.len() as u64)) - block.offset;
            let between = &block.data[(at - block.offset) as usize..to as usize];
            return self.counted.1 - count_ends(between, eol);
        }
        let from = (self.counted.0.max(block.offset) - block.offset) as usize;
        let between = &block.data[from..(at - block.offset) as usize];
        self.counted = (at, self.counted.1 + count_ends(between, eol));
        self.counted.1
    }

    /// Returns true if `lines` can be printed unchanged.
    pub(super) fn takes_many(&self, lines: &[u8]) -> bool {
        self.bare && self.is_text(lines)
    }

    /// Prints `lines`, for which [`LinePrinter::takes_many`] must have returned true.
    pub(super) fn many(&mut self, lines: &[u8]) {
        self.out.write(lines);
        if lines.last() != Some(&self.config.eol) {
            self.out.write(&[self.config.eol]);
        }
    }

    pub(super) fn group_separator(&mut self) {
        if let Some(text) = &self.config.separator {
            self.out.separator(text);
            self.out.write(b"\n");
        }
    }

    /// Returns true if `text` may be printed: it is text, or need not be.
    fn is_text(&self, text: &[u8]) -> bool {
        let valid = || !self.config.utf8 || std::str::from_utf8(text).is_ok();
        let has_zeroes = || self.config.eol != 0 && memchr::memchr(0, text).is_some();
        self.config.binary == BinaryTreatment::Text || valid() && !has_zeroes()
    }

    /// Prints a line of `block`. Returns false if it is not text, and is therefore not printed.
    pub(super) fn line(
        &mut self,
        regex: &mut CompiledPatterns,
        line: PrintedLine<'_>,
        block: LineBlock<'_>,
    ) -> Result<bool, MatchLimitError> {
        let only = self.config.only_matching;
        if !only && !self.head(line.text, line, line.offset, block) {
            return Ok(false);
        }
        if self.plain {
            self.plain_line(line, block);
            return Ok(true);
        }
        let mut rest = line.text;
        // With `-v`, lines that are not selected have matches.
        let matching = line.selected != self.config.invert;
        let colors = self.out.colors();
        let (line_color, match_color) = colors.of_line(line.selected, self.config.invert);
        if matching && (only || !match_color.is_empty()) {
            match self.matches(regex, line, block, (line_color, match_color))? {
                Some(from) => rest = &line.text[from..],
                None => return Ok(false),
            }
        }
        if !only {
            let tail = rest.strip_suffix(b"\r").unwrap_or(rest);
            if !line_color.is_empty() && !tail.is_empty() {
                self.out.colored(line_color, tail);
                rest = &rest[tail.len()..];
            }
            self.out.write(rest);
            self.out.write(&[self.config.eol]);
        }
        self.out.end_line();
        Ok(true)
    }

    /// Prints a line without colours, with its terminator if present.
    fn plain_line(&mut self, line: PrintedLine<'_>, block: LineBlock<'_>) {
        let start = (line.offset - block.offset) as usize;
        let end = start + line.text.len();
        if let Some(whole) = block.data.get(start..=end) {
            self.out.write(whole);
        } else {
            self.out.write(line.text);
            self.out.write(&[self.config.eol]);
        }
        self.out.end_line();
    }

    /// Prints the matches of a line and, without `-o`, the text between them. Returns the beginning of the remaining
    /// text; `None` if a match is not text.
    fn matches(
        &mut self,
        regex: &mut CompiledPatterns,
        line: PrintedLine<'_>,
        block: LineBlock<'_>,
        (line_color, match_color): (&[u8], &[u8]),
    ) -> Result<Option<usize>, MatchLimitError> {
        let only = self.config.only_matching;
        // End of the printed text, and start of the next search. They differ only after empty matches.
        let (mut printed, mut from) = (0, 0);
        while from <= line.text.len() {
            let Some(found) = regex.find_in_line(line.text, from)? else {
                break;
            };
            if found.is_empty() {
                from = found.end + 1;
                continue;
            }
            let text = &line.text[found.clone()];
            if only {
                let offset = line.offset + found.start as u64;
                if !self.head(text, line, offset, block) {
                    return Ok(None);
                }
            } else {
                self.out.start_color(line_color);
                self.out.write(&line.text[printed..found.start]);
            }
            self.out.start_color(match_color);
            self.out.write(text);
            self.out.end_color(match_color);
            if only {
                self.out.write(&[self.config.eol]);
            }
            printed = found.end;
            from = found.end;
        }
        Ok(Some(printed))
    }

    /// Prints the prefix of `text`, which belongs to `line` and begins at byte `offset`. Returns false if it is not
    /// text.
    fn head(
        &mut self,
        text: &[u8],
        line: PrintedLine<'_>,
        offset: u64,
        block: LineBlock<'_>,
    ) -> bool {
        if !self.is_text(text) {
            self.invalid = true;
            return false;
        }
        let separator = line.separator();
        if let Some(name) = self.name {
            self.out.filename_before(name, separator);
        }
        let width = self.width;
        if self.config.line_number {
            let number = self.lines_before(line.offset, block) + 1;
            self.out.number(number, true, width, separator);
        }
        if self.config.byte_offset {
            self.out.number(offset, false, width, separator);
        }
        let head = self.name.is_some() || self.config.line_number || self.config.byte_offset;
        if self.config.initial_tab && head && !text.is_empty() {
            self.out.write(b"\t");
        }
        true
    }
}

/// Returns the column width of line numbers and byte offsets, so that they are aligned with `-T`: the digits of the
/// file's length, or of the largest number.
fn width(config: &GrepConfig, length: Option<u64>) -> usize {
    if !config.initial_tab {
        return 0;
    }
    let longest = length.map_or(i64::MAX as u64, |l| l + u64::from(config.line_number));
    longest.to_string().len()
}
