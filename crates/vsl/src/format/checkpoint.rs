//! What a checkpoint writes beside the map's nodes: the table of segments, in chunks; its body, in parts; and the index
//! of those parts, at which the superblock points.
//!
//! A checkpoint is of a moment, its *cut*: the map and the table are as they were when record `cut` was
//! composed, but for where nodes and the table itself lie, which is as the checkpoint wrote them.

use forebay_placement::WriteClock;
use forebay_segments::format::envelope::{HEADER_BYTES, Reader};
use forebay_units::{RecordSeq, SECTOR_BYTES, SegmentSeq};

use super::entry::{Stream, put_clock};
use crate::segment::{Segment, SegmentPhase};
use forebay_extents::Place;
use forebay_extents::{DETACHED_BYTES, DetachedRef, ROOT_BYTES, RootRef};

/// Segments that one chunk of the table tells of.
pub(crate) const TABLE_CHUNK_SEGMENTS: usize = 512;
const SEGMENT_BYTES: usize = 32;
const MAGIC: &[u8; 8] = b"FOREVCP\x02";
const INDEX_MAGIC: &[u8; 8] = b"FOREVCI\x02";
/// The longest part of a checkpoint's body.
pub(crate) const PART_BYTES: usize = 64 << 10;
const PART_REF_BYTES: usize = 20;
const CHUNK_REF_BYTES: usize = 16;

/// A part of the table of segments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TableChunk {
    /// The segments, from the chunk's first on.
    pub(crate) segments: Vec<Segment>,
}

/// Where a chunk of the table lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ChunkRef {
    /// Its place.
    pub(crate) place: Place,
    /// The slot that the place's segment is in: where a segment lies is told by the table itself.
    pub(crate) slot: u32,
    /// CRC32C of its bytes.
    pub(crate) crc: u32,
}

/// Where a part of a checkpoint's body lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PartRef {
    /// Its place.
    pub(crate) place: Place,
    /// The slot that the place's segment is in.
    pub(crate) slot: u32,
    /// Its length in sectors.
    pub(crate) sectors: u32,
    /// CRC32C of its bytes.
    pub(crate) crc: u32,
}

/// What the superblock points at: where the parts of the body lie.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Index {
    /// Length of the body in bytes.
    pub(crate) body_bytes: u32,
    /// The parts, in order.
    pub(crate) parts: Vec<PartRef>,
}

impl Index {
    /// Its bytes, in whole blocks.
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

    /// The index in `bytes`, whose checksum the caller has compared; `None` if it is malformed.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Index> {
        let mut from = Reader(bytes);
        if from.take(8)? != INDEX_MAGIC {
            return None;
        }
        let (body_bytes, count) = (from.uint(4)? as u32, from.uint(4)? as usize);
        let parts = from.many(count, PART_REF_BYTES, |from| {
            Some(PartRef {
                place: Place(from.uint(8)?),
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
        whole.then_some(Index { body_bytes, parts })
    }
}

/// A segment that was open at the cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OpenSegment {
    /// The stream it belongs to.
    pub(crate) stream: Stream,
    /// Where it lies.
    pub(crate) slot: u32,
    /// Its number.
    pub(crate) seq: SegmentSeq,
}

/// A checkpoint's body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Checkpoint {
    /// The last record that it covers.
    pub(crate) cut: RecordSeq,
    /// The number of the segment that is opened next.
    pub(crate) next_segment: SegmentSeq,
    /// Sectors that users had written.
    pub(crate) clock: WriteClock,
    /// The map's root; none if nothing is mapped.
    pub(crate) root: Option<RootRef>,
    /// What is detached from it, and not looked at yet.
    pub(crate) detached: Vec<DetachedRef>,
    /// The chunks of the table of segments, in order.
    pub(crate) table: Vec<ChunkRef>,
    /// Segments that were being filled.
    pub(crate) open: Vec<OpenSegment>,
    /// Free segments in the order in which they are used from the cut on.
    pub(crate) queue: Vec<u32>,
    /// What is live was found to be counted wrongly, and has to be counted anew when the volume is opened.
    pub(crate) doubtful: bool,
    /// What the placement keeps.
    pub(crate) placement: Vec<u8>,
}

fn put(out: &mut Vec<u8>, n: u64, bytes: usize) {
    out.extend_from_slice(&n.to_le_bytes()[..bytes]);
}

impl TableChunk {
    /// Bytes that a chunk of so many segments takes.
    pub(crate) fn encoded_len(segments: usize) -> usize {
        (segments * SEGMENT_BYTES).next_multiple_of(HEADER_BYTES)
    }

