//! Checkpoints: the state that recovery starts from.
//!
//! A checkpoint describes one moment, its *cut*. Recovery gets later changes from the records behind the cut. Clients
//! continue while its parts are written. It is valid when both superblocks point at it. Invariants:
//! - Nodes are written before their parents, the table after the nodes, and the superblock when all of them are
//!   durable.
//! - The table contains the live counts at the cut. The exceptions are nodes and the checkpoint's other parts, which it
//!   counts as this checkpoint leaves them.
//! - Data that a checkpoint supersedes is released only when the checkpoint is valid.

use std::rc::Rc;

use forebay_segment_log::LogError;
use forebay_units::SECTOR_BYTES;

use crate::changed::ChangedBounds;
use crate::chunks::SegmentChunks;
use crate::claim::SegmentClaim;
use crate::format::{
    Checkpoint, CheckpointIndex, ChunkRef, MetaKind, OpenSegment, PART_BYTES, PartRef, SpaceEntry,
    SpaceSuperblock, StreamNumber, TableChunk,
};
use crate::meta::{CheckpointParts, chunk_sectors};
use crate::room::SpaceBudget;
use crate::segment::{CheckpointFrontier, SegmentEntry, SegmentPhase};
use crate::space::SpaceInner;
use crate::volume_change::VolumeChange;
use forebay_extent_map::{LogPlace, NODE_BYTES, NODE_SECTORS, NodeWrite};

/// Number of nodes to count before other tasks may run.
const PORTION_NODES: usize = 4096;

/// The state at the cut.
struct CheckpointCut {
    checkpoint: Checkpoint,
    table: SegmentChunks,
    frontier: CheckpointFrontier,
    entries: u64,
    written: u64,
    /// Change of the volume, in effect when the checkpoint is valid.
    change: Option<VolumeChange>,
}

/// Places beside nodes that a checkpoint supersedes, with their lengths in sectors.
type SupersededPlaces = Vec<(LogPlace, u64)>;

impl SpaceInner {
    /// Makes a checkpoint, with `change` if given. The change takes effect only if the checkpoint becomes valid. Only
    /// `checkpointer.rs` may call this in a volume in use: a checkpoint must not be cancelled, because parts of it may
    /// be on the device, and the map stays frozen.
    pub(crate) async fn make_checkpoint(
        self: &Rc<Self>,
        change: Option<VolumeChange>,
    ) -> Result<(), LogError> {
        let _turn = self.checkpoint_turn.lock().await;
        if let Some(failure) = self.commit.failure() {
            return Err(failure);
        }
        self.checkpoint_wanted.set(false);
        let mut cut = self.cut();
        if let Some(change) = change {
            let layout = change.layout(self.commit.composer().layout);
            cut.table.grow(layout.segment_count as usize, false);
            cut.change = Some(change);
        }
        let written = self.write_all(&mut cut).await;
        self.commit.composer_mut().frozen_bytes = 0;
        match written {
            Ok((superseded, meta)) => {
                self.is_valid(cut, superseded, meta).await;
                Ok(())
            }
            Err(error) => {
                let mut streams = self.commit.composer_mut();
                streams.table.segments().put_back(&cut.table);
                self.map.borrow_mut().abandon();
                Err(error)
            }
        }
    }

    /// Writes all parts of a checkpoint, and makes the checkpoint valid on the device. Returns the superseded places
    /// and the new places.
    async fn write_all(
        self: &Rc<Self>,
        cut: &mut CheckpointCut,
    ) -> Result<(SupersededPlaces, CheckpointParts), LogError> {
        self.write_nodes(cut).await?;
        self.take_from_table(cut).await;
        let mut superseded = self.meta.borrow().body.clone();
        let mut meta = self.write_table(cut, &mut superseded).await?;
        let superblock = self.write_body(cut, &mut meta).await?;
        let target = self.commit.composer().last_record();
        self.commit.flush(target).await?;
        self.write_superblock(superblock).await?;
        Ok((superseded, meta))
    }

