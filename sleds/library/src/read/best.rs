//! Reads the cheap parts first.
//!
//! Two lanes read: one the cached parts, the other the parts on the device. The cached lane goes first. A block that
//! arrives from the device in the meantime is as cheap as a cached part, so it is returned at once, and the device
//! continues with the next block. The device therefore works while the caller does.

use std::fs::File;
use std::io;

use super::assemble::PieceAssembly;
use super::cached::CachedLane;
use super::clock::WaitClock;
use super::device::DeviceLane;
use super::linear::LinearReader;
use super::unread::{LaneStep, UnreadParts};
use super::{FilePiece, ReadOptions};

/// Reads bytes `from` to `to` in best order, then bytes that were appended in the meantime.
///
/// Invariant: every byte before `to` is returned, or is in exactly one of the lanes or the schedule. After the lanes
/// are done, it may also be after `tail`.
pub(super) struct BestReader<'f> {
    unread: UnreadParts<'f>,
    cached: CachedLane,
    device: DeviceLane,
    /// True if the device reads while cached parts are returned.
    ahead: bool,
    /// Offset at which the reader stops, even if the file grows.
    limit: u64,
    /// Reader of the bytes after the lanes.
    last: Option<LinearReader<'f>>,
}

/// A lane whose assembly has a piece.
enum ReadyLane {
    Cached,
    Device,
}

impl<'f> BestReader<'f> {
    pub(super) fn new(
        file: &'f File,
        from: u64,
        to: u64,
        options: ReadOptions,
        may_stop: bool,
    ) -> io::Result<BestReader<'f>> {
        let assembly = || PieceAssembly::new(options, from);
        let unread = UnreadParts::new(file, from, to, options)?;
        let clock = WaitClock::best(&unread.located);
        Ok(BestReader {
            unread,
            cached: CachedLane::new(assembly()),
            device: DeviceLane::new(assembly(), options.chunk, clock),
            ahead: !may_stop,
            limit: u64::MAX,
            last: None,
        })
    }

    /// Returns this reader with a stop at byte `limit` of the file.
    pub(super) fn until(self, limit: u64) -> BestReader<'f> {
        BestReader { limit, ..self }
    }

    /// Disables observations of this pass.
    pub(super) fn unobserved(&mut self) {
        self.device.unobserved();
    }

    /// Returns the end of the file as far as it is known.
    pub(super) fn end(&self) -> u64 {
        self.last.as_ref().map_or(self.unread.to, LinearReader::end)
    }

    pub(super) fn next_piece(&mut self) -> io::Result<Option<FilePiece<'_>>> {
        if self.last.is_none()
            && let Some(lane) = self.next_lane()?
        {
            let piece = match lane {
                ReadyLane::Cached => self.cached.assembly.piece(),
                ReadyLane::Device => self.device.assembly.piece(),
            };
            let skipped = self.unread.skipped_before(piece.offset);
            return Ok(Some(FilePiece { skipped, ..piece }));
        }
        let UnreadParts {
            file,
            tail,
            options,
            ..
        } = self.unread;
        self.last
            .get_or_insert_with(|| LinearReader::at(file, tail, options).until(self.limit))
            .next_piece()
    }

    /// Returns the lane that has the next piece; `None` after the last stretch.
    fn next_lane(&mut self) -> io::Result<Option<ReadyLane>> {
        loop {
            if self.ahead {
                self.device.ask(&mut self.unread)?;
                if self.device.is_ready() && self.device.step(&mut self.unread)? == LaneStep::Piece
                {
                    return Ok(Some(ReadyLane::Device));
                }
            }
            match self.cached.step(&mut self.unread)? {
                LaneStep::Piece => return Ok(Some(ReadyLane::Cached)),
                LaneStep::More => continue,
                LaneStep::Done => {}
            }
            match self.device.step(&mut self.unread)? {
                LaneStep::Piece => return Ok(Some(ReadyLane::Device)),
                LaneStep::More => {}
                LaneStep::Done => return Ok(None),
            }
        }
    }
}
