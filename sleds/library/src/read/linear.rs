//! Reads from the first byte to the last, like any program.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;
use std::time::Instant;

use super::assemble::PieceAssembly;
use super::clock::WaitClock;
use super::{FilePiece, ReadOptions};

/// Way of reading the next bytes.
enum LinearSource {
    /// By `read`, at the file's own position.
    Position,
    /// By `pread` from this offset on, which leaves the file's position unchanged.
    Offset(u64),
}

/// Reads from an offset to a limit or to the end of the file.
pub(super) struct LinearReader<'f> {
    file: &'f File,
    source: LinearSource,
    assembly: PieceAssembly,
    /// Offset at which the reader stops.
    limit: u64,
    ended: bool,
    /// Clock of this pass; `None` if the pass is not observed.
    clock: Option<WaitClock>,
}

impl<'f> LinearReader<'f> {
    /// Makes a reader from the file's position on. The position must be `at`.
    pub(super) fn stream(file: &'f File, at: u64, options: ReadOptions) -> LinearReader<'f> {
        LinearReader {
            file,
            source: LinearSource::Position,
            assembly: PieceAssembly::new(options.unit, options.chunk, at),
            limit: u64::MAX,
            ended: false,
            clock: None,
        }
    }

    /// Returns this reader with a stop at byte `limit` of the file.
    pub(super) fn until(self, limit: u64) -> LinearReader<'f> {
        LinearReader { limit, ..self }
    }

    /// Returns this reader with a clock, whose time is recorded at the end.
    pub(super) fn timed(self, clock: Option<WaitClock>) -> LinearReader<'f> {
        LinearReader { clock, ..self }
    }

    /// Disables observations of this pass.
    pub(super) fn unobserved(&mut self) {
        self.clock = None;
    }

    /// Makes a reader from `at` on, which does not move the file's position.
    pub(super) fn at(file: &'f File, at: u64, options: ReadOptions) -> LinearReader<'f> {
        LinearReader {
            source: LinearSource::Offset(at),
            ..LinearReader::stream(file, at, options)
        }
    }

    /// Returns the offset after the last byte read.
    pub(super) fn end(&self) -> u64 {
        self.assembly.at() + self.assembly.rest() as u64
    }

    pub(super) fn next_piece(&mut self) -> io::Result<Option<FilePiece<'_>>> {
        // A single read may contain several pieces.
        if self.assembly.cut(self.ended) {
            return Ok(Some(self.assembly.piece()));
        }
        loop {
            if self.ended {
                if let Some(clock) = self.clock.take() {
                    clock.note();
                }
                let any = self.assembly.cut(true);
                return Ok(any.then(|| self.assembly.piece()));
            }
            let left = self.limit.saturating_sub(self.end());
            if left == 0 {
                self.ended = true;
                continue;
            }
            let room = self.assembly.make_room();
            let length = usize::try_from(left).map_or(room.len(), |left| left.min(room.len()));
            let room = &mut room[..length];
            let begun = self.clock.is_some().then(Instant::now);
            let read = match &self.source {
                LinearSource::Position => self.file.read(room),
                LinearSource::Offset(at) => self.file.read_at(room, *at),
            };
            match read {
                Ok(0) => self.ended = true,
                Ok(n) => {
                    if let LinearSource::Offset(at) = &mut self.source {
                        *at += n as u64;
                    }
                    if let (Some(clock), Some(begun)) = (&mut self.clock, begun) {
                        clock.waited_since(begun, n as u64);
                    }
                    self.assembly.add(n);
                    if self.assembly.cut(false) {
                        return Ok(Some(self.assembly.piece()));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}
