//! Prints selected lines and their context, in the order of the file.
//!
//! Blocks of whole lines are fed in file order. Gaps between them contain nothing to print; see [`LineEmitter::feed`].

use super::block::{LineBlock, SearchedFile};
use super::config::{BinaryTreatment, GrepConfig};
use super::line::{LinePrinter, PrintedLine};
use super::output::GrepOutput;
use super::regex::{CompiledPatterns, MatchLimitError};
use super::runs::{LineRangeSource, back, count_ends, line_end};

/// Tells the caller to continue or to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EmitFlow {
    More,
    Enough,
}

pub(super) struct LineEmitter<'a> {
    config: &'a GrepConfig,
    regex: &'a mut CompiledPatterns,
    printer: LinePrinter<'a>,
    /// Offset from which the file is binary: one selected line behind it is sufficient, and is not printed.
    binary_from: u64,
    /// A line of the binary part is selected.
    binary_matches: bool,
    selected: u64,
    /// Number of lines that may still be selected.
    left: u64,
    /// Number of lines to print after the last selected line.
    pending: u64,
    /// End of the last printed line.
    printed_to: Option<u64>,
    /// End of the last selected line.
    after_last: u64,
    /// The last lines before the current block, for `-B`, and their offset.
    history: Vec<u8>,
    history_at: u64,
}

/// Result of a file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SearchOutcome {
    pub(super) selected: u64,
    /// End of the last selected line, relative to the beginning of the search.
    pub(super) after_last: u64,
    /// The file matches, but is binary.
    pub(super) binary_matches: bool,
}

