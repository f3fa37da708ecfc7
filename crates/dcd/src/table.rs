//! From line to the pieces of data that it has in the log, in 16 bytes a piece.
//!
//! The paper's table is a chained hash table of about 48 bytes a line; peers' take 50 to 80. Here an
//! entry is 16 bytes in an open-addressed table kept *in the order of the hashes*: a line's slot is
//! its hash scaled to the table's length, and neighbours pushed aside stay sorted. So a search stops
//! as soon as it meets a larger hash, and a table grows by a sixteenth in one pass over itself, which
//! keeps it between 82 and 88 % full: 18 to 19.6 bytes a piece. (Fuller, and an insertion has too many
//! neighbours to push aside.)
//!
//! A line in several pieces has a slot for each, side by side, since their hashes are equal. So a
//! piece costs the same whatever its line has besides, and there are no lists to keep. A slot has room
//! for that: 40 bits of line, 40 of log address, the checksum, and 14 for where in the line the piece
//! begins, how long it is, and which of its sectors are live.
//!
//! The table is cut into shards by other bits of the hash, so that growing is never more than a
//! moment's work.

use forebay_log::Addr;
use forebay_units::Line;

use crate::piece::Piece;

const SHARDS: usize = 64;
/// Grow when fuller than this, in thousandths.
const FULL: usize = 875;
/// By so much: a part of what there is, but at least so many slots.
const GROW_PART: usize = 16;
const GROW_LEAST: usize = 8;
/// While many pieces come at once, it grows by this part of itself.
const GROW_PART_FILLING: usize = 2;
/// Shrink when emptier than this, in percent, and to how full.
const SPARSE_PERCENT: usize = 55;
const SHRUNK_PERCENT: usize = 84;
/// Not below so many slots to a shard.
const SLOTS_LEAST: usize = 64;
const FIELD_40: u64 = (1 << 40) - 1;

/// The most lines a table can name: volumes of 4 PiB.
pub(crate) const LINES_MAX: u64 = 1 << 40;

/// Line, address, checksum and the rest, packed: 40 + 40 + 32 + 16 bits.
#[derive(Clone, Copy, Default)]
struct Slot([u64; 2]);

const USED: u64 = 1 << 15;

impl Slot {
    fn new(piece: Piece) -> Slot {
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
        Slot([low, high])
    }

    fn is_empty(self) -> bool {
        self.0[1] & USED == 0
    }

    fn line(self) -> Line {
        Line(self.0[0] & FIELD_40)
    }

    fn piece(self) -> Piece {
        let [low, high] = self.0;
        Piece {
            line: self.line(),
            start: (high & 7) as u8,
            sectors: (high >> 3 & 7) as u8 + 1,
            live: (high >> 6) as u8,
            addr: Addr(low >> 40 | (high >> 16 & 0xffff) << 24),
            crc: (high >> 32) as u32,
        }
    }

    fn hash(self) -> u64 {
        hash(self.line())
    }
}

/// One-to-one, so that equal hashes are equal lines.
fn hash(line: Line) -> u64 {
    let mut h = line.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    h ^= h >> 32;
    h = h.wrapping_mul(0xd6e8_feb8_6659_fd93);
    h ^ h >> 32
}

#[derive(Default)]
struct Shard {
    /// `capacity` slots that hashes scale to, and some more for what is pushed past the last.
    slots: Vec<Slot>,
    capacity: usize,
    len: usize,
    /// Many pieces come at once.
    filling: bool,
}

