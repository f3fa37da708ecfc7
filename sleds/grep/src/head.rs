//! Detects binary files from their beginning, whatever part is read first.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use memchr::memchr;

use super::block::SearchedFile;
use super::config::{BinaryTreatment, GrepConfig};

/// Number of bytes at the beginning that are searched for a zero byte. GNU grep reads as many at once.
const HEAD_BYTES: usize = 96 << 10;

pub(super) struct BinaryDetector<'a> {
    source: &'a SearchedFile<'a>,
    /// Treatment of binary files, if it differs from that of text files.
    treatment: Option<BinaryTreatment>,
    /// Result, determined on first use.
    binary: Option<bool>,
}

impl<'a> BinaryDetector<'a> {
    pub(super) fn new(config: &GrepConfig, source: &'a SearchedFile<'a>) -> BinaryDetector<'a> {
        // With `-z`, zero bytes end lines anyway.
        let minds = config.binary != BinaryTreatment::Text && config.eol != 0;
        BinaryDetector {
            source,
            treatment: minds.then_some(config.binary),
            binary: None,
        }
    }

    /// Returns true if the file is binary and this matters. `piece` is the part of the file at `offset`.
    pub(super) fn is_binary(&mut self, offset: u64, piece: &[u8]) -> bool {
        self.treatment.is_some() && self.has_zeroes(offset, piece)
    }

    /// Returns true if the file is not searched because it is binary.
    pub(super) fn leaves_out(&mut self, offset: u64, piece: &[u8]) -> bool {
        self.treatment == Some(BinaryTreatment::WithoutMatch) && self.has_zeroes(offset, piece)
    }

    fn has_zeroes(&mut self, offset: u64, piece: &[u8]) -> bool {
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
            memchr(0, &head).is_some()
        })
    }

    /// Returns the piece as it is searched: in a binary file, zero bytes end lines.
    pub(super) fn lines<'d>(&mut self, eol: u8, offset: u64, piece: &'d [u8]) -> Cow<'d, [u8]> {
        let any = self.treatment.is_some() && memchr(0, piece).is_some();
        if !(any && self.is_binary(offset, piece)) {
            return Cow::Borrowed(piece);
        }
        let ended = |byte: &u8| if *byte == 0 { eol } else { *byte };
        Cow::Owned(piece.iter().map(ended).collect())
    }
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
