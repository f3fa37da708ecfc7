//! How much may be mapped, and which claims may take segments when few are free.
//!
//! Free segments are kept in budgets, one below the other: each claim (`claim.rs`) leaves a number of segments on the allocation queue
//! ([`Floors::floor`]). A segment is opened with a grant (`claim.rs`) only, and only `streams.rs::grant` makes grants, which compares the
//! claim's floor. What changes the map is held to its floor even if it opens no segment, since it adds to the next
//! checkpoint. The floors are made of four numbers of segments:
//!
//! - C: a checkpoint of the nodes that have changed now;
//! - L: a checkpoint of a map without changes;
//! - M: the largest checkpoint, at which clients wait for it ([`Room::needs_checkpoint`]); or one of the whole map, if that is
//!   less;
//! - G: the growth of segments of nodes. A checkpoint leaves garbage in the segments that hold the nodes before, so those
//!   segments may become twice what the nodes and the rest of a checkpoint fill. G is the part of that they do not have yet.
//!
//! | claim | leaves | so |
//! |---|---|---|
//! | queue | 0 | the record that continues the queue can always be written |
//! | checkpoint | 1 | the same, while a checkpoint is written |
//! | rescue | C + L + 1 | the next checkpoint can be written, and after it one of L |
//! | cleaner | max(2C, C + 2L) + 1 + G | the next checkpoint can be written, and once more if a crash cuts it; and after it, one of L |
//! | trims | the same with M for C, and `CLEANED_AT_ONCE` | while writers wait, the cleaner has segments to move data to |
//! | writers | that and one | a trim waits for a checkpoint at most, which makes the segments of its records empty |
//!
//! Three arguments show that the cleaner never waits for ever:
//!
//! - *It goes on from its floor.* A crash, or writers that take segments meanwhile, can leave the cleaner in the middle of what
//!   it wanted to move: at its floor, with much garbage, and without an empty segment. If nothing is under way that makes room,
//!   it may open a segment below its floor for segments of which all live data fits one: as many as it takes get free at least.
//! - *Checkpoints do not use up the queue.* What a checkpoint takes from the queue, segments of nodes grow by, and G shrinks by
//!   the same. Where G is 0, half of the segments of nodes is garbage. A checkpoint of L segments then empties as many as it
//!   writes, or more, and the queue has 2L segments for it.
//! - *Cleaning gains more than it writes.* [`SegmentTable::spare`] segments are garbage or free on a full volume, so there is
//!   one that gains `table/uses.rs::worth`. Where free segments are short, the cleaner moves data to one stream and ends its
//!   records when they have gained a segment (`clean.rs`). A checkpoint ends the open record as well, but not before it is
//!   nearly full (`changed.rs`). An emptied segment gets free without a checkpoint, unless it was written since the
//!   last one.

use forebay_extents::{Map, NODE_BYTES, NODE_SECTORS};
use forebay_units::{SECTOR_BYTES, Sector};

use crate::batch::{BATCH_BYTES_MAX, Batch};
use crate::changed::{CHANGED_MIN, checkpoint_bytes, checkpoint_segments};
use crate::claim::{Claim, Floors, Wanted};
use crate::geometry::Layout;
use crate::growth::Growth;
use crate::streams::Streams;
use crate::table::SegmentTable;
use crate::weight::{
    MAP_BYTES, in_blocks_at_most, nodes_of_pages, weight_at_most, weight_in_blocks, weight_in_map,
};

/// A checkpoint that is made for room gives back so many times what it writes, if there is a choice.
const CHECKPOINT_GAIN: f64 = 2.0;
/// Beside what has to be, checkpoints write at most one byte for so many that are written otherwise: 5 %.
const WRITTEN_FOR_CHECKPOINT: u64 = 20;
/// Where much is free, a checkpoint may take one in so many segments that can be had.
const CHECKPOINT_PART: usize = 8;
/// Sectors that a batch may weigh more than what it releases, for each of its writes and trims and once more: pieces that are
/// not whole blocks, and rounding.
const BESIDE: u64 = 2;

/// Free segments that the cleaner can open while writers wait for space.
const CLEANED_AT_ONCE: usize = 4;

