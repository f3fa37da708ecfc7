//! The drive's cache: segments of contiguous blocks.
//!
//! A segment holds one extent of blocks. Reads or writes fill it. Some written blocks may not be on the platters yet
//! (dirty), and others may be on their way there (in flight). The drive limits the number of dirty segments.

use std::ops::Range;

use super::spec::{CacheSpec, FastWrite, ReadAhead};

#[derive(Clone, Debug)]
pub(crate) struct CacheSegment {
    /// Blocks in the segment; empty if it is unused.
    pub(crate) held: Range<u64>,
    /// Blocks that are not on the platters yet: part of `held`.
    pub(crate) dirty: Range<u64>,
    /// Blocks being written to the platters.
    pub(crate) in_flight: Range<u64>,
    /// Number of the oldest write that is or was in `dirty`; 0 if reads filled the segment.
    dirty_since: u64,
    /// Number of the oldest write in `in_flight`.
    in_flight_since: u64,
    /// Time of the last use, counted in uses.
    used: u64,
    /// Time at which all blocks of the last write were in the segment.
    pub(crate) data_at: u64,
    /// Set while a request fills the segment up to this block: the segment can be neither reused nor read.
    filling: Option<u64>,
    /// True if blocks of the current fill were written meanwhile: the segment will hold nothing.
    spoiled: bool,
    /// True if only writes use the segment.
    own: bool,
}

impl CacheSegment {
    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty() || !self.in_flight.is_empty()
    }

    fn overlaps_dirty(&self, range: &Range<u64>) -> bool {
        overlap(&self.dirty, range) || overlap(&self.in_flight, range)
    }
}

pub(crate) fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

/// The segments of the cache.
pub(crate) struct DriveCache {
    pub(crate) segments: Vec<CacheSegment>,
    /// Capacity of a segment for writes, in blocks.
    segment_blocks: u64,
    /// Capacity of a segment for read blocks.
    room: u64,
    dirty_max: usize,
    /// True if written blocks replace the same blocks held by a read.
    updates_tracks: bool,
    reads_hit_writes: bool,
    uses: u64,
    writes: u64,
    /// Dirty segments, in the order in which they became dirty.
    dirty: Vec<usize>,
}

impl DriveCache {
    /// Creates the cache. `track` is the number of blocks of the largest track.
    ///
    /// A drive that reads ahead by tracks has space for whole tracks. If an extracted segment size is smaller, the
    /// model uses the size of these tracks instead: the extraction saw only single reads.
    pub(crate) fn new(spec: &CacheSpec, track: u32) -> DriveCache {
        let tracks = match spec.read_ahead {
            ReadAhead::No | ReadAhead::Blocks(_) => 0,
            ReadAhead::TrackThenOn => 1,
            ReadAhead::TracksInSequence => 2,
        };
        let dirty_max = match spec.fast_write {
            FastWrite::No | FastWrite::Sequential => 1,
            FastWrite::Yes => spec.write_segments.clamp(1, spec.segments) as usize,
        };
        let own = spec.own_write_segment && spec.segments > 1;
        let segments = (0..spec.segments)
            .map(|i| CacheSegment {
                held: 0..0,
                dirty: 0..0,
                in_flight: 0..0,
                dirty_since: 0,
                in_flight_since: 0,
                used: 0,
                data_at: 0,
                filling: None,
                spoiled: false,
                own: own && i < spec.write_segments.min(spec.segments - 1),
            })
            .collect();
        DriveCache {
            segments,
            segment_blocks: u64::from(spec.segment_blocks),
            room: u64::from(spec.segment_blocks).max(tracks * u64::from(track)),
            dirty_max,
            updates_tracks: spec.reads_whole_tracks(),
            reads_hit_writes: spec.reads_hit_writes,
            uses: 0,
            writes: 0,
            dirty: Vec::new(),
        }
    }

    pub(crate) fn segment_blocks(&self) -> u64 {
        self.segment_blocks
    }

    pub(crate) fn room(&self) -> u64 {
        self.room
    }