    /// Its bytes, in whole sectors.
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

    /// The chunk of `count` segments in `bytes`; none if there is no valid one.
    pub(crate) fn decode(bytes: &[u8], count: usize) -> Option<TableChunk> {
        let mut from = Reader(bytes.get(..count.checked_mul(SEGMENT_BYTES)?)?);
        let mut segments = Vec::with_capacity(count);
        for _ in 0..count {
            let phase = match from.uint(1)? {
                0 => SegmentPhase::Free,
                1 => SegmentPhase::Queued,
                2 => SegmentPhase::Open,
                3 => SegmentPhase::Closed,
                _ => return None,
            };
            let segment = Segment {
                phase,
                stream: Stream(from.uint(1)? as u8),
                live: from.uint(3)? as u32,
                units: from.uint(3)? as u32,
                seq: SegmentSeq(from.uint(7)?),
                born: WriteClock(from.uint(7)?),
                closed: WriteClock(from.uint(7)?),
                wear: from.uint(3)? as u32,
            };
            // Nothing is live in what is free.
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
    /// Its bytes, in whole blocks.
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

    /// The checkpoint in `bytes`, whose checksum the caller has compared; none if it is not one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Checkpoint> {
        let mut from = Reader(bytes);
        if from.take(8)? != MAGIC {
            return None;
        }
        let (cut, next_segment) = (RecordSeq(from.counter()?), SegmentSeq(from.counter()?));
        let clock = WriteClock(from.uint(8)?);
        let has_root = from.uint(2)? != 0;
        let doubtful = from.uint(2)? != 0;
        let root = from.take(ROOT_BYTES)?;
        let root = match has_root {
            true => Some(RootRef::decode(root)?),
            false => None,
        };
        let mut count = || Some(from.uint(4)? as usize);
        let (chunks, opens, slots, kept) = (count()?, count()?, count()?, count()?);
        let cuts = count()?;
        let table = from.many(chunks, CHUNK_REF_BYTES, |from| {
            Some(ChunkRef {
                place: Place(from.uint(8)?),
                slot: from.uint(4)? as u32,
                crc: from.uint(4)? as u32,
            })
        })?;
        let open = from.many(opens, 16, |from| {
            Some(OpenSegment {
                stream: Stream(from.uint(4)? as u8),
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

/// How the queue goes on, in whole sectors.
pub(crate) fn encode_queue(slots: &[u32]) -> Vec<u8> {
    let mut out = Vec::with_capacity(4 + 4 * slots.len());
    put(&mut out, slots.len() as u64, 4);
    for slot in slots {
        put(&mut out, (*slot).into(), 4);
    }
    out.resize(out.len().next_multiple_of(SECTOR_BYTES as usize), 0);
    out
}

/// The segments in what [`encode_queue`] has made; none if it is nothing such.
pub(crate) fn decode_queue(bytes: &[u8]) -> Option<Vec<u32>> {
    let mut from = Reader(bytes);
    let len = from.uint(4)? as usize;
    from.many(len, 4, |from| Some(from.uint(4)? as u32))
}

/// Lists of a length that is read from the medium.
trait Many {
    fn many<T>(
        &mut self,
        count: usize,
        bytes: usize,
        one: impl Fn(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>>;
}

impl Many for Reader<'_> {
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
