//! Expected data of a file.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// Bytes of a fragment, the unit of stored data.
const PIECE: u64 = 512;

/// Data of a file, without its holes.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct SparseBytes {
    /// Length in bytes, holes included.
    pub size: u64,
    pub(super) pieces: BTreeMap<u64, Rc<[u8; PIECE as usize]>>,
}

/// Divides `len` bytes from `offset` on into fragments: the number of each fragment, the range in the fragment, and the
/// range in the bytes.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, Range<usize>, Range<usize>)> {
    let end = offset + len as u64;
    (offset / PIECE..end.div_ceil(PIECE)).map(move |n| {
        let (from, to) = (offset.max(n * PIECE), end.min((n + 1) * PIECE));
        let since = |start: u64| (from - start) as usize..(to - start) as usize;
        (n, since(n * PIECE), since(offset))
    })
}

impl SparseBytes {
    /// Returns `len` bytes from `offset` on, or fewer at the end of the file.
    pub fn read(&self, offset: u64, len: u64) -> Vec<u8> {
        let end = offset.saturating_add(len).min(self.size);
        let mut out = vec![0; end.saturating_sub(offset) as usize];
        for (n, within, part) in parts(offset, out.len()) {
            if let Some(piece) = self.pieces.get(&n) {
                out[part].copy_from_slice(&piece[within]);
            }
        }
        out
    }

    /// Writes data.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        self.size = self.size.max(offset + data.len() as u64);
        for (n, within, part) in parts(offset, data.len()) {
            let piece = self.pieces.entry(n);
            let piece = piece.or_insert_with(|| Rc::new([0; PIECE as usize]));
            Rc::make_mut(piece)[within].copy_from_slice(&data[part]);
        }
    }

    /// Fills these bytes with zeroes, and turns whole fragments into holes.
    pub(super) fn punch(&mut self, offset: u64, end: u64) {
        let end = end.min(self.size);
        let all: Vec<u64> = self.pieces.keys().copied().collect();
        for n in all {
            let (from, to) = (offset.max(n * PIECE), end.min((n + 1) * PIECE));
            let ends_here = end == self.size && end < (n + 1) * PIECE;
            if from == n * PIECE && (to == (n + 1) * PIECE || ends_here && from < to) {
                self.pieces.remove(&n);
            } else if let Some(piece) = self.pieces.get_mut(&n).filter(|_| from < to) {
                let piece = Rc::make_mut(piece);
                piece[(from % PIECE) as usize..(to - n * PIECE) as usize].fill(0);
            }
        }
    }

    pub(super) fn resize(&mut self, size: u64) {
        if size < self.size {
            self.pieces.retain(|n, _| n * PIECE < size);
            let last = self.pieces.get_mut(&(size / PIECE));
            if let Some(last) = last.filter(|_| !size.is_multiple_of(PIECE)) {
                Rc::make_mut(last)[(size % PIECE) as usize..].fill(0);
            }
        }
        self.size = size;
    }
}
