//! One window: which segments it takes, what in them is live, and taking that home.

use std::ops::Range;

use forebay_device::DeviceError;
use forebay_log::{Addr, Entry, LogError, Placed, RangeKind};
use forebay_units::{Line, RecordSeq, SegmentSeq};
use futures_util::StreamExt;

use super::home_writes::HomeWrites;
use crate::engine::Engine;
use crate::home::{Homeward, LoadedPieces};
use crate::marks::home_parts;
use crate::pacing::Priority;
use crate::piece::{Loaded, Piece, bytes_of};
use crate::policy;
use crate::ranges::Mark;
use crate::state::pace;
use crate::trouble::Streak;

/// The most live data taken in one window, in sectors: 16 MiB. Two windows may be in memory.
const WINDOW_SECTORS: u64 = 32 << 10;
/// Summaries being read at once.
const SUMMARIES: usize = 8;

/// Why a window was not finished.
pub(super) enum Failure {
    /// The volume is closing.
    Stopped,
    /// The data device did not do what it must.
    Data(DeviceError),
    /// The log device does not give back what it holds.
    Unreadable(DeviceError),
    /// The log failed; the rescue takes over.
    Log(LogError),
}

impl From<LogError> for Failure {
    fn from(error: LogError) -> Failure {
        Failure::Log(error)
    }
}

impl From<DeviceError> for Failure {
    fn from(error: DeviceError) -> Failure {
        match error {
            DeviceError::Closed { .. } => Failure::Stopped,
            error => Failure::Data(error),
        }
    }
}

/// A window whose live data has been read.
pub(super) struct Ready {
    pub(super) window: Range<SegmentSeq>,
    /// Before which segment what cannot be read was to be given up when it was read.
    pub(super) given_up: Option<SegmentSeq>,
    /// In how many writes it goes home, about.
    pub(super) writes: u64,
    pub(super) loaded: LoadedPieces,
}

/// A window that is home but for the flush, and the tail that has to follow.
pub(super) struct Written {
    pub(super) window: Range<SegmentSeq>,
    pub(super) pieces: Vec<(Line, Addr)>,
    /// How many were to go home.
    pub(super) live: usize,
    /// Sectors of marks that are true at home.
    pub(super) carried: u64,
    /// Fingerprinted blocks that were touched.
    pub(super) touched: u64,
    /// The newest record when it was last asked what is live, or anything was kept in the log.
    pub(super) superseded_by: RecordSeq,
    /// How many flushes of the data device had failed before anything was written.
    pub(super) lost_flushes: u64,
    /// Home took some of it.
    pub(super) answers: bool,
    /// Home took nothing at all of it, and gave this error.
    pub(super) in_vain: Option<DeviceError>,
}

/// What became of a window's marks.
#[derive(Default)]
struct CarriedMarks {
    /// Home could not be told these.
    refused: Vec<(Range<u64>, Mark)>,
    /// The last error of that.
    error: Option<DeviceError>,
    /// Home took some of what is to read as zeroes.
    zeroed: bool,
    /// Sectors of those that are true at home now.
    carried: u64,
}

impl Engine {
    /// The most segments to take from `start` on: as many as a window may hold, none that is not durable, and
    /// none that was written since older ones were given up.
    pub(super) fn window(&self, start: SegmentSeq) -> Range<SegmentSeq> {
        let given_up = self.faults.borrow().gives_up_before();
        let given_up = given_up.filter(|before| start < *before);
        let durable = self.log.destage_limit();
        let limit = given_up.map_or(durable, |before| before.min(durable));
        let most = match self.refused.borrow().narrow {
            true => 1,
            false => policy::window_segments(self.log.ring().segment_count),
        };
        let (mut end, mut live) = (start, 0);
        while end < limit && end.since(start) < most && live < WINDOW_SECTORS {
            live += u64::from(self.map.borrow().live_in(end));
            end = end.next();
        }
        start..end
    }

    pub(super) async fn read_window(&self, start: SegmentSeq, urgent: bool) -> Ready {
        let most = self.window(start);
        let given_up = self.faults.borrow().gives_up_before();
        let (window, pieces, writes) = self.live_in_window(most).await;
        Ready {
            window,
            given_up,
            writes,
            loaded: self.load(pieces, Priority::of_destaging(urgent)).await,
        }
    }

