//! Hash table from a block of the volume to its fragments of data in the log, with 16 bytes per fragment.
//!
//! The paper's table is a chained hash table of about 48 bytes per block; those of comparable systems take 50 to 80.
//! Here an entry is 16 bytes in an open-addressed table kept *in the order of the hashes*: a block's slot is its hash
//! scaled to the table's length, and displaced neighbours stay sorted. So a search stops as soon as it meets a larger
//! hash. The table grows by a sixteenth in one pass over itself, which keeps it between 82 and 88 % full: 18 to 19.6
//! bytes per fragment. (In a fuller table, an insertion has to displace too many neighbours.)
//!
//! A block with several fragments has a slot for each, side by side, since their hashes are equal. So the cost of a
//! fragment does not depend on the block's other fragments, and no lists are needed. A slot holds 40 bits of block
//! number, 40 of log address, the checksum, and 14 for the start and length of the fragment within the block and for
//! its live sectors.
//!
//! The table is split into shards by other bits of the hash, so that growing never takes long.

use forebay_ring_log::LogAddr;
use forebay_units::BlockNumber;

use crate::piece::LogFragment;

const SHARDS: usize = 64;
/// Fill level above which a shard grows, in thousandths.
const FULL: usize = 875;
/// Growth of a shard: this part of its capacity, but at least this many slots.
const GROW_PART: usize = 16;
const GROW_LEAST: usize = 8;
/// Part of its capacity by which a shard grows while many fragments are inserted.
const GROW_PART_FILLING: usize = 2;
/// Fill level below which a shard shrinks, and its fill level afterwards, in percent.
const SPARSE_PERCENT: usize = 55;
const SHRUNK_PERCENT: usize = 84;
/// Capacity at or below which a shard does not shrink.
const SLOTS_LEAST: usize = 64;
const FIELD_40: u64 = (1 << 40) - 1;

/// Maximum number of blocks in a table: volumes of 4 PiB.
pub(crate) const LINES_MAX: u64 = 1 << 40;

/// Block, address, checksum and the rest, packed: 40 + 40 + 32 + 16 bits.
#[derive(Clone, Copy, Default)]
struct FragmentSlot([u64; 2]);

const USED: u64 = 1 << 15;

impl FragmentSlot {
    fn new(piece: LogFragment) -> FragmentSlot {
        assert!(
            piece.line.0 < LINES_MAX && piece.addr.0 <= FIELD_40,
            "a volume or log larger than supported"
        );
        let shape = u64::from(piece.start)
            | u64::from(piece.sectors - 1) << 3
            | u64::from(piece.live) << 6
            | USED;
        let low = piece.line.0 | (piece.addr.0 & 0xff_ffff) << 40;
        let high = shape | (piece.addr.0 >> 24) << 16 | u64::from(piece.crc) << 32;
        FragmentSlot([low, high])
    }

    fn is_empty(self) -> bool {
        self.0[1] & USED == 0
    }

    fn line(self) -> BlockNumber {
        BlockNumber(self.0[0] & FIELD_40)
    }

    fn piece(self) -> LogFragment {
        let [low, high] = self.0;
        LogFragment {
            line: self.line(),
            start: (high & 7) as u8,
            sectors: (high >> 3 & 7) as u8 + 1,
            live: (high >> 6) as u8,
            addr: LogAddr(low >> 40 | (high >> 16 & 0xffff) << 24),
            crc: (high >> 32) as u32,
        }
    }

    fn hash(self) -> u64 {
        hash(self.line())
    }
}

/// Hashes a block one-to-one, so that equal hashes are equal blocks.
fn hash(line: BlockNumber) -> u64 {
    let mut h = line.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    h ^= h >> 32;
    h = h.wrapping_mul(0xd6e8_feb8_6659_fd93);
    h ^ h >> 32
}

#[derive(Default)]
struct TableShard {
    /// `capacity` slots that hashes scale to, and some more for entries that are displaced past the last.
    slots: Vec<FragmentSlot>,
    capacity: usize,
    len: usize,
    /// True while many fragments are inserted.
    filling: bool,
}

