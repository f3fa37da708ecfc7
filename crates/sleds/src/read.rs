//! Reading a file piece by piece, in the order that costs least.

use std::fs::File;
use std::io::{self, Read as _};

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
    /// A piece holds whole elements of `size` bytes, the first at byte `start`.
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
    /// Bytes a piece should have. A single record that is longer makes a longer piece.
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

/// A part of the file.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// Where in the file it begins, in bytes.
    pub offset: u64,
    /// What it holds; never empty.
    pub data: &'a [u8],
}

/// Gives out a file, every byte once.
///
/// Reads to the end of the file as it is when it gets there: of a file that grows, also what was
/// added; of one that shrinks, what is left. Things without a size (pipes, `/proc`) are read from
/// their position on, in linear order.
pub struct Reader<'f> {
    file: &'f File,
    buf: Vec<u8>,
    at: u64,
    given: usize,
    filled: usize,
    ended: bool,
    unit: Unit,
}

impl<'f> Reader<'f> {
    /// A reader of `file`, from its position on.
    ///
    /// # Errors
    /// If the file cannot be examined.
    pub fn new(file: &'f File, options: ReadOptions) -> io::Result<Reader<'f>> {
        Ok(Reader {
            file,
            buf: vec![0; options.chunk.max(1)],
            at: 0,
            given: 0,
            filled: 0,
            ended: false,
            unit: options.unit,
        })
    }

    /// The order in which it reads: [`Plan::Linear`] or [`Plan::Best`].
    pub fn plan(&self) -> Plan {
        Plan::Linear
    }

    /// The next piece; `None` after the last.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn next_piece(&mut self) -> io::Result<Option<Piece<'_>>> {
        self.buf.copy_within(self.given..self.filled, 0);
        self.at += self.given as u64;
        self.filled -= self.given;
        self.given = 0;
        loop {
            let cut = match (self.ended, self.unit) {
                (true, _) => Some(self.filled),
                (false, Unit::Bytes) => (self.filled > 0).then_some(self.filled),
                (false, Unit::Records(end)) => {
                    let last = self.buf[..self.filled].iter().rposition(|b| *b == end);
                    last.map(|n| n + 1)
                }
                (false, Unit::Elements { size, .. }) => {
                    let whole = self.filled / size as usize * size as usize;
                    (whole > 0).then_some(whole)
                }
            };
            if let Some(cut) = cut {
                self.given = cut;
                let data = &self.buf[..cut];
                return Ok((cut > 0).then_some(Piece {
                    offset: self.at,
                    data,
                }));
            }
            if self.filled == self.buf.len() {
                self.buf.resize(self.filled * 2, 0);
            }
            match self.file.read(&mut self.buf[self.filled..]) {
                Ok(0) => self.ended = true,
                Ok(n) => self.filled += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
