//! The parts of a checkpoint beside the map's nodes: the table of segments in chunks, its body in parts, and the index
//! of those parts. The superblock points at the index.
//!
//! A checkpoint describes one moment, its *cut*: the map and the table as they were when record `cut` was composed. The
//! places of nodes and of the table itself are an exception: they are as the checkpoint wrote them.

use forebay_placement::WriteClock;
use forebay_segment_log::format::envelope::{ByteReader, HEADER_BYTES};
use forebay_units::{RecordSeq, SECTOR_BYTES, SegmentSeq};

use super::entry::{StreamNumber, put_clock};
use crate::segment::{SegmentEntry, SegmentPhase};
use forebay_extent_map::LogPlace;
use forebay_extent_map::{DETACHED_BYTES, DetachedRef, ROOT_BYTES, RootRef};

/// Number of segments in one chunk of the table.
pub(crate) const TABLE_CHUNK_SEGMENTS: usize = 512;
const SEGMENT_BYTES: usize = 32;
const MAGIC: &[u8; 8] = b"FOREVCP\x02";
const INDEX_MAGIC: &[u8; 8] = b"FOREVCI\x02";
/// Maximum length of a part of a checkpoint's body.
pub(crate) const PART_BYTES: usize = 64 << 10;
const PART_REF_BYTES: usize = 20;
const CHUNK_REF_BYTES: usize = 16;

/// A chunk of the table of segments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TableChunk {
    /// The segments of the chunk, in order.
    pub(crate) segments: Vec<SegmentEntry>,
}

/// Reference to a chunk of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ChunkRef {
    /// Place of the chunk.
    pub(crate) place: LogPlace,
    /// Slot of the segment that contains the chunk. The table itself maps segments to slots, so the slot must be known
    /// before the table is read.
    pub(crate) slot: u32,
    /// CRC32C of the chunk.
    pub(crate) crc: u32,
}

/// Reference to a part of a checkpoint's body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PartRef {
    /// Place of the part.
    pub(crate) place: LogPlace,
    /// Slot of the segment that contains the part.
    pub(crate) slot: u32,
    /// Length in sectors.
    pub(crate) sectors: u32,
    /// CRC32C of the part.
    pub(crate) crc: u32,
}

/// The places of the body's parts. The superblock points at this index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CheckpointIndex {
    /// Length of the body in bytes.
    pub(crate) body_bytes: u32,
    /// The parts, in order.
    pub(crate) parts: Vec<PartRef>,
}

impl CheckpointIndex {
    /// Encodes the index, in whole blocks.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = INDEX_MAGIC.to_vec();
        put(&mut out, self.body_bytes.into(), 4);
        put(&mut out, self.parts.len() as u64, 4);
        for part in &self.parts {
            put(&mut out, part.place.0, 8);
            put(&mut out, part.slot.into(), 4);
            put(&mut out, part.sectors.into(), 4);
            put(&mut out, part.crc.into(), 4);
        }
        out.resize(out.len().next_multiple_of(HEADER_BYTES), 0);
        out
    }

    /// Decodes the index. The caller has compared the checksum. `None` if the index is malformed.
    pub(crate) fn decode(bytes: &[u8]) -> Option<CheckpointIndex> {
        let mut from = ByteReader(bytes);
        if from.take(8)? != INDEX_MAGIC {
            return None;
        }
        let (body_bytes, count) = (from.uint(4)? as u32, from.uint(4)? as usize);
        let parts = from.many(count, PART_REF_BYTES, |from| {
            Some(PartRef {
                place: LogPlace(from.uint(8)?),
                slot: from.uint(4)? as u32,
                sectors: from.uint(4)? as u32,
                crc: from.uint(4)? as u32,
            })
        })?;
        let fits = |part: &PartRef| {
            part.sectors > 0 && u64::from(part.sectors) * SECTOR_BYTES <= PART_BYTES as u64
        };
        let sectors: u64 = parts.iter().map(|part| u64::from(part.sectors)).sum();
        let whole = parts.iter().all(fits) && u64::from(body_bytes) <= sectors * SECTOR_BYTES;
        whole.then_some(CheckpointIndex { body_bytes, parts })
    }
}

