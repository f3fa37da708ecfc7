//! Checkpoints: what recovery begins with.
//!
//! A checkpoint is of a moment, its *cut*; what happens after the cut is left to the records behind it. Its
//! parts are written while users go on, and it counts when both superblocks lead to it. Invariants:
//! - Nodes before their parents, the table behind the nodes, the superblock when all of it is durable.
//! - The table says what was live at the cut, but for nodes and for what checkpoints write beside them, which
//!   are as this checkpoint leaves them.
//! - What a checkpoint supersedes is given up only when it counts.

use std::rc::Rc;

use forebay_device::BufMut;
use forebay_segments::{LogError, write_copies};
use forebay_units::SECTOR_BYTES;

use crate::error::SpaceError;
use crate::format::{
    Checkpoint, ChunkRef, Entry, MetaKind, OpenSegment, Superblock, TABLE_CHUNK_SEGMENTS,
    TableChunk,
};
use crate::segment::{Frontier, Segment, SegmentState};
use crate::space::{Inner, Space};
use crate::usage::DOUBTFUL;
use forebay_extents::Place;
use forebay_extents::{NODE_BYTES, NODE_SECTORS, ToWrite};

/// What is of the moment of the cut.
struct Cut {
    checkpoint: Checkpoint,
    table: Vec<Segment>,
    frontier: Frontier,
    entries: u64,
}

impl Space {
    /// Makes a checkpoint now: all that was done before becomes durable, and recovery begins here.
    ///
    /// # Errors
    /// If the volume has failed.
    pub async fn checkpoint(&self) -> Result<(), SpaceError> {
        Ok(self.inner.checkpoint().await?)
    }

    /// The same, for who ends using the volume: until nothing lies behind the newest, since what the cleaner moved meanwhile
    /// would have to be recovered. It comes to rest soon when nobody writes.
    ///
    /// # Errors
    /// If the volume has failed.
    pub async fn settle(&self) -> Result<(), SpaceError> {
        for _ in 0..SETTLE_MAX {
            self.checkpoint().await?;
            if self.inner.entries_since.get() == 0 {
                break;
            }
        }
        Ok(())
    }
}

/// So many checkpoints are made at most for a volume to come to rest: what is left then is recovered.
const SETTLE_MAX: u32 = 32;

/// Nodes that are counted between turns of all other tasks.
const PORTION_NODES: usize = 8192;

/// Makes checkpoints when they are asked for.
pub(crate) async fn checkpointer(inner: Rc<Inner>) {
    loop {
        let asked = inner.checkpoint_asked.listen();
        if !inner.checkpoint_wanted.get() {
            asked.await;
            continue;
        }
        drop(asked);
        // Where this fails the volume has failed, and everybody is told so.
        if inner.checkpoint().await.is_err() {
            return;
        }
    }
}

impl Inner {
    pub(crate) async fn checkpoint(self: &Rc<Self>) -> Result<(), LogError> {
        let _turn = self.checkpoint_turn.lock().await;
        if let Some(failure) = self.commit.failure() {
            return Err(failure);
        }
        self.checkpoint_wanted.set(false);
        let mut cut = self.cut();
        self.write_nodes(&mut cut).await?;
        self.take_from_table(&mut cut).await;
        let mut meta = self.write_table(&mut cut).await?;
        let superblock = self.write_block(&mut cut, &mut meta).await?;
        let target = self.commit.composer().last_record();
        self.commit.flush(target).await?;
        write_copies(&*self.device, &superblock)
            .await
            .map_err(|error| self.commit.fail(&error.to_string()))?;
        *self.superblock.borrow_mut() = superblock;
        self.counts_now(cut, meta).await;
        // What was written can be evicted from now on, even if the volume is idle.
        let limit = self.options.map_bytes as usize;
        while self.map.borrow_mut().shrink(limit) {
            self.rt.yield_now().await;
        }
        Ok(())
    }

    /// The checkpoint's table does not count what the checkpoint supersedes.
    async fn take_from_table(&self, cut: &mut Cut) {
        let layout = self.commit.composer().layout;
        let mut take = |place: Place, sectors: u64| {
            let live = &mut cut.table[layout.slot_of(place).0 as usize].live;
            // One of which more is given up than was counted is not trusted any more.
            *live = live.checked_sub(sectors as u32).unwrap_or(DOUBTFUL);
        };
        for (place, sectors) in &*self.meta.borrow() {
            take(*place, *sectors);
        }
        let mut done = 0;
        loop {
            if let Some(rest) = self.map.borrow().superseded().get(done..) {
                let portion = &rest[..rest.len().min(PORTION_NODES)];
                portion.iter().for_each(|place| take(*place, NODE_SECTORS));
                done += portion.len();
                if portion.len() == rest.len() {
                    return;
                }
            }
            self.rt.yield_now().await;
        }
    }

