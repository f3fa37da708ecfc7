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
use crate::plan::{ReadPlan, ReadUnit};

pub use asynchronous::AsyncReader;
use best::BestReader;
use clock::WaitClock;
use linear::LinearReader;

/// Options of a reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadOptions {
    /// Order of reading.
    pub plan: ReadPlan,
    /// Unit that must not be split.
    pub unit: ReadUnit,
    /// Preferred length of a piece in bytes. A longer record makes a longer piece. Pieces of a small file are smaller.
    pub chunk: usize,
    /// Leaves out bytes in holes of the file, if zero bytes terminate records of `unit`; otherwise without effect.
    /// Such bytes are a sequence of empty records ([`FilePiece::skipped`]).
    pub skip_holes: bool,
    /// Maximum length of a record in bytes. A longer record is an error ([`io::ErrorKind::OutOfMemory`]).
    pub record_limit: usize,
}

impl Default for ReadOptions {
    fn default() -> ReadOptions {
        ReadOptions {
            plan: ReadPlan::Auto,
            unit: ReadUnit::Bytes,
            chunk: 256 << 10,
            skip_holes: false,
            record_limit: usize::MAX,
        }
    }
}

/// Minimum size to which pieces are reduced if a file has fewer than [`PIECES`] pieces.
const LEAST_CHUNK: u64 = 16 << 10;
const PIECES: u64 = 32;

impl ReadOptions {
    fn leaves_out_holes(&self) -> bool {
        self.skip_holes && self.unit.ends_at_zeros()
    }

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
pub struct FilePiece<'a> {
    /// Offset in the file, in bytes. For files without a length, the offset from the position at which reading began.
    pub offset: u64,
    /// Number of bytes in a hole before this piece that the reader left out ([`ReadOptions::skip_holes`]).
    pub skipped: u64,
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
pub struct FileReader<'f> {
    file: &'f File,
    from: u64,
    state: InnerReader<'f>,
}

enum InnerReader<'f> {
    Linear(LinearReader<'f>),
    Best(Box<BestReader<'f>>),
}

impl<'f> FileReader<'f> {
    /// Makes a reader of `file`, from its position on.
    ///
    /// # Errors
    /// If the file cannot be examined.
    pub fn new(file: &'f File, options: ReadOptions) -> io::Result<FileReader<'f>> {
        FileReader::begin(file, options, u64::MAX, false)
    }

    /// Makes a reader for a caller that stops at the first hit, and therefore gains from any cached part.
    /// [`ReadPlan::Auto`] is [`ReadPlan::Best`] if any part is cached. The device gets no request before the cached parts are
    /// returned.
    ///
    /// # Errors
    /// If the file cannot be examined.
    pub fn for_first_hit(file: &'f File, options: ReadOptions) -> io::Result<FileReader<'f>> {
        FileReader::begin(file, options, u64::MAX, true)
    }

    /// Makes a reader of the bytes before byte `limit` of the file, for example of one table in a file with several
    /// tables. No byte from `limit` on is read, in either order, except by the kernel's read-ahead. In best order the
    /// file's position is at the limit in the end.
    ///
    /// # Errors
    /// If the file cannot be examined.
    pub fn before(file: &'f File, limit: u64, options: ReadOptions) -> io::Result<FileReader<'f>> {
        FileReader::begin(file, options, limit, false)
    }

    fn begin(
        file: &'f File,
        options: ReadOptions,
        limit: u64,
        may_stop: bool,
    ) -> io::Result<FileReader<'f>> {
        let mut handle = file;
        let position = handle.stream_position().ok();
        if let Some(from) = position
            && options.plan != ReadPlan::Best
            && !matches!(options.unit, ReadUnit::Elements { .. })
            && let Some(left) = choose::few(file, from)
        {
            return Ok(FileReader::linear(
                file,
                from,
                options.for_bytes(left),
                limit,
            ));
        }
        let length = length(file);
        let (Some(mut from), Ok(length)) = (position, &length) else {
            // A directory cannot be read. The first read reports this, as for other programs.
            let at = match length {
                Err(DescribeError::Io(error)) => return Err(error),
                _ => position.unwrap_or(0),
            };
            return Ok(FileReader::linear(file, at, options, limit));
        };
        if let ReadUnit::Elements { start, .. } = options.unit
            && start != from
        {
            handle.seek(SeekFrom::Start(start))?;
            from = start;
        }
        let to = limit.min(*length);
        let presence = LazyCell::new(|| choose::presence(file, from, to));
        let best = match options.plan {
            ReadPlan::Linear => false,
            ReadPlan::Best => from < to,
            ReadPlan::Auto => choose::best_pays(file, (from, to), || *presence, may_stop),
        };
        let state = if best {
            let best = BestReader::new(file, from, to, options, may_stop)?;
            InnerReader::Best(Box::new(best.until(limit)))
        } else {
            let options = options.for_bytes(to.saturating_sub(from));
            let linear = LinearReader::stream(file, from, options).until(limit);
            InnerReader::Linear(
                linear.timed(WaitClock::in_file_order(file, (from, to), || *presence)),
            )
        };
        Ok(FileReader { file, from, state })
    }

    fn linear(file: &'f File, from: u64, options: ReadOptions, limit: u64) -> FileReader<'f> {
        let state = InnerReader::Linear(LinearReader::stream(file, from, options).until(limit));
        FileReader { file, from, state }
    }

    /// Disables observations of this pass.
    pub(crate) fn unobserved(mut self) -> FileReader<'f> {
        match &mut self.state {
            InnerReader::Linear(linear) => linear.unobserved(),
            InnerReader::Best(best) => best.unobserved(),
        }
        self
    }

    /// Returns the order in use: [`ReadPlan::Linear`] or [`ReadPlan::Best`].
    pub fn plan(&self) -> ReadPlan {
        match self.state {
            InnerReader::Linear(_) => ReadPlan::Linear,
            InnerReader::Best(_) => ReadPlan::Best,
        }
    }

    /// Returns the offset at which reading began: the file's position, or the first element.
    pub fn start(&self) -> u64 {
        self.from
    }

    /// Returns the next piece; `None` after the last.
    ///
    /// # Errors
    /// If the file cannot be read, or a record is too long for the memory. Such a record has the error
    /// [`io::ErrorKind::OutOfMemory`].
    pub fn next_piece(&mut self) -> io::Result<Option<FilePiece<'_>>> {
        match &mut self.state {
            InnerReader::Linear(linear) => linear.next_piece(),
            InnerReader::Best(best) => {
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
