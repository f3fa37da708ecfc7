//! Digest of a piece that was read before the pieces that precede it in the file.

use super::block::LineBlock;
use super::config::GrepConfig;
use super::emit::{EmitFlow, LineEmitter};
use super::head::SearchedLines;
use super::regex::{CompiledPatterns, MatchLimitError};
use super::runs::{LineRange, LineRangeSource, back, count_ends, line_end};

/// Lines that may have to be printed, with their context.
struct DigestLines {
    /// Position in the piece, in bytes and in lines.
    start: usize,
    lines_before: u64,
    data: Vec<u8>,
    /// Selected lines within `data`.
    runs: Vec<LineRange>,
}

/// Digest of a piece.
pub(super) struct PieceDigest {
    length: u64,
    /// Number of lines.
    lines: u64,
    /// Position of the first zero byte that ends a line.
    first_zero: Option<usize>,
    kept: Vec<DigestLines>,
}

impl PieceDigest {
    /// Makes the digest of whole lines. At most `most` lines can be selected.
    pub(super) fn new(
        config: &GrepConfig,
        regex: &mut CompiledPatterns,
        searched: &SearchedLines<'_>,
        most: u64,
    ) -> Result<PieceDigest, MatchLimitError> {
        let lines = &searched.lines[..];
        let eol = config.eol;
        let before = config.before.unwrap_or(0);
        let after = config.after.unwrap_or(0);
        let mut spans = JoinedRanges::default();
        // Lines that may follow a selected line of the previous piece.
        spans.add(0, forward(lines, 0, after, eol));
        let mut selected = Vec::new();
        let mut left = most;
        let mut runs = LineRangeSource::search(config.invert);
        while left > 0 {
            let Some((start, end)) = runs.next(regex, lines)? else {
                break;
            };
            left = left.saturating_sub(1);
            selected.push((start, end));
            let first = back(lines, start, 0, before, eol).0;
            spans.add(first, forward(lines, end, after, eol));
        }
        // Lines that may precede a selected line of the next piece.
        let last = back(lines, lines.len(), 0, before, eol).0;
        spans.add(last, lines.len());
        Ok(PieceDigest {
            length: lines.len() as u64,
            lines: count_ends(lines, eol),
            first_zero: searched.first_zero,
            kept: spans.cut(lines, &selected, eol),
        })
    }

    /// Returns the approximate memory use in bytes.
    pub(super) fn bytes(&self) -> usize {
        let kept = self
            .kept
            .iter()
            .map(|k| k.data.len() + 16 * k.runs.len() + 80);
        kept.sum::<usize>() + 80
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Prints the output of the piece, which is at `offset` and has `lines` lines before it.
    pub(super) fn emit(
        &self,
        emitter: &mut LineEmitter<'_>,
        offset: u64,
        lines: u64,
    ) -> Result<EmitFlow, MatchLimitError> {
        if let Some(zero) = self.first_zero {
            emitter.binary_from(offset + zero as u64);
        }
        for kept in &self.kept {
            emitter.skip_to(offset + kept.start as u64, lines + kept.lines_before);
            let block = LineBlock {
                offset: offset + kept.start as u64,
                data: &kept.data,
            };
            if emitter.feed(block, LineRangeSource::Known(kept.runs.iter()))? == EmitFlow::Enough {
                return Ok(EmitFlow::Enough);
            }
        }
        emitter.skip_to(offset + self.length, lines + self.lines);
        Ok(EmitFlow::More)
    }
}

/// Returns the end of the `count` lines that begin at `at`.
fn forward(lines: &[u8], mut at: usize, count: u64, eol: u8) -> usize {
    let mut n = 0;
    while n < count && at < lines.len() {
        at = line_end(lines, at, eol);
        n += 1;
    }
    at
}

/// Parts of a piece, in order; adjacent parts are joined.
#[derive(Default)]
struct JoinedRanges(Vec<LineRange>);

impl JoinedRanges {
    fn add(&mut self, start: usize, end: usize) {
        if start == end {
            return;
        }
        match self.0.last_mut() {
            Some(last) if start <= last.1 => {
                last.0 = last.0.min(start);
                last.1 = last.1.max(end);
            }
            _ => self.0.push((start, end)),
        }
    }

    fn cut(&self, lines: &[u8], selected: &[LineRange], eol: u8) -> Vec<DigestLines> {
        let mut selected = selected.iter().peekable();
        let (mut counted, mut lines_before) = (0, 0);
        let cut = self.0.iter().map(|(start, end)| {
            lines_before += count_ends(&lines[counted..*start], eol);
            counted = *start;
            let mut runs = Vec::new();
            while let Some(run) = selected.next_if(|run| run.1 <= *end) {
                runs.push((run.0 - start, run.1 - start));
            }
            DigestLines {
                start: *start,
                lines_before,
                data: lines[*start..*end].to_vec(),
                runs,
            }
        });
        cut.collect()
    }
}