    /// Subtracts the nodes that the checkpoint supersedes from the checkpoint's table.
    async fn take_from_table(&self, cut: &mut CheckpointCut) {
        let mut done = 0;
        loop {
            {
                let (map, streams) = (self.map.borrow(), self.commit.composer());
                let rest = &map.superseded()[done..];
                let portion = &rest[..rest.len().min(PORTION_NODES)];
                // The number of a segment with a live node has not been retired.
                let slots = portion
                    .iter()
                    .filter_map(|place| streams.table.slot_at(*place));
                for slot in slots {
                    let known = cut.table.get_mut(slot);
                    known.live = known.live.saturating_sub(NODE_SECTORS as u32);
                }
                done += portion.len();
                if portion.len() == rest.len() {
                    return;
                }
            }
            self.rt.yield_now().await;
        }
    }

    /// Composes everything up to now, and records the state for the checkpoint.
    fn cut(self: &Rc<Self>) -> CheckpointCut {
        let mut streams = self.commit.composer_mut();
        let mut map = self.map.borrow_mut();
        let cut = streams.end_all();
        let queue = streams.table.queue();
        let open = streams
            .open_segments()
            .map(|(stream, slot, seq)| OpenSegment {
                stream,
                slot: slot.0,
                seq,
            });
        let open: Vec<OpenSegment> = open.collect();
        let frontier = CheckpointFrontier {
            next: streams.next_segment,
            open: open.iter().map(|open| open.seq).collect(),
        };
        let checkpoint = Checkpoint {
            cut,
            next_segment: streams.next_segment,
            clock: streams.clock,
            root: None,
            detached: Vec::new(),
            table: Vec::new(),
            open,
            queue: queue.map(|slot| slot.0).collect(),
            doubtful: streams.table.is_doubtful() || !map.is_exact(),
            placement: self.placement.borrow().save(),
        };
        map.freeze();
        streams.frozen_bytes = (map.unwritten() * NODE_BYTES) as u64;
        CheckpointCut {
            checkpoint,
            table: streams.table.segments().cut(),
            frontier,
            entries: self.entries_since.get(),
            written: self.written_since.get(),
            change: None,
        }
    }

    /// Appends an entry to the stream of checkpoints, as soon as space is available. Returns its place.
    async fn append_meta(
        self: &Rc<Self>,
        entry: SpaceEntry,
        data: &[u8],
    ) -> Result<LogPlace, LogError> {
        loop {
            let progress = self.commit.progress();
            if let Some(failure) = self.commit.failure() {
                return Err(failure);
            }
            if let Some(place) = self.append_meta_now(entry, data) {
                return Ok(place);
            }
            self.replenish(0);
            progress.await;
        }
    }

    /// Appends an entry if space is available now. Otherwise sends the open records off, so that space can be freed.
    fn append_meta_now(&self, entry: SpaceEntry, data: &[u8]) -> Option<LogPlace> {
        let mut streams = self.commit.composer_mut();
        let room = SpaceBudget::of(&streams, &self.map.borrow());
        let stream = StreamNumber::META;
        let grant = streams.grant_entry(
            &room,
            SegmentClaim::Checkpoint,
            stream,
            data.len() as u64,
            1,
        );
        let fits = grant.is_some();
        let place = grant.map(|mut grant| streams.append(&mut grant, stream, entry, data));
        if !fits {
            streams.end_inside();
        }
        self.commit.appended(&mut streams, false);
        drop(streams);
        if !fits {
            self.commit.has_work();
        }
        place
    }

    /// Counts a node that the checkpoint wrote as live, in the checkpoint's table as well.
    fn count_node(&self, cut: &mut CheckpointCut, place: LogPlace) {
        let mut streams = self.commit.composer_mut();
        streams.table.count_node(place, NODE_SECTORS);
        let Some(slot) = streams.table.slot_at(place) else {
            return;
        };
        let now = *streams.table.get(slot);
        let known = cut.table.get_mut(slot);
        if known.seq != now.seq || known.phase == SegmentPhase::Queued {
            // The segment was opened after the cut.
            *known = SegmentEntry {
                live: 0,
                units: 0,
                phase: SegmentPhase::Open,
                ..now
            };
        }
        known.live += NODE_SECTORS as u32;
    }

