//! Destaging: the oldest segments' live data goes home, sorted by address, and the tail follows.
//!
//! In ring order, because superseded copies of a line then always leave the log before the live one,
//! so that no recovery can bring an old copy back; because it gives data the longest time to be
//! overwritten; and because the paper's "reorder by location" becomes a sort.
//!
//! Windows overlap (one is read while the one before is written), but each goes through, in this
//! order (I2, I3):
//! 1. only segments that are wholly durable in the log are taken;
//! 2. marks go home, then data; what was overwritten meanwhile is skipped;
//! 3. the data device is flushed;
//! 4. the log is flushed up to its newest record: whatever superseded a skipped piece is durable;
//! 5. the superblock with the new tail becomes durable, in both copies;
//! 6. only now the map forgets the pieces and the segments are free.

use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{DeviceError, Op};
use forebay_log::{Addr, Entry, LogError, Placed, RangeKind};
use forebay_units::{Line, RecordSeq, SegmentSeq};
use futures_util::StreamExt;

use crate::engine::Engine;
use crate::home::{Haste, LoadedPieces, home_parts};
use crate::map::Piece;
use crate::policy::{self, Decision};
use crate::ranges::Mark;

/// The most live data taken in one window, in sectors: 16 MiB. Two windows may be in memory.
const WINDOW_SECTORS: u64 = 32 << 10;
/// The most segments taken in one window.
const WINDOW_SEGMENTS: u64 = 256;
/// Summaries being read at once.
const SUMMARIES: usize = 8;
/// How many ranges of lost data are appended in one group.
const LOST_GROUP: usize = 64;

/// Why a window was not finished.
enum Failure {
    /// The data device did not do what it must.
    Data(DeviceError),
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
        Failure::Data(error)
    }
}

/// A window whose live data has been read.
struct Ready {
    window: Range<SegmentSeq>,
    loaded: LoadedPieces,
}

/// A window that is home but for the flush, and the tail that has to follow.
struct Written {
    window: Range<SegmentSeq>,
    pieces: Vec<(Line, Addr)>,
    /// Fingerprinted blocks that were touched.
    touched: u64,
    /// The newest record when it was last asked what is live.
    superseded_by: RecordSeq,
}

/// Destages for as long as the volume is attached and its log works.
pub(crate) async fn destager(engine: Rc<Engine>) {
    let mut failures = 0;
    while engine.log.failure().is_none() && !engine.closed.get() {
        let wake = engine.wake.listen();
        match policy::decide(&engine.observe()) {
            Decision::Rest => {
                wake.await;
                continue;
            }
            Decision::Wait(span) => {
                drop(wake);
                engine.wait_unless_urgent(span).await;
                continue;
            }
            Decision::Note => {
                // A failure is the log's, and latched there.
                let _ = engine.log.update_superblock(|_| {}).await;
                continue;
            }
            Decision::Destage { .. } => {}
        }
        engine.destaging.set(true);
        let done = engine.destage().await;
        engine.destaging.set(false);
        match done {
            Err(_) if engine.closed.get() => {}
            Ok(()) => {
                failures = 0;
                engine.trouble.replace(None);
            }
            Err(Failure::Log(error)) => tracing::debug!(%error, "destaging ends"),
            Err(Failure::Data(error)) => {
                let wait = policy::retry_after(failures);
                tracing::warn!(%error, ?wait, "cannot destage; will retry");
                engine.counters.borrow_mut().data_errors += 1;
                engine.trouble.replace(Some(error.to_string().into()));
                engine.log.notify();
                engine.settled.notify_all();
                engine.rt.sleep(wait).await;
                failures += 1;
            }
        }
        engine.settled.notify_all();
    }
}

impl Engine {
    /// The segments to take from `start` on: as many as the window holds, none that is not durable.
    fn window(&self, start: SegmentSeq) -> Range<SegmentSeq> {
        let limit = self.log.destage_limit();
        let quarter = (self.log.layout().segment_count / 4).max(1);
        let (mut end, mut live) = (start, 0);
        while end < limit
            && end.since(start) < WINDOW_SEGMENTS.min(quarter)
            && live < WINDOW_SECTORS
        {
            live += u64::from(self.map.borrow().live_in(end));
            end = end.next();
        }
        start..end
    }

    /// Makes the oldest segments fit to be destaged: durable, and not open.
    async fn ripen(&self) -> Result<(), LogError> {
        self.log.flush(self.log.last_record()).await?;
        if self.log.destage_limit() > self.log.tail() || self.log.tail() == self.log.head() {
            return Ok(());
        }
        self.log.seal();
        // More may have been appended during the flush, and nobody else is sure to flush it.
        self.log.flush(self.log.last_record()).await?;
        loop {
            let progress = self.log.progress();
            if let Some(failure) = self.log.failure() {
                return Err(failure);
            }
            if self.log.destage_limit() > self.log.tail() {
                return Ok(());
            }
            progress.await;
        }
    }

