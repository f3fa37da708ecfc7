//! Destaging: writes the live data of the oldest segments to the data device, sorted by address, and moves the tail.
//!
//! Destaging goes in ring order for three reasons. Superseded copies of a block always leave the log before the live
//! copy, so no recovery can apply an old copy again. Data has the longest time to be overwritten. And the paper's
//! "reorder by location" becomes a sort.
//!
//! Windows overlap: one is read while the window before is written. But each window goes through these steps in order
//! (I2, I3):
//! 1. only segments that are completely durable in the log are taken;
//! 2. pending zeroes and discards are carried out on the data device, then data is written there; data that was
//!    overwritten meanwhile is skipped;
//! 3. the data device is flushed;
//! 4. the log is flushed up to its newest record, so that every record that supersedes a skipped fragment is durable;
//! 5. the superblock with the new tail becomes durable, in both copies;
//! 6. only now the map forgets the fragments, and the segments are free.
//!
//! If the data device has no free space, later discards are carried out early (`destage/ahead.rs`).

mod ahead;
mod home_writes;
mod window;

use std::ops::Range;
use std::rc::Rc;

use forebay_ring_log::{LogAddr, LogError};
use forebay_units::{BlockNumber, SegmentSeq};

use crate::admission::pace::log_bytes_of;
use crate::engine::DcdEngine;
use crate::policy::{self, DestageDecision};
use crate::stats::DestageActivity;

use window::{WindowFailure, WrittenWindow};

/// After this many attempts in a row that wrote nothing to the data device, every fragment of a window is tried.
const THOROUGH_AFTER: u32 = 3;

/// Destages for as long as the volume is attached and its log works.
pub(crate) async fn destager(engine: Rc<DcdEngine>) {
    let mut failures = 0;
    while engine.log.failure().is_none() && !engine.is_closing() {
        let wake = engine.signals.wake.listen();
        match policy::decide(&engine.observe()) {
            DestageDecision::Rest => {
                wake.await;
                continue;
            }
            DestageDecision::Wait(span) => {
                drop(wake);
                engine.wait_unless_urgent(span).await;
                continue;
            }
            DestageDecision::Destage { .. } => {}
        }
        let before = engine.counters.borrow().destaged_bytes;
        let thorough = failures >= THOROUGH_AFTER;
        engine.refused.borrow_mut().begin();
        engine.service.borrow_mut().destaging = true;
        let mut done = engine.destage(thorough).await;
        if let Err(failure) = &done
            && ahead::lacks_room(failure)
            && let Err(failure) = engine.discard_ahead().await
        {
            done = Err(failure);
        }
        engine.admission.pace.borrow_mut().end();
        engine.doing.borrow_mut().end();
        engine.service.borrow_mut().destaging = false;
        let progress = engine.counters.borrow().destaged_bytes > before;
        engine.refused.borrow_mut().review(
            &engine.map.borrow(),
            engine.rt.now(),
            progress,
            thorough || done.is_ok(),
        );
        failures = match done {
            Ok(()) => 0,
            Err(_) if progress => 0,
            Err(_) => failures + 1,
        };
        let trouble = engine.note_burst(done);
        engine.signals.settled.notify_all();
        if trouble {
            let pressed = engine.observe().pressed;
            let wait = policy::retry_after(failures.saturating_sub(1), pressed);
            engine.pause(wait).await;
        }
    }
}

impl DcdEngine {
    /// Records how a burst ended. Returns true if it must be tried again after a pause.
    fn note_burst(&self, done: Result<(), WindowFailure>) -> bool {
        match done {
            Ok(()) => {
                self.faults.borrow_mut().log.clear();
                self.refused.borrow_mut().narrow = false;
                let cause = self.refused.borrow().cause();
                match cause.filter(|_| self.keeps_all()) {
                    Some(cause) => {
                        let cause = format!("the data device fails some writes: {cause}");
                        self.faults.borrow_mut().data.note(self.rt.now(), cause);
                    }
                    None => self.faults.borrow_mut().data.clear(),
                }
                false
            }
            Err(WindowFailure::Stopped) => false,
            Err(WindowFailure::Log(error)) => {
                tracing::debug!(%error, "destaging ends");
                false
            }
            Err(WindowFailure::Unreadable(error)) => {
                tracing::warn!(%error, "the log cannot be read; will retry");
                self.log_troubles(format!("the log cannot be read: {error}"));
                true
            }
            Err(WindowFailure::Data(error)) => {
                tracing::warn!(%error, "cannot destage; will retry");
                self.data_fails(&error);
                true
            }
        }
    }

