//! Files that are searched, and pieces of them.

use std::fs::File;

/// What is searched.
pub(super) struct Source<'f> {
    /// What can be read anywhere, if it is a regular file.
    pub(super) file: Option<&'f File>,
    /// Where in it the search begins, in bytes.
    pub(super) start: u64,
    /// Its length, in bytes.
    pub(super) length: u64,
    /// The name to print before lines.
    pub(super) name: Option<&'f [u8]>,
}

/// Whole lines of the file. All offsets are from where the search began.
#[derive(Clone, Copy)]
pub(super) struct Block<'d> {
    pub(super) offset: u64,
    pub(super) data: &'d [u8],
}

impl Block<'_> {
    /// Where in the file its byte `at` is.
    pub(super) fn place(self, at: usize) -> u64 {
        self.offset + at as u64
    }
}
