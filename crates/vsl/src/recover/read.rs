//! Reading of the checkpoint that a superblock points at.

use forebay_extents::Place;
use forebay_units::SECTOR_BYTES;

use crate::error::OpenError;
use crate::format::{Checkpoint, Index, PartRef, Superblock, TABLE_CHUNK_SEGMENTS, TableChunk};
use crate::geometry::{Layout, Slot};
use crate::meta::{Meta, chunk_sectors};
use crate::segment::Segment;
use crate::store::{SegmentStore, read_checked};

/// A checkpoint from which recovery starts.
pub(crate) struct ReadCheckpoint {
    pub(crate) checkpoint: Checkpoint,
    /// The table of segments at the cut.
    pub(crate) segments: Vec<Segment>,
    /// The places of the checkpoint beside nodes, and their slots.
    pub(crate) meta: Meta,
    pub(crate) slots: Vec<(Slot, Place)>,
}

struct Reader<'a> {
    store: &'a dyn SegmentStore,
    superblock: &'a Superblock,
    layout: Layout,
}

impl Reader<'_> {
    fn damaged(&self, what: &'static str) -> OpenError {
        OpenError::Checkpoint(self.superblock.checkpoint, what)
    }

    /// Reads bytes of a slot, and compares their checksum.
    async fn bytes(
        &self,
        slot: u32,
        offset: u64,
        sectors: u64,
        crc: u32,
    ) -> Result<Vec<u8>, OpenError> {
        let end = offset + sectors * SECTOR_BYTES;
        if slot >= self.layout.segment_count || end > u64::from(self.layout.segment_bytes) {
            return Err(self.damaged("it names a place beyond the device"));
        }
        let check = |bytes: &[u8]| (crc32c::crc32c(bytes) == crc).then(|| bytes.to_vec());
        let read = read_checked(self.store, Slot(slot), offset..end, check).await?;
        read.ok_or_else(|| self.damaged("it does not match its checksum"))
    }

    async fn at_place(
        &self,
        place: Place,
        slot: u32,
        sectors: u64,
        crc: u32,
    ) -> Result<Vec<u8>, OpenError> {
        if !self.layout.is_in_one(place, sectors) {
            return Err(self.damaged("it names a place across segments"));
        }
        let offset = self.layout.offset_of(place).into();
        self.bytes(slot, offset, sectors, crc).await
    }

    async fn body(&self, index: &Index) -> Result<Checkpoint, OpenError> {
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
    superblock: &Superblock,
) -> Result<ReadCheckpoint, OpenError> {
    let layout = Layout::of(superblock);
    let reader = Reader {
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
    let index =
        Index::decode(&bytes).ok_or_else(|| reader.damaged("its index contradicts itself"))?;
    let place = layout.place(superblock.checkpoint_segment, offset as u32);
    let mut slots = vec![(Slot(slot), place)];
    slots.extend(index.parts.iter().map(|part| (Slot(part.slot), part.place)));
    let checkpoint = reader.body(&index).await?;
    let count = layout.segment_count as usize;
    if checkpoint.table.len() != count.div_ceil(TABLE_CHUNK_SEGMENTS) {
        return Err(reader.damaged("its table has another length"));
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
        slots.push((Slot(chunk.slot), chunk.place));
    }
    let in_range = |slot: &u32| (*slot as usize) < count;
    let numbered = segments
        .iter()
        .all(|segment| segment.seq.0 < layout.numbers());
    let sound = numbered
        && checkpoint.queue.iter().all(in_range)
        && checkpoint.open.iter().all(|open| in_range(&open.slot));
    if !sound {
        return Err(reader.damaged("it does not fit its volume"));
    }
    let mut body: Vec<(Place, u64)> = vec![(place, sectors)];
    body.extend(
        index
            .parts
            .iter()
            .map(|part| (part.place, part.sectors.into())),
    );
    let meta = Meta {
        table: checkpoint.table.iter().copied().map(Some).collect(),
        body,
    };
    Ok(ReadCheckpoint {
        checkpoint,
        segments,
        meta,
        slots,
    })
}