/// A segment that was open at the cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OpenSegment {
    /// Stream of the segment.
    pub(crate) stream: StreamNumber,
    /// Slot of the segment.
    pub(crate) slot: u32,
    /// Number of the segment.
    pub(crate) seq: SegmentSeq,
}

/// The body of a checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Checkpoint {
    /// The last record that the checkpoint covers.
    pub(crate) cut: RecordSeq,
    /// Number of the segment that is opened next.
    pub(crate) next_segment: SegmentSeq,
    /// Sectors that clients had written.
    pub(crate) clock: WriteClock,
    /// Root of the map. `None` if no sector is mapped.
    pub(crate) root: Option<RootRef>,
    /// Subtrees that were detached from the map and not reaped yet.
    pub(crate) detached: Vec<DetachedRef>,
    /// The chunks of the table of segments, in order.
    pub(crate) table: Vec<ChunkRef>,
    /// Segments that were being filled.
    pub(crate) open: Vec<OpenSegment>,
    /// Free segments in the order of their use from the cut on.
    pub(crate) queue: Vec<u32>,
    /// True if the live counts were found to be wrong. Live data must be counted again when the volume is opened.
    pub(crate) doubtful: bool,
    /// Saved state of the placement.
    pub(crate) placement: Vec<u8>,
}

fn put(out: &mut Vec<u8>, n: u64, bytes: usize) {
    out.extend_from_slice(&n.to_le_bytes()[..bytes]);
}

impl TableChunk {
    /// Returns the bytes of a chunk of `segments` segments.
    pub(crate) fn encoded_len(segments: usize) -> usize {
        (segments * SEGMENT_BYTES).next_multiple_of(HEADER_BYTES)
    }

    /// Encodes the chunk, in whole blocks.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.segments.len() * SEGMENT_BYTES);
        for segment in &self.segments {
            let phase = match segment.phase {
                SegmentPhase::Free => 0,
                SegmentPhase::Queued => 1,
                SegmentPhase::Open => 2,
                SegmentPhase::Closed => 3,
            };
            out.extend_from_slice(&[phase, segment.stream.0]);
            put(&mut out, segment.live.into(), 3);
            put(&mut out, segment.units.into(), 3);
            put(&mut out, segment.seq.0, 7);
            put_clock(&mut out, segment.born);
            put_clock(&mut out, segment.closed);
            put(&mut out, segment.wear.into(), 3);
        }
        out.resize(out.len().next_multiple_of(HEADER_BYTES), 0);
        out
    }

    /// Decodes a chunk of `count` segments. `None` if it is not valid.
    pub(crate) fn decode(bytes: &[u8], count: usize) -> Option<TableChunk> {
        let mut from = ByteReader(bytes.get(..count.checked_mul(SEGMENT_BYTES)?)?);
        let mut segments = Vec::with_capacity(count);
        for _ in 0..count {
            let phase = match from.uint(1)? {
                0 => SegmentPhase::Free,
                1 => SegmentPhase::Queued,
                2 => SegmentPhase::Open,
                3 => SegmentPhase::Closed,
                _ => return None,
            };
            let segment = SegmentEntry {
                phase,
                stream: StreamNumber(from.uint(1)? as u8),
                live: from.uint(3)? as u32,
                units: from.uint(3)? as u32,
                seq: SegmentSeq(from.uint(7)?),
                born: WriteClock(from.uint(7)?),
                closed: WriteClock(from.uint(7)?),
                wear: from.uint(3)? as u32,
            };
            // A free segment cannot contain live data.
            let sound = (segment.units == 0 || segment.live > 0)
                && (segment.live == 0
                    || phase == SegmentPhase::Open
                    || phase == SegmentPhase::Closed);
            if !sound {
                return None;
            }
            segments.push(segment);
        }
        Some(TableChunk { segments })
    }
}

