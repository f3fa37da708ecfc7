//! Leaves in memory, with 16 bytes for each extent, and the effects of changes. On the device, some entries take less
//! (`format/node.rs::bytes_behind`), so a leaf also counts its encoded bytes.

use std::ops::Range;

use super::ALLOCATION_BYTES;
use crate::extent::{LeafExtent, MapChanges, MapExtent, in_leaf};
use crate::format::{DELTA_MAX, PackedExtent, bytes_behind};
use crate::place::LogPlace;

/// The capacity for entries changes in steps of this size.
const STEP: usize = 8;
/// Extents in order, without overlap.
#[derive(Clone)]
pub(super) struct LeafNode {
    /// The entries; only the first `len` are valid, the others are spare capacity.
    entries: Box<[PackedExtent]>,
    /// A sector at or before the first entry, and within the leaf's range.
    base: u64,
    /// The first sector of the last entry, less the base.
    last: u32,
    len: u16,
    /// Bytes that the entries take on the device.
    encoded: u16,
}

impl LeafNode {
    /// Returns a leaf of extents in order, or `None` if they are too far apart for one leaf. An empty leaf has the base
    /// `otherwise`.
    pub(super) fn of(extents: &[MapExtent], otherwise: u64) -> Option<LeafNode> {
        let base = extents.first().map_or(otherwise, |first| first.sector);
        let last = extents.last().map_or(base, |last| last.sector);
        if last - base > DELTA_MAX {
            return None;
        }
        let len = extents.len();
        let packed = |at: usize| {
            let extent = extents.get(at);
            extent.map_or_else(PackedExtent::default, |extent| {
                PackedExtent::new(extent, base)
            })
        };
        Some(LeafNode {
            entries: (0..len.next_multiple_of(STEP)).map(packed).collect(),
            base,
            last: (last - base) as u32,
            len: len as u16,
            encoded: encoded_bytes(None, extents.iter().copied()) as u16,
        })
    }