/// What there is room for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Room {
    /// Sectors that may be mapped at most, even if the rest comes in pieces of one sector.
    pub(crate) mappable: u64,
    /// The same if the rest comes in blocks of 4 KiB.
    pub(crate) mappable_in_blocks: u64,
    /// Sectors of segments that data and map may take, by weight, and what they take.
    available: u64,
    used: u64,
    /// The same once so many nodes have changed as may: preallocated sectors are kept free of these.
    available_later: u64,
    /// Preallocated sectors.
    preallocated: u64,
    /// Sectors that are kept free of mapped data, so that cleaning gains something.
    spare: u64,
    /// What a checkpoint would write, in bytes and in segments.
    checkpoint_bytes: u64,
    checkpoint: usize,
    /// Segments of a checkpoint of as many changed nodes as there is always room for, of as many as there is now, and of none.
    checkpoint_most: usize,
    checkpoint_cap: usize,
    checkpoint_least: usize,
    /// Segments by which segments of nodes may grow before the cleaner empties some of them.
    nodes_growth: usize,
    /// Segments that writers leave at least.
    kept: usize,
    moved: usize,
    /// Bytes of nodes that changed, and from which amount on a checkpoint is made.
    changed: u64,
    /// Memory of nodes that cannot be evicted, in bytes. A node may take more in memory than on the device.
    changed_memory: u64,
    changed_max: u64,
    /// Memory that the map may take, in bytes.
    map_bytes: u64,
    /// With fewer segments queued than this, room is short.
    pub(crate) low: usize,
}

/// What a batch waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lack {
    /// Trimmed subtrees are still being looked at: the room that they took is not known yet.
    Trimmed,
    /// Memory for segments: the device has to take what is there.
    Memory,
    /// A checkpoint: too many nodes of the map have changed.
    Checkpoint,
    /// Free segments. A checkpoint would make some if there is nothing to be cleaned.
    Segments {
        /// True if only a checkpoint makes some.
        checkpoint: bool,
    },
}

/// Whether a batch can be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// At once.
    Now,
    /// When something has changed.
    Wait(Lack),
    /// Not as things are.
    Never {
        /// Bytes that it needs.
        need: u64,
        /// Bytes that can be had.
        have: u64,
    },
    /// Not in one batch: see [`crate::SpaceError::Large`].
    Large {
        /// Bytes that the batch writes.
        need: u64,
        /// Bytes that one batch can write now, approximately.
        most: u64,
    },
}

/// A batch that asks for room. The map of its ranges is in memory, but for the inside of trims of `huge` sectors or more.
#[derive(Clone, Copy)]
pub(crate) struct Asking<'a> {
    pub(crate) batch: &'a Batch,
    pub(crate) ranges: &'a [(Sector, u64)],
    pub(crate) huge: u64,
}

impl Asking<'_> {
    pub(crate) fn claim(&self) -> Claim {
        match self.batch.bytes() {
            0 => Claim::Trims,
            _ => Claim::Writers,
        }
    }
}