impl TableShard {
    fn home(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.capacity as u128) >> 64) as usize
    }

    /// Returns the first slot with this hash, a larger hash, or no entry.
    fn search(&self, hash: u64) -> usize {
        let mut at = self.home(hash);
        while self
            .slots
            .get(at)
            .is_some_and(|slot| !slot.is_empty() && slot.hash() < hash)
        {
            at += 1;
        }
        at
    }

    /// Returns the fragments of a block, of which the search found the first slot.
    fn from(&self, at: usize, line: BlockNumber) -> impl Iterator<Item = LogFragment> {
        let slots = self.slots.get(at..).unwrap_or_default().iter();
        slots
            .take_while(move |slot| !slot.is_empty() && slot.line() == line)
            .map(|slot| slot.piece())
    }

    /// Inserts a slot at the position that [`TableShard::search`] found.
    fn insert(&mut self, mut at: usize, slot: FragmentSlot) {
        if (self.len + 1) * 1000 > self.capacity * FULL {
            let part = if self.filling {
                GROW_PART_FILLING
            } else {
                GROW_PART
            };
            self.resize(self.capacity + (self.capacity / part).max(GROW_LEAST));
            at = self.search(slot.hash());
        }
        let free = (at..self.slots.len()).find(|n| self.slots[*n].is_empty());
        let free = free.unwrap_or_else(|| {
            self.push_past_the_end(FragmentSlot::default());
            self.slots.len() - 1
        });
        self.slots.copy_within(at..free, at + 1);
        self.slots[at] = slot;
        self.len += 1;
    }

    fn push_past_the_end(&mut self, slot: FragmentSlot) {
        if self.slots.len() == self.slots.capacity() {
            self.slots.reserve_exact(GROW_LEAST);
        }
        self.slots.push(slot);
    }

    fn remove_at(&mut self, at: usize) {
        // Displaced entries move back, up to the first entry at its own position or the first empty slot.
        let end = (at + 1..self.slots.len())
            .find(|n| self.slots[*n].is_empty() || self.home(self.slots[*n].hash()) == *n)
            .unwrap_or(self.slots.len());
        self.slots.copy_within(at + 1..end, at);
        self.slots[end - 1] = FragmentSlot::default();
        self.len -= 1;
    }

    /// See [`FragmentTable::put`].
    fn put(
        &mut self,
        first: usize,
        piece: LogFragment,
        mut cut: impl FnMut(&mut LogFragment) -> bool,
    ) {
        let (mut at, mut placed, before) = (first, false, self.len);
        while let Some(slot) = self.slots.get_mut(at)
            && !slot.is_empty()
            && slot.line() == piece.line
        {
            let mut old = slot.piece();
            if cut(&mut old) {
                *slot = FragmentSlot::new(old);
            } else if !placed {
                *slot = FragmentSlot::new(piece);
                placed = true;
            } else {
                self.remove_at(at);
                continue;
            }
            at += 1;
        }
        if !placed {
            self.insert(first, FragmentSlot::new(piece));
        } else if self.len < before {
            self.shrink();
        }
    }

    /// Passes every fragment of a block to `keep`, which may change it. Removes those for which `keep` returns false.
    fn retain(&mut self, line: BlockNumber, mut keep: impl FnMut(&mut LogFragment) -> bool) {
        let (mut at, before) = (self.search(hash(line)), self.len);
        while let Some(slot) = self.slots.get_mut(at)
            && !slot.is_empty()
            && slot.line() == line
        {
            let mut piece = slot.piece();
            if keep(&mut piece) {
                *slot = FragmentSlot::new(piece);
                at += 1;
            } else {
                self.remove_at(at);
            }
        }
        if self.len < before {
            self.shrink();
        }
    }

    /// Applies [`TableShard::retain`] to every block.
    fn retain_all(&mut self, keep: &mut impl FnMut(&mut LogFragment) -> bool) {
        let before = self.len;
        for slot in self.slots.iter_mut().filter(|slot| !slot.is_empty()) {
            let mut piece = slot.piece();
            let kept = keep(&mut piece);
            *slot = if kept {
                FragmentSlot::new(piece)
            } else {
                FragmentSlot::default()
            };
            self.len -= usize::from(!kept);
        }
        if self.len < before {
            // Closes the empty slots, too.
            self.resize(self.capacity);
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        if self.len * 100 < self.capacity * SPARSE_PERCENT && self.capacity > SLOTS_LEAST {
            self.fit();
        }
    }

    fn fit(&mut self) {
        self.resize((self.len * 100 / SHRUNK_PERCENT).max(GROW_LEAST));
    }

    /// Changes the capacity in one pass in the order of the hashes, which the new table has too.
    fn resize(&mut self, capacity: usize) {
        let spare = 4 + (capacity / 128).min(256);
        let old = std::mem::replace(
            &mut self.slots,
            vec![FragmentSlot::default(); capacity + spare],
        );
        self.capacity = capacity;
        let mut next = 0;
        for slot in old.into_iter().filter(|slot| !slot.is_empty()) {
            let at = self.home(slot.hash()).max(next);
            if at >= self.slots.len() {
                self.push_past_the_end(FragmentSlot::default());
            }
            self.slots[at] = slot;
            next = at + 1;
        }
    }
}