    /// Returns an empty leaf as a placeholder for a free slot.
    pub(super) fn nothing() -> LeafNode {
        LeafNode {
            entries: Box::default(),
            base: 0,
            last: 0,
            len: 0,
            encoded: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len.into()
    }

    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// Returns the bytes that the entries take on the device.
    pub(super) fn encoded(&self) -> usize {
        self.encoded.into()
    }

    /// Returns the bytes that the entries take on the device after `change`.
    pub(super) fn encoded_with(&self, change: &LeafChange) -> usize {
        let at = &change.at;
        let before = at.start.checked_sub(1).map(|before| self.get(before));
        let behind = (at.end < self.len()).then(|| self.get(at.end));
        let old = at.clone().map(|at| self.get(at)).chain(behind);
        let new = change.with().iter().copied().chain(behind);
        self.encoded() - encoded_bytes(before, old) + encoded_bytes(before, new)
    }

    /// Returns the index of the entry that splits the leaf into halves with about equal bytes on the device. With three
    /// entries or more, neither half is empty.
    pub(super) fn middle(&self) -> usize {
        let extents: Vec<MapExtent> = self.extents().collect();
        middle(&extents)
    }

    /// Returns the memory outside the node's own structure, with spare capacity and the allocator's overhead, in bytes.
    pub(super) fn bytes(&self) -> usize {
        match &*self.entries {
            [] => 0,
            entries => size_of_val(entries) + ALLOCATION_BYTES,
        }
    }

    fn entries(&self) -> &[PackedExtent] {
        &self.entries[..self.len()]
    }

    /// Returns the first sector of entry `at`.
    pub(super) fn key(&self, at: usize) -> u64 {
        self.base + self.entries()[at].delta()
    }

    pub(super) fn get(&self, at: usize) -> MapExtent {
        self.entries()[at].extent(self.base)
    }

    pub(super) fn extents(&self) -> impl Iterator<Item = MapExtent> {
        self.entries().iter().map(|entry| entry.extent(self.base))
    }

    /// Returns the extents with their `follows` flags.
    pub(super) fn leaf_extents(&self) -> impl Iterator<Item = LeafExtent> {
        in_leaf(None, self.extents())
    }

    /// Returns the index of the first entry that ends behind `sector`.
    pub(super) fn position(&self, sector: u64) -> usize {
        let Some(delta) = sector.checked_sub(self.base) else {
            return 0;
        };
        let behind = self.begins_behind(delta);
        let Some(before) = behind.checked_sub(1) else {
            return 0;
        };
        let entry = self.entries()[before];
        let end = entry.delta() + entry.sectors();
        if end > delta { before } else { behind }
    }

    /// Returns the index of the first entry that begins behind `delta`. Each accessed cache line may be a cache miss.
    /// With pages written uniformly across the space, entries have nearly equal distances. So the search begins with a
    /// linear interpolation and continues from there in growing steps.
    fn begins_behind(&self, delta: u64) -> usize {
        let entries = self.entries();
        if delta >= u64::from(self.last) {
            return entries.len();
        }
        let is_before = |at: usize| entries[at].delta() <= delta;
        let last = entries.len() - 1;
        let guess = (delta * last as u64 / u64::from(self.last)) as usize;
        let (mut from, mut to, mut step) = (guess, guess, 1);
        if is_before(guess) {
            while to < last && is_before(to) {
                (from, to, step) = (to, (to + step).min(last), 2 * step);
            }
        } else {
            while from > 0 && !is_before(from) {
                (from, to, step) = (from.saturating_sub(step), from, 2 * step);
            }
        }
        from + entries[from..to].partition_point(|entry| entry.delta() <= delta)
    }

    /// Returns the extents in `range`, clipped to it.
    pub(super) fn parts(&self, range: Range<u64>) -> impl Iterator<Item = MapExtent> {
        let from = self.position(range.start);
        let extents = self.entries()[from..].iter();
        extents.map_while(move |entry| entry.extent(self.base).part(range.clone()))
    }

    /// Returns the leaf's base after `change`: the present base if possible. `None` if the entries would be too far
    /// apart.
    pub(super) fn base_with(&self, change: &LeafChange) -> Option<u64> {
        let fits = |extent: &MapExtent| {
            let delta = extent.sector.checked_sub(self.base);
            self.len > 0 && delta.is_some_and(|delta| delta <= DELTA_MAX)
        };
        if change.with().iter().all(fits) {
            return Some(self.base);
        }
        let (with, at) = (change.with(), &change.at);
        let (first, last) = (with.first()?.sector, with.last()?.sector);
        let first = if at.start > 0 { self.key(0) } else { first };
        let end = self.len();
        let last = if at.end < end {
            self.key(end - 1)
        } else {
            last
        };
        (last - first <= DELTA_MAX).then_some(first)
    }

    /// Applies `change`; the leaf's base becomes `base`.
    pub(super) fn apply(&mut self, change: &LeafChange, base: u64) {
        let (at, with) = (change.at.clone(), change.with());
        let (len, len_after) = (self.len(), self.len() - at.len() + with.len());
        let room = self.entries.len();
        let fits = base == self.base && (len_after..len_after + 2 * STEP).contains(&room);
        let behind = at.start + with.len();
        let encoded = self.encoded_with(change);
        // Otherwise the last entry is not accessed, since it may lie in a distant cache line.
        let is_last_new = at.end == len || base != self.base;
        if fits {
            let entries = &mut self.entries;
            if at.len() != with.len() {
                entries.copy_within(at.end..len, behind);
            }
            for (entry, extent) in entries[at.start..].iter_mut().zip(with) {
                *entry = PackedExtent::new(extent, base);
            }
        } else {
            let shift = self.base.wrapping_sub(base);
            let old = |at: usize| {
                let entry = self.entries[at];
                entry.with_delta(entry.delta().wrapping_add(shift))
            };
            let entry = |i: usize| match i {
                _ if i < at.start => old(i),
                _ if i < behind => PackedExtent::new(&with[i - at.start], base),
                _ if i < len_after => old(i - behind + at.end),
                _ => PackedExtent::default(),
            };
            self.entries = (0..len_after.next_multiple_of(STEP)).map(entry).collect();
            self.base = base;
        }
        self.len = len_after as u16;
        self.encoded = encoded as u16;
        if is_last_new {
            self.last = self.entries().last().map_or(0, |last| last.delta() as u32);
        }
    }

    /// Moves all entries from `at` on into a new leaf.
    pub(super) fn split_off(&mut self, at: usize) -> LeafNode {
        let extents: Vec<MapExtent> = self.extents().collect();
        let (left, right) = extents.split_at(at);
        let of = |part| LeafNode::of(part, self.base).expect("a part of a leaf always fits");
        let (left, right) = (of(left), of(right));
        *self = left;
        right
    }
}

/// Returns the bytes that extents take on the device behind another extent in the same leaf.
pub(super) fn encoded_bytes(
    mut before: Option<MapExtent>,
    extents: impl Iterator<Item = MapExtent>,
) -> usize {
    let bytes = extents.map(|extent| {
        let bytes = bytes_behind(before.as_ref(), &extent);
        before = Some(extent);
        bytes
    });
    bytes.sum()
}

/// Returns the number of first extents that take about half of the bytes on the device. With three extents or more,
/// neither half is empty. The blocks of a page stay together.
pub(super) fn middle(extents: &[MapExtent]) -> usize {
    let half = encoded_bytes(None, extents.iter().copied()) / 2;
    let (mut bytes, mut before) = (0, None);
    let left = extents.iter().take_while(|extent| {
        bytes += bytes_behind(before, extent);
        before = Some(*extent);
        bytes <= half
    });
    let most = extents.len().max(2) - 1;
    let at = left.count().clamp(1, most);
    match extents
        .get(at)
        .is_some_and(|next| extents[at - 1].is_followed_by(next))
    {
        true if at < most => at + 1,
        true if at > 1 => at - 1,
        _ => at,
    }
}

/// The effect on a leaf of mapping or clearing a range.
pub(super) struct LeafChange {
    /// The removed entries.
    at: Range<usize>,
    with: [MapExtent; 3],
    count: usize,
    /// The index of the new extent in `with`.
    new: Option<usize>,
}

impl LeafChange {
    /// Returns the change that unmaps `range`.
    pub(super) fn clear(leaf: &LeafNode, range: Range<u64>) -> LeafChange {
        let (at, left, right) = around(leaf, &range);
        LeafChange::new(at, [left, None, right])
    }

