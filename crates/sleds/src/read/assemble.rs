//! Whole units from what reads happen to return.

use super::{Piece, Unit};

/// A buffer that is filled at its end and given out from its front, unit by unit.
///
/// `buf[..given]` was given out last; `buf[given..filled]` is still to be; the file's byte `at` is
/// at `buf[0]`.
pub(crate) struct Assembly {
    buf: Vec<u8>,
    at: u64,
    given: usize,
    filled: usize,
    unit: Unit,
    chunk: usize,
}

impl Assembly {
    pub(crate) fn new(unit: Unit, chunk: usize, at: u64) -> Assembly {
        Assembly {
            buf: Vec::new(),
            at,
            given: 0,
            filled: 0,
            unit,
            chunk: chunk.max(1),
        }
    }

    /// Goes on at another place; what was not given out is dropped.
    pub(crate) fn restart(&mut self, at: u64) {
        (self.at, self.given, self.filled) = (at, 0, 0);
    }

    /// The file's first byte that was not given out.
    pub(crate) fn at(&self) -> u64 {
        self.at + self.given as u64
    }

    /// How much there is of what was not given out.
    pub(crate) fn rest(&self) -> usize {
        self.filled - self.given
    }

    /// Takes back the piece given out last, and makes room.
    pub(crate) fn make_room(&mut self) -> &mut [u8] {
        self.drop_given();
        if self.filled == self.buf.len() {
            let length = (self.buf.len() * 2).max(self.chunk);
            self.buf.resize(length, 0);
        }
        &mut self.buf[self.filled..]
    }

    fn drop_given(&mut self) {
        if self.given > 0 {
            self.buf.copy_within(self.given..self.filled, 0);
            self.at += self.given as u64;
            self.filled -= self.given;
            self.given = 0;
        }
    }

    /// `n` bytes were put where [`Assembly::make_room`] said.
    pub(crate) fn add(&mut self, n: usize) {
        self.filled += n;
        debug_assert!(self.filled <= self.buf.len());
    }

    /// Adds bytes.
    pub(crate) fn append(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = self.make_room();
            let n = room.len().min(bytes.len());
            room[..n].copy_from_slice(&bytes[..n]);
            self.add(n);
            bytes = &bytes[n..];
        }
    }

    /// Gives out what is whole, or, if nothing will be added, all; whether there is anything.
    pub(crate) fn cut(&mut self, ended: bool) -> bool {
        let rest = &self.buf[self.given..self.filled];
        let whole = match (ended, self.unit) {
            (true, _) | (false, Unit::Bytes) => rest.len(),
            (false, Unit::Records(end)) => {
                let last = rest.iter().rposition(|byte| *byte == end);
                last.map_or(0, |n| n + 1)
            }
            (false, Unit::Elements { size, .. }) => {
                let size = size.max(1) as usize;
                rest.len() / size * size
            }
        };
        if whole == 0 {
            return false;
        }
        self.drop_given();
        self.given = whole;
        true
    }

    /// What [`Assembly::cut`] gave out.
    pub(crate) fn piece(&self) -> Piece<'_> {
        Piece {
            offset: self.at,
            data: &self.buf[..self.given],
        }
    }
}
