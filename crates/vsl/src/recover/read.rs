//! Reading of the checkpoint that a superblock points at.

use forebay_extent_map::LogPlace;
use forebay_units::SECTOR_BYTES;

use crate::error::SpaceOpenError;
use crate::format::{
    Checkpoint, CheckpointIndex, PartRef, SpaceSuperblock, TABLE_CHUNK_SEGMENTS, TableChunk,
};
use crate::geometry::{SegmentLayout, SegmentSlot};
use crate::meta::{CheckpointParts, chunk_sectors};
use crate::segment::SegmentEntry;
use crate::store::{SegmentStore, read_checked};

/// A checkpoint from which recovery starts.
pub(crate) struct LoadedCheckpoint {
    pub(crate) checkpoint: Checkpoint,
    /// The table of segments at the cut.
    pub(crate) segments: Vec<SegmentEntry>,
    /// The places of the checkpoint beside nodes, and their slots.
    pub(crate) meta: CheckpointParts,
    pub(crate) slots: Vec<(SegmentSlot, LogPlace)>,
}

struct CheckpointReader<'a> {
    store: &'a dyn SegmentStore,
    superblock: &'a SpaceSuperblock,
    layout: SegmentLayout,
}

impl CheckpointReader<'_> {
    fn damaged(&self, what: &'static str) -> SpaceOpenError {
        SpaceOpenError::Checkpoint(self.superblock.checkpoint, what)
    }

    /// Reads bytes of a slot, and compares their checksum.
    async fn bytes(
        &self,
        slot: u32,
        offset: u64,
        sectors: u64,
        crc: u32,
    ) -> Result<Vec<u8>, SpaceOpenError> {
        let end = offset + sectors * SECTOR_BYTES;
        if slot >= self.layout.segment_count || end > u64::from(self.layout.segment_bytes) {
            return Err(self.damaged("it names a place beyond the device"));
        }
        let check = |bytes: &[u8]| (crc32c::crc32c(bytes) == crc).then(|| bytes.to_vec());
        let read = read_checked(self.store, SegmentSlot(slot), offset..end, check).await?;
        read.ok_or_else(|| self.damaged("it does not match its checksum"))
    }

    async fn at_place(
        &self,
        place: LogPlace,
        slot: u32,
        sectors: u64,
        crc: u32,
    ) -> Result<Vec<u8>, SpaceOpenError> {
        if !self.layout.is_in_one(place, sectors) {
            return Err(self.damaged("it names a place across segments"));
        }
        let offset = self.layout.offset_of(place).into();
        self.bytes(slot, offset, sectors, crc).await
    }

    async fn body(&self, index: &CheckpointIndex) -> Result<Checkpoint, SpaceOpenError> {
        let mut body = Vec::new();
        for part in &index.parts {
            let PartRef {
                place,
                slot,
                sectors,
                crc,
            } = *part;
            body.extend(self.at_place(place, slot, sectors.into(), crc).await?);
        }
        body.truncate(index.body_bytes as usize);
        Checkpoint::decode(&body).ok_or_else(|| self.damaged("it contradicts itself"))
    }
}

/// Reads the checkpoint that a superblock points at, and the table of segments.
///
/// # Errors
/// The store failed, or the checkpoint is damaged.
pub(crate) async fn read_checkpoint(
    store: &dyn SegmentStore,
    superblock: &SpaceSuperblock,
) -> Result<LoadedCheckpoint, SpaceOpenError> {
    let layout = SegmentLayout::of(superblock);
    let reader = CheckpointReader {
        store,
        superblock,
        layout,
    };
    let (at, sectors) = (
        superblock.checkpoint,
        u64::from(superblock.checkpoint_sectors),
    );
    let (slot, offset) = (at / layout.segment_sectors(), at % layout.segment_sectors());
    let (slot, offset) = (slot as u32, offset * SECTOR_BYTES);
    let bytes = reader
        .bytes(slot, offset, sectors, superblock.checkpoint_crc)
        .await?;
    let index = CheckpointIndex::decode(&bytes)
        .ok_or_else(|| reader.damaged("its index contradicts itself"))?;
    let place = layout.place(superblock.checkpoint_segment, offset as u32);
    let mut slots = vec![(SegmentSlot(slot), place)];
    let parts = index.parts.iter();
    slots.extend(parts.map(|part| (SegmentSlot(part.slot), part.place)));
    let checkpoint = reader.body(&index).await?;
    let count = layout.segment_count as usize;
    if checkpoint.table.len() != count.div_ceil(TABLE_CHUNK_SEGMENTS) {
        return Err(reader.damaged("its table has the wrong length"));
    }
    let mut segments = Vec::with_capacity(count);
    for (n, chunk) in checkpoint.table.iter().enumerate() {
        let here = (count - n * TABLE_CHUNK_SEGMENTS).min(TABLE_CHUNK_SEGMENTS);
        let sectors = chunk_sectors(n, count);
        let bytes = reader
            .at_place(chunk.place, chunk.slot, sectors, chunk.crc)
            .await?;
        let decoded = TableChunk::decode(&bytes, here);
        let decoded = decoded.ok_or_else(|| reader.damaged("its table contradicts itself"))?;
        segments.extend(decoded.segments);
        slots.push((SegmentSlot(chunk.slot), chunk.place));
    }
    let in_range = |slot: &u32| (*slot as usize) < count;
    let is_numbered = |segment: &SegmentEntry| segment.seq.0 < layout.numbers();
    let sound = segments.iter().all(is_numbered)
        && checkpoint.queue.iter().all(in_range)
        && checkpoint.open.iter().all(|open| in_range(&open.slot));
    if !sound {
        return Err(reader.damaged("it does not fit its volume"));
    }
    let mut body: Vec<(LogPlace, u64)> = vec![(place, sectors)];
    let parts = index.parts.iter();
    body.extend(parts.map(|part| (part.place, part.sectors.into())));
    let meta = CheckpointParts {
        table: checkpoint.table.iter().copied().map(Some).collect(),
        body,
    };
    Ok(LoadedCheckpoint {
        checkpoint,
        segments,
        meta,
        slots,
    })
}
