//! Assembles whole units from the bytes that reads return.

use std::io;

use super::{FilePiece, ReadOptions, ReadUnit};
use crate::plan::RecordEnds;

/// Size of a cache line. The kernel copies 25 % faster to memory that begins at a cache line.
const LINE: usize = 64;
/// Size of a page. Reads of whole pages begin at page boundaries.
const PAGE: usize = 4096;

/// A buffer that is filled at its end and emptied from its front, unit by unit.
///
/// `buf[start..start + given]` is the last piece returned, `buf[start + given..filled]` is not yet returned. The file's
/// byte `at` is at `buf[start]`.
pub(crate) struct PieceAssembly {
    buf: Vec<u8>,
    at: u64,
    start: usize,
    given: usize,
    filled: usize,
    /// Number of bytes at the front of the unreturned range that contain no record end. A long record is therefore
    /// searched only once.
    searched: usize,
    unit: ReadUnit,
    chunk: usize,
    /// Maximum length of a record in bytes.
    record_limit: usize,
}

impl PieceAssembly {
    pub(crate) fn new(options: ReadOptions, at: u64) -> PieceAssembly {
        PieceAssembly {
            buf: Vec::new(),
            at,
            start: 0,
            given: 0,
            filled: 0,
            searched: 0,
            unit: options.unit,
            chunk: options.chunk.max(1),
            record_limit: options.record_limit,
        }
    }

    /// Continues at another offset and drops all bytes not yet returned.
    pub(crate) fn restart(&mut self, at: u64) {
        (self.at, self.start, self.given, self.filled) = (at, 0, 0, 0);
        self.searched = 0;
    }

    /// Returns the file offset of the first byte not yet returned.
    pub(crate) fn at(&self) -> u64 {
        self.at + self.given as u64
    }

    /// Returns the number of buffered bytes not yet returned.
    pub(crate) fn rest(&self) -> usize {
        self.filled - self.start - self.given
    }

    /// Releases the last piece, and returns free space at the end of the buffer. The space consists of whole pages and
    /// begins at a cache line, if it has a whole page.
    ///
    /// # Errors
    /// [`io::ErrorKind::OutOfMemory`] if a record is longer than the limit, or than the memory that the system grants.
    pub(crate) fn make_room(&mut self) -> io::Result<&mut [u8]> {
        if self.searched > self.record_limit {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        self.take_back();
        let rest = self.filled - self.start;
        // The data is not moved if no piece was returned since the last move: otherwise each read would move a long
        // record.
        if self.start >= LINE || rest == 0 {
            self.move_to_front();
        }
        if self.buf.len() - self.filled < self.chunk.min(PAGE) {
            self.grow(rest + self.chunk + LINE)?;
            if rest == 0 {
                self.move_to_front();
            }
        }
        let room = self.buf.len() - self.filled;
        let pages = room / PAGE * PAGE;
        Ok(&mut self.buf[self.filled..][..if pages > 0 { pages } else { room }])
    }

    /// Makes the buffer twice as long, at least `least` bytes. If the system refuses so much memory, the buffer gets
    /// `least` bytes.
    fn grow(&mut self, least: usize) -> io::Result<()> {
        if self.buf.is_empty() {
            // Fresh memory from the system is already zero.
            self.buf = vec![0; least];
            return Ok(());
        }
        let double = self.buf.len().saturating_mul(2);
        for length in [double.max(least), least] {
            let more = length.saturating_sub(self.buf.len());
            if self.buf.try_reserve_exact(more).is_ok() {
                self.buf.resize(self.buf.len() + more, 0);
                return Ok(());
            }
        }
        Err(io::ErrorKind::OutOfMemory.into())
    }

    /// Moves the unreturned bytes so that they end at a cache line.
    fn move_to_front(&mut self) {
        let rest = self.filled - self.start;
        let after = (self.buf.as_ptr() as usize + rest) % LINE;
        let start = (LINE - after) % LINE;
        if start + rest <= self.buf.len() {
            self.buf.copy_within(self.start..self.filled, start);
            (self.start, self.filled) = (start, start + rest);
        }
    }

    fn take_back(&mut self) {
        self.at += self.given as u64;
        self.start += self.given;
        self.given = 0;
    }

    /// Adds the `n` bytes that the caller put into the space from [`PieceAssembly::make_room`].
    pub(crate) fn add(&mut self, n: usize) {
        self.filled += n;
        debug_assert!(self.filled <= self.buf.len());
    }

    /// Copies bytes to the end of the buffer.
    pub(crate) fn append(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = self.make_room()?;
            let n = room.len().min(bytes.len());
            room[..n].copy_from_slice(&bytes[..n]);
            self.add(n);
            bytes = &bytes[n..];
        }
        Ok(())
    }

    /// Selects whole units as the next piece, up to about the size of a piece. If `ended` is true, also selects an
    /// incomplete unit. Returns false if the piece is empty.
    pub(crate) fn cut(&mut self, ended: bool) -> bool {
        self.take_back();
        let length = self.rest();
        let whole = match self.whole() {
            0 if ended => length,
            whole => whole,
        };
        self.given = whole;
        self.searched = match whole {
            0 => self.searched,
            _ => 0,
        };
        whole > 0
    }

    /// Returns the length of the whole units at the front: those that fit into a piece, or a single longer unit.
    fn whole(&mut self) -> usize {
        if let Some(ends) = self.unit.record_ends() {
            return self.whole_records(ends);
        }
        let rest = self.rest();
        let fitting = rest.min(self.chunk);
        match self.unit {
            ReadUnit::Elements { size, .. } => {
                let size = size.max(1) as usize;
                match (fitting / size, rest / size) {
                    (0, 0) => 0,
                    (count, _) => count.max(1) * size,
                }
            }
            _ => fitting,
        }
    }

