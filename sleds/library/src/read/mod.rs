//! Reading a file piece by piece, in the order that costs least.

mod assemble;
mod asynchronous;
mod best;
mod cached;
mod choose;
mod clock;
pub(crate) mod device;
mod linear;
pub(crate) mod pool;
mod unread;

use std::cell::LazyCell;
use std::fs::File;
use std::io::{self, Seek as _, SeekFrom};

use crate::describe::{DescribeError, length};

pub use asynchronous::AsyncReader;
use best::Best;
use clock::Clock;
use linear::Linear;

/// In which order to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Plan {
    /// From the first byte to the last.
    Linear,
    /// Cheapest first.
    Best,
    /// [`Plan::Best`] where the estimates say that it pays, else [`Plan::Linear`].
    #[default]
    Auto,
}

/// What must not be cut in two.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Unit {
    /// Pieces begin and end anywhere.
    #[default]
    Bytes,
    /// A piece holds whole records, each ended by this byte; the last one of a file may lack it.
    Records(u8),
    /// A piece holds whole elements of `size` bytes, the first at byte `start`. What is left at the
    /// end of the file, less than an element, is in a piece of its own or at the end of one.
    Elements {
        /// Byte of the first element; what lies before it is not read.
        start: u64,
        /// Bytes of an element.
        size: u32,
    },
}

/// How to read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadOptions {
    /// The order.
    pub plan: Plan,
    /// What must not be cut.
    pub unit: Unit,
    /// Bytes a piece should have. A single record that is longer makes a longer piece, and of a small file
    /// pieces are smaller.
    pub chunk: usize,
}

impl Default for ReadOptions {
    fn default() -> ReadOptions {
        ReadOptions {
            plan: Plan::Auto,
            unit: Unit::Bytes,
            chunk: 256 << 10,
        }
    }
}

/// Pieces of which a file has less than [`PIECES`] are made smaller, down to this many bytes.
const LEAST_CHUNK: u64 = 16 << 10;
const PIECES: u64 = 32;

impl ReadOptions {
    /// For a file of which `bytes` are to be read in linear order. Of a small one the memory for a piece,
    /// which the system clears page by page, costs more than the reading.
    fn for_bytes(self, bytes: u64) -> ReadOptions {
        // One byte more than there is, to see the end.
        let enough = (bytes / PIECES).max(LEAST_CHUNK).min(bytes + 1);
        let enough = usize::try_from(enough).unwrap_or(usize::MAX);
        ReadOptions {
            chunk: self.chunk.min(enough),
            ..self
        }
    }
}

/// A part of the file.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// Where in the file it begins, in bytes from the file's first; for things without a length,
    /// from where reading began.
    pub offset: u64,
    /// What it holds; never empty.
    pub data: &'a [u8],
}

/// Gives out a file, every byte once.
///
/// Reads to the end of the file as it is when it gets there: of a file that grows, also what was
/// added; of one that shrinks, what is left. Things without a size (pipes, `/proc`) are read from
/// their position on, in linear order.
///
/// In linear order it makes the `read` calls that any program makes. In best order it takes from
/// the page cache what is there, looking again before each piece whether it still is, and without
/// read-ahead; and the rest from the device, several requests at a time, past the page cache, so
/// that reading it does not evict the part that is cached.
///
/// After the last piece the file's position is at its end. In best order it is not moved before.
pub struct Reader<'f> {
    file: &'f File,
    from: u64,
    state: State<'f>,
}

