//! Searched files, and blocks of them.

use std::fs::File;

/// A searched file.
pub(super) struct SearchedFile<'f> {
    /// The file for positioned reads, if it is a regular file.
    pub(super) file: Option<&'f File>,
    /// Offset in the file at which the search begins, in bytes.
    pub(super) start: u64,
    /// Length of the file in bytes.
    pub(super) length: u64,
    /// Name to print before lines.
    pub(super) name: Option<&'f [u8]>,
}

/// Whole lines of the file. All offsets are relative to the beginning of the search.
#[derive(Clone, Copy)]
pub(super) struct LineBlock<'d> {
    pub(super) offset: u64,
    pub(super) data: &'d [u8],
}

impl LineBlock<'_> {
    /// Returns the offset of its byte `at`.
    pub(super) fn place(self, at: usize) -> u64 {
        self.offset + at as u64
    }
}
