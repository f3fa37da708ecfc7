//! From line to place: the lookup table, in 16 bytes a line.
//!
//! The paper's table is a chained hash table of about 48 bytes a line; peers' take 50 to 80. Here an
//! entry is 16 bytes in an open-addressed table kept *in the order of the hashes*: a line's slot is
//! its hash scaled to the table's length, and neighbours pushed aside stay sorted. So a search stops
//! as soon as it meets a larger hash, and a table grows by an eighth in one pass over itself, which
//! keeps it between 73 and 82 % full: 20 to 22 bytes a line, at most 5.6 MiB for a GiB of lines.
//! (Fuller, and an insertion has too many neighbours to push aside.)
//!
//! The table is cut into shards by other bits of the hash, so that growing is never more than a
//! moment's work.

use forebay_log::Addr;
use forebay_units::Line;

const SHARDS: usize = 64;
/// Grow when fuller than this, in percent.
const FULL_PERCENT: usize = 82;
/// Shrink when emptier than this, in percent.
const SPARSE_PERCENT: usize = 40;
const FIELD_40: u64 = (1 << 40) - 1;

/// The most lines a table can name: volumes of 4 PiB.
pub(crate) const LINES_MAX: u64 = 1 << 40;

/// What the table says of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Value {
    /// All of it lies in one place.
    Whole { addr: Addr, crc: u32 },
    /// It is in pieces, listed elsewhere under this number.
    Pieces(u32),
}

/// Line, address, checksum and kind, packed: 40 + 40 + 32 + 16 bits.
#[derive(Clone, Copy, Default)]
struct Slot([u64; 2]);

const KIND_WHOLE: u16 = 1;
const KIND_PIECES: u16 = 2;

impl Slot {
    fn new(line: Line, value: Value) -> Slot {
        let (kind, addr, crc) = match value {
            Value::Whole { addr, crc } => (KIND_WHOLE, addr.0, crc),
            Value::Pieces(n) => (KIND_PIECES, u64::from(n), 0),
        };
        assert!(
            line.0 < LINES_MAX && addr <= FIELD_40,
            "a volume or log larger than supported"
        );
        let low = line.0 | (addr & 0xff_ffff) << 40;
        let high = u64::from(kind) | (addr >> 24) << 16 | u64::from(crc) << 32;
        Slot([low, high])
    }

    fn is_empty(self) -> bool {
        self.0[1] as u16 == 0
    }

    fn line(self) -> Line {
        Line(self.0[0] & FIELD_40)
    }

    fn value(self) -> Value {
        let addr = self.0[0] >> 40 | (self.0[1] >> 16 & 0xffff) << 24;
        match self.0[1] as u16 {
            KIND_PIECES => Value::Pieces(addr as u32),
            _ => Value::Whole {
                addr: Addr(addr),
                crc: (self.0[1] >> 32) as u32,
            },
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
}

impl Shard {
    fn home(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.capacity as u128) >> 64) as usize
    }

    /// The slot of the hash, or the first of a larger one or none.
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

    fn get(&self, hash: u64) -> Option<Slot> {
        let slot = *self.slots.get(self.search(hash))?;
        (!slot.is_empty() && slot.hash() == hash).then_some(slot)
    }

    fn insert(&mut self, slot: Slot) -> Option<Slot> {
        if (self.len + 1) * 100 > self.capacity * FULL_PERCENT {
            self.resize((self.capacity + self.capacity / 8).max(8));
        }
        let hash = slot.hash();
        let at = self.search(hash);
        if let Some(there) = self.slots.get_mut(at)
            && !there.is_empty()
            && there.hash() == hash
        {
            return Some(std::mem::replace(there, slot));
        }
        let free = (at..self.slots.len()).find(|n| self.slots[*n].is_empty());
        let free = free.unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() - 1
        });
        self.slots.copy_within(at..free, at + 1);
        self.slots[at] = slot;
        self.len += 1;
        None
    }

    fn remove(&mut self, hash: u64) -> Option<Slot> {
        let removed = self.get(hash)?;
        let at = self.search(hash);
        // Those pushed aside move back, up to the first that is at home or a gap.
        let end = (at + 1..self.slots.len())
            .find(|n| self.slots[*n].is_empty() || self.home(self.slots[*n].hash()) == *n)
            .unwrap_or(self.slots.len());
        self.slots.copy_within(at + 1..end, at);
        self.slots[end - 1] = Slot::default();
        self.len -= 1;
        if self.len * 100 < self.capacity * SPARSE_PERCENT && self.capacity > 64 {
            self.resize((self.len * 100 / 75).max(8));
        }
        Some(removed)
    }

    /// One pass in the order of the hashes, which the new table has too.
    fn resize(&mut self, capacity: usize) {
        let slots = vec![Slot::default(); capacity + capacity / 64 + 4];
        let old = std::mem::replace(&mut self.slots, slots);
        self.capacity = capacity;
        let mut next = 0;
        for slot in old.into_iter().filter(|slot| !slot.is_empty()) {
            let at = self.home(slot.hash()).max(next);
            if at >= self.slots.len() {
                self.slots.push(Slot::default());
            }
            self.slots[at] = slot;
            next = at + 1;
        }
    }
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

    /// Lines in the table.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of memory the table takes.
    pub(crate) fn bytes(&self) -> u64 {
        let slots: usize = self.shards.iter().map(|shard| shard.slots.capacity()).sum();
        (slots * size_of::<Slot>()) as u64
    }

    pub(crate) fn get(&self, line: Line) -> Option<Value> {
        let hash = hash(line);
        self.shards[shard(hash)].get(hash).map(Slot::value)
    }

    /// Puts the value in and gives back the one it replaces.
    pub(crate) fn insert(&mut self, line: Line, value: Value) -> Option<Value> {
        let old = self.shards[shard(hash(line))].insert(Slot::new(line, value));
        self.len += usize::from(old.is_none());
        old.map(Slot::value)
    }

    pub(crate) fn remove(&mut self, line: Line) -> Option<Value> {
        let hash = hash(line);
        let old = self.shards[shard(hash)].remove(hash);
        self.len -= usize::from(old.is_some());
        old.map(Slot::value)
    }

    /// Every line and its value, in the table's own (fixed) order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Line, Value)> {
        let slots = self.shards.iter().flat_map(|shard| &shard.slots);
        slots
            .filter(|slot| !slot.is_empty())
            .map(|slot| (slot.line(), slot.value()))
    }
}

/// By the low bits; the place within a shard goes by the high ones.
fn shard(hash: u64) -> usize {
    hash as usize % SHARDS
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