    /// Takes a window's marks and data home; what home refuses is kept in the log.
    pub(super) async fn write_window(
        &self,
        ready: Ready,
        urgent: bool,
        thorough: bool,
    ) -> Result<Written, Failure> {
        let Ready {
            window,
            given_up,
            writes,
            mut loaded,
        } = ready;
        if loaded.stopped {
            return Err(Failure::Stopped);
        }
        let all_read = loaded.unreadable.is_empty();
        self.faults.borrow_mut().was_read(window.start, all_read);
        self.consider_giving_up(&mut loaded, given_up);
        self.faults.borrow_mut().unreadable = bytes_of(&loaded.unreadable);
        if let Some(error) = loaded.error {
            return Err(Failure::Unreadable(error));
        }
        self.declare_lost(&loaded.damaged)?;
        let marks = self.marks_in_window(&window);
        let changes = loaded.sound.iter().map(|l| l.piece.line_sectors());
        let marked = marks.iter().map(|(range, _)| range.clone());
        let touched = self.about_to_change(changes.chain(marked)).await?;
        let lost_flushes = self.past_log.borrow().flushes_failed();
        let marks = self.carry_marks_home(marks, urgent).await?;
        let live = loaded.sound.len();
        let home = self
            .write_live_home(&window, (loaded.sound, writes), urgent, thorough)
            .await;
        if home.stopped {
            return Err(Failure::Stopped);
        }
        let mut in_vain = None;
        let answers = home.succeeded || marks.zeroed;
        if let Some(error) = home.error.clone().or(marks.error) {
            let segments = window.end.since(window.start);
            let answer = (answers, thorough);
            self.keep_refused(&home, marks.refused, &error, answer, segments)
                .await?;
            in_vain = (!answers).then_some(error);
        }
        Ok(Written {
            window,
            pieces: home.taken,
            live,
            carried: marks.carried,
            touched,
            lost_flushes,
            superseded_by: self.log.last_record(),
            answers,
            in_vain,
        })
    }

    /// Does what a window's marks say.
    async fn carry_marks_home(
        &self,
        marks: Vec<(Range<u64>, Mark)>,
        urgent: bool,
    ) -> Result<CarriedMarks, Failure> {
        let priority = Priority::of_destaging(urgent);
        let mut out = CarriedMarks::default();
        let streak = Streak::of_home(self, priority);
        for (range, mark) in marks {
            for part in home_parts(range) {
                self.give_way(priority).await?;
                let sectors = part.end - part.start;
                match self.carry_mark_home(part.clone(), mark).await {
                    Ok(()) if mark.kind == RangeKind::Lost => {}
                    Ok(()) => {
                        out.zeroed |= mark.kind != RangeKind::Discard;
                        out.carried += sectors;
                        self.doing.borrow_mut().carry(sectors);
                    }
                    Err(error) => {
                        if mark.kind != RangeKind::Lost {
                            streak.failed(&error);
                        }
                        out.refused.push((part, mark));
                        out.error = Some(error);
                    }
                }
            }
        }
        Ok(out)
    }

    /// Writes a window's pieces home, and counts for the writers' pace what got there.
    async fn write_live_home(
        &self,
        window: &Range<SegmentSeq>,
        (sound, writes): (Vec<Loaded>, u64),
        urgent: bool,
        thorough: bool,
    ) -> Homeward {
        let bytes = pace::bytes_of(window, self.log.ring().segment_bytes);
        let pieces = sound.len();
        self.pace.borrow_mut().begin_window(bytes, pieces, writes);
        let priority = Priority::of_destaging(urgent);
        let home = self.write_pieces_home(sound, priority, thorough).await;
        self.counters.borrow_mut().destaged_bytes += home.written;
        if home.error.is_none() && !home.stopped {
            self.pace.borrow_mut().end_window();
        }
        home
    }

    /// Home gave this error for a part of a window: what it refuses is kept in the log, if home answers
    /// at all, so that the tail can pass it.
    ///
    /// # Errors
    /// If it is better to try the whole window again.
    async fn keep_refused(
        &self,
        home: &Homeward,
        marks: Vec<(Range<u64>, Mark)>,
        error: &DeviceError,
        (answers, thorough): (bool, bool),
        segments: u64,
    ) -> Result<(), Failure> {
        self.counters.borrow_mut().data_errors += 1;
        if home.refused.is_empty() && home.untried == 0 && marks.is_empty() {
            return Ok(());
        }
        if home.untried > 0 || !(answers || thorough) {
            return Err(error.clone().into());
        }
        if !answers {
            // A device that does not even flush refuses nothing; it is away.
            self.flush_data().await?;
        }
        if !self.can_keep(&home.refused, segments) {
            self.refused.borrow_mut().narrow = true;
            return Err(error.clone().into());
        }
        let mut kept = self.keep_in_log(&home.refused);
        for (range, mark) in marks {
            let still = self.still_marked(mark, range);
            kept = kept.and_then(|()| self.keep_marks(mark.kind, &still));
        }
        if kept.is_err() {
            return Err(error.clone().into());
        }
        tracing::warn!(%error, pieces = home.refused.len(), "home refuses data; it stays in the log");
        self.refused.borrow_mut().note(error);
        Ok(())
    }