    async fn write_nodes(self: &Rc<Self>, cut: &mut CheckpointCut) -> Result<(), LogError> {
        loop {
            let next = self.map.borrow_mut().next_to_write();
            let Some(NodeWrite { level, key, bytes }) = next else {
                return Ok(());
            };
            let crc = crc32c::crc32c(&bytes);
            let entry = SpaceEntry::Node { level, key, crc };
            let place = self.append_meta(entry, &bytes).await?;
            self.map.borrow_mut().written(place);
            self.count_node(cut, place);
            self.stats.borrow_mut().bytes_checkpoints += NODE_BYTES as u64;
            self.portions.consume(&self.rt, NODE_BYTES as u64).await;
        }
    }

    /// Writes the changed chunks of the table. Returns the places of all chunks.
    async fn write_table(
        self: &Rc<Self>,
        cut: &mut CheckpointCut,
        superseded: &mut SupersededPlaces,
    ) -> Result<CheckpointParts, LogError> {
        let mut meta = self.meta.borrow().clone();
        meta.body.clear();
        meta.table.resize(cut.table.chunk_count(), None);
        // Use the old segment count: a checkpoint that grows the volume makes the last chunk longer.
        let count = self.commit.composer().table.len();
        for n in 0..cut.table.chunk_count() {
            let known = meta.table[n].filter(|_| !cut.table.has_changed(n));
            let chunk = if let Some(chunk) = known {
                chunk
            } else {
                let segments = cut.table.chunk(n).to_vec();
                let bytes = TableChunk { segments }.encode();
                let (place, slot, crc) = self.write_meta(MetaKind::Table, n as u32, &bytes).await?;
                ChunkRef { place, slot, crc }
            };
            let before = meta.table[n].replace(chunk);
            if let Some(before) = before.filter(|before| before.place != chunk.place) {
                superseded.push((before.place, chunk_sectors(n, count)));
            }
            cut.checkpoint.table.push(chunk);
        }
        Ok(meta)
    }

    /// Writes a part of a checkpoint beside nodes. Returns its place, the slot of its segment, and the checksum.
    async fn write_meta(
        self: &Rc<Self>,
        kind: MetaKind,
        index: u32,
        bytes: &[u8],
    ) -> Result<(LogPlace, u32, u32), LogError> {
        let crc = crc32c::crc32c(bytes);
        let sectors = (bytes.len() as u64 / SECTOR_BYTES) as u16;
        let entry = SpaceEntry::Meta {
            kind,
            index,
            sectors,
            crc,
        };
        let place = self.append_meta(entry, bytes).await?;
        // No segment is opened in its place before the superblock points at this part, but the cleaner needs the live
        // count.
        let table = &mut self.commit.composer_mut().table;
        table.count_meta(place, sectors.into());
        self.stats.borrow_mut().bytes_checkpoints += bytes.len() as u64;
        let slot = table.slot_at(place).expect("it is being filled");
        Ok((place, slot.0, crc))
    }