    /// Everything up to now is composed, and what a checkpoint says of this moment is noted.
    fn cut(self: &Rc<Self>) -> Cut {
        let mut streams = self.commit.composer_mut();
        let mut map = self.map.borrow_mut();
        let cut = streams.end_all();
        let runway = streams.usage.runway_slots();
        let open = streams
            .open_segments()
            .map(|(stream, slot, seq)| OpenSegment {
                stream,
                slot: slot.0,
                seq,
            });
        let open: Vec<OpenSegment> = open.collect();
        let frontier = Frontier {
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
            runway: runway.map(|slot| slot.0).collect(),
            placement: self.placement.borrow().save(),
        };
        map.freeze();
        Cut {
            checkpoint,
            table: streams.usage.all().to_vec(),
            frontier,
            entries: self.entries_since.get(),
        }
    }

    /// Appends something to the stream of checkpoints, when there is room for it. Says where it lies.
    async fn append_meta(self: &Rc<Self>, entry: Entry, data: &[u8]) -> Result<Place, LogError> {
        loop {
            let progress = self.commit.progress();
            if let Some(failure) = self.commit.failure() {
                return Err(failure);
            }
            match self.append_meta_now(entry, data) {
                Some(place) => return Ok(place),
                None => {
                    self.replenish(0);
                    progress.await;
                }
            }
        }
    }

