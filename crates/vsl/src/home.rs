//! Writes in place: cold pages keep their places in the long run.
//!
//! Data that a placement wants in place is first appended like all other data. So it is acknowledged, checked, and part
//! of its batch like all other data. Only then it is written *in place*, to its old place: many blocks of 4 KiB at a
//! time, in the order of their places. When this write is durable, a record says so, and the copy in the log is no
//! longer live. (HyLog overwrites in place immediately. The detour over a log comes from DCD, with the same gain:
//! writers do not wait for the disk arm, and the arm moves over the disk in one direction.)
//!
//! Invariants:
//! - A block is written in place only when the record of its copy in the log is durable. Until then, the data at the
//!   old place may be needed.
//! - The record of the copy proves that the data at the old place was durable: a block whose old place is still in
//!   memory stays where it was appended. So recovery does not compare the data at the old place with the record that
//!   was written there (`recover/scan.rs`).
//! - A record of a write in place is composed only when this write is durable.
//! - The old place is where the whole block lay. The cleaner finds the block there through the entries in the segment's
//!   headers or summary. The checksum in these entries is that of the old data; the map has the right checksum.
//! - While a write to a segment is in progress, the segment is neither cleaned nor used again, until the record of the
//!   write is composed.
//! - Writes, moves and trims of the block that come meanwhile take precedence.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::BufMut;
use forebay_units::{BlockNumber, LINE_BYTES, LINE_SECTORS};
use futures_util::StreamExt;
use futures_util::stream;

use forebay_extent_map::MapChanges;

use crate::claim::{self, SegmentGrant};
use crate::error::SpaceError;
use crate::format::{SpaceEntry, StreamNumber};
use crate::geometry::SegmentSlot;
use crate::homes::{InPlaceBlock, at_home, whole};
use crate::space::SpaceInner;
use crate::streams::bare::forges_summary;

/// Maximum time that a block written in place waits for the free space of its record.
const PATIENCE: Duration = Duration::from_secs(1);
/// Maximum number of concurrent writes, as many as disks sort.
const WRITES: usize = 32;
/// Maximum number of blocks in one write.
const RUN_LINES: usize = 64;

/// Segments that receive writes in place. Dropping the claim releases them.
struct InPlaceClaim<'a> {
    inner: &'a Rc<SpaceInner>,
    slots: Vec<SegmentSlot>,
}

impl Drop for InPlaceClaim<'_> {
    fn drop(&mut self) {
        for slot in &self.slots {
            self.inner.commit.composer_mut().table.end_in_place(*slot);
        }
        self.inner.commit.notify();
    }
}

/// Ends the state "under way" of the taken blocks when dropped.
struct InPlaceGuard<'a>(&'a Rc<SpaceInner>);

impl Drop for InPlaceGuard<'_> {
    fn drop(&mut self) {
        self.0.homes.borrow_mut().arrived();
        self.0.commit.notify();
    }
}

/// Writes waiting blocks in place.
pub(crate) async fn homeward(inner: Rc<SpaceInner>) {
    loop {
        let asked = inner.home_asked.listen();
        let now = inner.rt.now();
        let due = inner.homes.borrow().due(now);
        let due = due.filter(|_| !inner.still.is_held());
        match due {
            None => asked.await,
            Some(due) if due > now => {
                let _ = inner.rt.timeout(due.since(now), asked).await;
            }
            Some(_) => {
                drop(asked);
                match inner.bring_home().await {
                    Ok(()) => {}
                    Err(_) if inner.commit.failure().is_some() => return,
                    // The data stays where it was appended.
                    Err(error) => {
                        tracing::warn!(%error, "appended data could not be written in place");
                    }
                }
                inner.rt.yield_now().await;
            }
        }
    }
}

impl SpaceInner {
    /// Waits until few enough blocks wait for their writes in place.
    pub(crate) async fn wait_for_homes(&self) {
        loop {
            let progress = self.commit.progress();
            let full = {
                let homes = &mut *self.homes.borrow_mut();
                if homes.wakes() {
                    self.home_asked.notify_all();
                }
                homes.is_full()
            };
            let fails = self.commit.failure().is_some() || self.failing(Duration::ZERO).is_some();
            if !full || fails {
                return;
            }
            progress.await;
        }
    }

    async fn bring_home(self: &Rc<Self>) -> Result<(), SpaceError> {
        let _step = self.still.begin_step();
        let lines = self.homes.borrow_mut().take();
        let _under_way = InPlaceGuard(self);
        let appended = self.close_open();
        self.commit.has_work();
        self.commit.flush(appended).await?;
        let mut pins = self.map.borrow().pins();
        for line in lines.keys() {
            self.prepare(line.first_sector(), LINE_SECTORS, &mut pins)
                .await?;
        }
        let (claim, lines) = self.claim(lines);
        let failures = self.commit.flush_failures();
        let home = self.write_home(lines).await;
        if home.is_empty() {
            return Ok(());
        }
        self.commit.flush_device().await?;
        if self.commit.flush_failures() != failures {
            // The device may have lost the data written before a failed flush. The blocks stay where they were
            // appended.
            return Ok(());
        }
        for (line, away) in &home {
            let Some(grant) = self.room_to_tell().await? else {
                // Other claims may need the space that is reserved for this record. The remaining blocks stay where
                // they were appended.
                break;
            };
            self.tell_home(grant, *line, away);
        }
        self.send_off();
        drop(claim);
        Ok(())
    }

