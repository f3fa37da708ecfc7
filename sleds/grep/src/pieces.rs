//! Searches a file in pieces that arrive in any order.
//!
//! The request selects one of three ways:
//!
//! - Is any line selected: the first selected line in any piece answers.
//! - The number of selected lines: the sum over the pieces.
//! - The selected lines: a piece that arrives in order is printed at once. For a piece that arrives early, a [`Digest`]
//!   is kept. If the digests take more memory than [`KEEP_BYTES`], only the piece's place is kept, and the piece is
//!   read again when it is due.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;

use sleds::{FileReader, ReadOptions, ReadPlan, ReadUnit};

use super::block::{LineBlock, SearchedFile};
use super::config::{FileListing, GrepConfig};
use super::digest::PieceDigest;
use super::emit::{EmitFlow, LineEmitter, SearchOutcome};
use super::head::{BinaryDetector, read_at};
use super::output::GrepOutput;
use super::regex::{CompiledPatterns, MatchLimitError};
use super::runs::{LineRangeSource, count_ends};

/// Memory limit of digests in bytes.
const KEEP_BYTES: usize = 64 << 20;

/// Bytes per read: large enough to hide the cost of the calls, and small enough for the processor's caches.
const CHUNK_BYTES: usize = 128 << 10;

/// Error that ended a search early.
#[derive(Debug)]
pub(super) enum SearchError {
    Io(io::Error),
    TooDeep(MatchLimitError),
}

impl From<io::Error> for SearchError {
    fn from(error: io::Error) -> SearchError {
        SearchError::Io(error)
    }
}

impl From<MatchLimitError> for SearchError {
    fn from(error: MatchLimitError) -> SearchError {
        SearchError::TooDeep(error)
    }
}

/// Whole lines of a file.
#[derive(Clone, Copy)]
pub(super) struct LinePiece<'d> {
    /// Offset relative to the beginning of the search.
    pub(super) offset: u64,
    /// Number of zero bytes before the piece that the source left out.
    pub(super) skipped: u64,
    pub(super) data: &'d [u8],
}

/// Returns a file's pieces: whole lines, every byte once, in any order.
pub(super) trait PieceSource {
    fn next(&mut self) -> io::Result<Option<LinePiece<'_>>>;
}

impl PieceSource for FileReader<'_> {
    fn next(&mut self) -> io::Result<Option<LinePiece<'_>>> {
        let start = self.start();
        let piece = self.next_piece()?;
        Ok(piece.map(|piece| LinePiece {
            offset: piece.offset - start,
            skipped: piece.skipped,
            data: piece.data,
        }))
    }
}

/// Makes a reader of `file` according to `config`. If another process continues after the last selected line
/// (`leaves_position`), that line must be the last in the order of the file.
pub(super) fn reader<'f>(
    file: &'f File,
    config: &GrepConfig,
    leaves_position: bool,
) -> io::Result<FileReader<'f>> {
    let quiet = config.quiet && !config.nobody;
    let in_order = leaves_position && !quiet && config.listing == FileListing::None;
    let options = ReadOptions {
        plan: if in_order && config.max_count != u64::MAX {
            ReadPlan::Linear
        } else {
            config.plan
        },
        unit: if config.ends_lines_at_zeros() {
            ReadUnit::RecordsOrZeros(config.eol)
        } else {
            ReadUnit::Records(config.eol)
        },
        chunk: CHUNK_BYTES,
        skip_holes: config.skip_holes,
        ..ReadOptions::default()
    };
    // Any one selected line is sufficient.
    if config.first_is_enough() || config.count && config.max_count == 1 {
        FileReader::for_first_hit(file, options)
    } else {
        FileReader::new(file, options)
    }
}

/// Searches all pieces. In case of an error, also returns the result up to the error.
pub(super) fn search(
    config: &GrepConfig,
    regex: &mut CompiledPatterns,
    out: &mut GrepOutput,
    source: &SearchedFile<'_>,
    pieces: &mut dyn PieceSource,
) -> (SearchOutcome, Option<SearchError>) {
    let head = BinaryDetector::new(config, source);
    if config.count || config.first_is_enough() {
        let mut outcome = SearchOutcome::default();
        let trouble = tally(config, regex, head, pieces, &mut outcome).err();
        return (outcome, trouble);
    }
    let mut emitter = LineEmitter::new(config, regex, out, source);
    let mut ordered = OrderedPrinter {
        config,
        source,
        head,
        emitter: &mut emitter,
        early: BTreeMap::new(),
        early_bytes: 0,
        done_to: 0,
    };
    let trouble = ordered.all(pieces).err();
    (emitter.finish(), trouble)
}

/// Counts selected lines, up to the limit.
fn tally(
    config: &GrepConfig,
    regex: &mut CompiledPatterns,
    mut head: BinaryDetector<'_>,
    pieces: &mut dyn PieceSource,
    outcome: &mut SearchOutcome,
) -> Result<(), SearchError> {
    let most = if config.first_is_enough() {
        config.max_count.min(1)
    } else {
        config.max_count
    };
    while outcome.selected < most
        && let Some(LinePiece { offset, data, .. }) = pieces.next()?
        && !head.leaves_out(offset, data)
    {
        let lines = head.lines(config.eol, data).lines;
        tally_piece(config, regex, &lines, offset, most, outcome)?;
    }
    Ok(())
}