    fn whole_records(&mut self, ends: RecordEnds) -> usize {
        let rest = &self.buf[self.start..self.filled];
        let fitting = rest.len().min(self.chunk);
        let from = self.searched.min(fitting);
        let last = rest[from..fitting].iter().rposition(|b| ends.contains(*b));
        if let Some(last) = last {
            return from + last + 1;
        }
        let from = self.searched.max(fitting);
        let first = rest[from..].iter().position(|b| ends.contains(*b));
        if let Some(first) = first {
            from + first + 1
        } else {
            self.searched = rest.len();
            0
        }
    }

    /// Returns the piece that [`PieceAssembly::cut`] selected.
    pub(crate) fn piece(&self) -> FilePiece<'_> {
        FilePiece {
            offset: self.at,
            skipped: 0,
            data: &self.buf[self.start..self.start + self.given],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assembly(unit: ReadUnit, chunk: usize, at: u64) -> PieceAssembly {
        let options = ReadOptions {
            unit,
            chunk,
            record_limit: 100_000,
            ..ReadOptions::default()
        };
        PieceAssembly::new(options, at)
    }

    /// Returns the pieces that result from these additions.
    fn pieces(unit: ReadUnit, chunk: usize, additions: &[&str]) -> Vec<(u64, String)> {
        let mut assembly = assembly(unit, chunk, 100);
        let mut all = Vec::new();
        let mut take = |assembly: &mut PieceAssembly, ended| {
            while assembly.cut(ended) {
                let piece = assembly.piece();
                all.push((
                    piece.offset,
                    String::from_utf8(piece.data.to_vec()).unwrap(),
                ));
            }
        };
        for addition in additions {
            assembly.append(addition.as_bytes()).unwrap();
            take(&mut assembly, false);
        }
        take(&mut assembly, true);
        assert_eq!(assembly.rest(), 0);
        all
    }

    fn texts(unit: ReadUnit, chunk: usize, additions: &[&str]) -> Vec<String> {
        let all = pieces(unit, chunk, additions);
        let mut at = 100;
        for (offset, text) in &all {
            assert_eq!(*offset, at);
            at += text.len() as u64;
        }
        all.into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn byte_pieces_are_at_most_the_requested_length() {
        assert_eq!(
            texts(ReadUnit::Bytes, 4, &["abcdefghij", "k"]),
            ["abcd", "efgh", "ij", "k"]
        );
    }

    #[test]
    fn a_piece_has_the_whole_lines_that_fit_or_one_longer_line() {
        let lines = ReadUnit::Records(b'\n');
        let given = ["a\nbb\ncc", "c\nlong lo", "ng long\nd\ne"];
        assert_eq!(
            texts(lines, 5, &given),
            ["a\nbb\n", "ccc\n", "long long long\n", "d\n", "e"]
        );
        assert_eq!(texts(lines, 100, &["a\nb\n"]), ["a\nb\n"]);
    }

    #[test]
    fn elements_are_returned_whole_except_for_the_last() {
        let elements = ReadUnit::Elements { start: 0, size: 3 };
        assert_eq!(
            texts(elements, 7, &["abcdefgh", "ijkl", "m"]),
            ["abcdef", "ghijkl", "m"]
        );
        assert_eq!(texts(elements, 1, &["abcdef"]), ["abc", "def"]);
    }

    #[test]
    fn the_read_buffer_is_aligned_after_any_remainder_of_the_last_piece() {
        let chunk = 16 * PAGE;
        let mut assembly = assembly(ReadUnit::Records(b'\n'), chunk, 0);
        for tail in [0, 1, 63, 64, 65, 1000] {
            let room = assembly.make_room().unwrap();
            assert_eq!(room.as_ptr() as usize % LINE, 0, "{tail}");
            assert_eq!(room.len() % PAGE, 0, "{tail}");
            assert!(room.len() >= chunk - PAGE, "{tail}: {}", room.len());
            room.fill(b'x');
            let end = room.len() - tail - 1;
            room[end] = b'\n';
            let n = room.len();
            assembly.add(n);
            while assembly.cut(false) {}
            assert_eq!(assembly.rest(), tail);
        }
    }

    #[test]
    fn a_long_record_is_searched_once() {
        let mut assembly = assembly(ReadUnit::Records(b'\n'), 4, 0);
        for _ in 0..3 {
            assembly.append(b"xxxxxx").unwrap();
            assert!(!assembly.cut(false));
            assert_eq!(assembly.searched, assembly.rest());
        }
        assembly.append(b"\n").unwrap();
        assert!(assembly.cut(false));
        assert_eq!(assembly.piece().data.len(), 19);
    }

    #[test]
    fn a_zero_byte_ends_a_record_if_the_unit_contains_it() {
        let both = ReadUnit::RecordsOrZeros(b'\n');
        assert_eq!(texts(both, 2, &["a\0b\n\0c"]), ["a\0", "b\n", "\0", "c"]);
        let lines = ReadUnit::Records(b'\n');
        assert_eq!(texts(lines, 2, &["a\0b\n\0c"]), ["a\0b\n", "\0c"]);
    }

    #[test]
    fn a_record_above_the_limit_is_an_error_and_many_records_are_none() {
        let mut assembly = assembly(ReadUnit::Records(b'\n'), 4096, 0);
        assembly.append(&[b'\n'; 300_000]).unwrap();
        while assembly.cut(false) {}
        assembly.append(&[b'x'; 100_001]).unwrap();
        assert!(!assembly.cut(false));
        let error = assembly.append(b"x").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
    }
}