enum State<'f> {
    Linear(Linear<'f>),
    Best(Box<Best<'f>>),
}

impl<'f> Reader<'f> {
    /// A reader of `file`, from its position on.
    ///
    /// # Errors
    /// If the file cannot be examined.
    pub fn new(file: &'f File, options: ReadOptions) -> io::Result<Reader<'f>> {
        Reader::begin(file, options, u64::MAX, false)
    }

    /// A reader for one who will stop at the first hit, and so gains from any part that is cached:
    /// [`Plan::Auto`] is [`Plan::Best`] wherever there is one. Nothing is requested from the device
    /// before the cached part was given out.
    ///
    /// # Errors
    /// If the file cannot be examined.
    pub fn for_first_hit(file: &'f File, options: ReadOptions) -> io::Result<Reader<'f>> {
        Reader::begin(file, options, u64::MAX, true)
    }

    /// A reader of what lies before byte `limit` of the file: of one table of a file with several,
    /// say. Nothing from there on is read, in either order, but for the kernel's read-ahead. In best
    /// order the file's position is at the limit in the end.
    ///
    /// # Errors
    /// If the file cannot be examined.
    pub fn before(file: &'f File, limit: u64, options: ReadOptions) -> io::Result<Reader<'f>> {
        Reader::begin(file, options, limit, false)
    }

    fn begin(
        file: &'f File,
        options: ReadOptions,
        limit: u64,
        may_stop: bool,
    ) -> io::Result<Reader<'f>> {
        let mut handle = file;
        let position = handle.stream_position().ok();
        if let Some(from) = position
            && options.plan != Plan::Best
            && !matches!(options.unit, Unit::Elements { .. })
            && let Some(left) = choose::few(file, from)
        {
            return Ok(Reader::linear(file, from, options.for_bytes(left), limit));
        }
        let length = length(file);
        let (Some(mut from), Ok(length)) = (position, &length) else {
            // A directory cannot be read, and says so at the first read, as it does to others.
            let at = match length {
                Err(DescribeError::Io(error)) => return Err(error),
                _ => position.unwrap_or(0),
            };
            return Ok(Reader::linear(file, at, options, limit));
        };
        if let Unit::Elements { start, .. } = options.unit
            && start != from
        {
            handle.seek(SeekFrom::Start(start))?;
            from = start;
        }
        let to = limit.min(*length);
        let presence = LazyCell::new(|| choose::presence(file, from, to));
        let best = match options.plan {
            Plan::Linear => false,
            Plan::Best => from < to,
            Plan::Auto => choose::best_pays(file, (from, to), || *presence, may_stop),
        };
        let state = match best {
            true => {
                let best = Best::new(file, from, to, options, may_stop)?;
                State::Best(Box::new(best.until(limit)))
            }
            false => {
                let options = options.for_bytes(to.saturating_sub(from));
                let linear = Linear::stream(file, from, options).until(limit);
                State::Linear(linear.timed(Clock::in_file_order(file, (from, to), || *presence)))
            }
        };
        Ok(Reader { file, from, state })
    }

    fn linear(file: &'f File, from: u64, options: ReadOptions, limit: u64) -> Reader<'f> {
        let state = State::Linear(Linear::stream(file, from, options).until(limit));
        Reader { file, from, state }
    }

    /// The same, but what it takes is not noted.
    pub(crate) fn unobserved(mut self) -> Reader<'f> {
        match &mut self.state {
            State::Linear(linear) => linear.unobserved(),
            State::Best(best) => best.unobserved(),
        }
        self
    }

    /// The order in which it reads: [`Plan::Linear`] or [`Plan::Best`].
    pub fn plan(&self) -> Plan {
        match self.state {
            State::Linear(_) => Plan::Linear,
            State::Best(_) => Plan::Best,
        }
    }

    /// Where in the file reading began: its position, or the first element.
    pub fn start(&self) -> u64 {
        self.from
    }

    /// The next piece; `None` after the last.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn next_piece(&mut self) -> io::Result<Option<Piece<'_>>> {
        match &mut self.state {
            State::Linear(linear) => linear.next_piece(),
            State::Best(best) => {
                let end = best.end();
                let piece = best.next_piece()?;
                if piece.is_none() {
                    let mut handle = self.file;
                    // Of use to who shares the position; nothing is lost where it cannot be.
                    let _ = handle.seek(SeekFrom::Start(end));
                }
                Ok(piece)
            }
        }
    }
}
