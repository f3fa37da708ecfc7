//! Ranges without data: zeroed, discarded or lost, of any size.
//!
//! A filesystem that trims its free space, or discards deleted files, may create millions of ranges. So a range is
//! packed into 24 bytes and kept in sorted chunks, with a tree over the chunks. This takes 24 to 31 bytes a range,
//! where a tree of ranges takes 50 to 70.
//!
//! Invariants:
//! - Ranges are disjoint and not empty.
//! - A chunk has at least one range, and holds the ranges that begin from its key on and before the next chunk's key.

use std::collections::BTreeMap;
use std::ops::Range;

use forebay_ring_log::RangeKind;
use forebay_units::RecordSeq;

/// Maximum number of ranges in a chunk.
const CHUNK: usize = 128;
/// Number of ranges by which a chunk grows.
const STEP: usize = 16;
/// Memory of a chunk's entry in the tree, at the tree's emptiest: key, vector, and the nodes above.
const CHUNK_BYTES: usize = 80;

/// State of a range of sectors, and the record that set it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RangeState {
    pub(crate) kind: RangeKind,
    pub(crate) record: RecordSeq,
}

/// A range and its mark, packed.
#[derive(Clone, Copy)]
struct PackedRange {
    start: u64,
    /// Sector after the last, with the kind in the low bits.
    end_and_kind: u64,
    record: RecordSeq,
}

impl PackedRange {
    fn new(range: Range<u64>, mark: RangeState) -> PackedRange {
        let kind = match mark.kind {
            RangeKind::Zero => 0,
            RangeKind::Discard => 1,
            RangeKind::Lost => 2,
            RangeKind::Unmap => 3,
        };
        PackedRange {
            start: range.start,
            end_and_kind: range.end << 2 | kind,
            record: mark.record,
        }
    }

    fn end(&self) -> u64 {
        self.end_and_kind >> 2
    }

    fn mark(&self) -> RangeState {
        let kind = match self.end_and_kind & 3 {
            0 => RangeKind::Zero,
            1 => RangeKind::Discard,
            2 => RangeKind::Lost,
            _ => RangeKind::Unmap,
        };
        RangeState {
            kind,
            record: self.record,
        }
    }

    fn is_lost(&self) -> bool {
        self.mark().kind == RangeKind::Lost
    }

    /// Returns the number of sectors to zero or discard on the data device. A lost range cannot be carried out.
    fn sectors_to_carry(&self) -> u64 {
        if self.is_lost() {
            0
        } else {
            self.end() - self.start
        }
    }
}

/// Disjoint ranges of sectors, each with the newest mark of its sectors.
#[derive(Default)]
pub(crate) struct RangeMap {
    chunks: BTreeMap<u64, Vec<PackedRange>>,
    len: usize,
    lost: usize,
    /// Sectors of the ranges that are not lost.
    sectors: u64,
}

impl RangeMap {
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of ranges.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of lost ranges.
    pub(crate) fn lost(&self) -> usize {
        self.lost
    }

    /// Returns the number of sectors to zero or discard on the data device.
    pub(crate) fn sectors_to_carry(&self) -> u64 {
        self.sectors
    }

