//! What a checkpoint writes beside the map's nodes: the table of segments, in chunks, and the block that the
//! superblock points at.
//!
//! A checkpoint is of a moment, its *cut*: the map and the table are as they were when record `cut` was
//! composed, but for where nodes and the table itself lie, which is as the checkpoint wrote them.

use forebay_placement::WriteClock;
use forebay_segments::format::envelope::{HEADER_BYTES, Reader};
use forebay_units::{RecordSeq, SECTOR_BYTES, SegmentSeq};

use super::entry::Stream;
use crate::segment::{Segment, SegmentState};
use forebay_extents::Place;
use forebay_extents::{DETACHED_BYTES, DetachedRef, ROOT_BYTES, RootRef};

/// Segments that one chunk of the table tells of.
pub(crate) const TABLE_CHUNK_SEGMENTS: usize = 512;
const SEGMENT_BYTES: usize = 32;
const MAGIC: &[u8; 8] = b"FOREVCP\x01";

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
    /// CRC32C of its bytes.
    pub(crate) crc: u32,
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

/// What the superblock points at.
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
    pub(crate) runway: Vec<u32>,
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
            let state = match segment.state {
                SegmentState::Free => 0,
                SegmentState::Runway => 1,
                SegmentState::Open => 2,
                SegmentState::Closed => 3,
            };
            out.extend_from_slice(&[state, segment.stream.0, 0, 0]);
            put(&mut out, segment.live.into(), 4);
            put(&mut out, segment.seq.0, 8);
            put(&mut out, segment.born.0, 6);
            put(&mut out, segment.closed.0, 6);
            put(&mut out, segment.wear.into(), 4);
        }
        out.resize(out.len().next_multiple_of(HEADER_BYTES), 0);
        out
    }

    /// The chunk of `count` segments in `bytes`; none if there is no valid one.
    pub(crate) fn decode(bytes: &[u8], count: usize) -> Option<TableChunk> {
        let mut from = Reader(bytes.get(..count.checked_mul(SEGMENT_BYTES)?)?);
        let mut segments = Vec::with_capacity(count);
        for _ in 0..count {
            let state = match from.uint(1)? {
                0 => SegmentState::Free,
                1 => SegmentState::Runway,
                2 => SegmentState::Open,
                3 => SegmentState::Closed,
                _ => return None,
            };
            let stream = Stream(from.uint(1)? as u8);
            from.take(2)?;
            segments.push(Segment {
                state,
                stream,
                live: from.uint(4)? as u32,
                seq: SegmentSeq(from.counter()?),
                born: WriteClock(from.uint(6)?),
                closed: WriteClock(from.uint(6)?),
                wear: from.uint(4)? as u32,
            });
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
        put(&mut out, self.root.is_some().into(), 4);
        let root = self.root.map_or([0; ROOT_BYTES], |root| root.encode());
        out.extend_from_slice(&root);
        for len in [
            self.table.len(),
            self.open.len(),
            self.runway.len(),
            self.placement.len(),
            self.detached.len(),
        ] {
            put(&mut out, len as u64, 4);
        }
        for chunk in &self.table {
            put(&mut out, chunk.place.0, 8);
            put(&mut out, chunk.crc.into(), 4);
        }
        for open in &self.open {
            put(&mut out, open.stream.0.into(), 4);
            put(&mut out, open.slot.into(), 4);
            put(&mut out, open.seq.0, 8);
        }
        for slot in &self.runway {
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
        let has_root = from.uint(4)? != 0;
        let root = from.take(ROOT_BYTES)?;
        let root = match has_root {
            true => Some(RootRef::decode(root)?),
            false => None,
        };
        let mut count = || Some(from.uint(4)? as usize);
        let (chunks, opens, slots, kept) = (count()?, count()?, count()?, count()?);
        let cuts = count()?;
        let table = from.many(chunks, 12, |from| {
            Some(ChunkRef {
                place: Place(from.uint(8)?),
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
        let runway = from.many(slots, 4, |from| Some(from.uint(4)? as u32))?;
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
            runway,
            placement,
        })
    }
}

/// How the runway goes on, in whole sectors.
pub(crate) fn encode_runway(slots: &[u32]) -> Vec<u8> {
    let mut out = Vec::with_capacity(4 + 4 * slots.len());
    put(&mut out, slots.len() as u64, 4);
    for slot in slots {
        put(&mut out, (*slot).into(), 4);
    }
    out.resize(out.len().next_multiple_of(SECTOR_BYTES as usize), 0);
    out
}

/// The segments in what [`encode_runway`] has made; none if it is nothing such.
pub(crate) fn decode_runway(bytes: &[u8]) -> Option<Vec<u32>> {
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
