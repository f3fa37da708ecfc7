//! How much may be mapped, and who may go on when room is short.
//!
//! Three floors lie under what users may take of the runway, and each is kept for those below it: the
//! cleaner, which makes room, and checkpoints, without which what it made cannot be used. So neither ever
//! waits for users, and a checkpoint waits for nobody.

use forebay_units::{SECTOR_BYTES, Sector};

use crate::batch::{Batch, Op};
use crate::format::TABLE_CHUNK_SEGMENTS;
use crate::prepared::mapped;
use crate::streams::Streams;
use crate::usage::{RUNWAY_MAX, Usage};
use forebay_extents::Map;
use forebay_extents::NODE_SECTORS;

/// A checkpoint that is made for room gives back so many times what it writes, if there is a choice.
const CHECKPOINT_GAIN: f64 = 2.0;
/// Bytes that a checkpoint writes beside nodes, the table and the runway: the rest of its block, and headers.
const CHECKPOINT_BYTES: u64 = 40 << 10;

/// Of a batch of more writes and trims it is not looked at what it unmaps.
const LOOKED_AT_MAX: usize = 64;

/// What there is room for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Room {
    /// Sectors that may be mapped at most.
    pub(crate) mappable: u64,
    /// What a checkpoint would write, in segments.
    checkpoint: f64,
    /// Segments of the runway that are kept for it.
    pub(crate) for_checkpoint: usize,
    /// Those and the ones that are kept for the cleaner.
    pub(crate) for_cleaner: usize,
    /// With fewer segments free than this, room is short.
    pub(crate) low: usize,
}

/// What a batch waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lack {
    /// What was trimmed is still being looked at, or what is ahead in line may take the last room.
    Others,
    /// Memory for segments: the device has to take what is there, or nobody to read what is used next.
    Memory,
    /// Free segments. A checkpoint would make some if there is nothing to be cleaned.
    Segments { checkpoint: bool },
}

/// Whether a batch can be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// At once.
    Now,
    /// When something has changed.
    Wait(Lack),
    /// Not as things are.
    Never { need: u64, have: u64 },
}

/// A batch that asks for room; the map of its ranges is in memory, but for the inside of trims of `huge` sectors or more.
#[derive(Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub(crate) batch: &'a Batch,
    pub(crate) ranges: &'a [(Sector, u64)],
    pub(crate) huge: u64,
}

/// What a batch takes of segments.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Wanted {
    bytes: u64,
    entries: u64,
}

impl Wanted {
    pub(crate) fn of(batch: &Batch) -> Wanted {
        Wanted {
            bytes: batch.bytes(),
            entries: batch.entries(),
        }
    }

    pub(crate) fn plus(self, other: Wanted) -> Wanted {
        Wanted {
            bytes: self.bytes + other.bytes,
            entries: self.entries + other.entries,
        }
    }

    pub(crate) fn less(self, other: Wanted) -> Wanted {
        Wanted {
            bytes: self.bytes - other.bytes,
            entries: self.entries - other.entries,
        }
    }
}

impl Room {
    /// As things are.
    pub(crate) fn of(streams: &Streams, map: &Map) -> Room {
        let layout = streams.layout;
        let (segment, count) = (
            u64::from(layout.segment_bytes),
            u64::from(layout.segment_count),
        );
        let table = count.next_multiple_of(TABLE_CHUNK_SEGMENTS as u64) * 32;
        let runway = 4 * count.min(RUNWAY_MAX as u64);
        let checkpoint = map.dirty_bytes() * 9 / 8 + table + runway + CHECKPOINT_BYTES;
        let for_checkpoint = checkpoint.div_ceil(segment * 7 / 8) as usize + 1;
        // One that a crash cuts takes room from the one that recovery makes.
        let for_cleaner = 2 * for_checkpoint + usize::from(streams.counts.moved) + 1;
        // What the cleaner and the streams hold is never free, so what makes cleaning cheap comes on top.
        let held = 2 * for_cleaner as u64 + u64::from(streams.counts.all());
        let kept = held + streams.usage.spare();
        let for_map = 2 * map.nodes() * NODE_SECTORS;
        let all = count.saturating_sub(kept) * layout.dense_sectors();
        Room {
            mappable: all.saturating_sub(for_map),
            checkpoint: checkpoint as f64 / segment as f64,
            for_checkpoint,
            for_cleaner,
            low: for_cleaner + (count as usize / 256).clamp(2, 64),
        }
    }

