//! Reads from the first byte to the last, like any program.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::time::Instant;

use rustix::io::Errno;

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
    holes: HoleSkipper,
}

/// State of leaving out holes.
struct HoleSkipper {
    /// False if the caller wants the bytes in holes, or the file has no positions.
    enabled: bool,
    /// True if the last read returned only zero bytes: the position may be in a hole.
    suspected: bool,
    /// Number of bytes left out since the last piece.
    skipped: u64,
}

impl<'f> LinearReader<'f> {
    /// Makes a reader from the file's position on. The position must be `at`.
    pub(super) fn stream(file: &'f File, at: u64, options: ReadOptions) -> LinearReader<'f> {
        LinearReader {
            file,
            source: LinearSource::Position,
            assembly: PieceAssembly::new(options, at),
            limit: u64::MAX,
            ended: false,
            clock: None,
            holes: HoleSkipper {
                enabled: options.leaves_out_holes(),
                suspected: false,
                skipped: 0,
            },
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
            ..LinearReader::stream(
                file,
                at,
                ReadOptions {
                    // Finding the end of a hole moves the file's position.
                    skip_holes: false,
                    ..options
                },
            )
        }
    }

    /// Returns the offset after the last byte read.
    pub(super) fn end(&self) -> u64 {
        self.assembly.at() + self.assembly.rest() as u64
    }

    pub(super) fn next_piece(&mut self) -> io::Result<Option<FilePiece<'_>>> {
        // A single read may contain several pieces.
        while !self.assembly.cut(self.ended) {
            if self.ended {
                if let Some(clock) = self.clock.take() {
                    clock.note();
                }
                return Ok(None);
            }
            if self.holes.suspected && self.assembly.rest() == 0 {
                self.skip_hole()?;
            }
            self.read_more()?;
        }
        Ok(Some(FilePiece {
            skipped: std::mem::take(&mut self.holes.skipped),
            ..self.assembly.piece()
        }))
    }

    /// Reads once.
    fn read_more(&mut self) -> io::Result<()> {
        let left = self.limit.saturating_sub(self.end());
        if left == 0 {
            self.ended = true;
            return Ok(());
        }
        let room = self.assembly.make_room()?;
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
                self.holes.suspected =
                    self.holes.enabled && room[..n].iter().all(|byte| *byte == 0);
                if let LinearSource::Offset(at) = &mut self.source {
                    *at += n as u64;
                }
                if let (Some(clock), Some(begun)) = (&mut self.clock, begun) {
                    clock.waited_since(begun, n as u64);
                }
                self.assembly.add(n);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Continues at the end of the hole, if the position is in a hole. All bytes before the position are returned.
    fn skip_hole(&mut self) -> io::Result<()> {
        self.holes.suspected = false;
        let mut file = self.file;
        let at = self.end();
        let data = match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(Errno::NXIO) => file.seek(SeekFrom::End(0))?,
            Err(_) => {
                self.holes.enabled = false;
                return Ok(());
            }
        };
        let to = data.clamp(at, self.limit.max(at));
        if to != data {
            file.seek(SeekFrom::Start(to))?;
        }
        self.holes.skipped += to - at;
        self.assembly.restart(to);
        Ok(())
    }
}
