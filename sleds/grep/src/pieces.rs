//! Searches a file in pieces that come in any order.
//!
//! Three ways, by what is asked:
//! - is any line selected: the first one found in any piece answers;
//! - how many lines are: the sum over the pieces;
//! - which ones: pieces that come in turn are printed at once; of those that come before their turn a
//!   [`Digest`] is kept. When the digests take more memory than [`KEEP_BYTES`], only the piece's
//!   place is kept, and it is read again when its turn comes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use memchr::memchr;
use sleds::{Plan, ReadOptions, Reader, Unit};

use super::block::{Block, Source};
use super::config::{Binary, Config, Listing};
use super::digest::Digest;
use super::emit::{Emitter, Flow, Outcome};
use super::nuls::Nuls;
use super::output::Output;
use super::regex::{Regex, TooDeep};
use super::runs::{Runs, count_ends};

/// Memory that digests may take, in bytes.
const KEEP_BYTES: usize = 64 << 20;

/// Bytes that are read at once: enough that the calls cost nothing, little enough for the processor's
/// caches.
const CHUNK_BYTES: usize = 128 << 10;

/// Why a search ended early.
#[derive(Debug)]
pub(super) enum Trouble {
    Io(io::Error),
    TooDeep(TooDeep),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Trouble {
        Trouble::Io(error)
    }
}

impl From<TooDeep> for Trouble {
    fn from(error: TooDeep) -> Trouble {
        Trouble::TooDeep(error)
    }
}

/// Gives out a file's pieces; whole lines each, every byte once, in any order.
pub(super) trait Pieces {
    /// The next piece: where it is, counted from where the search began, and what it holds.
    fn next(&mut self) -> io::Result<Option<(u64, &[u8])>>;
}

impl Pieces for Reader<'_> {
    fn next(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        let start = self.start();
        let piece = self.next_piece()?;
        Ok(piece.map(|piece| (piece.offset - start, piece.data)))
    }
}

/// A reader of `file`, as `config` says. Where others read on from where the last selected line ends
/// (`leaves_position`), that line has to be the last in the order of the file.
pub(super) fn reader<'f>(
    file: &'f File,
    config: &Config,
    leaves_position: bool,
) -> io::Result<Reader<'f>> {
    let quiet = config.quiet && !config.nobody;
    let in_order = leaves_position && !quiet && config.listing == Listing::None;
    let options = ReadOptions {
        plan: match in_order && config.max_count != u64::MAX {
            true => Plan::Linear,
            false => config.plan,
        },
        unit: Unit::Records(config.eol),
        chunk: CHUNK_BYTES,
    };
    match any_hit_ends(config) {
        true => Reader::for_first_hit(file, options),
        false => Reader::new(file, options),
    }
}

/// True if one selected line is enough, whichever it is.
fn any_hit_ends(config: &Config) -> bool {
    let one = config.first_is_enough() || config.count && config.max_count == 1;
    one && !needs_order(config)
}

/// True if what is said of a file depends on what lies before the first selected line.
fn needs_order(config: &Config) -> bool {
    config.minds_binary() && config.binary == Binary::WithoutMatch
}

/// Searches all pieces. What was found until something went wrong is told too.
pub(super) fn search(
    config: &Config,
    regex: &mut Regex,
    out: &mut Output,
    source: &Source<'_>,
    pieces: &mut dyn Pieces,
) -> (Outcome, Option<Trouble>) {
    let in_order = needs_order(config);
    if config.first_is_enough() && !in_order {
        return tally(config, regex, pieces, config.max_count.min(1));
    }
    if config.count && !in_order {
        return tally(config, regex, pieces, config.max_count);
    }
    print(config, regex, out, source, pieces)
}

/// The piece as GNU grep searches it: in a file that is not text, zero bytes end lines. And where
/// its first zero byte is.
fn readable<'d>(config: &Config, data: &'d [u8]) -> (Cow<'d, [u8]>, Option<usize>) {
    let first = match config.minds_binary() {
        true => memchr(0, data),
        false => None,
    };
    let Some(first) = first else {
        return (Cow::Borrowed(data), None);
    };
    let mut lines = data.to_vec();
    for byte in &mut lines[first..] {
        *byte = if *byte == 0 { config.eol } else { *byte };
    }
    (Cow::Owned(lines), Some(first))
}

/// Counts selected lines up to `most`.
fn tally(
    config: &Config,
    regex: &mut Regex,
    pieces: &mut dyn Pieces,
    most: u64,
) -> (Outcome, Option<Trouble>) {
    let mut outcome = Outcome {
        all_found: most == 0,
        ..Outcome::default()
    };
    while !outcome.all_found {
        let (offset, data) = match pieces.next() {
            Ok(Some(piece)) => piece,
            Ok(None) => break,
            Err(error) => return (outcome, Some(error.into())),
        };
        let (lines, _) = readable(config, data);
        if let Err(error) = tally_piece(config, regex, &lines, offset, most, &mut outcome) {
            return (outcome, Some(error.into()));
        }
    }
    (outcome, None)
}