    pub(crate) fn touch(&mut self, index: usize) {
        self.uses += 1;
        self.segments[index].used = self.uses;
    }

    /// Returns the segment that holds `range`. Otherwise returns a segment that holds its first block or ends directly
    /// before it. The segment is readable in both cases.
    pub(crate) fn find(&self, range: &Range<u64>) -> Option<usize> {
        let mut some = None;
        for (i, s) in self.segments.iter().enumerate() {
            let readable = s.filling.is_none() && !s.held.is_empty();
            if readable && s.held.start <= range.start && range.start <= s.held.end {
                if range.end <= s.held.end {
                    return Some(i);
                }
                some = some.or(Some(i));
            }
        }
        some
    }

    pub(crate) fn holds(&self, index: usize, range: &Range<u64>) -> bool {
        let held = &self.segments[index].held;
        held.start <= range.start && range.end <= held.end
    }

    /// Returns true if a part of `range` is only in the cache, and the whole range cannot be read from the cache.
    pub(crate) fn holds_dirty(&self, range: &Range<u64>) -> bool {
        self.dirty.iter().map(|&i| &self.segments[i]).any(|s| {
            s.overlaps_dirty(range)
                && (!self.reads_hit_writes || s.held.start > range.start || s.held.end < range.end)
        })
    }

    /// Takes an unused segment for a read, or else the least recently used one.
    pub(crate) fn take_for_read(&mut self) -> Option<usize> {
        let index = (0..self.segments.len())
            .filter(|&i| {
                let s = &self.segments[i];
                !s.own && s.filling.is_none() && !s.is_dirty()
            })
            .min_by_key(|&i| self.segments[i].used)?;
        let s = &mut self.segments[index];
        s.held = 0..0;
        s.dirty_since = 0;
        self.touch(index);
        Some(index)
    }

    /// Takes an unused segment for a write that begins at `first`, or else the least recently used one.
    fn take_for_write(&mut self, first: u64) -> Option<usize> {
        let own = self.segments.iter().any(|s| s.own);
        let index = (0..self.segments.len())
            .filter(|&i| {
                let s = &self.segments[i];
                s.own == own && s.filling.is_none() && !s.is_dirty()
            })
            .min_by_key(|&i| self.segments[i].used)?;
        self.segments[index].held = first..first;
        Some(index)
    }

    /// Notes that a request begins to fill segment `index` up to `end`.
    pub(crate) fn begin_fill(&mut self, index: usize, end: u64) {
        self.touch(index);
        let s = &mut self.segments[index];
        s.filling = Some(end);
        s.spoiled = false;
    }

    /// Notes that the segment is filled. Returns true if it holds the blocks.
    pub(crate) fn end_fill(&mut self, index: usize) -> bool {
        let s = &mut self.segments[index];
        let Some(end) = s.filling.take() else {
            return false;
        };
        if s.spoiled {
            s.held = 0..0;
            return false;
        }
        self.extend(index, end);
        true
    }

    /// Accepts the blocks of a write. `None` if the cache has no space for them now.
    pub(crate) fn accept(&mut self, range: Range<u64>) -> Option<usize> {
        let size = self.segment_blocks;
        if range.end - range.start > size {
            return None;
        }
        let fits = |s: &CacheSegment| {
            let hull_start = s.dirty.start.min(range.start);
            let hull = if s.dirty.is_empty() {
                range.clone()
            } else {
                hull_start..s.dirty.end.max(range.end)
            };
            s.filling.is_none()
                && !s.held.is_empty()
                && s.held.start <= range.start
                && range.start <= s.held.end
                && hull.end - hull.start <= size
                && (s.in_flight.is_empty() || hull.end.max(s.held.end) - s.in_flight.start <= size)
        };
        let written = |s: &CacheSegment| s.dirty_since > 0;
        let full = self.dirty.len() >= self.dirty_max;
        let found = if full {
            let mut dirty = self.dirty.iter().copied();
            dirty.find(|&i| fits(&self.segments[i]))
        } else {
            self.segments.iter().position(|s| written(s) && fits(s))
        };
        let others = self.dirty.iter().filter(|&&i| Some(i) != found);
        if others
            .map(|&i| &self.segments[i])
            .any(|s| s.overlaps_dirty(&range))
        {
            return None;
        }
        let index = match found {
            Some(index) => index,
            None if full => return None,
            None => self.take_for_write(range.start)?,
        };
        if !self.segments[index].is_dirty() {
            self.dirty.push(index);
        }
        self.forget(&range, index);
        self.writes += 1;
        let writes = self.writes;
        let s = &mut self.segments[index];
        if s.dirty.is_empty() {
            s.dirty = range.clone();
            s.dirty_since = writes;
        } else {
            s.dirty = s.dirty.start.min(range.start)..s.dirty.end.max(range.end);
        }
        s.held.end = s.held.end.max(range.end);
        s.held.start = s.held.start.max(s.held.end.saturating_sub(size));
        self.touch(index);
        Some(index)
    }