impl<'a> LineEmitter<'a> {
    pub(super) fn new(
        config: &'a GrepConfig,
        regex: &'a mut CompiledPatterns,
        out: &'a mut GrepOutput,
        source: &SearchedFile<'a>,
    ) -> LineEmitter<'a> {
        LineEmitter {
            config,
            regex,
            printer: LinePrinter::new(config, out, source.name, source.file.map(|_| source.length)),
            binary_from: u64::MAX,
            binary_matches: false,
            selected: 0,
            left: config.max_count,
            pending: 0,
            printed_to: None,
            after_last: 0,
            history: Vec::new(),
            history_at: 0,
        }
    }

    /// Records that the file is binary from the line on that contains byte `offset`.
    pub(super) fn binary_from(&mut self, offset: u64) {
        self.binary_from = self.binary_from.min(offset);
    }

    pub(super) fn regex(&mut self) -> &mut CompiledPatterns {
        self.regex
    }

    /// Returns the number of lines that may still be selected.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// Returns the number of lines up to the end of the last block, if lines are numbered.
    pub(super) fn lines(&self) -> u64 {
        self.printer.lines()
    }

    /// Skips to byte `offset`, where the next block begins; `lines` lines end before it.
    pub(super) fn skip_to(&mut self, offset: u64, lines: u64) {
        self.printer.count_from(offset, lines);
    }

    /// Processes a block that follows all previous blocks. The gap before the block has no selected lines and no
    /// context lines. The caller must announce the gap with [`LineEmitter::skip_to`].
    pub(super) fn feed(
        &mut self,
        block: LineBlock<'_>,
        mut runs: LineRangeSource<'_>,
    ) -> Result<EmitFlow, MatchLimitError> {
        let text_end = self.text_end(block);
        while self.left > 0 {
            let Some((start, end)) = runs.next(self.regex, block.data)? else {
                break;
            };
            if start < text_end {
                self.select(block, start, end.min(text_end))?;
            }
            if end > text_end && self.left > 0 {
                self.print_pending(block, text_end)?;
                self.select_binary(block, start.max(text_end));
                return Ok(EmitFlow::Enough);
            }
        }
        self.print_pending(block, text_end)?;
        if text_end < block.data.len() {
            self.pending = 0;
        }
        if self.left == 0 && self.pending == 0 {
            return Ok(EmitFlow::Enough);
        }
        self.remember(block);
        Ok(EmitFlow::More)
    }

    /// Returns the end of the lines of `block` before the binary part.
    fn text_end(&self, block: LineBlock<'_>) -> usize {
        if self.binary_from >= block.place(block.data.len()) {
            return block.data.len();
        }
        let before = self.binary_from.saturating_sub(block.offset) as usize;
        memchr::memrchr(self.config.eol, &block.data[..before]).map_or(0, |at| at + 1)
    }

    /// Selects the line at `start`, which is not text.
    fn select_binary(&mut self, block: LineBlock<'_>, start: usize) {
        if self.config.binary == BinaryTreatment::WithoutMatch {
            return;
        }
        // For separators, GNU grep treats this as printed.
        self.printer.out.used = true;
        self.binary_matches = true;
        self.selected += 1;
        self.after_last = block.place(line_end(block.data, start, self.config.eol));
    }

    pub(super) fn finish(self) -> SearchOutcome {
        let not_shown = self.printer.invalid || self.binary_matches;
        SearchOutcome {
            selected: self.selected,
            after_last: self.after_last,
            binary_matches: not_shown && self.config.binary == BinaryTreatment::Named,
        }
    }

    /// Processes the selected lines at `start..end`.
    fn select(
        &mut self,
        block: LineBlock<'_>,
        start: usize,
        end: usize,
    ) -> Result<(), MatchLimitError> {
        self.print_pending(block, start)?;
        self.print_before(block, start)?;
        let (at, lines) = self.print_selected(block, start, end)?;
        self.after_last = block.place(at);
        self.pending = self.config.after.unwrap_or(0);
        self.left -= lines;
        self.selected += lines;
        Ok(())
    }

    /// Prints the lines at `start..end`, up to the limit. Returns the end and the number of printed lines.
    fn print_selected(
        &mut self,
        block: LineBlock<'_>,
        start: usize,
        end: usize,
    ) -> Result<(usize, u64), MatchLimitError> {
        let eol = self.config.eol;
        let lines = &block.data[start..end];
        if self.left == u64::MAX && self.printer.takes_many(lines) {
            let open = u64::from(lines.last() != Some(&eol));
            self.printer.many(lines);
            self.have_printed(block.place(end));
            return Ok((end, count_ends(lines, eol) + open));
        }
        let (mut at, mut count) = (start, 0);
        while at < end && count < self.left {
            let next = line_end(block.data, at, eol);
            self.print(block, at, next, true)?;
            at = next;
            count += 1;
        }
        Ok((at, count))
    }

    /// Prints lines after the last selected line that begin before `limit` in the block.
    fn print_pending(&mut self, block: LineBlock<'_>, limit: usize) -> Result<(), MatchLimitError> {
        let from = self.after_last.max(self.printed_to.unwrap_or(0));
        let mut at = from.saturating_sub(block.offset) as usize;
        while self.pending > 0 && at < limit {
            let end = line_end(block.data, at, self.config.eol);
            // As in GNU grep, a line that is not text ends the context.
            if self.print(block, at, end, false)? {
                self.pending -= 1;
            } else {
                self.pending = 0;
            }
            at = end;
        }
        Ok(())
    }

    /// Prints the lines before a selected line, and the separator.
    fn print_before(&mut self, block: LineBlock<'_>, start: usize) -> Result<(), MatchLimitError> {
        if !self.config.has_context() {
            return Ok(());
        }
        let eol = self.config.eol;
        let wanted = self.config.before.unwrap_or(0);
        let floor = self.printed_to.unwrap_or(0);
        let here = floor.saturating_sub(block.offset) as usize;
        let (from, found) = back(block.data, start, here.min(start), wanted, eol);
        let history_end = self.history_at + self.history.len() as u64;
        let mut earlier = self.history.len();
        if from == 0 && found < wanted && history_end == block.offset {
            let floor = floor.saturating_sub(self.history_at) as usize;
            let floor = floor.min(earlier);
            (earlier, _) = back(&self.history, earlier, floor, wanted - found, eol);
        }
        let first = if earlier < self.history.len() {
            self.history_at + earlier as u64
        } else {
            block.place(from)
        };
        if self.printer.out.used && self.printed_to != Some(first) {
            self.printer.group_separator();
        }
        if earlier < self.history.len() {
            let history = std::mem::take(&mut self.history);
            let before = LineBlock {
                offset: self.history_at,
                data: &history,
            };
            self.print_lines(before, earlier, history.len())?;
            self.history = history;
        }
        self.print_lines(block, from, start)
    }

    fn print_lines(
        &mut self,
        block: LineBlock<'_>,
        mut at: usize,
        end: usize,
    ) -> Result<(), MatchLimitError> {
        while at < end {
            let next = line_end(block.data, at, self.config.eol);
            self.print(block, at, next, false)?;
            at = next;
        }
        Ok(())
    }

    /// Prints a line. Returns false if it is not text, and is therefore not printed.
    fn print(
        &mut self,
        block: LineBlock<'_>,
        at: usize,
        end: usize,
        selected: bool,
    ) -> Result<bool, MatchLimitError> {
        let text = &block.data[at..end];
        let line = PrintedLine {
            offset: block.place(at),
            text: text.strip_suffix(&[self.config.eol]).unwrap_or(text),
            selected,
        };
        let printed = self.printer.line(self.regex, line, block)?;
        if printed {
            self.have_printed(block.place(end));
        }
        Ok(printed)
    }

    fn have_printed(&mut self, to: u64) {
        self.printed_to = Some(to);
        self.printer.out.used = true;
    }

    /// Keeps the last lines of `block` for `-B`, and counts its lines.
    fn remember(&mut self, block: LineBlock<'_>) {
        self.printer.count_block(block);
        let before = self.config.before.unwrap_or(0);
        if before == 0 {
            return;
        }
        let eol = self.config.eol;
        let (start, found) = back(block.data, block.data.len(), 0, before, eol);
        let end = self.history_at + self.history.len() as u64;
        if found < before && end == block.offset {
            let (from, _) = back(&self.history, self.history.len(), 0, before - found, eol);
            self.history.drain(..from);
            self.history_at += from as u64;
        } else {
            self.history.clear();
            self.history_at = block.place(start);
        }
        self.history.extend_from_slice(&block.data[start..]);
    }
}
