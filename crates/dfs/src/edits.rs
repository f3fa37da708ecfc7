//! Pending changes of a file's data, in any number of ranges.

use std::collections::BTreeMap;
use std::ops::Range;

use forebay_device::{ALIGN, Buf, BufMut};

/// Writes and holes of one file. A later edit replaces an earlier one where they overlap.
///
/// Invariant: pieces do not overlap, and no piece is empty.
#[derive(Clone, Default, Debug)]
pub struct Edits {
    pieces: BTreeMap<u64, EditFragment>,
    /// The furthest end of a write, also if a later edit replaced the write.
    end: u64,
    bytes: u64,
    memory: u64,
}

/// Memory of a piece without its data, in bytes: the entry of the tree, and the reference counts of the data.
const PIECE_BYTES: u64 = 128;

#[derive(Clone, Debug)]
struct EditFragment {
    end: u64,
    /// The data; `None` for a hole, which reads as zeroes and occupies no space.
    data: Option<Buf>,
}

impl EditFragment {
    /// Returns a part of a piece that begins at `start`. Data is copied if the part would retain much more memory than
    /// its own length.
    fn part(&self, start: u64, part: Range<u64>) -> EditFragment {
        let range = (part.start - start) as usize..(part.end - start) as usize;
        let data = self.data.as_ref().map(|data| {
            let data = data.slice(range);
            if data.len().next_multiple_of(ALIGN) < data.held_bytes() / 2 {
                BufMut::copy_of(&data).freeze()
            } else {
                data
            }
        });
        EditFragment {
            end: part.end,
            data,
        }
    }

    /// Returns the memory used, in bytes.
    fn memory(&self) -> u64 {
        let data = self.data.as_ref().map_or(0, Buf::held_bytes);
        data as u64 + PIECE_BYTES
    }
}

impl Edits {
    /// Returns an empty set of edits.
    pub fn new() -> Edits {
        Edits::default()
    }

    /// Adds a write. The file ends at the end of the write or later.
    ///
    /// # Panics
    ///
    /// If the end of the write exceeds 64 bits.
    pub fn write(&mut self, offset: u64, data: Buf) {
        if data.is_empty() {
            return;
        }
        let end = offset
            .checked_add(data.len() as u64)
            .expect("the end of the edit is a valid offset");
        self.end = self.end.max(end);
        let data = Some(data);
        self.put(offset, EditFragment { end, data });
    }

    /// Adds a hole: the part of the range within the file reads as zeroes and occupies no space. Preallocated ranges in
    /// it are released.
    pub fn punch(&mut self, offset: u64, len: u64) {
        let end = offset.saturating_add(len);
        if offset < end {
            self.put(offset, EditFragment { end, data: None });
        }
    }

    fn put(&mut self, start: u64, piece: EditFragment) {
        let end = piece.end;
        let before = self.pieces.range(..start).next_back();
        let before = before.filter(|(_, piece)| piece.end > start);
        let mut covered: Vec<u64> = before.map(|(at, _)| *at).into_iter().collect();
        covered.extend(self.pieces.range(start..end).map(|(at, _)| *at));
        for at in covered {
            let old = self.pieces.remove(&at).expect("it was found");
            self.count(at, &old, false);
            for part in [at..start.min(old.end), end.max(at)..old.end] {
                if part.start < part.end {
                    let left = old.part(at, part.clone());
                    self.count(part.start, &left, true);
                    self.pieces.insert(part.start, left);
                }
            }
        }
        self.count(start, &piece, true);
        self.pieces.insert(start, piece);
    }

    fn count(&mut self, start: u64, piece: &EditFragment, comes: bool) {
        let len = match piece.data {
            Some(_) => piece.end - start,
            None => 0,
        };
        let memory = piece.memory();
        if comes {
            self.bytes += len;
            self.memory += memory;
        } else {
            self.bytes -= len;
            self.memory -= memory;
        }
    }

    /// Adds other edits, which replace these where they overlap.
    pub fn add(&mut self, others: &Edits) {
        for (start, piece) in &others.pieces {
            self.put(*start, piece.clone());
        }
        self.end = self.end.max(others.end);
    }

    /// Returns true if the set of edits is empty.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns the total bytes of data.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the memory used, in bytes. Data that consists of whole pages uses at most twice its length.
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Returns the number of pieces.
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// Returns the smallest size of the file after the edits.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns the range from the first to the last byte of all pieces, or an empty range if the set of edits is empty.
    pub fn hull(&self) -> Range<u64> {
        let first = self.pieces.first_key_value();
        let last = self.pieces.last_key_value();
        match (first, last) {
            (Some((start, _)), Some((_, last))) => *start..last.end,
            _ => 0..0,
        }
    }

    /// Returns true if an edit overlaps a range.
    pub fn touch(&self, range: &Range<u64>) -> bool {
        self.within(range.clone()).next().is_some()
    }

    /// Returns all pieces in order: the range, and the data, or `None` for a hole.
    pub fn iter(&self) -> impl Iterator<Item = (Range<u64>, Option<&Buf>)> {
        self.within(0..u64::MAX)
    }

