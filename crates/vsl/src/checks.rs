//! Checksums of data in segments, for extents that do not carry their own.
//!
//! Adjacent writes form one extent of the map, and an extent can also be a part of a fragment. Their checksums are
//! those of the fragments as written. The segment's summary lists these checksums. If the summary is missing or
//! damaged, the headers of the segment's records contain them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use forebay_device::DeviceError;
use forebay_segment_log::RecordEntry as _;
use forebay_units::{RecordSeq, SECTOR_BYTES, SegmentSeq};

use crate::format::{HEADER_BYTES, SpaceEntry, VolumeId};
use crate::geometry::SegmentSlot;
use crate::headers::HeaderReader;
use crate::store::{SegmentStore, read_summary};

/// A fragment of data in a segment, as it was written by one entry of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FragmentChecksum {
    /// First sector, counted from the start of the segment.
    pub(crate) at: u32,
    pub(crate) sectors: u32,
    pub(crate) crc: u32,
}

impl FragmentChecksum {
    /// Returns the sectors that the fragment takes in its segment.
    pub(crate) fn range(&self) -> Range<u32> {
        self.at..self.at + self.sectors
    }
}

/// The fragments of one segment, in the order of their places.
pub(crate) type SegmentChecksums = Rc<[FragmentChecksum]>;

/// The fragments of recently used segments. The cache keeps one segment for each slot, since earlier segments of a slot
/// are never looked up again.
pub(crate) struct ChecksumCache {
    kept: BTreeMap<SegmentSlot, CachedChecksums>,
    /// Slots in the order of their last use.
    order: BTreeMap<u64, SegmentSlot>,
    uses: u64,
    bytes: usize,
    bytes_max: usize,
}

struct CachedChecksums {
    segment: SegmentSeq,
    /// The number of the last use (`ChecksumCache::uses`).
    used: u64,
    pieces: SegmentChecksums,
}

impl ChecksumCache {
    /// Creates a cache of at most `bytes_max` bytes. It always keeps at least one segment.
    pub(crate) fn new(bytes_max: u64) -> ChecksumCache {
        ChecksumCache {
            kept: BTreeMap::new(),
            order: BTreeMap::new(),
            uses: 0,
            bytes: 0,
            bytes_max: bytes_max as usize,
        }
    }

    /// Returns the fragments of a segment, if they are cached.
    pub(crate) fn get(
        &mut self,
        slot: SegmentSlot,
        segment: SegmentSeq,
    ) -> Option<SegmentChecksums> {
        let kept = self.kept.get_mut(&slot)?;
        if kept.segment != segment {
            return None;
        }
        self.order.remove(&kept.used);
        self.uses += 1;
        kept.used = self.uses;
        self.order.insert(self.uses, slot);
        Some(Rc::clone(&kept.pieces))
    }

    /// Caches the fragments of a segment, and evicts the least recently used segments when memory is exceeded.
    pub(crate) fn keep(
        &mut self,
        slot: SegmentSlot,
        segment: SegmentSeq,
        pieces: &SegmentChecksums,
    ) {
        self.forget(slot);
        self.uses += 1;
        self.bytes += size_of_val(&**pieces);
        let kept = CachedChecksums {
            segment,
            used: self.uses,
            pieces: Rc::clone(pieces),
        };
        self.kept.insert(slot, kept);
        self.order.insert(self.uses, slot);
        while self.bytes > self.bytes_max && self.kept.len() > 1 {
            let Some((_, oldest)) = self.order.first_key_value() else {
                return;
            };
            self.forget(*oldest);
        }
    }

    /// Removes the segment in a slot from the cache.
    pub(crate) fn forget(&mut self, slot: SegmentSlot) {
        if let Some(kept) = self.kept.remove(&slot) {
            self.order.remove(&kept.used);
            self.bytes -= size_of_val(&*kept.pieces);
        }
    }
}

/// The entries of a segment, each with the number of its record and the offset of its data in the segment, in bytes.
pub(crate) struct SegmentContents {
    pub(crate) entries: Vec<(RecordSeq, u32, SpaceEntry)>,
}