    /// Returns the memory of the ranges, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let slots: usize = self.chunks.values().map(Vec::capacity).sum();
        (slots * size_of::<PackedRange>() + self.chunks.len() * CHUNK_BYTES) as u64
    }

    /// Removes a range from all ranges that cover it.
    pub(crate) fn remove(&mut self, range: Range<u64>) {
        self.split(range.start);
        self.split(range.end);
        let first = self.key_of(range.start);
        let keys: Vec<u64> = self
            .chunks
            .range(first..range.end.max(first))
            .map(|(key, _)| *key)
            .collect();
        for key in keys {
            let chunk = self.chunks.get_mut(&key).expect("the key was just found");
            let from = chunk.partition_point(|packed| packed.start < range.start);
            let to = chunk.partition_point(|packed| packed.start < range.end);
            self.len -= to - from;
            for gone in chunk.drain(from..to) {
                self.lost -= usize::from(gone.is_lost());
                self.sectors -= gone.sectors_to_carry();
            }
            if chunk.is_empty() {
                self.chunks.remove(&key);
            } else if chunk.capacity() > 2 * chunk.len() + STEP {
                chunk.shrink_to_fit();
            }
        }
    }

    pub(crate) fn insert(&mut self, range: Range<u64>, mark: RangeState) {
        self.remove(range.clone());
        if !range.is_empty() {
            self.add(PackedRange::new(range, mark));
        }
    }

    /// Splits the range that contains `at` in its interior, if one exists.
    fn split(&mut self, at: u64) {
        let Some(whole) = self.before(at).filter(|packed| packed.end() > at) else {
            return;
        };
        let chunk = self.chunks.get_mut(&key_before(&self.chunks, whole.start));
        let chunk = chunk.expect("a range is in a chunk");
        let n = chunk.partition_point(|packed| packed.start < whole.start);
        chunk[n] = PackedRange::new(whole.start..at, whole.mark());
        let rest = PackedRange::new(at..whole.end(), whole.mark());
        self.sectors -= rest.sectors_to_carry();
        self.add(rest);
    }

    /// Adds a range that overlaps no other range.
    fn add(&mut self, packed: PackedRange) {
        self.len += 1;
        self.lost += usize::from(packed.is_lost());
        self.sectors += packed.sectors_to_carry();
        let key = self.key_of(packed.start);
        let chunk = self.chunks.entry(key).or_default();
        let n = chunk.partition_point(|other| other.start < packed.start);
        if chunk.len() < CHUNK {
            if chunk.len() == chunk.capacity() {
                chunk.reserve_exact(STEP);
            }
            chunk.insert(n, packed);
        } else if n == CHUNK {
            // In ascending order chunks stay full.
            let mut next = Vec::with_capacity(STEP);
            next.push(packed);
            self.chunks.insert(packed.start, next);
        } else {
            let upper = chunk.split_off(CHUNK / 2);
            chunk.shrink_to_fit();
            self.chunks.insert(upper[0].start, upper);
            (self.len, self.lost) = (self.len - 1, self.lost - usize::from(packed.is_lost()));
            self.sectors -= packed.sectors_to_carry();
            self.add(packed);
        }
    }

    /// Returns the key of the chunk for a range that begins at `start`.
    fn key_of(&self, start: u64) -> u64 {
        key_before(&self.chunks, start)
    }

    /// Returns the last range that begins before `at`.
    fn before(&self, at: u64) -> Option<PackedRange> {
        self.chunks.range(..at).rev().find_map(|(_, chunk)| {
            let n = chunk.partition_point(|packed| packed.start < at);
            n.checked_sub(1).map(|n| chunk[n])
        })
    }

    /// Returns the ranges that begin at or after `at`, in order.
    fn from(&self, at: u64) -> impl Iterator<Item = PackedRange> {
        self.chunks
            .range(self.key_of(at)..)
            .flat_map(move |(_, chunk)| {
                let n = chunk.partition_point(|packed| packed.start < at);
                chunk[n..].iter().copied()
            })
    }

    /// Returns the marked parts of `range`, in order.
    pub(crate) fn overlapping(
        &self,
        range: Range<u64>,
    ) -> impl Iterator<Item = (Range<u64>, RangeState)> {
        let end = range.end;
        let inside = self
            .from(range.start)
            .take_while(move |packed| packed.start < end);
        self.before(range.start)
            .into_iter()
            .chain(inside)
            .filter_map(move |packed| {
                let part = packed.start.max(range.start)..packed.end().min(range.end);
                (part.start < part.end).then_some((part, packed.mark()))
            })
    }

    /// Returns all marked ranges, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Range<u64>, RangeState)> {
        self.from(0)
            .map(|packed| (packed.start..packed.end(), packed.mark()))
    }

    /// Removes marks of records before `record`, and packs the rest again.
    pub(crate) fn forget_before(&mut self, record: RecordSeq) {
        if self.from(0).all(|packed| packed.record >= record) {
            return;
        }
        let old = std::mem::take(self);
        for packed in old.chunks.into_values().flatten() {
            if packed.record >= record {
                self.add(packed);
            }
        }
    }
}

/// Returns the last key up to `start`. Returns 0 if no such key exists; 0 is then the key of a new chunk.
fn key_before(chunks: &BTreeMap<u64, Vec<PackedRange>>, start: u64) -> u64 {
    chunks
        .range(..=start)
        .next_back()
        .map_or(0, |(key, _)| *key)
}

#[cfg(test)]
#[path = "ranges_tests.rs"]
mod tests;
