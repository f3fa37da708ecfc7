//! Moving of live data.

use std::ops::Range;
use std::rc::Rc;

use forebay_placement::placement::{MovedExtent, MovedPlace};
use forebay_units::{SECTOR_BYTES, Sector};

use super::MoveMode;
use super::load::LiveFragment;
use crate::claim::{ClaimFloors as _, SegmentClaim, SegmentGrant};
use crate::error::SpaceError;
use crate::format::{SpaceEntry, StreamNumber, rounded_clock};
use crate::prepared::mapped;
use crate::room::SpaceBudget;
use crate::space::SpaceInner;
use crate::streams::StreamCounts;
use forebay_extent_map::{ExtentCheck, ExtentMap, MapChanges, MapExtent};

/// The maximum number of live ranges that can remain of a fragment of eight sectors.
const RUNS_MAX: u64 = 4;

impl SpaceInner {
    /// Appends a copy of a fragment to the stream that the placement chooses, as far as the fragment is still live by
    /// then. Returns false if free space is missing, and stays missing until other segments are cleaned.
    pub(super) async fn move_piece(
        self: &Rc<Self>,
        piece: LiveFragment,
        moving: MoveMode,
    ) -> Result<bool, SpaceError> {
        let mut rest = piece;
        while rest.sectors > 0 {
            // The placement learns the cost of cleaning from all moved data, even where it cannot choose a stream.
            let (chosen, sectors) = self.place_moved(&rest);
            let stream = if moving.one_stream {
                StreamNumber::moved(0)
            } else {
                chosen
            };
            let behind = LiveFragment {
                sector: rest.sector.plus(sectors),
                sectors: rest.sectors - sectors,
                place: rest.place.plus(sectors),
                data: rest.data.slice((sectors * SECTOR_BYTES) as usize..),
                ..rest.clone()
            };
            let part = LiveFragment {
                sectors,
                data: rest.data.slice(..(sectors * SECTOR_BYTES) as usize),
                ..rest
            };
            if !self.append_moved(stream, &part, moving.claim).await? {
                return Ok(false);
            }
            rest = behind;
        }
        Ok(true)
    }

    /// Returns the stream that a fragment moves to, and the number of its sectors that go there.
    fn place_moved(&self, piece: &LiveFragment) -> (StreamNumber, u64) {
        let streams = self.commit.composer();
        let counts = streams.counts;
        let moved = MovedExtent {
            at: piece.sector,
            sectors: piece.sectors as u32,
            now: streams.clock,
            born: piece.born,
            stream: StreamCounts::named(piece.stream),
            segment_age: streams.clock.since(piece.closed),
        };
        let placed = self.placement.borrow_mut().place_moved(&moved);
        let (MovedPlace::Append(n) | MovedPlace::Plug(n)) = placed.place;
        let stream = StreamNumber::moved(n.min(counts.moved - 1));
        (stream, u64::from(placed.sectors).clamp(1, piece.sectors))
    }

    async fn append_moved(
        self: &Rc<Self>,
        stream: StreamNumber,
        piece: &LiveFragment,
        claim: SegmentClaim,
    ) -> Result<bool, SpaceError> {
        let mut pins = self.map.borrow().pins();
        self.prepare(piece.sector, piece.sectors, &mut pins).await?;
        loop {
            let progress = self.commit.progress();
            if let Some(failure) = self.commit.failure() {
                return Err(failure.into());
            }
            // The placement may have changed during the wait.
            let stream = self.commit.composer().counts.nearest(stream);
            if let Some(grant) = self.grant_to_move(claim, stream, piece.sectors) {
                self.move_now(grant, stream, piece);
                drop(pins);
                self.after_move();
                return Ok(true);
            }
            if !self.make_way(claim) {
                return Ok(false);
            }
            progress.await;
        }
    }

    /// Requests a checkpoint if recovery would take long, and keeps the map within its memory.
    fn after_move(&self) {
        if self.entries_since.get() >= self.options.recovery_entries {
            self.ask_for_checkpoint();
        }
        self.map
            .borrow_mut()
            .shrink(self.options.map_bytes as usize);
    }

    /// Sends the moved data off, and makes empty segments usable. Returns false if neither these steps nor a checkpoint
    /// can free a segment. If only memory is missing, no checkpoint is requested: the device must take the pending
    /// writes first, and a checkpoint would add more of them.
    pub(crate) fn make_way(self: &Rc<Self>, claim: SegmentClaim) -> bool {
        self.send_off();
        let room = SpaceBudget::of(&self.commit.composer(), &self.map.borrow());
        let need = room.floor(claim) + 1;
        self.replenish(need);
        let (usable, helps, has_room) = {
            let table = &self.commit.composer().table;
            let has_room = table.queued() >= need && !room.needs_checkpoint();
            (table.usable(), room.checkpoint_helps(table), has_room)
        };
        if usable == 0 && helps && !has_room {
            self.ask_for_checkpoint();
        }
        usable > 0 || helps || has_room
    }

    /// Returns permission to append an entry of moved data, or of data that was written in place.
    pub(crate) fn grant_to_move(
        &self,
        claim: SegmentClaim,
        stream: StreamNumber,
        sectors: u64,
    ) -> Option<SegmentGrant> {
        let (streams, map) = (self.commit.composer(), self.map.borrow());
        let room = SpaceBudget::of(&streams, &map);
        if room.needs_checkpoint() {
            return None;
        }
        streams.grant_entry(&room, claim, stream, sectors * SECTOR_BYTES, RUNS_MAX)
    }

    /// Appends a copy of the ranges of a fragment that are still live, and makes the map point at the copy.
    fn move_now(
        self: &Rc<Self>,
        mut grant: SegmentGrant,
        stream: StreamNumber,
        piece: &LiveFragment,
    ) {
        let mut streams = self.commit.composer_mut();
        let mut map = self.map.borrow_mut();
        for run in still_live(&map, piece) {
            let skip = run.start - piece.sector.0;
            let sectors = run.end - run.start;
            let from = (skip * SECTOR_BYTES) as usize;
            let data = &piece.data[from..from + (sectors * SECTOR_BYTES) as usize];
            let crc = crc32c::crc32c(data);
            let was = piece.place.plus(skip);
            let entry = SpaceEntry::Moved {
                sector: Sector(run.start),
                sectors: sectors as u8,
                crc,
                from: was,
                born: rounded_clock(piece.born),
            };
            let place = streams.append(&mut grant, stream, entry, data);
            let to = MapExtent {
                sector: run.start,
                sectors,
                place,
                check: ExtentCheck::Inline(crc),
            };
            let mut changes = MapChanges::default();
            let moved = map.replace_if(was, to, &mut changes);
            moved.expect("the nodes were prepared");
            streams.table.count(&changes);
            self.entries_since.set(self.entries_since.get() + 1);
            self.stats.borrow_mut().bytes_moved += data.len() as u64;
            self.wrote(data.len() as u64);
        }
        drop((streams, map));
        self.record(piece.sectors);
    }
}

/// Returns the ranges of a fragment that the map still points at, since no client wrote or trimmed them meanwhile.
fn still_live(map: &ExtentMap, piece: &LiveFragment) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for extent in mapped(map, piece.sector, piece.sectors) {
        if extent.place != piece.place.plus(extent.sector - piece.sector.0) {
            continue;
        }
        match runs.last_mut() {
            Some(last) if last.end == extent.sector => last.end = extent.end(),
            _ => runs.push(extent.sector..extent.end()),
        }
    }
    runs
}