    /// Lets users go first: returns when nobody is being served, or at once if it is urgent.
    ///
    /// # Errors
    /// When the volume is closing: what is not home by then stays in the log.
    pub(crate) async fn yield_to_users(&self, urgent: bool) -> Result<(), DeviceError> {
        loop {
            if self.closed.get() {
                return Err(DeviceError::Closed { op: Op::Write });
            }
            if urgent {
                return Ok(());
            }
            let seen = self.observe();
            if seen.pressed || seen.used > policy::HIGH_WATER {
                return Ok(());
            }
            let threshold = policy::idle_threshold(seen.used);
            // Right after a pause, any request at all makes it wait out another whole threshold.
            if seen.idle >= threshold {
                return Ok(());
            }
            let began = self.rt.now();
            self.wait_unless_urgent(threshold - seen.idle).await;
            let waited = self.rt.now().since(began);
            self.yielded.set(self.yielded.get() + waited);
        }
    }

    /// One burst: windows, for as long as the policy says so. While one window is written home, the
    /// next is read and the one before is flushed and given up, so that neither device waits for
    /// the other.
    async fn destage(&self) -> Result<(), Failure> {
        if self.window(self.log.tail()).is_empty() {
            self.ripen().await?;
        }
        let mut before: Option<Written> = None;
        let urgent = policy::decide(&self.observe()) == Decision::Destage { urgent: true };
        let mut ready = Some(self.read_window(self.log.tail(), urgent).await);
        while let Some(current) = ready.take() {
            let Decision::Destage { urgent } = policy::decide(&self.observe()) else {
                break;
            };
            let began = (self.rt.now(), self.yielded.get());
            let window = current.window.clone();
            let read_next = async {
                match urgent && !self.window(window.end).is_empty() {
                    true => Some(self.read_window(window.end, urgent).await),
                    false => None,
                }
            };
            let commit_before = self.commit(before.take(), false);
            let work = (self.write_window(current, urgent), read_next, commit_before);
            let (written, next, committed) =
                futures_util::future::join3(work.0, work.1, work.2).await;
            committed?;
            before = Some(written?);
            self.account(&window, began);
            self.settled.notify_all();
            ready = next;
        }
        self.commit(before, true).await
    }

    async fn read_window(&self, start: SegmentSeq, urgent: bool) -> Ready {
        let window = self.window(start);
        let pieces = self.live_in_window(&window).await;
        Ready {
            window,
            loaded: self.load(pieces, Haste::Destage { urgent }).await,
        }
    }

    /// Takes a window's marks and data home.
    async fn write_window(&self, ready: Ready, urgent: bool) -> Result<Written, Failure> {
        let Ready { window, loaded } = ready;
        self.declare_lost(&loaded.damaged)?;
        let marks = self.marks_in_window(&window);
        let changes = loaded
            .sound
            .iter()
            .map(|l| l.piece.line.0 * 8..l.piece.line.0 * 8 + 8);
        let marked = marks.iter().map(|(range, _)| range.clone());
        let touched = self.about_to_change(changes.chain(marked)).await?;
        for (range, mark) in &marks {
            for part in home_parts(range.clone()) {
                self.yield_to_users(urgent).await?;
                self.carry_mark_home(part, *mark).await?;
            }
        }
        let pieces = loaded
            .sound
            .iter()
            .map(|l| (l.piece.line, l.piece.addr))
            .collect();
        let bytes = self
            .write_pieces_home(loaded.sound, Haste::Destage { urgent })
            .await?;
        self.counters.borrow_mut().destaged_bytes += bytes;
        Ok(Written {
            window,
            pieces,
            touched,
            superseded_by: self.log.last_record(),
        })
    }