impl Checkpoint {
    /// Encodes the body, in whole blocks.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        for n in [self.cut.0, self.next_segment.0, self.clock.0] {
            put(&mut out, n, 8);
        }
        put(&mut out, self.root.is_some().into(), 2);
        put(&mut out, self.doubtful.into(), 2);
        let root = self.root.map_or([0; ROOT_BYTES], |root| root.encode());
        out.extend_from_slice(&root);
        for len in [
            self.table.len(),
            self.open.len(),
            self.queue.len(),
            self.placement.len(),
            self.detached.len(),
        ] {
            put(&mut out, len as u64, 4);
        }
        for chunk in &self.table {
            put(&mut out, chunk.place.0, 8);
            put(&mut out, chunk.slot.into(), 4);
            put(&mut out, chunk.crc.into(), 4);
        }
        for open in &self.open {
            put(&mut out, open.stream.0.into(), 4);
            put(&mut out, open.slot.into(), 4);
            put(&mut out, open.seq.0, 8);
        }
        for slot in &self.queue {
            put(&mut out, (*slot).into(), 4);
        }
        for cut in &self.detached {
            out.extend_from_slice(&cut.encode());
        }
        out.extend_from_slice(&self.placement);
        out.resize(out.len().next_multiple_of(HEADER_BYTES), 0);
        out
    }

    /// Decodes the body. The caller has compared the checksum. `None` if the body is malformed.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Checkpoint> {
        let mut from = ByteReader(bytes);
        if from.take(8)? != MAGIC {
            return None;
        }
        let (cut, next_segment) = (RecordSeq(from.counter()?), SegmentSeq(from.counter()?));
        let clock = WriteClock(from.uint(8)?);
        let has_root = from.uint(2)? != 0;
        let doubtful = from.uint(2)? != 0;
        let root = from.take(ROOT_BYTES)?;
        let root = if has_root {
            Some(RootRef::decode(root)?)
        } else {
            None
        };
        let mut count = || Some(from.uint(4)? as usize);
        let (chunks, opens, slots, kept) = (count()?, count()?, count()?, count()?);
        let cuts = count()?;
        let table = from.many(chunks, CHUNK_REF_BYTES, |from| {
            Some(ChunkRef {
                place: LogPlace(from.uint(8)?),
                slot: from.uint(4)? as u32,
                crc: from.uint(4)? as u32,
            })
        })?;
        let open = from.many(opens, 16, |from| {
            Some(OpenSegment {
                stream: StreamNumber(from.uint(4)? as u8),
                slot: from.uint(4)? as u32,
                seq: SegmentSeq(from.counter()?),
            })
        })?;
        let queue = from.many(slots, 4, |from| Some(from.uint(4)? as u32))?;
        let detached = from.many(cuts, DETACHED_BYTES, |from| {
            DetachedRef::decode(from.take(DETACHED_BYTES)?)
        })?;
        let placement = from.take(kept)?.to_vec();
        Some(Checkpoint {
            cut,
            next_segment,
            clock,
            root,
            detached,
            table,
            open,
            queue,
            doubtful,
            placement,
        })
    }
}

/// Encodes a continuation of the allocation queue, in whole sectors.
pub(crate) fn encode_queue(slots: &[u32]) -> Vec<u8> {
    let mut out = Vec::with_capacity(4 + 4 * slots.len());
    put(&mut out, slots.len() as u64, 4);
    for slot in slots {
        put(&mut out, (*slot).into(), 4);
    }
    out.resize(out.len().next_multiple_of(SECTOR_BYTES as usize), 0);
    out
}

/// Decodes the segments that [`encode_queue`] encoded. `None` if `bytes` is malformed.
pub(crate) fn decode_queue(bytes: &[u8]) -> Option<Vec<u32>> {
    let mut from = ByteReader(bytes);
    let len = from.uint(4)? as usize;
    from.many(len, 4, |from| Some(from.uint(4)? as u32))
}

/// Decodes lists whose length was read from the device.
trait ListDecoder {
    fn many<T>(
        &mut self,
        count: usize,
        bytes: usize,
        one: impl Fn(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>>;
}

impl ListDecoder for ByteReader<'_> {
    fn many<T>(
        &mut self,
        count: usize,
        bytes: usize,
        one: impl Fn(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        if count.checked_mul(bytes)? > self.0.len() {
            return None;
        }
        (0..count).map(|_| one(self)).collect()
    }
}