    /// Writes the body in parts, and the index for the superblock. Returns the new superblock, which is not written
    /// yet.
    async fn write_body(
        self: &Rc<Self>,
        cut: &mut CheckpointCut,
        meta: &mut CheckpointParts,
    ) -> Result<SpaceSuperblock, LogError> {
        let roots = self.map.borrow().frozen_roots();
        (cut.checkpoint.root, cut.checkpoint.detached) = roots;
        let body = cut.checkpoint.encode();
        let mut parts = Vec::new();
        for (n, bytes) in (0..).zip(body.chunks(PART_BYTES)) {
            let (place, slot, crc) = self.write_meta(MetaKind::Checkpoint, n, bytes).await?;
            let sectors = (bytes.len() as u64 / SECTOR_BYTES) as u32;
            parts.push(PartRef {
                place,
                slot,
                sectors,
                crc,
            });
            meta.body.push((place, sectors.into()));
        }
        let index = CheckpointIndex {
            body_bytes: body.len() as u32,
            parts,
        };
        let bytes = index.encode();
        let (place, slot, crc) = self.write_meta(MetaKind::Index, 0, &bytes).await?;
        let sectors = bytes.len() as u64 / SECTOR_BYTES;
        meta.body.push((place, sectors));
        let mut streams = self.commit.composer_mut();
        streams.end_inside();
        self.commit.appended(&mut streams, false);
        let (epoch, layout) = (streams.epoch, streams.layout);
        drop(streams);
        self.commit.has_work();
        let last = self.superblock.borrow().clone();
        let offset = u64::from(layout.offset_of(place)) / SECTOR_BYTES;
        let grown = match cut.change {
            Some(change) => (change.layout(layout), change.space_sectors),
            None => (layout, 0),
        };
        let placement = cut.change.and_then(|change| change.placement);
        Ok(SpaceSuperblock {
            epoch,
            len: grown.0.len.max(last.len),
            segment_count: grown.0.segment_count,
            space_sectors: grown.1.max(last.space_sectors),
            placement: placement.unwrap_or_else(|| self.placement.borrow().kind()),
            auto: self.auto.get(),
            checkpoint: u64::from(slot) * layout.segment_sectors() + offset,
            checkpoint_segment: layout.segment_of(place),
            checkpoint_sectors: sectors as u32,
            checkpoint_crc: crc,
            ..last
        })
    }

    /// Requests a checkpoint if one is due, even if no batch waits for a checkpoint.
    pub(crate) fn ask_for_checkpoint_if_due(&self) {
        let is_due = {
            let (streams, map) = (self.commit.composer(), self.map.borrow());
            let room = SpaceBudget::of(&streams, &map);
            let (entries, most) = (self.entries_since.get(), self.options.recovery_entries);
            room.wants_checkpoint(&streams.table, entries, most, self.written_since.get())
        };
        if is_due {
            self.ask_for_checkpoint();
        }
    }

    /// Makes the next checkpoint write chunk `n` of the table elsewhere, if the chunk lies at `place`.
    pub(crate) fn rewrite_chunk(&self, n: usize, place: LogPlace) {
        let meta = self.meta.borrow();
        let lies_there = meta
            .table
            .get(n)
            .is_some_and(|chunk| chunk.is_some_and(|chunk| chunk.place == place));
        if lies_there {
            self.commit.composer_mut().table.segments().mark(n);
        }
    }

    /// Discounts nodes that are no longer referenced.
    fn discount_nodes(&self, nodes: &[LogPlace]) {
        let table = &mut self.commit.composer_mut().table;
        for place in nodes {
            table.discount_node(*place, NODE_SECTORS);
        }
    }

    /// Completes a valid checkpoint: releases the places that it supersedes, and continues the allocation queue.
    async fn is_valid(
        self: &Rc<Self>,
        cut: CheckpointCut,
        superseded: SupersededPlaces,
        meta: CheckpointParts,
    ) {
        let completed = self.map.borrow_mut().complete();
        for portion in completed.superseded.chunks(PORTION_NODES) {
            self.discount_nodes(portion);
            if portion.len() == PORTION_NODES {
                self.rt.yield_now().await;
            }
        }
        let mut streams = self.commit.composer_mut();
        for (place, sectors) in superseded {
            streams.table.discount_meta(place, sectors);
        }
        streams.table.pass(cut.frontier);
        if let Some(change) = cut.change {
            let layout = change.layout(streams.layout);
            let placement = self.placement.borrow().kind();
            streams.grow(layout, ChangedBounds::of(&layout, &self.options, placement));
        }
        drop(streams);
        if let Some(placement) = cut.change.and_then(|change| change.placement) {
            self.place_by(placement);
        }
        *self.meta.borrow_mut() = meta;
        self.entries_since
            .set(self.entries_since.get() - cut.entries);
        self.written_since
            .set(self.written_since.get() - cut.written);
        self.stats.borrow_mut().checkpoints += 1;
        self.may_reuse.set(true);
        self.replenish(0);
        if self.options.discard {
            self.settle_all();
        }
        // Drops requests that arrived meanwhile: waiting tasks are notified below and repeat their requests if
        // necessary.
        self.checkpoint_wanted.set(false);
        self.commit.notify();
        self.clean_asked.notify_all();
    }
}
