//! Prints selected lines and those around them, in the order of the file.
//!
//! Blocks of whole lines are fed in file order, perhaps with gaps between them in which nothing is
//! to be printed; see [`Emitter::feed`]. What is printed, and when printing stops, follows GNU grep,
//! also in what it does where a file turns out not to be text.

use super::block::{Block, Source};
use super::config::{Binary, Config};
use super::line::{Line, Printer};
use super::nuls::{self, Nuls};
use super::output::Output;
use super::regex::{Regex, TooDeep};
use super::runs::{Runs, back, count_ends, line_end};

/// Whether more is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Flow {
    More,
    Enough,
}

pub(super) struct Emitter<'a> {
    config: &'a Config,
    regex: &'a mut Regex,
    printer: Printer<'a>,
    nuls: Nuls<'a>,
    /// Nothing is printed of lines.
    quiet: bool,
    /// `quiet` was so from the beginning.
    quiet_always: bool,
    /// One more selected line is enough.
    first_is_enough: bool,
    selected: u64,
    /// Lines that may still be selected.
    left: u64,
    /// Lines to print after the last selected one.
    pending: u64,
    /// Where the last line that was printed ends.
    printed_to: Option<u64>,
    /// Where the last selected line ends.
    after_last: u64,
    /// Lines selected when the file became binary.
    selected_as_text: Option<u64>,
    /// The last lines before the current block, for `-B`, and where they begin.
    history: Vec<u8>,
    history_at: u64,
}

/// What came of a file.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outcome {
    pub(super) selected: u64,
    /// No more lines were wanted.
    pub(super) all_found: bool,
    /// Where the last selected line ends, from where the search began.
    pub(super) after_last: u64,
    /// To be told that it matches, but is binary.
    pub(super) binary_matches: bool,
}