impl Room {
    /// As things are.
    pub(crate) fn of(streams: &Streams, map: &Map) -> Room {
        let (layout, counts, table) = (streams.layout, streams.counts, &streams.table);
        let changed = map.dirty_bytes() + streams.frozen_bytes;
        let moved = usize::from(counts.moved);
        let grown = match counts.page_in_place {
            Some(page) => nodes_of_pages(map.mapped_sectors(), page),
            None => 0,
        };
        let all_nodes = map.nodes().max(grown);
        let used = table.data_weight() + all_nodes * NODE_SECTORS;
        let all = u64::from(layout.segment_count);
        let rest = (all * layout.dense_sectors()).saturating_sub(used) * SECTOR_BYTES;
        let (changed_full, changed_max) = (streams.changed.full, streams.changed.at(rest));
        // No more nodes can change than there are.
        let nodes = all_nodes * NODE_BYTES as u64 + CHANGED_MIN;
        let at_most = |changed: u64| checkpoint_segments(&layout, changed.min(nodes));
        let (most, most_full) = (at_most(changed_max), at_most(changed_full));
        let least = checkpoint_segments(&layout, 0);
        let segments_of = |nodes: u64| {
            let sectors = nodes * NODE_SECTORS + checkpoint_bytes(&layout, 0) / SECTOR_BYTES;
            sectors.div_ceil(layout.dense_sectors()) as usize
        };
        // Beside the floor: open segments, segments that a batch opens, and garbage in segments of nodes.
        let kept = |most| {
            let kept = writers_floor(most, least) + usize::from(counts.all() + counts.user);
            kept as u64 + table.spare() + segments_of(all_nodes) as u64
        };
        let without = |kept: u64| all.saturating_sub(kept) * layout.dense_sectors();
        let available = without(kept(most_full));
        let available_later = without(kept(checkpoint_segments(&layout, changed_full)));
        let left = available_later.saturating_sub(used);
        let checkpoint = checkpoint_segments(&layout, changed);
        Room {
            mappable: map.mapped_sectors() + mappable_in(left),
            mappable_in_blocks: map.mapped_sectors() + mappable_in_blocks(left),
            available,
            used,
            available_later,
            preallocated: streams.preallocated,
            spare: table.spare() * layout.dense_sectors(),
            checkpoint_bytes: checkpoint_bytes(&layout, changed),
            checkpoint,
            checkpoint_most: most.max(checkpoint),
            checkpoint_cap: most.max((table.queued() + table.usable()) / CHECKPOINT_PART),
            checkpoint_least: least,
            nodes_growth: (2 * segments_of(map.nodes())).saturating_sub(table.node_segments()),
            kept: writers_floor(most, least),
            moved,
            changed,
            changed_memory: changed.max(map.dirty_memory()),
            changed_max,
            map_bytes: streams.map_bytes,
            low: writers_floor(most.max(checkpoint), least)
                + (layout.segment_count as usize / 256).clamp(2, 64),
        }
    }

    /// Sectors that data and map take, by weight, and that there are for them and for what is dead.
    pub(crate) fn filled(&self) -> (u64, u64) {
        (self.used, (self.available + self.spare).max(1))
    }

    /// Sectors that data and map may take, by weight.
    pub(crate) fn available(&self) -> u64 {
        self.available
    }

    /// Sectors that are mapped or preallocated beyond what may be, by weight.
    pub(crate) fn over(&self) -> u64 {
        (self.used + weight_in_blocks(self.preallocated)).saturating_sub(self.available)
    }

    /// Whether a batch can be done, and what is ahead of it in the queue as well.
    pub(crate) fn verdict(
        &self,
        streams: &Streams,
        map: &Map,
        asking: Asking<'_>,
        ahead: Wanted,
    ) -> Verdict {
        let batch = asking.batch;
        if let Some(verdict) = self.lacks_space(map, asking) {
            return verdict;
        }
        let own = streams.segments_needed(Wanted::of(batch));
        let most = self.batch_segments_max(streams);
        if own > most && batch.bytes() > 0 {
            return Verdict::Large {
                need: batch.bytes(),
                most: most as u64 / 2 * u64::from(streams.layout.segment_bytes),
            };
        }
        // A batch larger than all changed nodes that are allowed can be done where none is.
        if self.needs_checkpoint() {
            return Verdict::Wait(Lack::Checkpoint);
        }
        let all = Wanted::of(batch).plus(ahead);
        let need = streams.segments_needed(all);
        let queued = streams.table.queued();
        if queued < need + self.floor(asking.claim()) {
            let table = &streams.table;
            // If there is something to be cleaned, that makes room as well.
            let gains = self.gained_by_checkpoint(table);
            let only =
                gains > queued || !streams.can_gain_segment() || asking.claim() == Claim::Trims;
            let checkpoint = table.usable() == 0 && only;
            return Verdict::Wait(Lack::Segments { checkpoint });
        }
        match streams.has_memory(need) {
            true => Verdict::Now,
            false => Verdict::Wait(Lack::Memory),
        }
    }