/// Position of the fragments of a block, whether present or to be inserted. Valid until an entry is inserted or
/// removed.
pub(crate) struct TablePosition {
    line: BlockNumber,
    shard: usize,
    at: usize,
}

/// The table.
pub(crate) struct FragmentTable {
    shards: Vec<TableShard>,
    len: usize,
}

impl FragmentTable {
    pub(crate) fn new() -> FragmentTable {
        FragmentTable {
            shards: (0..SHARDS).map(|_| TableShard::default()).collect(),
            len: 0,
        }
    }

    /// Returns the number of fragments.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the memory of the table, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        let slots: usize = self.shards.iter().map(|shard| shard.slots.capacity()).sum();
        (slots * size_of::<FragmentSlot>() + self.shards.capacity() * size_of::<TableShard>())
            as u64
    }

    /// Prepares for many insertions, until [`FragmentTable::settle`]. Meanwhile the table trades memory for time, and takes
    /// up to 28 bytes per fragment.
    pub(crate) fn expect_many(&mut self) {
        for shard in &mut self.shards {
            shard.filling = true;
        }
    }

    /// Ends the phase of many insertions: releases the extra memory.
    pub(crate) fn settle(&mut self) {
        for shard in &mut self.shards {
            shard.filling = false;
            if shard.len * 100 < shard.capacity * SHRUNK_PERCENT {
                shard.fit();
            }
        }
    }

    /// Reads the positions of blocks that will be used at once. These reads do not depend on each other, so the latency
    /// of memory is paid once instead of once for each.
    pub(crate) fn look_ahead(&self, lines: impl Iterator<Item = BlockNumber>) {
        let mut seen = 0;
        for line in lines {
            let hash = hash(line);
            let shard = &self.shards[shard_of(hash)];
            seen ^= shard
                .slots
                .get(shard.home(hash))
                .map_or(0, |slot| slot.0[0]);
        }
        std::hint::black_box(seen);
    }

    /// Returns the fragments of a block.
    pub(crate) fn get(&self, line: BlockNumber) -> impl Iterator<Item = LogFragment> {
        self.at(&self.find(line))
    }

    /// Searches for a block.
    pub(crate) fn find(&self, line: BlockNumber) -> TablePosition {
        let hash = hash(line);
        let shard = shard_of(hash);
        let at = self.shards[shard].search(hash);
        TablePosition { line, shard, at }
    }

    /// Returns the fragments of the block that was searched for.
    pub(crate) fn at(&self, spot: &TablePosition) -> impl Iterator<Item = LogFragment> + use<'_> {
        self.shards[spot.shard].from(spot.at, spot.line)
    }

    /// Inserts a fragment at the position of its block. Passes the block's other fragments to `cut`, which may change
    /// everything but the block, and returns whether any live sectors are left. The new fragment replaces the first
    /// fragment without live sectors.
    pub(crate) fn put(
        &mut self,
        spot: TablePosition,
        piece: LogFragment,
        cut: impl FnMut(&mut LogFragment) -> bool,
    ) {
        debug_assert_eq!(
            piece.line, spot.line,
            "the fragment belongs to another block"
        );
        let shard = &mut self.shards[spot.shard];
        self.len -= shard.len;
        shard.put(spot.at, piece, cut);
        self.len += shard.len;
    }

    /// Passes every fragment of a block to `keep`, which may change everything but the block. Removes those for which
    /// `keep` returns false.
    pub(crate) fn retain(&mut self, line: BlockNumber, keep: impl FnMut(&mut LogFragment) -> bool) {
        let shard = &mut self.shards[shard_of(hash(line))];
        self.len -= shard.len;
        shard.retain(line, keep);
        self.len += shard.len;
    }

    /// Applies [`FragmentTable::retain`] to every block, in one pass.
    pub(crate) fn retain_all(&mut self, mut keep: impl FnMut(&mut LogFragment) -> bool) {
        for shard in &mut self.shards {
            self.len -= shard.len;
            shard.retain_all(&mut keep);
            self.len += shard.len;
        }
    }

    /// Returns every fragment, in the table's own (fixed) order, in which the fragments of a block are adjacent.
    pub(crate) fn iter(&self) -> impl Iterator<Item = LogFragment> {
        let slots = self.shards.iter().flat_map(|shard| &shard.slots);
        slots
            .filter(|slot| !slot.is_empty())
            .map(|slot| slot.piece())
    }
}

/// Returns the shard of a hash, from its low bits. The position within the shard depends on the high bits.
fn shard_of(hash: u64) -> usize {
    hash as usize % SHARDS
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
