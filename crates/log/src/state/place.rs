//! Where records go: right behind the one before, further on, or at the start of the next segment.
//!
//! Further on, or in the next segment, where something outside says that a write would be done sooner
//! there ([`crate::gaps`]). Whatever it says, the room that was promised for a write is kept: a gap is left
//! only where the write would also have room in a segment that is not begun yet.

use forebay_segments::{Job, Sealing};
use forebay_units::round_up;

use crate::format::HEADER_BYTES;
use crate::state::{State, UNSTABLE_SEGMENTS_MAX};

/// A gap between the last record and the summary that is cheaper to write than to skip, in bytes.
const FILL_BYTES: u32 = 64 << 10;

/// Where the next record goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Placement {
    /// So many bytes behind the end of the one before.
    Behind(u32),
    /// At the start of the next segment.
    NextSegment,
}

impl State {
    /// True if the next record may leave a gap: there is a record before it in its segment, nothing of a
    /// write lies open, half of the ring is free, and the next segment could be begun at once.
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

    /// The longest gap, in bytes: more would waste too much of a segment.
    pub(crate) fn gap_max(&self) -> u32 {
        self.ring.segment_bytes / 4
    }

    /// Where the next record would begin without a gap, in bytes of the device. None if no segment is open.
    pub(crate) fn next_at(&self) -> Option<u64> {
        let open = self.open.as_ref()?;
        Some(self.ring.segment_at(open.seq()) + u64::from(open.at()))
    }

    /// Has the next record leave a gap of at least `bytes`; says at which byte of the device the write with
    /// it will then begin. To be asked only if it may ([`State::may_leave_gap`]), and in time: the gap is for
    /// the record that is opened next.
    ///
    /// Near its end a segment is left: its summary and the next one's first record lie side by side and can
    /// be one write. That is done while what is skipped for it is still as much as the gap must have.
    pub(crate) fn plan_gap(&mut self, bytes: u32) -> u64 {
        let gap = round_up(bytes.into(), self.ring.block.into()) as u32;
        let open = self.open.as_ref().expect("asked whether it may");
        let like = open.records().last().expect("asked whether it may");
        let record = HEADER_BYTES as u32 + like.payload_bytes;
        let end = open.summary_at();
        // The summary grows by what the next record has, which may take another block.
        let wanted = u64::from(open.at()) + 2 * u64::from(gap) + u64::from(record);
        let stays = wanted + HEADER_BYTES as u64 <= u64::from(end);
        let (placement, begins) = match stays {
            true => (Placement::Behind(gap), open.at() + gap),
            false => (Placement::NextSegment, end),
        };
        self.placement = Some(placement);
        self.ring.segment_at(open.seq()) + u64::from(begins)
    }

    /// True if the next record goes to the next segment for the sake of a gap.
    pub(crate) fn leaves_segment(&self) -> bool {
        self.placement == Some(Placement::NextSegment)
    }

    /// How many writes wait to be taken.
    pub(crate) fn jobs_waiting(&self) -> usize {
        self.flight.jobs_waiting()
    }

    /// Forgets a gap that no record was opened for.
    pub(crate) fn drop_plan(&mut self) {
        self.placement = None;
    }

    /// Leaves the gap that was planned.
    pub(super) fn place_next(&mut self) {
        match self.placement.take() {
            None => {}
            Some(Placement::NextSegment) => self.end_segment(0),
            Some(Placement::Behind(gap)) => {
                let open = self
                    .open
                    .as_mut()
                    .expect("it was asked whether there is one");
                open.skip(gap);
            }
        }
    }

    /// Ends the open segment with its summary. A no-op if none is open or it holds nothing.
    pub(crate) fn seal(&mut self) {
        self.end_segment(FILL_BYTES);
    }

    /// Ends the open segment, and fills what is left before its summary if that is at most `fill`.
    fn end_segment(&mut self, fill: u32) {
        self.close_record();
        let Some(open) = self.open.take_if(|open| !open.records().is_empty()) else {
            return;
        };
        let end = Sealing {
            volume: self.volume,
            epoch: self.epoch,
            stable: self.flight.stable(),
            fill,
        };
        let ram = self.flight.segment_mut(open.seq());
        open.seal(ram, &end);
    }

    /// Takes the job behind this one, if the two can be one write of at most `most` bytes: the end of a
    /// segment, and the beginning of the next.
    pub(super) fn take_behind(&mut self, job: &Job, most: usize) -> Option<(u64, Job)> {
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