    /// Returns the blocks that may still be written in place, in the order of places. The claim protects their
    /// segments.
    fn claim(
        self: &Rc<Self>,
        lines: BTreeMap<BlockNumber, InPlaceBlock>,
    ) -> (InPlaceClaim<'_>, Vec<(BlockNumber, InPlaceBlock)>) {
        let mut streams = self.commit.composer_mut();
        let map = self.map.borrow();
        let mut lines: Vec<(BlockNumber, InPlaceBlock)> = lines
            .into_iter()
            .filter(|(line, away)| {
                let at = streams.layout.offset_of(away.home.place);
                whole(&map, *line) == Some(away.copy)
                    && away.home.takes(&streams)
                    && !forges_summary(&streams.layout, at, &away.data)
            })
            .collect();
        lines.sort_by_key(|(_, away)| away.home.place.0);
        let mut slots: Vec<SegmentSlot> = lines
            .iter()
            .filter_map(|(_, away)| streams.table.slot_at(away.home.place))
            .collect();
        slots.dedup();
        for slot in &slots {
            streams.table.begin_in_place(*slot);
        }
        let claim = InPlaceClaim { inner: self, slots };
        (claim, lines)
    }

    /// Writes blocks in place. The blocks are sorted by place. Returns the blocks whose write succeeded.
    async fn write_home(
        &self,
        lines: Vec<(BlockNumber, InPlaceBlock)>,
    ) -> Vec<(BlockNumber, InPlaceBlock)> {
        let mut runs: Vec<Vec<(BlockNumber, InPlaceBlock)>> = Vec::new();
        for (line, away) in lines {
            match runs.last_mut() {
                Some(run)
                    if run.len() < RUN_LINES
                        && run[run.len() - 1].1.home.place.plus(LINE_SECTORS)
                            == away.home.place =>
                {
                    run.push((line, away));
                }
                _ => runs.push(vec![(line, away)]),
            }
        }
        let writes = stream::iter(runs).map(async |run| {
            let place = run[0].1.home.place;
            // A claimed segment is not retired.
            let Some(slot) = self.commit.composer().table.slot_at(place) else {
                return Vec::new();
            };
            let at = u64::from(self.store.layout().offset_of(place));
            let mut bytes = BufMut::to_fill(run.len() * LINE_BYTES as usize);
            for (chunk, (_, away)) in bytes.chunks_exact_mut(LINE_BYTES as usize).zip(&run) {
                chunk.copy_from_slice(&away.data);
            }
            let written = self.store.write_in_place(slot, at, bytes.freeze());
            match written.await {
                Ok(()) => run,
                Err(error) => {
                    // The blocks stay where they were appended.
                    tracing::warn!(%error, slot = slot.0, at, "a page could not be written in place");
                    Vec::new()
                }
            }
        });
        let written: Vec<Vec<(BlockNumber, InPlaceBlock)>> =
            writes.buffer_unordered(WRITES).collect().await;
        written.into_iter().flatten().collect()
    }

    /// Returns the stream of the entries about writes in place: the stream of the coldest moved data.
    fn home_stream(&self) -> StreamNumber {
        self.commit.composer().counts.last_moved()
    }

    /// Waits for the free space of an entry, for a limited time.
    async fn room_to_tell(self: &Rc<Self>) -> Result<Option<SegmentGrant>, SpaceError> {
        let until = self.rt.now().plus(PATIENCE);
        loop {
            // The placement may have changed during the wait.
            let stream = self.home_stream();
            let progress = self.commit.progress();
            if let Some(failure) = self.commit.failure() {
                return Err(failure.into());
            }
            if let Some(grant) = self.grant_to_move(claim::SegmentClaim::Cleaner, stream, 0) {
                return Ok(Some(grant));
            }
            let now = self.rt.now();
            if now >= until {
                return Ok(None);
            }
            self.make_way(claim::SegmentClaim::Cleaner);
            let _ = self.rt.timeout(until.since(now), progress).await;
        }
    }

    /// Appends an entry about a block that was written in place, if the map still points at the block's copy in the
    /// log.
    fn tell_home(&self, mut grant: SegmentGrant, line: BlockNumber, away: &InPlaceBlock) {
        let stream = self.home_stream();
        let mut streams = self.commit.composer_mut();
        let mut map = self.map.borrow_mut();
        if whole(&map, line) != Some(away.copy) {
            return;
        }
        let entry = SpaceEntry::Home {
            line,
            crc: away.crc,
            from: away.copy,
            place: away.home.place,
        };
        streams.append(&mut grant, stream, entry, &[]);
        let to = at_home(line, away.home.place, away.crc);
        let mut changes = MapChanges::default();
        let replaced = map.replace_if(away.copy, to, &mut changes);
        replaced.expect("the nodes were prepared");
        streams.table.count(&changes);
        self.entries_since.set(self.entries_since.get() + 1);
        self.stats.borrow_mut().bytes_in_place += LINE_BYTES;
    }
}