    /// What a batch lacks of the room that data may take.
    fn lacks_space(&self, map: &Map, asking: Asking<'_>) -> Option<Verdict> {
        let change = asking.batch.preallocates();
        let most: u64 = asking.ranges.iter().map(|(_, sectors)| *sectors).sum();
        let (extents, units) = in_blocks_at_most(most, asking.ranges.len() as u64);
        let before = weight_in_blocks(self.preallocated);
        let after = weight_in_blocks(self.preallocated.saturating_add_signed(change));
        // Nodes that change later must not take what is preallocated.
        let available = if after > 0 {
            self.available_later
        } else {
            self.available
        };
        let trims = asking.batch.bytes() == 0 && change <= 0;
        if trims || self.used + weight_in_map(most, units, extents) + after.max(before) <= available
        {
            return None;
        }
        let growth = Growth::of(map, asking.batch, asking.ranges, asking.huge);
        // A batch that maps or preallocates no more sectors than it unmaps or releases may take some of the spare
        // sectors: a full volume can be emptied by batches that have to write an i-node.
        let (taken, released) = (after.saturating_sub(before), before.saturating_sub(after));
        let beside = BESIDE * (1 + asking.ranges.len() as u64);
        let replaces = match change {
            0 => !growth.maps_more,
            1.. => taken <= growth.freed + growth.freed / 16 + beside,
            _ => !growth.maps_more || growth.weight <= released + beside,
        };
        let most = if replaces {
            self.available + self.spare / 2
        } else {
            available
        };
        let freed = growth.freed.min(taken);
        if growth.weight + taken == 0 || self.used + growth.weight + after <= most + freed {
            return None;
        }
        if map.detached() > 0 {
            return Some(Verdict::Wait(Lack::Trimmed));
        }
        Some(Verdict::Never {
            need: (growth.weight + taken) * SECTOR_BYTES,
            have: available.saturating_sub(self.used + before) * SECTOR_BYTES,
        })
    }

    /// The most segments that one batch may need: what is free once everything dead was cleaned, less its floor.
    fn batch_segments_max(&self, streams: &Streams) -> usize {
        let (layout, table) = (streams.layout, &streams.table);
        let live = table.weight().div_ceil(layout.dense_sectors());
        // As after a checkpoint: one is made first if need be.
        let kept = live + (self.kept + usize::from(streams.counts.all())) as u64;
        let most = u64::from(layout.segment_count).saturating_sub(kept);
        (most as usize).max(1 + usize::from(streams.counts.user))
    }

    /// The longest write, in bytes, for which there always are segments in the end: what is kept free of mapped data.
    pub(crate) fn write_max(&self, streams: &Streams) -> u64 {
        let each = u64::from(streams.layout.segment_bytes) / 4 * 3;
        (streams.table.spare().max(1) * each).min(BATCH_BYTES_MAX)
    }

    /// Segments that are free with the next checkpoint, or can be.
    fn gained_by_checkpoint(&self, table: &SegmentTable) -> usize {
        use crate::segment::SegmentState::{Cleaned, Pending};
        table.count_of(Pending) + table.count_of(Cleaned)
    }

    /// True if no more nodes may change before a checkpoint is made.
    pub(crate) fn needs_checkpoint(&self) -> bool {
        let many = self.changed_memory >= self.map_bytes || self.checkpoint > self.checkpoint_cap;
        many && self.changed > CHANGED_MIN
    }

    /// True if the cleaner has so little room that it should take one segment at a time, and the one that gains most: what is
    /// moved of it changes many nodes, and is written once more by a checkpoint before anything is free. And that it should
    /// move all to one stream: each has an open segment, and records that are not full.
    pub(crate) fn is_tight(&self, queued: usize) -> bool {
        queued < self.floor(Claim::Trims) + CLEANED_AT_ONCE + self.moved
    }

    /// The cleaner's floor once as many nodes have changed as may: what it moves changes nodes, so its floor rises meanwhile.
    pub(crate) fn floor_at_most(&self) -> usize {
        self.floor(Claim::Trims) - CLEANED_AT_ONCE
    }

    /// True if a segment with so many sectors of nodes can be emptied by the next checkpoint.
    pub(crate) fn can_rewrite(&self, layout: &Layout, queued: usize, sectors: u64) -> bool {
        let after = checkpoint_segments(layout, self.changed + sectors * SECTOR_BYTES);
        let most = self.checkpoint_cap.max(self.checkpoint);
        after <= most.max(self.checkpoint_least) && 2 * after <= queued
    }

    /// True if no segment gets free by anything that is under way, nor by a checkpoint.
    pub(crate) fn is_stuck(&self, table: &SegmentTable) -> bool {
        table.usable() == 0 && !self.checkpoint_helps(table)
    }