fn tally_piece(
    config: &Config,
    regex: &mut Regex,
    lines: &[u8],
    offset: u64,
    most: u64,
    outcome: &mut Outcome,
) -> Result<(), TooDeep> {
    if most == u64::MAX {
        let matching = regex.count_lines(lines)?;
        let open = u64::from(lines.last() != Some(&config.eol));
        outcome.selected += match config.invert {
            true => count_ends(lines, config.eol) + open - matching,
            false => matching,
        };
        return Ok(());
    }
    let mut runs = Runs::search(config.invert);
    while let Some((start, end)) = runs.next(regex, lines)? {
        let run = &lines[start..end];
        let count = match config.invert {
            true => count_ends(run, config.eol) + u64::from(run.last() != Some(&config.eol)),
            false => 1,
        };
        outcome.selected += count;
        if outcome.selected < most {
            continue;
        }
        // The lines of a run that are too many.
        let over = outcome.selected - most;
        let end = super::runs::back(lines, end, start, over, config.eol).0;
        outcome.selected = most;
        outcome.after_last = offset + end as u64;
        outcome.all_found = true;
        break;
    }
    Ok(())
}

/// What is known of a piece that came before its turn.
enum Early {
    Digest(Digest),
    /// Only how long it is.
    Place(u64),
}

/// Prints selected lines in the order of the file.
struct Ordered<'a, 'e> {
    config: &'a Config,
    source: &'a Source<'a>,
    emitter: &'e mut Emitter<'a>,
    early: BTreeMap<u64, Early>,
    early_bytes: usize,
    /// Everything before has been printed.
    done_to: u64,
}

fn print(
    config: &Config,
    regex: &mut Regex,
    out: &mut Output,
    source: &Source<'_>,
    pieces: &mut dyn Pieces,
) -> (Outcome, Option<Trouble>) {
    let mut nuls = Nuls::new(source.file, source.start, source.length);
    if config.minds_binary() {
        nuls.look_for_holes();
    }
    let mut emitter = Emitter::new(config, regex, out, source, nuls);
    let mut ordered = Ordered {
        config,
        source,
        emitter: &mut emitter,
        early: BTreeMap::new(),
        early_bytes: 0,
        done_to: 0,
    };
    let trouble = ordered.all(pieces).err();
    (emitter.finish(), trouble)
}

impl Ordered<'_, '_> {
    fn all(&mut self, pieces: &mut dyn Pieces) -> Result<(), Trouble> {
        while let Some((offset, data)) = pieces.next()? {
            let flow = match offset == self.done_to {
                true => {
                    let flow = self.in_turn(data)?;
                    if flow == Flow::More {
                        self.catch_up(false)?
                    } else {
                        flow
                    }
                }
                false => self.keep(offset, data)?,
            };
            if flow == Flow::Enough {
                return Ok(());
            }
        }
        // What is missing between the others was cut off the file.
        self.catch_up(true)?;
        Ok(())
    }

    /// Prints a piece whose turn it is.
    fn in_turn(&mut self, data: &[u8]) -> Result<Flow, Trouble> {
        let offset = self.done_to;
        let (lines, first_nul) = readable(self.config, data);
        self.done_to += data.len() as u64;
        let first_nul = first_nul.map(|at| offset + at as u64);
        self.emitter.zero_bytes(first_nul, self.done_to);
        let block = Block {
            offset,
            data: &lines,
        };
        Ok(self.emitter.feed(block, Runs::search(self.config.invert))?)
    }

    /// Keeps a piece that came before its turn.
    fn keep(&mut self, offset: u64, data: &[u8]) -> Result<Flow, Trouble> {
        let (lines, first_nul) = readable(self.config, data);
        let first_nul = first_nul.map(|at| offset + at as u64);
        let can_read_again = self.source.file.is_some();
        let early = if self.early_bytes > KEEP_BYTES && can_read_again {
            Early::Place(data.len() as u64)
        } else {
            let most = self.emitter.left();
            let regex = self.emitter.regex();
            let digest = Digest::new(self.config, regex, &lines, first_nul, most)?;
            self.early_bytes += digest.bytes();
            Early::Digest(digest)
        };
        self.early.insert(offset, early);
        Ok(Flow::More)
    }

    /// Prints what was kept and has its turn now; with `all`, whatever was kept.
    fn catch_up(&mut self, all: bool) -> Result<Flow, Trouble> {
        while let Some(entry) = self.early.first_entry() {
            let offset = *entry.key();
            if offset != self.done_to && !all {
                break;
            }
            let flow = match entry.remove() {
                Early::Digest(digest) => {
                    self.early_bytes -= digest.bytes();
                    self.done_to = offset + digest.length();
                    let lines = self.emitter.lines();
                    digest.emit(self.emitter, offset, lines)?
                }
                Early::Place(length) => {
                    self.done_to = offset;
                    let data = self.again(offset, length)?;
                    let flow = self.in_turn(&data)?;
                    self.done_to = offset + length;
                    flow
                }
            };
            if flow == Flow::Enough {
                return Ok(Flow::Enough);
            }
        }
        Ok(Flow::More)
    }

    /// Reads a piece again; less of it if the file has become shorter.
    fn again(&self, offset: u64, length: u64) -> io::Result<Vec<u8>> {
        let mut data = vec![0; length as usize];
        let mut filled = 0;
        let Some(file) = self.source.file else {
            return Ok(Vec::new());
        };
        while filled < data.len() {
            let at = self.source.start + offset + filled as u64;
            match file.read_at(&mut data[filled..], at) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        data.truncate(filled);
        Ok(data)
    }
}