    /// Makes a window's home copies durable, then whatever superseded the rest, then the tail; and
    /// only then gives the copies in the log up.
    async fn commit(&self, written: Option<Written>, last: bool) -> Result<(), Failure> {
        let Some(written) = written else {
            return Ok(());
        };
        self.flush_data().await?;
        self.log.flush(written.superseded_by).await?;
        self.move_tail(&written, last).await?;
        self.settled.notify_all();
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

    /// The pieces of data that still count in the window's segments.
    async fn live_in_window(&self, window: &Range<SegmentSeq>) -> Vec<Piece> {
        let segments: Vec<SegmentSeq> = {
            let map = self.map.borrow();
            let all = (window.start.0..window.end.0).map(SegmentSeq);
            all.filter(|segment| map.live_in(*segment) > 0).collect()
        };
        let lists = futures_util::stream::iter(segments)
            .map(|segment| self.live_pieces(segment))
            .buffered(SUMMARIES);
        lists.concat().await
    }

    /// The live pieces of a segment: by its summary, if that tells of them all, else by the map.
    async fn live_pieces(&self, segment: SegmentSeq) -> Vec<Piece> {
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
        let layout = self.log.layout();
        let slot = layout.slot(segment);
        map.all_pieces()
            .filter(|piece| layout.slot_of(piece.addr) == slot)
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
        for group in still.chunks(LOST_GROUP) {
            tracing::error!(ranges = group.len(), "data in the log is damaged and lost");
            self.append_lost(group.to_vec())?;
        }
        Ok(())
    }

    fn append_lost(&self, ranges: Vec<Range<u64>>) -> Result<(), Failure> {
        if !self.log.has_room(0, ranges.len() as u64, 0) {
            let cause = "no room in the log to note what is lost".into();
            let op = Op::Write;
            return Err(Failure::Data(DeviceError::Failed { op, cause }));
        }
        let mut map = self.map.borrow_mut();
        self.log.append(|log| {
            for range in ranges {
                let len = range.end - range.start;
                let kind = RangeKind::Lost;
                let record = log.range(kind, forebay_units::Sector(range.start), len);
                map.mark(range, Some(Mark { kind, record }));
            }
        });
        Ok(())
    }

    /// Does what a mark says, as far as it still counts. What is lost cannot come home: it is noted
    /// anew at the head.
    async fn carry_mark_home(&self, range: Range<u64>, mark: Mark) -> Result<(), Failure> {
        if mark.kind == RangeKind::Lost {
            for group in self.still_marked(mark, range).chunks(LOST_GROUP) {
                self.append_lost(group.to_vec())?;
            }
            return Ok(());
        }
        Ok(self.mark_at_home(mark, range).await?)
    }

    /// `last` says that nothing else is being written home: then the ends are fingerprinted anew.
    async fn move_tail(&self, written: &Written, last: bool) -> Result<(), Failure> {
        let Written {
            window,
            pieces,
            touched,
            ..
        } = written;
        self.assert_all_home(window, pieces);
        let mut fingerprint = self.payload.borrow().fingerprint;
        if last && (*touched | fingerprint.unknown) != 0 {
            fingerprint
                .refresh(*touched | fingerprint.unknown, &*self.data)
                .await?;
            self.payload.borrow_mut().fingerprint = fingerprint;
        }
        let layer = self.payload.borrow().encode();
        let next = self.log.first_record(window.end);
        self.log
            .advance_tail(window.end, |superblock| superblock.layer = layer)
            .await?;
        let mut map = self.map.borrow_mut();
        for (line, addr) in pieces {
            map.forget(*line, *addr);
        }
        map.forget_marks_before(next);
        Ok(())
    }

    /// The last check before copies are given up: every live piece of the window was taken home.
    /// Segments are durable and closed, so none can have been added since.
    fn assert_all_home(&self, window: &Range<SegmentSeq>, pieces: &[(Line, Addr)]) {
        let map = self.map.borrow();
        let home = pieces
            .iter()
            .filter_map(|(line, addr)| map.piece_at(*line, *addr));
        let home: u64 = home.map(|piece| u64::from(piece.live.count_ones())).sum();
        let mut live = 0;
        let mut segment = window.start;
        while segment < window.end {
            live += u64::from(map.live_in(segment));
            segment = segment.next();
        }
        assert_eq!(
            home, live,
            "a segment would be given up with data that is nowhere else"
        );
    }

    /// Keeps the rate at which the log can be emptied: what users were let go first for does not count,
    /// or writers would be held up to a rate that nothing but they themselves had lowered.
    fn account(&self, window: &Range<SegmentSeq>, began: (forebay_rt::Instant, Duration)) {
        let bytes = window.end.since(window.start) * u64::from(self.log.layout().segment_bytes);
        let took = self.rt.now().since(began.0);
        let seconds = took
            .saturating_sub(self.yielded.get() - began.1)
            .as_secs_f64();
        if seconds > 0.0 && bytes > 0 {
            let (rate, old) = (bytes as f64 / seconds, self.empty_rate.get());
            self.empty_rate.set(if old > 0.0 {
                0.7 * old + 0.3 * rate
            } else {
                rate
            });
        }
    }
}
