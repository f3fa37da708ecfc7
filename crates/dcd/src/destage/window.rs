//! One destaging window: selects its segments, finds their live data, and writes this data to the data device.

use std::ops::Range;

use forebay_device::DeviceError;
use forebay_ring_log::{AddressedEntry, LogAddr, LogError, RangeKind, RingEntry};
use forebay_units::{BlockNumber, RecordSeq, SegmentSeq};
use futures_util::StreamExt;

use super::home_writes::DestageWrites;
use crate::admission::pace::log_bytes_of;
use crate::engine::DcdEngine;
use crate::home::{LogReadOutcome, WritebackOutcome};
use crate::marks::home_parts;
use crate::piece::{LoadedFragment, LogFragment, bytes_of};
use crate::policy;
use crate::ranges::RangeState;
use crate::trouble::FaultTracker;
use crate::yielding::WritebackPriority;

/// Maximum live data in one window, in sectors: 16 MiB. Two windows may be in memory.
const WINDOW_SECTORS: u64 = 32 << 10;
/// Summaries that are read at the same time.
const SUMMARIES: usize = 8;

/// Reason why a window was not finished.
pub(super) enum WindowFailure {
    /// The volume is closing.
    Stopped,
    /// The data device failed a request.
    Data(DeviceError),
    /// The log device fails to return data.
    Unreadable(DeviceError),
    /// The log failed; the rescue takes over.
    Log(LogError),
}

impl From<LogError> for WindowFailure {
    fn from(error: LogError) -> WindowFailure {
        WindowFailure::Log(error)
    }
}

impl From<DeviceError> for WindowFailure {
    fn from(error: DeviceError) -> WindowFailure {
        match error {
            DeviceError::Closed { .. } => WindowFailure::Stopped,
            error => WindowFailure::Data(error),
        }
    }
}

/// A window whose live data has been read.
pub(super) struct LoadedWindow {
    pub(super) window: Range<SegmentSeq>,
    /// Segment that limited an administrator's abandon command when the window was read: unreadable data before this
    /// segment may be declared lost.
    pub(super) abandon_limit: Option<SegmentSeq>,
    /// Approximate number of writes to destage the window.
    pub(super) writes: u64,
    pub(super) loaded: LogReadOutcome,
}

/// A window that is on the data device but not flushed there yet. The tail has not moved yet either.
pub(super) struct WrittenWindow {
    pub(super) window: Range<SegmentSeq>,
    pub(super) pieces: Vec<(BlockNumber, LogAddr)>,
    /// Number of fragments that had to be destaged.
    pub(super) live: usize,
    /// Sectors of pending zeroes and discards that were carried out.
    pub(super) carried: u64,
    /// Fingerprinted blocks that were changed, one bit each.
    pub(super) touched: u64,
    /// Newest record when the map was last asked for live fragments, or when data was last appended to the log again.
    pub(super) superseded_by: RecordSeq,
    /// Number of failed flushes of the data device before the window was written.
    pub(super) lost_flushes: u64,
    /// True if some write of the window succeeded.
    pub(super) answers: bool,
    /// Error of the data device, if every write of the window failed.
    pub(super) in_vain: Option<DeviceError>,
}

/// Result of carrying out a window's pending zeroes and discards.
#[derive(Default)]
struct PendingOutcome {
    /// Ranges that the data device failed to change.
    refused: Vec<(Range<u64>, RangeState)>,
    /// Last error of these.
    error: Option<DeviceError>,
    /// True if the data device zeroed some of the ranges.
    zeroed: bool,
    /// Sectors of the ranges that were carried out.
    carried: u64,
}

impl DcdEngine {
    /// Returns the longest possible window from `start` on. It is limited by the size of a window, by durable segments,
    /// and by an administrator's abandon command, which does not cover segments written later.
    pub(super) fn window(&self, start: SegmentSeq) -> Range<SegmentSeq> {
        let abandon_limit = self.faults.borrow().abandon_limit();
        let abandon_limit = abandon_limit.filter(|before| start < *before);
        let durable = self.log.destage_limit();
        let limit = abandon_limit.map_or(durable, |before| before.min(durable));
        let most = if self.refused.borrow().narrow {
            1
        } else {
            policy::window_segments(self.log.ring().segment_count)
        };
        let (mut end, mut live) = (start, 0);
        while end < limit && end.since(start) < most && live < WINDOW_SECTORS {
            live += u64::from(self.map.borrow().live_in(end));
            end = end.next();
        }
        start..end
    }

