//! A scrub of the log: reads all data in the log that is not on the data device yet, and both superblocks.
//!
//! The data device has no checksums, so the caller reads it by itself ([`DcdVolume::data_device`]).

use std::ops::Range;
use std::rc::Rc;

use forebay_device::{
    Buf, Device, DeviceError, SCRUB_BYTES, ScrubArea, ScrubFault, ScrubFuture, ScrubStep,
    ScrubTarget,
};
use forebay_ring_log::{COPIES_BYTES, COPIES_END, RingEntry};
use forebay_units::{SECTOR_BYTES, SegmentSeq};

use crate::engine::DcdEngine;
use crate::home::runs;
use crate::piece::LogFragment;
use crate::volume::DcdVolume;

/// Sectors that one step reads.
const PIECE_SECTORS: u64 = SCRUB_BYTES / SECTOR_BYTES;

/// The data in the log of a cache, for a scrub. A position is the number of a segment times its sectors, plus a sector
/// in the segment.
pub struct LogScrub(pub DcdVolume);

/// Both copies of the superblock of a cache's log, for a scrub.
pub struct LogSuperblockScrub(pub DcdVolume);

impl DcdVolume {
    /// Returns true while requests of clients are being served or wait, or a task waits until the log is empty, so that
    /// a scrub should pause.
    pub fn is_busy(&self) -> bool {
        let engine = self.engine();
        let activity = engine.activity.borrow();
        activity.is_busy() || activity.is_draining()
    }

    /// Returns the data device.
    pub fn data_device(&self) -> Rc<dyn Device> {
        Rc::clone(&self.engine().data)
    }
}

impl ScrubTarget for LogSuperblockScrub {
    fn area(&self) -> ScrubArea {
        ScrubArea::LogSuperblock
    }

    fn end(&self) -> u64 {
        COPIES_END
    }

    fn bytes(&self) -> u64 {
        COPIES_BYTES
    }

    fn step(&self, range: Range<u64>) -> ScrubFuture<'_> {
        Box::pin(async move {
            let engine = &*self.0.engine();
            if engine.log.failure().is_some() {
                return nothing(range.end);
            }
            engine.log.scrub_superblocks(range).await
        })
    }
}

impl ScrubTarget for LogScrub {
    fn area(&self) -> ScrubArea {
        ScrubArea::Log
    }

    fn end(&self) -> u64 {
        let engine = self.0.engine();
        let head = engine.log.head();
        head.0.saturating_mul(sectors_of_segment(&engine))
    }

    fn bytes(&self) -> u64 {
        self.0.engine().map.borrow().live_sectors() * SECTOR_BYTES
    }

    fn step(&self, range: Range<u64>) -> ScrubFuture<'_> {
        let engine = self.0.engine();
        Box::pin(async move { engine.scrub_log(range).await })
    }
}

/// Returns the result of a step for a log that is not in use.
fn nothing(next: u64) -> ScrubStep {
    ScrubStep {
        next,
        ..ScrubStep::default()
    }
}

fn sectors_of_segment(engine: &DcdEngine) -> u64 {
    u64::from(engine.log.ring().segment_bytes) / SECTOR_BYTES
}

impl DcdEngine {
    /// Checks the data in the log from a position on. The rescue from a failed log reads all data itself.
    async fn scrub_log(&self, range: Range<u64>) -> ScrubStep {
        let mut step = nothing(range.end);
        if self.log.failure().is_some() {
            return step;
        }
        if range.start == 0 {
            self.add_lost_ranges(&mut step);
        }
        let (ring, per) = (self.log.ring(), sectors_of_segment(self));
        let at = range.start.max(self.log.tail().0.saturating_mul(per));
        let segment = SegmentSeq(at / per);
        if segment >= self.log.head() || at >= range.end {
            return step;
        }
        let _pin = self.log.pin(ring.addr(segment, 0));
        let position = |piece: &LogFragment| {
            segment.0 * per + u64::from(ring.offset_of(piece.addr)) / SECTOR_BYTES
        };
        let mut pieces = self.durable_pieces(segment).await;
        pieces.retain(|piece| position(piece) >= at);
        pieces.sort_unstable_by_key(|piece| piece.addr);
        let mut sectors = 0;
        let behind = pieces.iter().position(|piece| {
            sectors += u64::from(piece.sectors);
            sectors > PIECE_SECTORS
        });
        step.next = (segment.0 + 1) * per;
        if let Some(behind) = behind {
            step.next = position(&pieces[behind]);
            pieces.truncate(behind);
        }
        self.check_pieces(pieces, &mut step).await;
        step
    }

    /// Adds the ranges that are recorded as lost.
    fn add_lost_ranges(&self, step: &mut ScrubStep) {
        for (first, sectors) in self.lost_ranges() {
            let text = "their newest data in the log was damaged, and is recorded as lost";
            step.add(ScrubFault::damaged(
                ScrubArea::Log,
                first..first + sectors,
                text,
            ));
        }
    }

    /// Returns the live fragments of a segment that are durable on the device.
    async fn durable_pieces(&self, segment: SegmentSeq) -> Vec<LogFragment> {
        if segment < self.log.destage_limit() {
            return self.live_pieces(segment).await;
        }
        let entries = self.log.durable_entries(segment);
        let map = self.map.borrow();
        let live = entries.iter().filter_map(|placed| match placed.entry {
            RingEntry::Data { sector, .. } => map.piece_at(sector.line(), placed.addr),
            RingEntry::Range { .. } => None,
        });
        live.collect()
    }

    /// Reads fragments from the device, and compares them with their checksums.
    async fn check_pieces(&self, pieces: Vec<LogFragment>, step: &mut ScrubStep) {
        for run in runs(&self.log, pieces, PIECE_SECTORS) {
            let start = run.pieces[0].addr;
            let read = self.log.read(start, run.sectors).await.ok();
            for piece in run.pieces {
                step.bytes += piece.bytes() as u64;
                step.checked_bytes += piece.bytes() as u64;
                let from = ((piece.addr.0 - start.0) * SECTOR_BYTES) as usize;
                let part = read
                    .as_ref()
                    .map(|bytes| bytes.slice(from..from + piece.bytes()));
                if part.is_some_and(|bytes| piece.is_sound(&bytes)) {
                    continue;
                }
                // The first read may have been corrupted on its way, or be unreadable in another place.
                let again = self.log.read(piece.addr, piece.sectors.into()).await;
                self.judge(&piece, again, step);
            }
        }
    }

    /// Adds the fault of a fragment, unless the fragment is sound or was overwritten meanwhile.
    fn judge(&self, piece: &LogFragment, read: Result<Buf, DeviceError>, step: &mut ScrubStep) {
        let error = match read {
            Ok(bytes) if piece.is_sound(&bytes) => return,
            Ok(_) => None,
            Err(error) => Some(error),
        };
        let live = self.map.borrow().piece_at(piece.line, piece.addr);
        for sectors in live.into_iter().flat_map(LogFragment::live_runs) {
            step.add(if let Some(error) = &error {
                ScrubFault::of_device(ScrubArea::Log, sectors, error)
            } else {
                let text = "the data in the log does not match its checksum";
                ScrubFault::damaged(ScrubArea::Log, sectors, text)
            });
        }
    }
}