    fn marks_in_window(&self, window: &Range<SegmentSeq>) -> Vec<(Range<u64>, Mark)> {
        let records = self.log.first_record(window.start)..self.log.first_record(window.end);
        let map = self.map.borrow();
        map.ranges()
            .iter()
            .filter(|(_, mark)| records.contains(&mark.record))
            .collect()
    }

    /// The pieces of data that still count in these segments, or in as many of them, at least one, as take no longer
    /// than a window may to write home: which that is, and in how many writes.
    async fn live_in_window(
        &self,
        most: Range<SegmentSeq>,
    ) -> (Range<SegmentSeq>, Vec<Piece>, u64) {
        let writes_max = policy::window_writes(self.pace.borrow().writes_assumed());
        let mut window = most.start..most.start;
        let (mut pieces, mut writes) = (Vec::new(), HomeWrites::default());
        let segments = (most.start.0..most.end.0).map(SegmentSeq);
        let mut lists = futures_util::stream::iter(segments)
            .map(|segment| self.live_pieces(segment))
            .buffered(SUMMARIES);
        while let Some(list) = lists.next().await {
            let before = writes.count();
            list.iter().for_each(|piece| writes.add(piece.line));
            if writes.count() > writes_max && window.start < window.end {
                return (window, pieces, before);
            }
            pieces.extend(list);
            window.end = window.end.next();
        }
        (window, pieces, writes.count())
    }

    /// The live pieces of a segment: by its summary, if that tells of them all, else by the map.
    async fn live_pieces(&self, segment: SegmentSeq) -> Vec<Piece> {
        if self.map.borrow().live_in(segment) == 0 {
            return Vec::new();
        }
        let listed = self
            .log
            .entries(segment)
            .await
            .ok()
            .flatten()
            .unwrap_or_default();
        let map = self.map.borrow();
        let lookup = |placed: &Placed| match placed.entry {
            Entry::Data { sector, .. } => map.piece_at(sector.line(), placed.addr),
            Entry::Range { .. } => None,
        };
        let pieces: Vec<Piece> = listed.iter().filter_map(lookup).collect();
        let live: u32 = pieces.iter().map(|piece| piece.live.count_ones()).sum();
        if live == map.live_in(segment) {
            return pieces;
        }
        tracing::warn!(%segment, "the summary does not tell of all that is live; asking the map");
        let ring = self.log.ring();
        let slot = ring.slot(segment);
        map.all_pieces()
            .filter(|piece| ring.slot_of(piece.addr) == slot)
            .collect()
    }

    /// Notes in the log that the data of these pieces is lost, so that it stays known when their
    /// segment is gone, and that home is never taken for it.
    fn declare_lost(&self, pieces: &[Piece]) -> Result<(), Failure> {
        let still: Vec<Range<u64>> = {
            let map = self.map.borrow();
            let now = pieces
                .iter()
                .filter_map(|piece| map.piece_at(piece.line, piece.addr));
            now.flat_map(Piece::live_runs).collect()
        };
        if !still.is_empty() {
            tracing::error!(ranges = still.len(), "data in the log is damaged and lost");
        }
        Ok(self.keep_marks(RangeKind::Lost, &still)?)
    }

    /// Does what a mark says, as far as it still counts. What is lost cannot come home: it is noted
    /// anew at the head. A discard may be left undone: what it was for is of no use to anybody.
    ///
    /// # Errors
    /// The data device's, or that there is no room in the log.
    async fn carry_mark_home(&self, range: Range<u64>, mark: Mark) -> Result<(), DeviceError> {
        if mark.kind == RangeKind::Lost {
            let still = self.still_marked(mark, range);
            return self.keep_marks(mark.kind, &still);
        }
        let done = self.mark_at_home(mark, range).await;
        if mark.kind == RangeKind::Discard
            && let Err(error) = &done
        {
            tracing::debug!(%error, "a discard was not done");
            self.counters.borrow_mut().data_errors += 1;
            return Ok(());
        }
        done
    }
}