    /// The same, if there is room now. If not, what is open is sent off, so that more can come.
    fn append_meta_now(&self, entry: Entry, data: &[u8]) -> Option<Place> {
        let mut streams = self.commit.composer_mut();
        let stream = streams.counts.meta();
        let fits = streams.fits(stream, data.len() as u64) || streams.can_open(1);
        let place = fits.then(|| streams.append(stream, entry, data));
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

    /// Counts what lies at a place as live, in the checkpoint's table as well.
    fn count_new(&self, cut: &mut Cut, place: Place, sectors: u64) {
        let mut streams = self.commit.composer_mut();
        streams.usage.count(place, sectors);
        let slot = streams.layout.slot_of(place);
        let known = &mut cut.table[slot.0 as usize];
        if known.seq != streams.usage.get(slot).seq {
            // Opened since the cut.
            *known = Segment {
                live: 0,
                state: SegmentState::Open,
                ..*streams.usage.get(slot)
            };
        }
        known.live += sectors as u32;
    }

    async fn write_nodes(self: &Rc<Self>, cut: &mut Cut) -> Result<(), LogError> {
        loop {
            let next = self.map.borrow_mut().next_to_write();
            let Some(ToWrite { level, key, bytes }) = next else {
                return Ok(());
            };
            let crc = crc32c::crc32c(&bytes);
            let entry = Entry::Node { level, key, crc };
            let place = self.append_meta(entry, &bytes).await?;
            self.map.borrow_mut().written(place);
            self.count_new(cut, place, NODE_SECTORS);
            self.portions.did(&self.rt, NODE_BYTES as u64).await;
            self.stats.borrow_mut().bytes_checkpoints += NODE_BYTES as u64;
        }
    }

    /// Writes the table. Says where its chunks lie.
    async fn write_table(self: &Rc<Self>, cut: &mut Cut) -> Result<Vec<(Place, u64)>, LogError> {
        let mut meta = Vec::new();
        for n in 0..cut.table.len().div_ceil(TABLE_CHUNK_SEGMENTS) {
            let from = n * TABLE_CHUNK_SEGMENTS;
            let to = cut.table.len().min(from + TABLE_CHUNK_SEGMENTS);
            let segments = cut.table[from..to].to_vec();
            let bytes = TableChunk { segments }.encode();
            let (place, crc) = self.write_meta(MetaKind::Table, n as u32, &bytes).await?;
            cut.checkpoint.table.push(ChunkRef { place, crc });
            meta.push((place, bytes.len() as u64 / SECTOR_BYTES));
        }
        Ok(meta)
    }

    async fn write_meta(
        self: &Rc<Self>,
        kind: MetaKind,
        index: u32,
        bytes: &[u8],
    ) -> Result<(Place, u32), LogError> {
        let crc = crc32c::crc32c(bytes);
        let sectors = (bytes.len() as u64 / SECTOR_BYTES) as u16;
        let entry = Entry::Meta {
            kind,
            index,
            sectors,
            crc,
        };
        let place = self.append_meta(entry, bytes).await?;
        // Nothing is opened in its place before the superblock says so, but the cleaner looks at what is live.
        self.commit
            .composer_mut()
            .usage
            .count(place, sectors.into());
        self.stats.borrow_mut().bytes_checkpoints += bytes.len() as u64;
        Ok((place, crc))
    }

    /// Writes the block that the superblock is to point at, and says what that will say.
    async fn write_block(
        self: &Rc<Self>,
        cut: &mut Cut,
        meta: &mut Vec<(Place, u64)>,
    ) -> Result<Superblock, LogError> {
        let roots = self.map.borrow().frozen_roots();
        (cut.checkpoint.root, cut.checkpoint.detached) = roots;
        let bytes = cut.checkpoint.encode();
        let (place, crc) = self.write_meta(MetaKind::Checkpoint, 0, &bytes).await?;
        let sectors = bytes.len() as u64 / SECTOR_BYTES;
        meta.push((place, sectors));
        let mut streams = self.commit.composer_mut();
        streams.end_inside();
        self.commit.appended(&mut streams, false);
        let epoch = streams.epoch;
        drop(streams);
        self.commit.has_work();
        let last = self.superblock.borrow().clone();
        Ok(Superblock {
            generation: last.generation + 1,
            epoch,
            checkpoint: place,
            checkpoint_sectors: sectors as u32,
            checkpoint_crc: crc,
            ..last
        })
    }

    /// The checkpoint counts: what it supersedes is given up, and the runway goes on.
    async fn counts_now(self: &Rc<Self>, cut: Cut, meta: Vec<(Place, u64)>) {
        let completed = self.map.borrow_mut().complete();
        for portion in completed.superseded.chunks(PORTION_NODES) {
            let mut streams = self.commit.composer_mut();
            for place in portion {
                streams.usage.discount(*place, NODE_SECTORS);
            }
            drop(streams);
            if portion.len() == PORTION_NODES {
                self.rt.yield_now().await;
            }
        }
        let mut streams = self.commit.composer_mut();
        for (place, sectors) in self.meta.replace(meta) {
            streams.usage.discount(place, sectors);
        }
        streams.usage.pass(cut.frontier);
        drop(streams);
        self.entries_since
            .set(self.entries_since.get() - cut.entries);
        self.stats.borrow_mut().checkpoints += 1;
        self.may_reuse.set(true);
        self.replenish(0);
        if self.options.discard {
            self.settle_all();
        }
        self.commit.notify();
        self.clean_asked.notify_all();
    }
}

/// Reads the checkpoint that a superblock leads to, and the table of segments with what it wrote counted.
pub(crate) async fn read_checkpoint(
    device: &dyn forebay_device::Device,
    superblock: &Superblock,
) -> Result<(Checkpoint, Vec<Segment>, Vec<(Place, u64)>), crate::error::OpenError> {
    use crate::error::OpenError;
    let layout = crate::geometry::Layout::of(superblock);
    let at = superblock.checkpoint;
    let damaged = |what| OpenError::Checkpoint(at, what);
    let read = async |place: Place, sectors: u64, crc: u32| {
        if !layout.contains(place, sectors) {
            return Err(damaged("it names a place beyond the medium"));
        }
        let buf = BufMut::zeroed((sectors * SECTOR_BYTES) as usize);
        let bytes = device.read(layout.place_at(place), buf).await?;
        match crc32c::crc32c(&bytes) == crc {
            true => Ok(bytes),
            false => Err(damaged("it does not match its checksum")),
        }
    };
    let sectors = u64::from(superblock.checkpoint_sectors);
    let bytes = read(at, sectors, superblock.checkpoint_crc).await?;
    let checkpoint = Checkpoint::decode(&bytes).ok_or(damaged("it contradicts itself"))?;
    let mut meta = vec![(at, sectors)];
    let mut segments = Vec::new();
    let count = layout.segment_count as usize;
    for (n, chunk) in checkpoint.table.iter().enumerate() {
        let left = count.saturating_sub(n * TABLE_CHUNK_SEGMENTS);
        let here = left.min(TABLE_CHUNK_SEGMENTS);
        let encoded = TableChunk::encoded_len(here) as u64 / SECTOR_BYTES;
        let bytes = read(chunk.place, encoded, chunk.crc).await?;
        let chunk_of =
            TableChunk::decode(&bytes, here).ok_or(damaged("its table contradicts itself"))?;
        segments.extend(chunk_of.segments);
        meta.push((chunk.place, encoded));
    }
    let in_range = |slot: &u32| (*slot as usize) < count;
    let sound = segments.len() == count
        && checkpoint.runway.iter().all(in_range)
        && checkpoint.open.iter().all(|open| in_range(&open.slot));
    if !sound {
        return Err(damaged("it does not fit its volume"));
    }
    Ok((checkpoint, segments, meta))
}