impl Shard {
    fn home(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.capacity as u128) >> 64) as usize
    }

    /// The first slot of the hash, or of a larger one, or none.
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

    /// The pieces of a line, of which the search found the first.
    fn from(&self, at: usize, line: Line) -> impl Iterator<Item = Piece> {
        let slots = self.slots.get(at..).unwrap_or_default().iter();
        slots
            .take_while(move |slot| !slot.is_empty() && slot.line() == line)
            .map(|slot| slot.piece())
    }

    /// Puts a slot in where [`Shard::search`] found its place.
    fn insert(&mut self, mut at: usize, slot: Slot) {
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
            self.push_past_the_end(Slot::default());
            self.slots.len() - 1
        });
        self.slots.copy_within(at..free, at + 1);
        self.slots[at] = slot;
        self.len += 1;
    }

    fn push_past_the_end(&mut self, slot: Slot) {
        if self.slots.len() == self.slots.capacity() {
            self.slots.reserve_exact(GROW_LEAST);
        }
        self.slots.push(slot);
    }

    fn remove_at(&mut self, at: usize) {
        // Those pushed aside move back, up to the first that is at home or a gap.
        let end = (at + 1..self.slots.len())
            .find(|n| self.slots[*n].is_empty() || self.home(self.slots[*n].hash()) == *n)
            .unwrap_or(self.slots.len());
        self.slots.copy_within(at + 1..end, at);
        self.slots[end - 1] = Slot::default();
        self.len -= 1;
    }

    /// See [`LineTable::put`].
    fn put(&mut self, first: usize, piece: Piece, mut cut: impl FnMut(&mut Piece) -> bool) {
        let (mut at, mut placed, before) = (first, false, self.len);
        while let Some(slot) = self.slots.get_mut(at)
            && !slot.is_empty()
            && slot.line() == piece.line
        {
            let mut old = slot.piece();
            if cut(&mut old) {
                *slot = Slot::new(old);
            } else if !placed {
                *slot = Slot::new(piece);
                placed = true;
            } else {
                self.remove_at(at);
                continue;
            }
            at += 1;
        }
        if !placed {
            self.insert(first, Slot::new(piece));
        } else if self.len < before {
            self.shrink();
        }
    }

    /// Gives every piece of a line to `keep`, which may change it, and takes out those it refuses.
    fn retain(&mut self, line: Line, mut keep: impl FnMut(&mut Piece) -> bool) {
        let (mut at, before) = (self.search(hash(line)), self.len);
        while let Some(slot) = self.slots.get_mut(at)
            && !slot.is_empty()
            && slot.line() == line
        {
            let mut piece = slot.piece();
            if keep(&mut piece) {
                *slot = Slot::new(piece);
                at += 1;
            } else {
                self.remove_at(at);
            }
        }
        if self.len < before {
            self.shrink();
        }
    }

    /// As [`Shard::retain`], for every line.
    fn retain_all(&mut self, keep: &mut impl FnMut(&mut Piece) -> bool) {
        let before = self.len;
        for slot in self.slots.iter_mut().filter(|slot| !slot.is_empty()) {
            let mut piece = slot.piece();
            let kept = keep(&mut piece);
            *slot = if kept {
                Slot::new(piece)
            } else {
                Slot::default()
            };
            self.len -= usize::from(!kept);
        }
        if self.len < before {
            // Closes the gaps, too.
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

    /// One pass in the order of the hashes, which the new table has too.
    fn resize(&mut self, capacity: usize) {
        let spare = 4 + (capacity / 128).min(256);
        let old = std::mem::replace(&mut self.slots, vec![Slot::default(); capacity + spare]);
        self.capacity = capacity;
        let mut next = 0;
        for slot in old.into_iter().filter(|slot| !slot.is_empty()) {
            let at = self.home(slot.hash()).max(next);
            if at >= self.slots.len() {
                self.push_past_the_end(Slot::default());
            }
            self.slots[at] = slot;
            next = at + 1;
        }
    }
}

/// Where the pieces of a line are, or would go, until something is put in or taken out.
pub(crate) struct Spot {
    line: Line,
    shard: usize,
    at: usize,
}

/// The table.
pub(crate) struct LineTable {
    shards: Vec<Shard>,
    len: usize,
}

impl LineTable {
    pub(crate) fn new() -> LineTable {
        LineTable {
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            len: 0,
        }
    }

    /// Pieces in the table.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory the table takes.
    pub(crate) fn bytes(&self) -> u64 {
        let slots: usize = self.shards.iter().map(|shard| shard.slots.capacity()).sum();
        (slots * size_of::<Slot>() + self.shards.capacity() * size_of::<Shard>()) as u64
    }

    /// Many pieces are about to come, until [`LineTable::settle`]: meanwhile it trades memory for time,
    /// and takes up to 28 bytes a piece.
    pub(crate) fn expect_many(&mut self) {
        for shard in &mut self.shards {
            shard.filling = true;
        }
    }

    /// They have come: gives back the memory that was traded.
    pub(crate) fn settle(&mut self) {
        for shard in &mut self.shards {
            shard.filling = false;
            if shard.len * 100 < shard.capacity * SHRUNK_PERCENT {
                shard.fit();
            }
        }
    }

    /// Looks at the places of lines that will be wanted at once. None of these looks waits for another, so
    /// memory is waited for once instead of once for each.
    pub(crate) fn look_ahead(&self, lines: impl Iterator<Item = Line>) {
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

    /// The pieces of a line.
    pub(crate) fn get(&self, line: Line) -> impl Iterator<Item = Piece> {
        self.at(&self.find(line))
    }

    /// Searches for a line.
    pub(crate) fn find(&self, line: Line) -> Spot {
        let hash = hash(line);
        let shard = shard_of(hash);
        let at = self.shards[shard].search(hash);
        Spot { line, shard, at }
    }

    /// The pieces of the line that was searched for.
    pub(crate) fn at(&self, spot: &Spot) -> impl Iterator<Item = Piece> + use<'_> {
        self.shards[spot.shard].from(spot.at, spot.line)
    }

    /// Puts a piece in where its line was found. Gives those that the line has to `cut`, which may change
    /// them but for the line and says whether anything is left of them; the first of which nothing is
    /// makes way for the new one.
    pub(crate) fn put(&mut self, spot: Spot, piece: Piece, cut: impl FnMut(&mut Piece) -> bool) {
        debug_assert_eq!(piece.line, spot.line, "put where another line was found");
        let shard = &mut self.shards[spot.shard];
        self.len -= shard.len;
        shard.put(spot.at, piece, cut);
        self.len += shard.len;
    }

    /// Gives every piece of a line to `keep`, which may change it but for the line, and takes out
    /// those it refuses.
    pub(crate) fn retain(&mut self, line: Line, keep: impl FnMut(&mut Piece) -> bool) {
        let shard = &mut self.shards[shard_of(hash(line))];
        self.len -= shard.len;
        shard.retain(line, keep);
        self.len += shard.len;
    }

    /// As [`LineTable::retain`], for every line, in one pass.
    pub(crate) fn retain_all(&mut self, mut keep: impl FnMut(&mut Piece) -> bool) {
        for shard in &mut self.shards {
            self.len -= shard.len;
            shard.retain_all(&mut keep);
            self.len += shard.len;
        }
    }

    /// Every piece, in the table's own (fixed) order; those of a line together.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Piece> {
        let slots = self.shards.iter().flat_map(|shard| &shard.slots);
        slots
            .filter(|slot| !slot.is_empty())
            .map(|slot| slot.piece())
    }
}

/// By the low bits of the hash; the place within a shard goes by the high ones.
fn shard_of(hash: u64) -> usize {
    hash as usize % SHARDS
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