fn tally_piece(
    config: &GrepConfig,
    regex: &mut CompiledPatterns,
    lines: &[u8],
    offset: u64,
    most: u64,
    outcome: &mut SearchOutcome,
) -> Result<(), MatchLimitError> {
    if most == u64::MAX {
        let matching = regex.count_lines(lines)?;
        let open = u64::from(lines.last() != Some(&config.eol));
        outcome.selected += if config.invert {
            count_ends(lines, config.eol) + open - matching
        } else {
            matching
        };
        return Ok(());
    }
    let mut runs = LineRangeSource::search(config.invert);
    while let Some((start, end)) = runs.next(regex, lines)? {
        let run = &lines[start..end];
        let count = if config.invert {
            count_ends(run, config.eol) + u64::from(run.last() != Some(&config.eol))
        } else {
            1
        };
        outcome.selected += count;
        if outcome.selected < most {
            continue;
        }
        // Removes the excess lines of the last run.
        let over = outcome.selected - most;
        let end = super::runs::back(lines, end, start, over, config.eol).0;
        outcome.selected = most;
        outcome.after_last = offset + end as u64;
        break;
    }
    Ok(())
}

/// A piece that arrived early.
struct EarlyPiece {
    /// Number of zero bytes before the piece that the source left out.
    skipped: u64,
    content: EarlyContent,
}

enum EarlyContent {
    Digest(PieceDigest),
    /// Only its length.
    Place(u64),
}

/// Prints selected lines in the order of the file.
struct OrderedPrinter<'a, 'e> {
    config: &'a GrepConfig,
    source: &'a SearchedFile<'a>,
    head: BinaryDetector<'a>,
    emitter: &'e mut LineEmitter<'a>,
    early: BTreeMap<u64, EarlyPiece>,
    early_bytes: usize,
    /// Offset up to which everything is printed.
    done_to: u64,
}

impl OrderedPrinter<'_, '_> {
    fn all(&mut self, pieces: &mut dyn PieceSource) -> Result<(), SearchError> {
        while let Some(piece) = pieces.next()? {
            if self.head.leaves_out(piece.offset, piece.data) {
                return Ok(());
            }
            if self.head.is_binary(piece.offset, piece.data) {
                self.emitter.binary_from(0);
            }
            if piece.offset - piece.skipped != self.done_to {
                self.keep(piece)?;
                continue;
            }
            self.skip(piece.offset, piece.skipped);
            if self.in_turn(piece.data)? == EmitFlow::Enough
                || self.catch_up(false)? == EmitFlow::Enough
            {
                return Ok(());
            }
        }
        // Missing parts between the others were truncated from the file.
        self.catch_up(true)?;
        Ok(())
    }

    /// Skips `zeros` zero bytes, which end empty lines, up to `offset`.
    fn skip(&mut self, offset: u64, zeros: u64) {
        if zeros > 0 {
            let lines = self.emitter.lines() + zeros;
            self.emitter.skip_to(offset, lines);
        }
        self.done_to = offset;
    }

    /// Prints a piece that is due.
    fn in_turn(&mut self, data: &[u8]) -> Result<EmitFlow, SearchError> {
        let offset = self.done_to;
        let searched = self.head.lines(self.config.eol, data);
        if let Some(zero) = searched.first_zero {
            self.emitter.binary_from(offset + zero as u64);
        }
        self.done_to += data.len() as u64;
        let block = LineBlock {
            offset,
            data: &searched.lines,
        };
        Ok(self
            .emitter
            .feed(block, LineRangeSource::search(self.config.invert))?)
    }

    /// Keeps a piece that arrived early.
    fn keep(&mut self, piece: LinePiece<'_>) -> Result<(), MatchLimitError> {
        let can_read_again = self.source.file.is_some();
        let content = if self.early_bytes > KEEP_BYTES && can_read_again {
            EarlyContent::Place(piece.data.len() as u64)
        } else {
            let searched = self.head.lines(self.config.eol, piece.data);
            let most = self.emitter.left();
            let digest = PieceDigest::new(self.config, self.emitter.regex(), &searched, most)?;
            self.early_bytes += digest.bytes();
            EarlyContent::Digest(digest)
        };
        let skipped = piece.skipped;
        self.early
            .insert(piece.offset, EarlyPiece { skipped, content });
        Ok(())
    }

    /// Prints kept pieces that are due; with `all`, every kept piece.
    fn catch_up(&mut self, all: bool) -> Result<EmitFlow, SearchError> {
        while let Some(entry) = self.early.first_entry() {
            let (offset, skipped) = (*entry.key(), entry.get().skipped);
            if offset - skipped != self.done_to && !all {
                break;
            }
            let early = entry.remove();
            self.skip(offset, skipped);
            let flow = match early.content {
                EarlyContent::Digest(digest) => {
                    self.early_bytes -= digest.bytes();
                    self.done_to = offset + digest.length();
                    let lines = self.emitter.lines();
                    digest.emit(self.emitter, offset, lines)?
                }
                EarlyContent::Place(length) => {
                    let data = self.again(offset, length)?;
                    let flow = self.in_turn(&data)?;
                    self.done_to = offset + length;
                    flow
                }
            };
            if flow == EmitFlow::Enough {
                return Ok(EmitFlow::Enough);
            }
        }
        Ok(EmitFlow::More)
    }

    /// Reads a piece again. The result is shorter if the file was truncated.
    fn again(&self, offset: u64, length: u64) -> io::Result<Vec<u8>> {
        let read = |file| read_at(file, self.source.start + offset, length as usize);
        self.source.file.map_or(Ok(Vec::new()), read)
    }
}
