//! Where a file stops being text.
//!
//! GNU grep reads files in blocks of 96 KiB, and takes a file for binary from the block on that has
//! the first zero byte; lines that end in earlier blocks are printed as text. To print the same,
//! whoever prints a line asks here whether its block has a zero byte, which may lie behind what has
//! been read so far.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use memchr::memchr;

/// What GNU grep reads at once, in bytes.
const BLOCK: u64 = 96 << 10;

pub(super) struct Nuls<'f> {
    /// The file, if it can be read anywhere.
    file: Option<&'f File>,
    /// Where in the file the search began.
    start: u64,
    /// The file's length; of one that the kernel makes up, 0.
    length: u64,
    /// There is no zero byte before this.
    clean: u64,
    /// The file is binary from here on.
    binary_from: Option<u64>,
}

/// The first byte of the block that has byte `at`.
pub(super) fn block(at: u64) -> u64 {
    at / BLOCK * BLOCK
}

impl<'f> Nuls<'f> {
    /// `file` is the file if it is a regular one, of `length` bytes, which is searched from byte `start`.
    pub(super) fn new(file: Option<&'f File>, start: u64, length: u64) -> Nuls<'f> {
        Nuls {
            file,
            start,
            length,
            clean: 0,
            binary_from: None,
        }
    }

    /// A file with holes has zero bytes; GNU grep looks for holes once it has read the first block.
    pub(super) fn look_for_holes(&mut self) {
        let first = self.start + BLOCK;
        let Some(file) = self.file.filter(|_| self.length > first) else {
            return;
        };
        let Ok(position) = rustix::fs::tell(file) else {
            return;
        };
        let hole = rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(first));
        // Whoever reads on expects the position where it was.
        let _ = rustix::fs::seek(file, rustix::fs::SeekFrom::Start(position));
        if hole.is_ok_and(|hole| hole < self.length) {
            self.binary_from = Some(0);
        }
    }

    /// Everything before has been told; now the first zero byte up to `end` is `first`.
    pub(super) fn read(&mut self, first: Option<u64>, end: u64) {
        match first {
            Some(at) if self.binary_from.is_none() => self.binary_from = Some(block(at)),
            _ => self.clean = self.clean.max(end),
        }
    }

    /// Where the file is known to become binary.
    pub(super) fn known(&self) -> Option<u64> {
        self.binary_from
    }

    /// Where the file becomes binary, if it does so before a line that ends at `line_end`.
    pub(super) fn before(&mut self, line_end: u64) -> Option<u64> {
        let block_end = block(line_end.saturating_sub(1)) + BLOCK;
        if self.binary_from.is_none() && self.clean < block_end {
            self.look_ahead(block_end);
        }
        self.binary_from.filter(|from| *from < line_end)
    }

    fn look_ahead(&mut self, end: u64) {
        let Some(file) = self.file else { return };
        // Behind the last byte there is nothing to be found, and small files end in the first block.
        let end = match self.length.saturating_sub(self.start) {
            0 => end,
            left => end.min(left),
        };
        if end <= self.clean {
            return;
        }
        let mut buf = vec![0; (end - self.clean) as usize];
        let mut filled = 0;
        while filled < buf.len() {
            let at = self.start + self.clean + filled as u64;
            match file.read_at(&mut buf[filled..], at) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // The reader will meet the same and say so.
                Err(_) => break,
            }
        }
        match memchr(0, &buf[..filled]) {
            Some(at) => self.binary_from = Some(block(self.clean + at as u64)),
            None => self.clean = end,
        }
    }
}