    /// Drops segments that hold a part of `range`, because the range is being written. Keeps segment `except`. A
    /// segment is one extent of blocks, and is dropped as a whole. But a drive that reads whole tracks puts written
    /// blocks into the track that it holds.
    pub(crate) fn forget(&mut self, range: &Range<u64>, except: usize) {
        for (i, s) in self.segments.iter_mut().enumerate() {
            if i == except || s.is_dirty() {
                continue;
            }
            if let Some(end) = s.filling {
                s.spoiled |= overlap(&(s.held.start..end), range);
            } else if overlap(&s.held, range) {
                let within = s.held.start <= range.start && range.end <= s.held.end;
                if !(self.updates_tracks && within) {
                    s.held = 0..0;
                }
            }
        }
    }

    /// Returns the blocks of segment `index` that a destage writes; they are in flight from now on.
    pub(crate) fn begin_destage(&mut self, index: usize) -> Range<u64> {
        let s = &mut self.segments[index];
        s.in_flight = std::mem::replace(&mut s.dirty, 0..0);
        s.in_flight_since = s.dirty_since;
        s.in_flight.clone()
    }

    pub(crate) fn end_destage(&mut self, index: usize) {
        let hits = self.reads_hit_writes;
        let s = &mut self.segments[index];
        s.in_flight = 0..0;
        if s.dirty.is_empty() {
            if !hits {
                s.held = 0..0;
            }
            self.dirty.retain(|&i| i != index);
        }
    }

    /// Returns the segments that can be destaged, and the dirty blocks of each.
    pub(crate) fn to_destage(&self) -> impl Iterator<Item = (usize, &Range<u64>)> {
        let dirty = self.dirty.iter().map(|&i| (i, &self.segments[i]));
        dirty
            .filter(|(_, s)| !s.dirty.is_empty() && s.in_flight.is_empty())
            .map(|(i, s)| (i, &s.dirty))
    }

    /// Returns true if any written blocks are not on the platters yet.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Returns the number of writes accepted so far.
    pub(crate) fn writes(&self) -> u64 {
        self.writes
    }

    /// Returns true if the first `writes` accepted writes are on the platters.
    pub(crate) fn is_clean_up_to(&self, writes: u64) -> bool {
        self.dirty.iter().map(|&i| &self.segments[i]).all(|s| {
            (s.dirty.is_empty() || s.dirty_since > writes)
                && (s.in_flight.is_empty() || s.in_flight_since > writes)
        })
    }

    /// Notes that the segment holds the blocks before `end`, back to the segment's beginning.
    pub(crate) fn extend(&mut self, index: usize, end: u64) {
        let size = self.room;
        let s = &mut self.segments[index];
        s.held.end = s.held.end.max(end);
        s.held.start = s.held.start.max(s.held.end.saturating_sub(size));
    }

    /// Notes that the segment holds the blocks from `block` on, up to those it already holds.
    pub(crate) fn extend_before(&mut self, index: usize, block: u64) {
        let size = self.room;
        let s = &mut self.segments[index];
        let start = block.max(s.held.end.saturating_sub(size));
        s.held.start = s.held.start.min(start);
    }
}