    /// Returns the change that maps `extent`, joined with the neighbours that it continues or that continue it.
    pub(super) fn set(leaf: &LeafNode, extent: MapExtent) -> LeafChange {
        let range = extent.sector..extent.end();
        let (mut at, mut left, mut right) = around(leaf, &range);
        let mut new = extent;
        let before = left.or_else(|| Some(leaf.get(at.start.checked_sub(1)?)));
        if let Some(joined) = before.and_then(|before| before.joined(&new)) {
            new = joined;
            at.start -= usize::from(left.take().is_none());
        }
        let behind = right.or_else(|| (at.end < leaf.len()).then(|| leaf.get(at.end)));
        if let Some(joined) = behind.and_then(|behind| new.joined(&behind)) {
            new = joined;
            at.end += usize::from(right.take().is_none());
        }
        LeafChange::new(at, [left, Some(new), right])
    }

    fn new(at: Range<usize>, with: [Option<MapExtent>; 3]) -> LeafChange {
        const NOTHING: MapExtent = MapExtent {
            sector: 0,
            sectors: 0,
            place: LogPlace(0),
            check: crate::extent::ExtentCheck::None,
        };
        let new = with[1].map(|_| usize::from(with[0].is_some()));
        let (mut packed, mut count) = ([NOTHING; 3], 0);
        for extent in with.into_iter().flatten() {
            packed[count] = extent;
            count += 1;
        }
        LeafChange {
            at,
            with: packed,
            count,
            new,
        }
    }

    /// Returns the added entries.
    fn with(&self) -> &[MapExtent] {
        &self.with[..self.count]
    }

    /// Returns true if the change has no effect.
    pub(super) fn is_nothing(&self) -> bool {
        self.at.is_empty() && self.count == 0
    }

    /// Returns the number of removed and of added entries.
    pub(super) fn entries(&self) -> (usize, usize) {
        (self.at.len(), self.count)
    }

    /// Returns the end of `leaf` at which all new entries lie, if the change replaces no entry.
    pub(super) fn is_at_end(&self, leaf: &LeafNode) -> Option<LeafEnd> {
        match (self.at.is_empty(), self.at.start) {
            (true, at) if at == leaf.len() => Some(LeafEnd::Last),
            (true, 0) => Some(LeafEnd::First),
            _ => None,
        }
    }

    /// Appends the effects on the extents of `leaf` to `changes`. Returns the sectors of the removed and of the added
    /// extents.
    pub(super) fn note(&self, leaf: &LeafNode, changes: &mut MapChanges) -> (u64, u64) {
        let before = self.at.start.checked_sub(1).map(|before| leaf.get(before));
        let behind = (self.at.end < leaf.len()).then(|| leaf.get(self.at.end));
        let (mut gone, mut come) = (0, 0);
        let mut last = before;
        for one in in_leaf(before, self.at.clone().map(|at| leaf.get(at))) {
            gone += one.extent.sectors;
            last = Some(one.extent);
            changes.gone.push(one);
        }
        let mut last_now = before;
        for (n, one) in in_leaf(before, self.with().iter().copied()).enumerate() {
            come += one.extent.sectors;
            last_now = Some(one.extent);
            if self.new == Some(n) {
                changes.new.push(one);
            } else {
                changes.rest.push(one);
            }
        }
        if let Some(behind) = behind {
            note_behind(last, last_now, behind, changes);
        }
        (gone, come)
    }
}

/// Records an unchanged extent whose `follows` flag changes with its predecessor.
pub(super) fn note_behind(
    before: Option<MapExtent>,
    now: Option<MapExtent>,
    extent: MapExtent,
    changes: &mut MapChanges,
) {
    let [was, is] = [before, now].map(|before| {
        let follows = before.is_some_and(|before| before.is_followed_by(&extent));
        LeafExtent { extent, follows }
    });
    if was != is {
        changes.gone.push(was);
        changes.rest.push(is);
    }
}

/// An end of a leaf.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LeafEnd {
    First,
    Last,
}

/// Returns the entries that overlap `range`, the remaining part of the first entry before the range, and the remaining
/// part of the last entry behind it.
fn around(
    leaf: &LeafNode,
    range: &Range<u64>,
) -> (Range<usize>, Option<MapExtent>, Option<MapExtent>) {
    let start = leaf.position(range.start);
    let mut end = start;
    while end < leaf.len() && leaf.key(end) < range.end {
        end += 1;
    }
    if start == end {
        return (start..end, None, None);
    }
    let (first, last) = (leaf.get(start), leaf.get(end - 1));
    let left = first.part(first.sector..range.start);
    let right = last.part(range.end..last.end());
    (start..end, left, right)
}
