//! Finds record ends in a file, without read-ahead.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt as _;

use crate::plan::{ReadUnit, RecordEnds};
use crate::schedule::{ByteBoundaries, ElementBoundaries, UnitBoundaries};
use crate::sys::{self, MappedRange};

/// Number of bytes in the first search. Each further search doubles it.
const STEP_MIN: u64 = 4 << 10;
const STEP_MAX: u64 = 256 << 10;
/// Number of copied bytes after which the mapped pages are released, since they are accounted to this process's memory.
const HELD_BYTES_MAX: u64 = 8 << 20;

/// A part of a file that is read in random order. No read-ahead takes place, which would evict the pages to be read
/// next.
pub(crate) struct PeekRange<'f> {
    file: &'f File,
    mapping: Option<MappedRange>,
    /// Bytes copied out of the mapping since its pages were last released.
    held: u64,
    /// Range of these bytes: first byte and end.
    between: (u64, u64),
}

impl<'f> PeekRange<'f> {
    /// Makes a peek into bytes `from` to `to`.
    pub(crate) fn new(file: &'f File, from: u64, to: u64) -> PeekRange<'f> {
        let start = from / sys::page_size() * sys::page_size();
        let mapping = MappedRange::new(file.as_fd(), start, to.max(start + 1) - start).ok();
        PeekRange {
            file,
            mapping,
            held: 0,
            between: (u64::MAX, 0),
        }
    }

    /// Fills `buf` from `at` on. Returns fewer bytes only at the end of the file.
    pub(crate) fn read(&mut self, at: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        if let Some(mapping) = &self.mapping {
            match mapping.copy(at, buf) {
                // The page at the end of the file is copied with the zeroes after the end.
                Ok(copied) => filled = (self.left(at)?.min(copied as u64)) as usize,
                // A sandbox may forbid the call.
                Err(_) => self.mapping = None,
            }
            self.give_back(at, filled as u64);
        }
        // The missing bytes are past the end of the file, or cannot be read. A plain read tells the cases apart.
        while filled < buf.len() {
            match self.file.read_at(&mut buf[filled..], at + filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    /// Accounts for `bytes` copied from `at`, and releases the mapped pages from time to time.
    fn give_back(&mut self, at: u64, bytes: u64) {
        self.held += bytes;
        self.between = (self.between.0.min(at), self.between.1.max(at + bytes));
        if self.held >= HELD_BYTES_MAX
            && let Some(mapping) = &self.mapping
        {
            mapping.forget(self.between.0, self.between.1);
            self.held = 0;
            self.between = (u64::MAX, 0);
        }
    }

    fn left(&self, at: u64) -> io::Result<u64> {
        let meta = self.file.metadata()?;
        if meta.file_type().is_file() {
            Ok(meta.len().saturating_sub(at))
        } else {
            Ok(u64::MAX)
        }
    }
}

/// Records of a file that end with one of the bytes `ends`.
pub(crate) struct RecordBoundaries<'p, 'f> {
    pub(crate) peek: &'p mut PeekRange<'f>,
    pub(crate) ends: RecordEnds,
}

impl UnitBoundaries for RecordBoundaries<'_, '_> {
    fn end_after(&mut self, from: u64, limit: u64) -> io::Result<Option<u64>> {
        let (mut at, mut step) = (from, STEP_MIN);
        let mut buf = Vec::new();
        while at < limit {
            buf.resize(step.min(limit - at) as usize, 0);
            let n = self.peek.read(at, &mut buf)?;
            if let Some(found) = buf[..n].iter().position(|byte| self.ends.contains(*byte)) {
                return Ok(Some(at + found as u64 + 1));
            }
            if n < buf.len() {
                break;
            }
            at += n as u64;
            step = (step * 2).min(STEP_MAX);
        }
        Ok(None)
    }

    fn end_before(&mut self, from: u64, limit: u64) -> io::Result<Option<u64>> {
        let (mut at, mut step) = (from, STEP_MIN);
        let mut buf = Vec::new();
        while at > limit {
            let start = at.saturating_sub(step).max(limit);
            buf.resize((at - start) as usize, 0);
            let n = self.peek.read(start, &mut buf)?;
            if let Some(found) = buf[..n].iter().rposition(|byte| self.ends.contains(*byte)) {
                return Ok(Some(start + found as u64 + 1));
            }
            at = start;
            step = (step * 2).min(STEP_MAX);
        }
        Ok(None)
    }
}

/// Calls `then` with the boundaries of `unit`.
pub(crate) fn with_boundaries<T>(
    unit: ReadUnit,
    peek: &mut PeekRange<'_>,
    then: impl FnOnce(&mut dyn UnitBoundaries) -> T,
) -> T {
    if let Some(ends) = unit.record_ends() {
        return then(&mut RecordBoundaries { peek, ends });
    }
    match unit {
        ReadUnit::Elements { start, size } => then(&mut ElementBoundaries {
            start,
            size: u64::from(size.max(1)),
        }),
        _ => then(&mut ByteBoundaries),
    }
}