    /// Returns the pieces in order, with neighbours of the same kind merged: the range, and true if it has data.
    pub(crate) fn runs(&self) -> Vec<(Range<u64>, bool)> {
        let mut runs: Vec<(Range<u64>, bool)> = Vec::new();
        for (piece, data) in self.iter() {
            match runs.last_mut() {
                Some((run, is_data)) if run.end == piece.start && *is_data == data.is_some() => {
                    run.end = piece.end;
                }
                _ => runs.push((piece, data.is_some())),
            }
        }
        runs
    }

    /// Returns true if the edits include a hole.
    pub(crate) fn have_holes(&self) -> bool {
        self.iter().any(|(_, data)| data.is_none())
    }

    /// Returns the pieces that overlap a range, in order.
    fn within(&self, range: Range<u64>) -> impl Iterator<Item = (Range<u64>, Option<&Buf>)> {
        let before = self.pieces.range(..range.start).next_back();
        let before = before.filter(|(_, piece)| piece.end > range.start);
        let inside = self.pieces.range(range.start..range.end.max(range.start));
        before
            .into_iter()
            .chain(inside)
            .map(|(start, piece)| (*start..piece.end, piece.data.as_ref()))
    }

    /// Returns true if the edits cover all of a range.
    pub(crate) fn cover(&self, range: Range<u64>) -> bool {
        let mut at = range.start;
        for (piece, _) in self.within(range.clone()) {
            if piece.start > at {
                return false;
            }
            at = piece.end;
        }
        at >= range.end
    }

    /// Applies the edits to bytes of the file that begin at `offset`.
    pub fn over(&self, offset: u64, bytes: &mut [u8]) {
        let end = offset + bytes.len() as u64;
        for (piece, data) in self.within(offset..end) {
            let (from, to) = (piece.start.max(offset), piece.end.min(end));
            let into = &mut bytes[(from - offset) as usize..(to - offset) as usize];
            match data {
                Some(data) => {
                    let from = (from - piece.start) as usize;
                    into.copy_from_slice(&data[from..from + into.len()]);
                }
                None => into.fill(0),
            }
        }
    }

    /// Returns the data of a range that is fully covered by writes, without a copy if one piece covers the range.
    pub(crate) fn data(&self, range: Range<u64>) -> Buf {
        let mut pieces = self.within(range.clone());
        if let Some((piece, Some(data))) = pieces.next()
            && piece.start <= range.start
            && range.end <= piece.end
        {
            let from = (range.start - piece.start) as usize;
            return data.slice(from..from + (range.end - range.start) as usize);
        }
        let mut all = BufMut::zeroed((range.end - range.start) as usize);
        self.over(range.start, &mut all);
        all.freeze()
    }
}

#[cfg(test)]
mod tests {
    use forebay_rng::Rng;

    use super::*;

    #[test]
    fn remainders_of_a_large_write_do_not_keep_all_of_its_memory() {
        let mut edits = Edits::new();
        let large = BufMut::copy_of(&[1; 1 << 20]).freeze();
        edits.write(0, large);
        assert!(edits.memory() < (1 << 20) + 4096);
        for n in 1..64 {
            edits.punch(n * (16 << 10), (16 << 10) - 1);
        }
        assert_eq!(edits.bytes(), (16 << 10) + 63);
        assert!(
            edits.memory() < 64 * 2 * 4096 + 128 * 1024,
            "{}",
            edits.memory()
        );
        let mut copy = [0; 3];
        edits.over((16 << 10) - 1, &mut copy);
        assert_eq!(copy, [1, 0, 0]);
    }

    #[test]
    fn later_edits_override_earlier_edits_where_they_overlap() {
        let rng = Rng::new(1);
        for _ in 0..200 {
            let (mut edits, mut model) = (Edits::new(), [None; 100]);
            for n in 1..12u8 {
                let start = rng.below(100);
                let len = rng.below(100 - start + 1);
                let part = start as usize..(start + len) as usize;
                if rng.one_in(3) {
                    edits.punch(start, len);
                    model[part].fill(Some(0));
                } else {
                    let data = BufMut::copy_of(&vec![n; len as usize]);
                    edits.write(start, data.freeze());
                    model[part].fill(Some(n));
                }
            }
            let mut bytes = [77; 100];
            edits.over(0, &mut bytes);
            let expected = model.map(|byte| byte.unwrap_or(77));
            assert_eq!(bytes, expected);
            let (from, to) = (rng.below(50), 50 + rng.below(51));
            let mut some = vec![77; (to - from) as usize];
            edits.over(from, &mut some);
            assert_eq!(some, expected[from as usize..to as usize]);
            let said = &model[from as usize..to as usize];
            assert_eq!(edits.cover(from..to), said.iter().all(Option::is_some));
            let written = edits.iter().filter(|(_, data)| data.is_some());
            let bytes: u64 = written.map(|(piece, _)| piece.end - piece.start).sum();
            assert_eq!(bytes, edits.bytes());
            let pieces = edits.pieces() as u64;
            assert!(edits.memory() <= pieces * (4096 + PIECE_BYTES), "{edits:?}");
            let ranges: Vec<Range<u64>> = edits.iter().map(|(piece, _)| piece).collect();
            assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start));
        }
    }
}