    pub(super) async fn read_window(&self, start: SegmentSeq, urgent: bool) -> LoadedWindow {
        let most = self.window(start);
        let abandon_limit = self.faults.borrow().abandon_limit();
        let (window, pieces, writes) = self.live_in_window(most).await;
        LoadedWindow {
            window,
            abandon_limit,
            writes,
            loaded: self
                .load(pieces, WritebackPriority::of_destaging(urgent))
                .await,
        }
    }

    /// Carries out a window's pending zeroes and discards, and writes its data to the data device. Appends fragments to
    /// the log again that the data device fails to write.
    pub(super) async fn write_window(
        &self,
        ready: LoadedWindow,
        urgent: bool,
        thorough: bool,
    ) -> Result<WrittenWindow, WindowFailure> {
        let LoadedWindow {
            window,
            abandon_limit,
            writes,
            mut loaded,
        } = ready;
        if loaded.stopped {
            return Err(WindowFailure::Stopped);
        }
        let all_read = loaded.unreadable.is_empty();
        self.faults.borrow_mut().was_read(window.start, all_read);
        self.apply_abandon_limit(&mut loaded, abandon_limit);
        self.faults.borrow_mut().unreadable = bytes_of(&loaded.unreadable);
        if let Some(error) = loaded.error {
            return Err(WindowFailure::Unreadable(error));
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
            .write_live_home(&window, loaded.sound, writes, urgent, thorough)
            .await;
        if home.stopped {
            return Err(WindowFailure::Stopped);
        }
        let mut in_vain = None;
        let answers = home.succeeded || marks.zeroed;
        if let Some(error) = home.error.clone().or(marks.error) {
            let segments = window.end.since(window.start);
            self.keep_refused(&home, marks.refused, &error, answers, thorough, segments)
                .await?;
            in_vain = (!answers).then_some(error);
        }
        Ok(WrittenWindow {
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

    /// Carries out a window's pending zeroes and discards.
    async fn carry_marks_home(
        &self,
        marks: Vec<(Range<u64>, RangeState)>,
        urgent: bool,
    ) -> Result<PendingOutcome, WindowFailure> {
        let priority = WritebackPriority::of_destaging(urgent);
        let mut out = PendingOutcome::default();
        let streak = FaultTracker::of_home(self, priority);
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

    /// Writes a window's fragments to the data device, and counts the progress for the pacing of writers.
    async fn write_live_home(
        &self,
        window: &Range<SegmentSeq>,
        sound: Vec<LoadedFragment>,
        writes: u64,
        urgent: bool,
        thorough: bool,
    ) -> WritebackOutcome {
        let bytes = log_bytes_of(window, self.log.ring().segment_bytes);
        let pieces = sound.len();
        self.admission
            .pace
            .borrow_mut()
            .begin_window(bytes, pieces, writes);
        let priority = WritebackPriority::of_destaging(urgent);
        let home = self.write_pieces_home(sound, priority, thorough).await;
        self.counters.borrow_mut().destaged_bytes += home.written;
        if home.error.is_none() && !home.stopped {
            self.admission.pace.borrow_mut().end_window();
        }
        home
    }

    /// Handles an error of the data device for a part of a window. If the device works at all, appends the failed
    /// fragments to the log again, so that the tail can pass them.
    ///
    /// # Errors
    /// If the whole window should be tried again.
    async fn keep_refused(
        &self,
        home: &WritebackOutcome,
        marks: Vec<(Range<u64>, RangeState)>,
        error: &DeviceError,
        answers: bool,
        thorough: bool,
        segments: u64,
    ) -> Result<(), WindowFailure> {
        self.counters.borrow_mut().data_errors += 1;
        if home.refused.is_empty() && home.untried == 0 && marks.is_empty() {
            return Ok(());
        }
        if home.untried > 0 || !(answers || thorough) {
            return Err(error.clone().into());
        }
        if !answers {
            // A device that fails even a flush is not rejecting single writes: the device is gone.
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
        tracing::warn!(
            %error,
            pieces = home.refused.len(),
            "the data device failed some writes; their data stays in the log"
        );
        self.refused.borrow_mut().note(error);
        Ok(())
    }

    fn marks_in_window(&self, window: &Range<SegmentSeq>) -> Vec<(Range<u64>, RangeState)> {
        let records = self.log.first_record(window.start)..self.log.first_record(window.end);
        let map = self.map.borrow();
        map.ranges()
            .iter()
            .filter(|(_, mark)| records.contains(&mark.record))
            .collect()
    }

    /// Collects the live fragments of these segments, in the order of the log. Stops before a segment that would make
    /// the window exceed the allowed number of writes, but takes one segment at least. Returns the window, its
    /// fragments and the approximate number of writes.
    async fn live_in_window(
        &self,
        most: Range<SegmentSeq>,
    ) -> (Range<SegmentSeq>, Vec<LogFragment>, u64) {
        let writes_max = policy::window_writes(self.admission.pace.borrow().writes_assumed());
        let mut window = most.start..most.start;
        let (mut pieces, mut writes) = (Vec::new(), DestageWrites::default());
        let segments = (most.start.0..most.end.0).map(SegmentSeq);
        let mut lists = futures_util::stream::iter(segments)
            .map(|segment| self.live_pieces(segment))
            .buffered(SUMMARIES);
        while let Some(list) = lists.next().await {
            let before = writes.count();
            for piece in &list {
                writes.add(piece.line);
            }
            if writes.count() > writes_max && window.start < window.end {
                return (window, pieces, before);
            }
            pieces.extend(list);
            window.end = window.end.next();
        }
        (window, pieces, writes.count())
    }

    /// Returns the live fragments of a segment: from its summary if that lists all of them, else from the map.
    pub(crate) async fn live_pieces(&self, segment: SegmentSeq) -> Vec<LogFragment> {
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
        let lookup = |placed: &AddressedEntry| match placed.entry {
            RingEntry::Data { sector, .. } => map.piece_at(sector.line(), placed.addr),
            RingEntry::Range { .. } => None,
        };
        let pieces: Vec<LogFragment> = listed.iter().filter_map(lookup).collect();
        let live: u32 = pieces.iter().map(|piece| piece.live.count_ones()).sum();
        if live == map.live_in(segment) {
            return pieces;
        }
        tracing::warn!(%segment, "the summary does not list all live data; the map is used instead");
        let ring = self.log.ring();
        let slot = ring.slot(segment);
        map.all_pieces()
            .filter(|piece| ring.slot_of(piece.addr) == slot)
            .collect()
    }

    /// Appends a record to the log that the data of these fragments is lost. So the loss is still recorded after their
    /// segment is freed, and the older data on the data device is never returned instead.
    fn declare_lost(&self, pieces: &[LogFragment]) -> Result<(), WindowFailure> {
        let still: Vec<Range<u64>> = {
            let map = self.map.borrow();
            let now = pieces
                .iter()
                .filter_map(|piece| map.piece_at(piece.line, piece.addr));
            now.flat_map(LogFragment::live_runs).collect()
        };
        if !still.is_empty() {
            tracing::error!(ranges = still.len(), "data in the log is damaged and lost");
        }
        Ok(self.keep_marks(RangeKind::Lost, &still)?)
    }

    /// Carries out a pending range, as far as it is still valid. A lost range cannot be carried out: its record is
    /// appended again at the head. A discard may be skipped, since the discarded data has no use.
    ///
    /// # Errors
    /// The data device's, or that the log has no free space.
    async fn carry_mark_home(
        &self,
        range: Range<u64>,
        mark: RangeState,
    ) -> Result<(), DeviceError> {
        if mark.kind == RangeKind::Lost {
            let still = self.still_marked(mark, range);
            return self.keep_marks(mark.kind, &still);
        }
        let done = self.mark_at_home(mark, range).await;
        if mark.kind == RangeKind::Discard
            && let Err(error) = &done
        {
            tracing::debug!(%error, "a discard failed and is skipped");
            self.counters.borrow_mut().data_errors += 1;
            return Ok(());
        }
        done
    }
}
