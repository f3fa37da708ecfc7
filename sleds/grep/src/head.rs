//! Detects binary files from their beginning, whatever part is read first, and splits them into lines.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use memchr::memchr;
use rustix::fs::SeekFrom;

use super::block::SearchedFile;
use super::config::{BinaryTreatment, GrepConfig};

/// Number of bytes at the beginning that are searched for a zero byte. GNU grep reads as many at once. The tests of this
/// crate use small files.
const HEAD_BYTES: usize = if cfg!(test) { 16 } else { 96 << 10 };

pub(super) struct BinaryDetector<'a> {
    source: &'a SearchedFile<'a>,
    /// Treatment of binary files, if it differs from that of text files.
    treatment: Option<BinaryTreatment>,
    /// Result, determined on first use.
    binary: Option<bool>,
}

/// A piece as it is searched.
pub(super) struct SearchedLines<'d> {
    /// Lines. Each zero byte of a file that may be binary is replaced by the byte that ends a line.
    pub(super) lines: Cow<'d, [u8]>,
    /// Position of the first replaced byte.
    pub(super) first_zero: Option<usize>,
}

impl<'a> BinaryDetector<'a> {
    pub(super) fn new(config: &GrepConfig, source: &'a SearchedFile<'a>) -> BinaryDetector<'a> {
        BinaryDetector {
            source,
            treatment: config.ends_lines_at_zeros().then_some(config.binary),
            binary: None,
        }
    }

    /// Returns true if the file is binary from its beginning and this matters. `piece` is the part of the file at
    /// `offset`.
    pub(super) fn is_binary(&mut self, offset: u64, piece: &[u8]) -> bool {
        self.treatment.is_some() && self.begins_binary(offset, piece)
    }

    /// Returns true if the file is not searched because it is binary.
    pub(super) fn leaves_out(&mut self, offset: u64, piece: &[u8]) -> bool {
        self.treatment == Some(BinaryTreatment::WithoutMatch) && self.begins_binary(offset, piece)
    }

    fn begins_binary(&mut self, offset: u64, piece: &[u8]) -> bool {
        let source = self.source;
        *self.binary.get_or_insert_with(|| {
            let length = source.length.saturating_sub(source.start);
            let wanted = length.min(HEAD_BYTES as u64) as usize;
            let head = match source.file {
                Some(file) if offset > 0 || piece.len() < wanted => {
                    // The reader will meet and report the same error.
                    Cow::Owned(read_at(file, source.start, wanted).unwrap_or_default())
                }
                None if offset > 0 => return false,
                _ => Cow::Borrowed(&piece[..piece.len().min(HEAD_BYTES)]),
            };
            let after = source.start + HEAD_BYTES as u64;
            let hole = |file| after < source.length && has_hole(file, after, source.length);
            memchr(0, &head).is_some() || source.file.is_some_and(hole)
        })
    }

    /// Returns the piece as it is searched.
    pub(super) fn lines<'d>(&self, eol: u8, piece: &'d [u8]) -> SearchedLines<'d> {
        let first_zero = self.treatment.and_then(|_| memchr(0, piece));
        let ended = |byte: &u8| if *byte == 0 { eol } else { *byte };
        SearchedLines {
            lines: match first_zero {
                None => Cow::Borrowed(piece),
                Some(_) => Cow::Owned(piece.iter().map(ended).collect()),
            },
            first_zero,
        }
    }
}

/// Returns true if `file` has a hole between `from` and `length`. The position of the file does not change.
fn has_hole(file: &File, from: u64, length: u64) -> bool {
    let Ok(before) = rustix::fs::tell(file) else {
        return false;
    };
    let hole = rustix::fs::seek(file, SeekFrom::Hole(from));
    let back = rustix::fs::seek(file, SeekFrom::Start(before));
    back.is_ok() && hole.is_ok_and(|hole| hole < length)
}

/// Returns `length` bytes of `file` from `at` on, fewer at the end of the file.
pub(super) fn read_at(file: &File, at: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut data = vec![0; length];
    let mut filled = 0;
    while filled < data.len() {
        match file.read_at(&mut data[filled..], at + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    data.truncate(filled);
    Ok(data)
}