impl SegmentContents {
    /// Returns the fragments of data among the entries.
    pub(crate) fn pieces(&self) -> SegmentChecksums {
        let piece = |(_, at, entry): &(RecordSeq, u32, SpaceEntry)| {
            let (sectors, crc) = match *entry {
                SpaceEntry::Data { sectors, crc, .. } | SpaceEntry::Moved { sectors, crc, .. } => {
                    (sectors.into(), crc)
                }
                _ => return None,
            };
            let at = *at / SECTOR_BYTES as u32;
            Some(FragmentChecksum { at, sectors, crc })
        };
        self.entries.iter().filter_map(piece).collect()
    }

    fn add(&mut self, seq: RecordSeq, offset: u32, entries: &[SpaceEntry]) {
        let mut at = offset + HEADER_BYTES as u32;
        for entry in entries {
            self.entries.push((seq, at, *entry));
            at += (entry.payload_sectors() * SECTOR_BYTES) as u32;
        }
    }
}

/// Reads the entries of a closed segment, from its summary, or from the headers of its records if the summary is
/// missing.
///
/// # Errors
/// The device's.
pub(crate) async fn read_contents(
    store: &dyn SegmentStore,
    volume: VolumeId,
    slot: SegmentSlot,
    segment: SegmentSeq,
) -> Result<SegmentContents, DeviceError> {
    let mut contents = SegmentContents {
        entries: Vec::new(),
    };
    if let Some(summary) = read_summary(store, volume, slot, segment).await? {
        for record in &summary.records {
            contents.add(record.seq, record.offset, &record.entries);
        }
        return Ok(contents);
    }
    let mut headers = HeaderReader::new(store, volume, slot, segment, None);
    while let Some(record) = headers.next().await? {
        contents.add(record.seq, record.offset, &record.entries);
    }
    if headers.has_gap {
        tracing::warn!(%segment, slot = slot.0, "a record's header is damaged");
    }
    Ok(contents)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(count: u32) -> SegmentChecksums {
        let piece = |n| FragmentChecksum {
            at: 8 * n,
            sectors: 8,
            crc: n,
        };
        (0..count).map(piece).collect()
    }

    #[test]
    fn the_checksums_used_longest_ago_are_evicted_first() {
        let mut checks = ChecksumCache::new(3 * 12 * 10);
        let at = |n: u32| (SegmentSlot(n), SegmentSeq(100 + u64::from(n)));
        let keep =
            |checks: &mut ChecksumCache, n, count| checks.keep(at(n).0, at(n).1, &pieces(count));
        let get = |checks: &mut ChecksumCache, n| checks.get(at(n).0, at(n).1);
        for n in 0..3 {
            keep(&mut checks, n, 10);
        }
        assert!(get(&mut checks, 0).is_some());
        keep(&mut checks, 3, 10);
        assert!(get(&mut checks, 1).is_none());
        for n in [0, 2, 3] {
            assert_eq!(get(&mut checks, n), Some(pieces(10)), "{n}");
        }
        // Two readers may have looked the segment up at the same time.
        keep(&mut checks, 3, 10);
        assert_eq!((checks.bytes, checks.order.len()), (360, 3));
        // The newest segment is always kept, whatever its length.
        keep(&mut checks, 9, 1000);
        assert_eq!(checks.kept.len(), 1);
        assert!(get(&mut checks, 9).is_some());
    }

    #[test]
    fn checksums_of_a_segment_replace_those_of_the_earlier_segment_in_its_slot() {
        let mut checks = ChecksumCache::new(1 << 20);
        for n in 1..100 {
            checks.keep(SegmentSlot(3), SegmentSeq(n), &pieces(10));
        }
        assert_eq!((checks.bytes, checks.order.len()), (120, 1));
        assert!(checks.get(SegmentSlot(3), SegmentSeq(99)).is_some());
        assert!(checks.get(SegmentSlot(3), SegmentSeq(98)).is_none());
    }
}
