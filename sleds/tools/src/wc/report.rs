//! Prints lines of counts.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;

use crate::wc::args::WcColumns;
use sleds_common::gnu::quoted_if_needed;
use sleds_common::stdio::DirectOutput;

/// Counts of a file, or of all files.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct WcCounts {
    pub(super) lines: u64,
    pub(super) words: u64,
    pub(super) chars: u64,
    pub(super) bytes: u64,
    pub(super) width: u64,
}

impl WcCounts {
    pub(super) fn add(&mut self, more: WcCounts) {
        self.lines = self.lines.wrapping_add(more.lines);
        self.words = self.words.wrapping_add(more.words);
        self.chars = self.chars.wrapping_add(more.chars);
        self.bytes = self.bytes.wrapping_add(more.bytes);
        self.width = self.width.max(more.width);
    }
}

/// Minimum width of a column if the size of a file is unknown.
const UNKNOWN_WIDTH: usize = 7;

/// Returns the number of digits that the figures of these files need. `files` contains the files that could be
/// examined.
pub(super) fn digits(files: impl Iterator<Item = Metadata>) -> usize {
    let mut least = 1;
    let mut bytes: u64 = 0;
    for file in files {
        if file.is_file() {
            bytes = bytes.wrapping_add(file.len());
        } else {
            least = UNKNOWN_WIDTH;
        }
    }
    bytes.to_string().len().max(least)
}

/// Writes lines to standard output, each immediately.
pub(super) struct CountReport {
    pub(super) columns: WcColumns,
    pub(super) digits: usize,
    /// True if a line could not be written.
    pub(super) failed: Option<io::Error>,
}

impl CountReport {
    pub(super) fn line(&mut self, figures: &WcCounts, name: Option<&OsStr>) {
        let columns = [
            (self.columns.lines, figures.lines),
            (self.columns.words, figures.words),
            (self.columns.chars, figures.chars),
            (self.columns.bytes, figures.bytes),
            (self.columns.width, figures.width),
        ];
        let mut line = Vec::new();
        for (_, figure) in columns.iter().filter(|(shown, _)| *shown) {
            if !line.is_empty() {
                line.push(b' ');
            }
            line.extend_from_slice(format!("{figure:>0$}", self.digits).as_bytes());
        }
        if let Some(name) = name {
            line.push(b' ');
            if name.as_bytes().contains(&b'\n') {
                line.extend_from_slice(&quoted_if_needed(name));
            } else {
                line.extend_from_slice(name.as_bytes());
            }
        }
        line.push(b'\n');
        if let Err(error) = DirectOutput.write_all(&line) {
            self.failed.get_or_insert(error);
        }
    }
}