    /// True if a checkpoint makes segments free, or lowers what has to be kept for the next.
    pub(crate) fn checkpoint_helps(&self, table: &SegmentTable) -> bool {
        self.gained_by_checkpoint(table) > 0
            || self.checkpoint > self.checkpoint_least
            || self.changed >= CHANGED_MIN / 2
    }

    /// True if a checkpoint makes more segments free than it takes, or lowers the floor that the cleaner stands at.
    pub(crate) fn checkpoint_makes_room(&self, table: &SegmentTable) -> bool {
        let stands = table.queued() <= self.floor(Claim::Cleaner) && self.checkpoint_helps(table);
        stands || self.gained_by_checkpoint(table) > self.checkpoint
    }

    /// Whether a checkpoint should be made though no batch waits for one: with so many entries behind the newest, and
    /// recovery to apply at most `entries_max`; `written` is what was written since, in bytes.
    pub(crate) fn wants_checkpoint(
        &self,
        table: &SegmentTable,
        entries: u64,
        entries_max: u64,
        written: u64,
    ) -> bool {
        let reusable = table.queued() + table.usable();
        let many = 4 * self.checkpoint > 3 * self.checkpoint_cap
            && self.changed >= self.changed_max / 4 * 3;
        let memory = self.changed_memory >= self.map_bytes / 4 * 3;
        if entries >= entries_max || (many || memory) && self.changed > CHANGED_MIN {
            return true;
        }
        // Each writes all nodes that changed, so as seldom as room allows: where it gives back more than it takes.
        if written < WRITTEN_FOR_CHECKPOINT * self.checkpoint_bytes {
            return false;
        }
        let gain = self.gained_by_checkpoint(table);
        let pays = gain as f64 >= CHECKPOINT_GAIN * self.checkpoint as f64;
        // Less has to be kept for the next if this one is made now.
        let lowers = self.checkpoint as u64 > 2 + table.spare() / 8;
        reusable < 2 * self.low && (gain > 0 && pays || lowers) || gain > 2 * reusable
    }
}

impl Floors for Room {
    fn floor(&self, claim: Claim) -> usize {
        match claim {
            Claim::Queue => 0,
            Claim::Checkpoint => 1,
            Claim::Rescue => rescue_floor(self.checkpoint, self.checkpoint_least),
            Claim::Cleaner => {
                cleaner_floor(self.checkpoint, self.checkpoint_least) + self.nodes_growth
            }
            Claim::Trims => {
                trims_floor(self.checkpoint_most, self.checkpoint_least) + self.nodes_growth
            }
            Claim::Writers => {
                writers_floor(self.checkpoint_most, self.checkpoint_least) + self.nodes_growth
            }
        }
    }
}

/// Leaves segments for a checkpoint of `checkpoint` segments, and for one of `least` segments.
fn rescue_floor(checkpoint: usize, least: usize) -> usize {
    checkpoint + least + 1
}

/// Leaves segments for a checkpoint of `checkpoint` segments and for another try; or for that one, and two tries of one of
/// `least` segments that empties segments of nodes.
fn cleaner_floor(checkpoint: usize, least: usize) -> usize {
    (2 * checkpoint).max(checkpoint + 2 * least) + 1
}

fn trims_floor(checkpoint: usize, least: usize) -> usize {
    cleaner_floor(checkpoint, least) + CLEANED_AT_ONCE
}

fn writers_floor(checkpoint: usize, least: usize) -> usize {
    trims_floor(checkpoint, least) + 1
}

/// Sectors that can be mapped in pieces of one sector where `left` sectors are free by weight.
fn mappable_in(left: u64) -> u64 {
    const PART: u64 = 1 << 10;
    left * PART / (weight_at_most(PART) + (PART * MAP_BYTES).div_ceil(SECTOR_BYTES))
}

/// Sectors that can be mapped in blocks of 4 KiB where `left` sectors are free by weight.
fn mappable_in_blocks(left: u64) -> u64 {
    const PART: u64 = 1 << 16;
    // Parts of sectors are rounded up: by one sector for the entries and one for the nodes.
    let near = (left * PART / weight_in_blocks(PART)).saturating_sub(2);
    let fits = |sectors: &u64| weight_in_blocks(*sectors) <= left;
    (near..near + 8).take_while(fits).last().unwrap_or(0)
}