    /// Makes the oldest segments durable and sealed, since only sealed segments can be destaged.
    async fn make_destageable(&self) -> Result<(), LogError> {
        self.log.flush(self.log.last_record()).await?;
        if self.log.destage_limit() > self.log.tail() || self.log.tail() == self.log.head() {
            return Ok(());
        }
        self.log.seal();
        // More records may have been appended during the flush, and no other task is certain to flush them.
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

    /// Destages windows for one burst, for as long as the policy allows. While one window is written to the data
    /// device, the next is read and the one before is committed, so that neither device waits for the other.
    async fn destage(&self, thorough: bool) -> Result<(), WindowFailure> {
        if self.window(self.log.tail()).is_empty() {
            self.make_destageable().await?;
        }
        let mut before: Option<WrittenWindow> = None;
        let urgent = policy::decide(&self.observe()) == DestageDecision::Destage { urgent: true };
        self.doing.borrow_mut().now(DestageActivity::Reading);
        let mut ready = Some(self.read_window(self.log.tail(), urgent).await);
        self.admission.pace.borrow_mut().begin(self.rt.now());
        while let Some(current) = ready.take() {
            let DestageDecision::Destage { urgent } = policy::decide(&self.observe()) else {
                break;
            };
            let window = current.window.clone();
            let read_next = async {
                if urgent && !self.window(window.end).is_empty() {
                    Some(self.read_window(window.end, urgent).await)
                } else {
                    None
                }
            };
            let commit_before = self.commit(before.take(), false);
            let writing = self.write_window(current, urgent, thorough);
            let work = (writing, read_next, commit_before);
            let (written, next, committed) =
                futures_util::future::join3(work.0, work.1, work.2).await;
            committed?;
            let written = written?;
            let in_vain = written.in_vain.clone();
            before = Some(written);
            if let Some(error) = in_vain {
                self.commit(before, true).await?;
                return Err(WindowFailure::Data(error));
            }
            self.signals.settled.notify_all();
            ready = next;
        }
        self.commit(before, true).await
    }

    /// Makes a window's data durable on the data device, then the records that supersede its skipped fragments, then
    /// the tail. Only then removes the fragments of the window from the map.
    async fn commit(
        &self,
        written: Option<WrittenWindow>,
        last: bool,
    ) -> Result<(), WindowFailure> {
        let Some(written) = written else {
            return Ok(());
        };
        if last {
            self.doing.borrow_mut().now(DestageActivity::Flushing);
        }
        self.flush_written(written.lost_flushes).await?;
        self.log.flush(written.superseded_by).await?;
        self.move_tail(&written, last).await?;
        self.signals.settled.notify_all();
        Ok(())
    }

    /// Moves the tail behind the window. `last` means that no other window is being written to the data device, so that
    /// the fingerprint can be renewed.
    async fn move_tail(&self, written: &WrittenWindow, last: bool) -> Result<(), WindowFailure> {
        let WrittenWindow {
            window,
            pieces,
            live,
            touched,
            answers,
            ..
        } = written;
        self.assert_all_home(window, pieces);
        let mut fingerprint = self.payload.borrow().fingerprint;
        if last && (*touched | fingerprint.unknown) != 0 {
            let anew = *touched | fingerprint.unknown;
            // A block that cannot be read now stays unknown. This does not stop destaging.
            let len = self.payload.borrow().data.len;
            match fingerprint.refresh(anew, &*self.data, len).await {
                // The volume became longer meanwhile, so these checksums are of its former end.
                Ok(()) if self.payload.borrow().data.len != len => {}
                Ok(()) => self.payload.borrow_mut().fingerprint = fingerprint,
                Err(error) => {
                    tracing::debug!(%error, "the fingerprint of the data device's ends cannot be taken");
                }
            }
        }
        let layer = self.payload.borrow().encode();
        let next = self.log.first_record(window.end);
        self.log
            .advance_tail(window.end, |superblock| superblock.layer = layer)
            .await?;
        self.forget_home(pieces);
        if *answers {
            // The data device has free space again, even if it failed other writes.
            self.faults.borrow_mut().data.clear();
        }
        self.map.borrow_mut().forget_marks_before(next);
        self.doing.borrow_mut().settle(written.carried);
        let segment_bytes = self.log.ring().segment_bytes;
        let bytes = log_bytes_of(window, segment_bytes);
        self.admission.pace.borrow_mut().freed(bytes, *live);
        Ok(())
    }

    /// Asserts that every live fragment of the window was written to the data device, before their copies in the log
    /// are freed. Segments are durable and sealed, so no fragment can have been added since.
    fn assert_all_home(&self, window: &Range<SegmentSeq>, pieces: &[(BlockNumber, LogAddr)]) {
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
            "a segment would be freed with data that has no other copy"
        );
    }
}
