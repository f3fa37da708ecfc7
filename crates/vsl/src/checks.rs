//! Checksums of what lies in segments, for extents that do not carry their own.
//!
//! What is written in a row is one extent of the map, and parts of pieces are extents, too. Their checksums are
//! those of the pieces they were written as, which the segment's summary lists; if that is lost, its
//! records' headers do.

use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

use forebay_device::{BufMut, Device, DeviceError};
use forebay_segments::{Entry as _, Next, read_summary, walk};
use forebay_units::{RecordSeq, SECTOR_BYTES, SegmentSeq};

use crate::format::{Entry, HEADER_BYTES, Superblock, Volume};
use crate::geometry::{Layout, Slot};

/// Bytes of memory for the checksums of segments.
const CACHE_BYTES: usize = 8 << 20;

/// A piece of data in a segment as it was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    /// Where it begins, in sectors from the segment's start.
    pub(crate) at: u32,
    pub(crate) sectors: u32,
    pub(crate) crc: u32,
}

impl Piece {
    /// The sectors it takes in its segment.
    pub(crate) fn range(&self) -> Range<u32> {
        self.at..self.at + self.sectors
    }
}

/// The pieces of one segment, in the order of their places.
pub(crate) type Pieces = Rc<[Piece]>;

/// What was looked up lately, newest last.
#[derive(Default)]
pub(crate) struct Checks {
    cached: VecDeque<(SegmentSeq, Pieces)>,
    bytes: usize,
}

impl Checks {
    /// The pieces of a segment, if they were looked up lately.
    pub(crate) fn get(&mut self, segment: SegmentSeq) -> Option<Pieces> {
        let n = self.cached.iter().rposition(|(seq, _)| *seq == segment)?;
        let found = self.cached.remove(n)?;
        let pieces = Rc::clone(&found.1);
        self.cached.push_back(found);
        Some(pieces)
    }

    /// Keeps the pieces of a segment for a while.
    pub(crate) fn keep(&mut self, segment: SegmentSeq, pieces: &Pieces) {
        self.bytes += pieces.len() * size_of::<Piece>();
        self.cached.push_back((segment, Rc::clone(pieces)));
        while self.bytes > CACHE_BYTES && self.cached.len() > 1 {
            let oldest = self.cached.pop_front();
            self.bytes -= oldest.map_or(0, |(_, pieces)| pieces.len() * size_of::<Piece>());
        }
    }
}

/// What a segment holds, record by record: where each entry's data begins in the segment, in bytes.
pub(crate) struct Contents {
    pub(crate) entries: Vec<(RecordSeq, u32, Entry)>,
}

impl Contents {
    /// The pieces of data among it.
    pub(crate) fn pieces(&self) -> Pieces {
        let piece = |(_, at, entry): &(RecordSeq, u32, Entry)| {
            let (sectors, crc) = match *entry {
                Entry::Data { sectors, crc, .. } | Entry::Moved { sectors, crc, .. } => {
                    (sectors.into(), crc)
                }
                _ => return None,
            };
            let at = *at / SECTOR_BYTES as u32;
            Some(Piece { at, sectors, crc })
        };
        self.entries.iter().filter_map(piece).collect()
    }

    fn add(&mut self, seq: RecordSeq, offset: u32, entries: &[Entry]) {
        let mut at = offset + HEADER_BYTES as u32;
        for entry in entries {
            self.entries.push((seq, at, *entry));
            at += (entry.payload_sectors() * SECTOR_BYTES) as u32;
        }
    }
}

/// Reads what a closed segment holds: from its summary, or if it has none, from the headers of its records.
///
/// # Errors
/// The device's.
pub(crate) async fn read_contents(
    device: &dyn Device,
    superblock: &Superblock,
    slot: Slot,
    segment: SegmentSeq,
) -> Result<Contents, DeviceError> {
    let (layout, volume) = (Layout::of(superblock), superblock.volume);
    let (at, shape) = (layout.slot_at(slot), layout.shape());
    let mut contents = Contents {
        entries: Vec::new(),
    };
    if let Some(summary) = read_summary::<Volume>(device, at, shape, volume, segment).await? {
        for record in &summary.records {
            contents.add(record.seq, record.offset, &record.entries);
        }
        return Ok(contents);
    }
    let whole = BufMut::zeroed(layout.segment_bytes as usize);
    let whole = device.read(at, whole).await?;
    let any = Next::From(RecordSeq(1));
    for record in walk::<Volume>(&whole, layout.block, volume, segment, any) {
        contents.add(record.seq, record.offset, &record.entries);
    }
    Ok(contents)
}