    /// Whether a batch can be done, and what is ahead of it in line as well.
    pub(crate) fn verdict(
        &self,
        streams: &Streams,
        map: &Map,
        asking: Asking<'_>,
        ahead: Wanted,
    ) -> Verdict {
        let batch = asking.batch;
        let new = batch.bytes() / SECTOR_BYTES;
        let mapped = map.mapped_sectors();
        if mapped + new + ahead.bytes / SECTOR_BYTES > self.mappable {
            if ahead != Wanted::default() {
                return Verdict::Wait(Lack::Others);
            }
            let grows = growth(map, asking);
            let over = grows > 0 && mapped + grows > self.mappable;
            if over && map.detached() > 0 {
                return Verdict::Wait(Lack::Others);
            }
            if over {
                return Verdict::Never {
                    need: grows * SECTOR_BYTES,
                    have: self.mappable.saturating_sub(mapped) * SECTOR_BYTES,
                };
            }
        }
        let own = streams.segments_needed(batch.bytes(), batch.entries());
        let most = streams.layout.segment_count as usize / 4;
        if own > most {
            return Verdict::Never {
                need: batch.bytes(),
                have: most as u64 / 2 * u64::from(streams.layout.segment_bytes),
            };
        }
        let all = Wanted::of(batch).plus(ahead);
        let need = streams.segments_needed(all.bytes, all.entries);
        if need > 0 && streams.usage.runway() < need + self.for_cleaner {
            let usage = &streams.usage;
            // If there is something to be cleaned, that makes room as well.
            let checkpoint = usage.usable() == 0 && usage.waiting() > usage.runway();
            return Verdict::Wait(Lack::Segments { checkpoint });
        }
        match streams.can_open(need) {
            true => Verdict::Now,
            false => Verdict::Wait(Lack::Memory),
        }
    }

    /// Whether a checkpoint should be made, with so many entries behind the newest and recovery to take up at most
    /// `entries_max`.
    pub(crate) fn wants_checkpoint(&self, usage: &Usage, entries: u64, entries_max: u64) -> bool {
        // Each writes all nodes that changed, so as seldom as room allows: where it gives back more than it
        // takes, or before writers have nothing but what only it gives back.
        let (reusable, waiting) = (usage.runway() + usage.usable(), usage.waiting());
        let short = reusable < 2 * self.low && {
            let gain = waiting + usage.held_by_nodes();
            let pays = gain as f64 >= CHECKPOINT_GAIN * self.checkpoint;
            gain > 0 && pays || reusable < self.low && gain >= reusable
        };
        entries >= entries_max || short || waiting > 2 * reusable
    }
}

/// Sectors that would be mapped more after a batch, at most.
///
/// What a small batch unmaps counts: so a volume that is full can be emptied by batches that also have to note something.
/// What was not looked at, as part of a trim of `huge` sectors or more, does not, nor does what the batch touches twice.
fn growth(map: &Map, asking: Asking<'_>) -> u64 {
    let Asking {
        batch,
        ranges,
        huge,
    } = asking;
    let (mut grows, mut shrinks) = (0, 0);
    let may_shrink = ranges.len() <= LOOKED_AT_MAX;
    for (n, (op, (sector, sectors))) in batch.ops().iter().zip(ranges).enumerate() {
        let there = || -> u64 {
            let mapped = mapped(map, *sector, *sectors);
            mapped.iter().map(|extent| extent.sectors).sum()
        };
        match op {
            Op::Write { .. } => grows += sectors - there(),
            Op::Trim { .. } if may_shrink && *sectors < huge && is_alone(ranges, n) => {
                shrinks += there();
            }
            Op::Trim { .. } => {}
        }
    }
    u64::saturating_sub(grows, shrinks)
}

/// Whether no other of these ranges has a part of this one.
fn is_alone(ranges: &[(Sector, u64)], n: usize) -> bool {
    let (sector, sectors) = ranges[n];
    let others = ranges.iter().enumerate().filter(|(other, _)| *other != n);
    let mut others = others.map(|(_, other)| other);
    others.all(|(at, len)| at.0 + len <= sector.0 || sector.0 + sectors <= at.0)
}
