//! Placement of records: directly after the record before, after a rotational offset, or at the start of the next
//! segment.
//!
//! The policy ([`crate::gaps`]) asks for an offset or for the next segment if a write would complete sooner there.
//! Space that was granted to a write is kept in any case: the log leaves an offset only if the write would also fit
//! into a segment that is not opened yet.

use forebay_segment_log::{SummaryFields, WriteJob};
use forebay_units::round_up;

use crate::format::HEADER_BYTES;
use crate::state::{RingState, UNSTABLE_SEGMENTS_MAX};

/// Longest gap between the last record and the summary that is cheaper to write than to skip, in bytes.
const FILL_BYTES: u32 = 64 << 10;

/// Placement of the next record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecordPlacement {
    /// This many bytes after the end of the record before.
    Behind(u32),
    /// At the start of the next segment.
    NextSegment,
}

impl RingState {
    /// Returns true if the next record may have an offset: its segment already has a record, no write is open, half of
    /// the ring is free, and the next segment could be opened at once.
    pub(crate) fn may_leave_gap(&self) -> bool {
        let between = self
            .open
            .as_ref()
            .is_some_and(|open| !open.has_open_record() && !open.records().is_empty());
        let next_slot = self.ring.slot(self.next_segment);
        between
            && !self.group_begun
            && 2 * self.free_segments() >= self.ring.segment_count
            && self.flight.room() > 0
            && self.unstable_segments() < UNSTABLE_SEGMENTS_MAX
            && self.pins[next_slot as usize] == 0
    }

    /// Returns the maximum offset, in bytes. A longer offset would waste too much of a segment.
    pub(crate) fn gap_max(&self) -> u32 {
        self.ring.segment_bytes / 4
    }

    /// Returns the start of the next record without an offset, in bytes of the device. `None` if no segment is open.
    pub(crate) fn next_at(&self) -> Option<u64> {
        let open = self.open.as_ref()?;
        Some(self.ring.segment_at(open.seq()) + u64::from(open.at()))
    }

    /// Plans an offset of at least `bytes` before the next record; returns the byte of the device at which the write
    /// will begin. Callers must check [`RingState::may_leave_gap`] first, and must call this directly before they open the
    /// record.
    ///
    /// Near its end the segment is left instead, since its summary and the first record of the next segment are
    /// adjacent and can be one write. The segment is left while the skipped part is still as long as the offset must
    /// be.
    pub(crate) fn plan_gap(&mut self, bytes: u32) -> u64 {
        let gap = round_up(bytes.into(), self.ring.block.into()) as u32;
        let open = self.open.as_ref().expect("a segment is open");
        let like = open.records().last().expect("the segment has a record");
        let record = HEADER_BYTES as u32 + like.payload_bytes;
        let end = open.summary_at();
        // The summary grows by the entries of the next record, which may need another block.
        let wanted = u64::from(open.at()) + 2 * u64::from(gap) + u64::from(record);
        let stays = wanted + HEADER_BYTES as u64 <= u64::from(end);
        let (placement, begins) = if stays {
            (RecordPlacement::Behind(gap), open.at() + gap)
        } else {
            (RecordPlacement::NextSegment, end)
        };
        self.placement = Some(placement);
        self.ring.segment_at(open.seq()) + u64::from(begins)
    }

    /// Returns true if the next record will leave the segment because of an offset.
    pub(crate) fn leaves_segment(&self) -> bool {
        self.placement == Some(RecordPlacement::NextSegment)
    }

    /// Returns the number of writes that wait to be taken.
    pub(crate) fn jobs_waiting(&self) -> usize {
        self.flight.jobs_waiting()
    }

    /// Discards a planned offset for which no record was opened.
    pub(crate) fn drop_plan(&mut self) {
        self.placement = None;
    }

    /// Leaves the planned offset.
    pub(super) fn place_next(&mut self) {
        match self.placement.take() {
            None => {}
            Some(RecordPlacement::NextSegment) => self.end_segment(0),
            Some(RecordPlacement::Behind(gap)) => {
                let open = self.open.as_mut().expect("a segment is open");
                open.skip(gap);
            }
        }
    }

    /// Ends the open segment with its summary. Does nothing if no segment is open or the open segment has no records.
    pub(crate) fn seal(&mut self) {
        self.end_segment(FILL_BYTES);
    }

    /// Ends the open segment, and fills the space before its summary if this is at most `fill` bytes.
    fn end_segment(&mut self, fill: u32) {
        self.close_record();
        let Some(open) = self.open.take_if(|open| !open.records().is_empty()) else {
            return;
        };
        let end = SummaryFields {
            volume: self.volume,
            epoch: self.epoch,
            stable: self.flight.stable(),
            fill,
        };
        let ram = self.flight.segment_mut(open.seq());
        open.seal(ram, &end);
    }

    /// Takes the job after this one if both can be one write of at most `most` bytes: the end of a segment and the
    /// beginning of the next one.
    pub(super) fn take_behind(&mut self, job: &WriteJob, most: usize) -> Option<(u64, WriteJob)> {
        let ends = job.offset as usize + job.buf.len() == self.ring.segment_bytes as usize;
        let next = job.segment.next();
        let adjacent = ends && self.ring.slot(next) > 0;
        let fits = self.flight.next_waiting()?;
        let begins = fits.first_closed().filter(|bytes| bytes.start == 0)?;
        let len = job.buf.len() + begins.len();
        let joins = adjacent && fits.seq() == next && len <= most;
        joins.then(|| self.flight.take_job()).flatten()
    }
}
