//! Reads a file piece by piece, in the order that costs least.

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

/// Order of reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Plan {
    /// From the first byte to the last.
    Linear,
    /// Cheapest first.
    Best,
    /// [`Plan::Best`] if it pays by the estimates, otherwise [`Plan::Linear`].
    #[default]
    Auto,
}

/// Unit that must not be split between two pieces.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Unit {
    /// Pieces begin and end anywhere.
    #[default]
    Bytes,
    /// A piece holds whole records, each terminated by this byte. The last record of a file may lack the terminator.
    Records(u8),
    /// A piece holds whole elements of `size` bytes, the first at byte `start`. An incomplete element at the end of the
    /// file is a separate piece, or the end of a piece.
    Elements {
        /// First byte of the first element. Bytes before it are not read.
        start: u64,
        /// Bytes of an element.
        size: u32,
    },
}

/// Options of a reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadOptions {
    /// Order of reading.
    pub plan: Plan,
    /// Unit that must not be split.
    pub unit: Unit,
    /// Preferred length of a piece in bytes. A longer record makes a longer piece. Pieces of a small file are smaller.
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

/// Minimum size to which pieces are reduced if a file has fewer than [`PIECES`] pieces.
const LEAST_CHUNK: u64 = 16 << 10;
const PIECES: u64 = 32;

impl ReadOptions {
    /// Returns the options for reading `bytes` bytes in linear order. For a small file, the memory of a full piece,
    /// which the system clears page by page, costs more than the reading.
    fn for_bytes(self, bytes: u64) -> ReadOptions {
        // An additional byte, so that the read sees the end of the file.
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
    /// Offset in the file, in bytes. For files without a length, the offset from the position at which reading began.
    pub offset: u64,
    /// Content; never empty.
    pub data: &'a [u8],
}

/// Returns the content of a file, every byte once.
///
/// Reads to the end of the file at the time when the reader reaches the end: appended bytes are included, truncated
/// bytes are not. Files without a size (pipes, `/proc`) are read from their position on, in linear order.
///
/// In linear order the reader makes the `read` calls that any program makes. In best order it takes cached parts from
/// the page cache, without read-ahead, and checks before each piece that the part is still cached. The other parts come
/// from the device, several requests at a time, past the page cache, so that reading them does not evict the cached
/// parts.
///
/// After the last piece the file's position is at its end. In best order the position does not move before.
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
    /// Makes a reader of `file`, from its position on.
    ///
    /// # Errors
    /// If the file cannot be examined.
    pub fn new(file: &'f File, options: ReadOptions) -> io::Result<Reader<'f>> {
        Reader::begin(file, options, u64::MAX, false)
    }

    /// Makes a reader for a caller that stops at the first hit, and therefore gains from any cached part.
    /// [`Plan::Auto`] is [`Plan::Best`] if any part is cached. The device gets no request before the cached parts are
    /// returned.
    ///
    /// # Errors
    /// If the file cannot be examined.
    pub fn for_first_hit(file: &'f File, options: ReadOptions) -> io::Result<Reader<'f>> {
        Reader::begin(file, options, u64::MAX, true)
    }

    /// Makes a reader of the bytes before byte `limit` of the file, for example of one table in a file with several
    /// tables. No byte from `limit` on is read, in either order, except by the kernel's read-ahead. In best order the
    /// file's position is at the limit in the end.
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
            // A directory cannot be read. The first read reports this, as for other programs.
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
        let state = if best {
            let best = Best::new(file, from, to, options, may_stop)?;
            State::Best(Box::new(best.until(limit)))
        } else {
            let options = options.for_bytes(to.saturating_sub(from));
            let linear = Linear::stream(file, from, options).until(limit);
            State::Linear(linear.timed(Clock::in_file_order(file, (from, to), || *presence)))
        };
        Ok(Reader { file, from, state })
    }

    fn linear(file: &'f File, from: u64, options: ReadOptions, limit: u64) -> Reader<'f> {
        let state = State::Linear(Linear::stream(file, from, options).until(limit));
        Reader { file, from, state }
    }

    /// Disables observations of this pass.
    pub(crate) fn unobserved(mut self) -> Reader<'f> {
        match &mut self.state {
            State::Linear(linear) => linear.unobserved(),
            State::Best(best) => best.unobserved(),
        }
        self
    }

    /// Returns the order in use: [`Plan::Linear`] or [`Plan::Best`].
    pub fn plan(&self) -> Plan {
        match self.state {
            State::Linear(_) => Plan::Linear,
            State::Best(_) => Plan::Best,
        }
    }

    /// Returns the offset at which reading began: the file's position, or the first element.
    pub fn start(&self) -> u64 {
        self.from
    }

    /// Returns the next piece; `None` after the last.
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
                    // Useful for processes that share the position. A failure has no consequences.
                    let _ = handle.seek(SeekFrom::Start(end));
                }
                Ok(piece)
            }
        }
    }
}