impl<'a> Emitter<'a> {
    pub(super) fn new(
        config: &'a Config,
        regex: &'a mut Regex,
        out: &'a mut Output,
        source: &Source<'a>,
        nuls: Nuls<'a>,
    ) -> Emitter<'a> {
        let quiet = config.count || config.first_is_enough();
        Emitter {
            config,
            regex,
            printer: Printer::new(config, out, source.name, source.file.map(|_| source.length)),
            nuls,
            quiet,
            quiet_always: quiet,
            first_is_enough: config.first_is_enough(),
            selected: 0,
            left: config.max_count,
            pending: 0,
            printed_to: None,
            after_last: 0,
            selected_as_text: None,
            history: Vec::new(),
            history_at: 0,
        }
    }

    pub(super) fn regex(&mut self) -> &mut Regex {
        self.regex
    }

    /// Lines that may still be selected.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// How many lines end before the end of what was fed last, if lines are numbered.
    pub(super) fn lines(&self) -> u64 {
        self.printer.lines()
    }

    /// Tells of zero bytes up to `end`; see [`Nuls::read`]. Call it before the lines are fed.
    pub(super) fn zero_bytes(&mut self, first: Option<u64>, end: u64) {
        self.nuls.read(first, end);
    }

    /// `lines` lines end before byte `offset`, where the next block begins.
    pub(super) fn skip_to(&mut self, offset: u64, lines: u64) {
        self.printer.count_from(offset, lines);
    }

    /// Takes a block that lies behind all others. Between it and the one before there are no
    /// selected lines, none to be printed before or after selected ones, and no gap unless
    /// [`Emitter::skip_to`] was called.
    pub(super) fn feed(&mut self, block: Block<'_>, mut runs: Runs<'_>) -> Result<Flow, TooDeep> {
        let mut flow = Flow::More;
        while flow == Flow::More && self.left > 0 {
            let Some((start, end)) = runs.next(self.regex, block.data)? else {
                break;
            };
            flow = self.run(block, start, end)?;
        }
        if flow == Flow::Enough && self.pending == 0 {
            return Ok(Flow::Enough);
        }
        let end = block.offset + block.data.len() as u64;
        if self.minds_nuls() && self.nuls.known().is_some_and(|from| from < end) {
            if self.config.binary == Binary::WithoutMatch {
                let from = self.nuls.known().unwrap_or(0);
                self.print_pending(block, from)?;
            }
            if self.become_binary() == Flow::Enough {
                return Ok(Flow::Enough);
            }
        }
        self.print_pending(block, end)?;
        if self.left == 0 && self.pending == 0 {
            return Ok(Flow::Enough);
        }
        self.remember(block);
        Ok(Flow::More)
    }

    pub(super) fn finish(self) -> Outcome {
        let as_binary = self.selected_as_text.is_some_and(|n| n < self.selected);
        let binary = as_binary || self.printer.invalid;
        Outcome {
            selected: self.selected,
            all_found: self.left == 0,
            after_last: self.after_last,
            binary_matches: binary && !self.quiet_always && self.config.binary == Binary::Named,
        }
    }

    fn minds_nuls(&self) -> bool {
        self.config.minds_binary() && self.selected_as_text.is_none()
    }

    /// Takes the selected lines at `start..end`.
    fn run(&mut self, block: Block<'_>, mut start: usize, end: usize) -> Result<Flow, TooDeep> {
        let exact = !self.quiet_always || self.config.binary == Binary::WithoutMatch;
        if exact && self.minds_nuls() {
            let run_end = block.offset + end as u64;
            if let Some(from) = self.nuls.before(run_end) {
                let text_end = self.last_line_before(block, (start, end), from);
                if text_end > start && self.select(block, start, text_end)? == Flow::Enough {
                    return Ok(Flow::Enough);
                }
                if self.left == 0 {
                    return Ok(Flow::More);
                }
                if self.config.binary == Binary::WithoutMatch {
                    self.print_pending(block, from)?;
                }
                if self.become_binary() == Flow::Enough {
                    return Ok(Flow::Enough);
                }
                start = text_end;
            }
        }
        self.select(block, start, end)
    }

    /// The end of the last line of a run that ends at or before byte `limit` of the file.
    fn last_line_before(
        &self,
        block: Block<'_>,
        (start, end): (usize, usize),
        limit: u64,
    ) -> usize {
        let limit = limit.saturating_sub(block.offset).min(end as u64) as usize;
        if limit <= start {
            return start;
        }
        let last = memchr::memrchr(self.config.eol, &block.data[start..limit]);
        last.map_or(start, |at| start + at + 1)
    }

    fn become_binary(&mut self) -> Flow {
        if self.config.binary == Binary::WithoutMatch {
            self.selected = 0;
            self.pending = 0;
            return Flow::Enough;
        }
        if !self.config.count {
            self.first_is_enough = true;
            self.quiet = true;
        }
        self.selected_as_text = Some(self.selected);
        Flow::More
    }

    fn select(&mut self, block: Block<'_>, start: usize, end: usize) -> Result<Flow, TooDeep> {
        if self.quiet {
            // GNU grep prints what is pending after each block that it has read.
            let first_end = line_end(block.data, start, self.config.eol);
            let read = nuls::block((block.offset + first_end as u64).saturating_sub(1));
            self.print_pending(block, read)?;
        } else {
            self.print_pending(block, block.offset + start as u64)?;
            self.print_before(block, start)?;
        }
        let (at, lines) = self.print_selected(block, start, end)?;
        self.after_last = block.offset + at as u64;
        self.pending = match self.quiet {
            true => 0,
            false => self.config.after.unwrap_or(0),
        };
        self.printer.out.used = true;
        self.left -= lines;
        self.selected += lines;
        let done = self.first_is_enough || self.left == 0 && self.pending == 0;
        Ok(if done { Flow::Enough } else { Flow::More })
    }

    /// Prints the lines at `start..end`, as many as may be. Where they end, and how many they are.
    fn print_selected(
        &mut self,
        block: Block<'_>,
        start: usize,
        end: usize,
    ) -> Result<(usize, u64), TooDeep> {
        let eol = self.config.eol;
        let lines = &block.data[start..end];
        if self.left == u64::MAX && (self.quiet || self.printer.takes_many(lines)) {
            let open = u64::from(lines.last() != Some(&eol));
            let count = count_ends(lines, eol) + open;
            if !self.quiet {
                self.printer.many(lines);
                self.printed_to = Some(block.offset + end as u64);
            }
            return Ok((end, count));
        }
        let (mut at, mut count) = (start, 0);
        while at < end && count < self.left {
            let next = line_end(block.data, at, eol);
            if !self.quiet {
                self.print(block, at, next, true)?;
            }
            at = next;
            count += 1;
        }
        Ok((at, count))
    }

    /// Prints lines after the last selected one that end at or before byte `limit`.
    fn print_pending(&mut self, block: Block<'_>, limit: u64) -> Result<(), TooDeep> {
        if self.pending > 0 && self.printed_to.is_none() {
            // The selected line was no text. GNU grep then begins where what it has read begins, and
            // takes that for printed.
            self.printed_to = Some(block.offset);
        }
        while self.pending > 0 {
            let from = self.printed_to.unwrap_or(block.offset).max(block.offset);
            let at = (from - block.offset) as usize;
            if at >= block.data.len() {
                break;
            }
            let end = line_end(block.data, at, self.config.eol);
            if block.offset + end as u64 > limit {
                break;
            }
            // GNU grep tries a line that is no text again until nothing is pending.
            match self.print(block, at, end, false)? {
                true => self.pending -= 1,
                false => self.pending = 0,
            }
        }
        Ok(())
    }

    /// Prints the lines before a selected one, and what separates them from others.
    fn print_before(&mut self, block: Block<'_>, start: usize) -> Result<(), TooDeep> {
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
        let first = match earlier < self.history.len() {
            true => self.history_at + earlier as u64,
            false => block.offset + from as u64,
        };
        if self.printer.out.used && self.printed_to != Some(first) {
            self.printer.group_separator();
        }
        if earlier < self.history.len() {
            let history = std::mem::take(&mut self.history);
            let before = Block {
                offset: self.history_at,
                data: &history,
            };
            self.print_lines(before, earlier, history.len())?;
            self.history = history;
        }
        self.print_lines(block, from, start)
    }

    fn print_lines(&mut self, block: Block<'_>, mut at: usize, end: usize) -> Result<(), TooDeep> {
        while at < end {
            let next = line_end(block.data, at, self.config.eol);
            self.print(block, at, next, false)?;
            at = next;
        }
        Ok(())
    }

    /// Prints a line; false if it is not text, and so is not printed.
    fn print(
        &mut self,
        block: Block<'_>,
        at: usize,
        end: usize,
        selected: bool,
    ) -> Result<bool, TooDeep> {
        let text = &block.data[at..end];
        let line = Line {
            offset: block.offset + at as u64,
            text: text.strip_suffix(&[self.config.eol]).unwrap_or(text),
            selected,
        };
        let printed = self.printer.line(self.regex, line, block)?;
        if printed {
            self.printed_to = Some(block.offset + end as u64);
        }
        Ok(printed)
    }

    /// Keeps the last lines of `block` for `-B`, and counts its lines.
    fn remember(&mut self, block: Block<'_>) {
        self.printer.count_block(block);
        let before = self.config.before.unwrap_or(0);
        if before == 0 || self.quiet {
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
            self.history_at = block.offset + start as u64;
        }
        self.history.extend_from_slice(&block.data[start..]);
    }
}
