//! Room: the amount of data that may be mapped, and the claims that may take segments when few are free.
//!
//! Free segments are reserved in budgets, one below the other. Each claim (`claim.rs`) leaves a number of segments on
//! the allocation queue, its floor ([`ClaimFloors::floor`]). A segment is opened only with a grant (`claim.rs`). Only
//! `streams.rs::grant` creates grants, after comparing the claim's floor. A change of the map must respect its floor
//! even if it opens no segment, since it makes the next checkpoint larger. The floors consist of four numbers of
//! segments:
//!
//! - C: a checkpoint of the nodes that have changed now;
//! - L: a checkpoint of a map without changes;
//! - M: the largest checkpoint, at which clients wait for it ([`SpaceBudget::needs_checkpoint`]), or a checkpoint of the whole
//!   map if that is smaller;
//! - G: the growth of segments of nodes. A checkpoint leaves garbage in the segments of the superseded nodes. So
//!   segments of nodes may become twice as many as the nodes and the rest of a checkpoint fill. G is the part of this
//!   growth that is still left.
//!
//! | claim | leaves | reason |
//! |---|---|---|
//! | queue | 0 | the record that continues the queue can always be written |
//! | checkpoint | 1 | that record can be written, also during a checkpoint |
//! | rescue | C + L + 1 | the next checkpoint can be written, and after it a checkpoint of L |
//! | cleaner | max(2C, C + 2L) + 1 + G | the next checkpoint, twice if a crash interrupts it, then a checkpoint of L |
//! | trims | the same with M for C, and `CLEANED_AT_ONCE` | while writers wait, the cleaner can move data |
//! | writers | one more than trims | a trim waits at most for a checkpoint, which empties the segments of its records |
//!
//! Three arguments show that the cleaner never waits forever:
//!
//! - *It can continue at its floor.* A crash, or writers that take segments meanwhile, can stop the cleaner in the
//!   middle of a move: at its floor, with much garbage, and without an empty segment. If no work in progress frees
//!   space, the cleaner may open a segment below its floor, for segments whose live data fits into one segment. This
//!   frees at least as many segments as it takes.
//! - *Checkpoints do not use up the queue.* The segments that a checkpoint takes from the queue become segments of
//!   nodes, and G shrinks by their number. At G = 0, half of the segments of nodes is garbage. A checkpoint of L
//!   segments then empties at least as many segments as it writes, and the queue has 2L segments for this checkpoint.
//! - *Cleaning gains more than it writes.* On a full volume, [`SegmentTable::spare`] segments are garbage or free, so
//!   some segment gains `table/uses.rs::worth`. When free segments are short, the cleaner moves data to one stream and
//!   ends its records when they have gained a segment (`clean.rs`). A checkpoint ends the open record as well, but not
//!   before the record is nearly full (`changed.rs`). An emptied segment becomes free without a checkpoint, unless it
//!   was written since the last checkpoint.

use forebay_extent_map::{ExtentMap, NODE_BYTES, NODE_SECTORS};
use forebay_units::{SECTOR_BYTES, Sector};

use crate::batch::{BATCH_BYTES_MAX, Batch};
use crate::changed::{CHANGED_MIN, checkpoint_bytes, checkpoint_segments};
use crate::claim::{ClaimFloors, SegmentClaim, SegmentDemand};
use crate::geometry::SegmentLayout;
use crate::growth::BatchGrowth;
use crate::streams::SegmentStreams;
use crate::table::SegmentTable;
use crate::weight::{
    MAP_BYTES, in_blocks_at_most, nodes_of_pages, weight_at_most, weight_in_blocks, weight_in_map,
};

/// Minimum ratio of the segments that an optional checkpoint frees to the segments that it writes.
const CHECKPOINT_GAIN: f64 = 2.0;
/// Limit of optional checkpoints: they write at most one byte for this number of other written bytes (5 %).
const WRITTEN_FOR_CHECKPOINT: u64 = 20;
/// While much space is free, a checkpoint may take this fraction of the segments that are free or can become free.
const CHECKPOINT_PART: usize = 8;
/// Sectors that a batch may weigh more than it releases, for each of its writes and trims and once more: for fragments
/// that are not whole blocks, and for rounding.
const BESIDE: u64 = 2;

/// Free segments that the cleaner can open while writers wait for space.
const CLEANED_AT_ONCE: usize = 4;

/// The available space of a volume.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct SpaceBudget {
    /// Maximum of mapped sectors, even if all further data comes in fragments of one sector.
    pub(crate) mappable: u64,
    /// Maximum of mapped sectors if all further data comes in blocks of 4 KiB.
    pub(crate) mappable_in_blocks: u64,
    /// Sectors of segments that data and map may take, by weight, and that they take.
    available: u64,
    used: u64,
    /// Available sectors once the maximum number of nodes has changed. Preallocated sectors stay within this limit.
    available_later: u64,
    /// Preallocated sectors.
    preallocated: u64,
    /// Sectors that stay free of mapped data, so that cleaning gains space.
    spare: u64,
    /// Size of a checkpoint made now, in bytes and in segments.
    checkpoint_bytes: u64,
    checkpoint: usize,
    /// Segments of three checkpoints: with the number of changed nodes that is always allowed, with the number that is
    /// allowed now, and without changed nodes.
    checkpoint_most: usize,
    checkpoint_cap: usize,
    checkpoint_least: usize,
    /// Segments by which segments of nodes may grow before the cleaner empties some of them.
    nodes_growth: usize,
    /// Minimum number of segments that writers leave.
    kept: usize,
    moved: usize,
    /// Bytes of changed nodes, and the amount that triggers a checkpoint.
    changed: u64,
    /// Memory of nodes that cannot be evicted, in bytes. A node can take more bytes in memory than on the device.
    changed_memory: u64,
    changed_max: u64,
    /// Memory that the map may take, in bytes.
    map_bytes: u64,
    /// Free space is short if fewer segments than this are queued.
    pub(crate) low: usize,
}

/// The condition that a batch waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SpaceShortage {
    /// Detached subtrees are still being reaped: the space that they took is not yet known.
    Trimmed,
    /// Memory for segments: the device must take the pending writes.
    Memory,
    /// A checkpoint: too many nodes of the map have changed.
    Checkpoint,
    /// Free segments. A checkpoint frees some if no segment can be cleaned.
    Segments {
        /// True if only a checkpoint frees segments.
        checkpoint: bool,
    },
}

/// Decision about a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BatchAdmission {
    /// The batch can be applied now.
    Now,
    /// The batch must wait.
    Wait(SpaceShortage),
    /// The batch cannot be applied in the current state.
    Never {
        /// Bytes that the batch needs.
        need: u64,
        /// Bytes that are available.
        have: u64,
    },
    /// The batch is too large for one batch: see [`crate::SpaceError::Large`].
    Large {
        /// Bytes that the batch writes.
        need: u64,
        /// Bytes that one batch can write now, approximately.
        most: u64,
    },
}

/// A batch that requests space. The map of its ranges is in memory, except the inside of trims of `huge` sectors or
/// more.
#[derive(Clone, Copy)]
pub(crate) struct BatchRequest<'a> {
    pub(crate) batch: &'a Batch,
    pub(crate) ranges: &'a [(Sector, u64)],
    pub(crate) huge: u64,
}

impl BatchRequest<'_> {
    pub(crate) fn claim(&self) -> SegmentClaim {
        match self.batch.bytes() {
            0 => SegmentClaim::Trims,
            _ => SegmentClaim::Writers,
        }
    }
}

impl SpaceBudget {
    /// Computes the available space of the current state.
    pub(crate) fn of(streams: &SegmentStreams, map: &ExtentMap) -> SpaceBudget {
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
        // The number of changed nodes is at most the number of nodes.
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
        SpaceBudget {
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

    /// Returns the sectors that data and map take, by weight, and the sectors available to them and to garbage.
    pub(crate) fn filled(&self) -> (u64, u64) {
        (self.used, (self.available + self.spare).max(1))
    }

    /// Returns the sectors that data and map may take, by weight.
    pub(crate) fn available(&self) -> u64 {
        self.available
    }

    /// Returns the excess of mapped and preallocated sectors over the limit, by weight.
    pub(crate) fn over(&self) -> u64 {
        (self.used + weight_in_blocks(self.preallocated)).saturating_sub(self.available)
    }

    /// Decides whether a batch can be applied, together with the batches before it in the queue.
    pub(crate) fn verdict(
        &self,
        streams: &SegmentStreams,
        map: &ExtentMap,
        asking: BatchRequest<'_>,
        ahead: SegmentDemand,
    ) -> BatchAdmission {
        let batch = asking.batch;
        if let Some(verdict) = self.lacks_space(map, asking) {
            return verdict;
        }
        let own = streams.segments_needed(SegmentDemand::of(batch));
        let most = self.batch_segments_max(streams);
        if own > most && batch.bytes() > 0 {
            return BatchAdmission::Large {
                need: batch.bytes(),
                most: most as u64 / 2 * u64::from(streams.layout.segment_bytes),
            };
        }
        // A batch that is larger than the limit of changed nodes can be applied when no node is changed.
        if self.needs_checkpoint() {
            return BatchAdmission::Wait(SpaceShortage::Checkpoint);
        }
        let all = SegmentDemand::of(batch).plus(ahead);
        let need = streams.segments_needed(all);
        let queued = streams.table.queued();
        if queued < need + self.floor(asking.claim()) {
            let table = &streams.table;
            // If segments can be cleaned, cleaning frees space as well.
            let gains = self.gained_by_checkpoint(table);
            let only = gains > queued
                || !streams.can_gain_segment()
                || asking.claim() == SegmentClaim::Trims;
            let checkpoint = table.usable() == 0 && only;
            return BatchAdmission::Wait(SpaceShortage::Segments { checkpoint });
        }
        if streams.has_memory(need) {
            BatchAdmission::Now
        } else {
            BatchAdmission::Wait(SpaceShortage::Memory)
        }
    }

    /// Returns the verdict if a batch exceeds the space that data may take.
    fn lacks_space(&self, map: &ExtentMap, asking: BatchRequest<'_>) -> Option<BatchAdmission> {
        let change = asking.batch.preallocates();
        let most: u64 = asking.ranges.iter().map(|(_, sectors)| *sectors).sum();
        let (extents, units) = in_blocks_at_most(most, asking.ranges.len() as u64);
        let before = weight_in_blocks(self.preallocated);
        let after = weight_in_blocks(self.preallocated.saturating_add_signed(change));
        // Nodes that change later must not take preallocated space.
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
        let growth = BatchGrowth::of(map, asking.batch, asking.ranges, asking.huge);
        // A batch that maps or preallocates no more sectors than it unmaps or releases may take some of the spare
        // sectors: a full volume can then be emptied by batches that must write an i-node.
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
            return Some(BatchAdmission::Wait(SpaceShortage::Trimmed));
        }
        Some(BatchAdmission::Never {
            need: (growth.weight + taken) * SECTOR_BYTES,
            have: available.saturating_sub(self.used + before) * SECTOR_BYTES,
        })
    }

    /// Returns the maximum of segments that one batch may need: the free segments after all garbage is cleaned, less
    /// the floor.
    fn batch_segments_max(&self, streams: &SegmentStreams) -> usize {
        let (layout, table) = (streams.layout, &streams.table);
        let live = table.weight().div_ceil(layout.dense_sectors());
        // Computed for the state after a checkpoint: a checkpoint is made first if necessary.
        let kept = live + (self.kept + usize::from(streams.counts.all())) as u64;
        let most = u64::from(layout.segment_count).saturating_sub(kept);
        (most as usize).max(1 + usize::from(streams.counts.user))
    }

    /// Returns the longest write, in bytes, for which segments always become available: the space kept free of mapped
    /// data.
    pub(crate) fn write_max(&self, streams: &SegmentStreams) -> u64 {
        let each = u64::from(streams.layout.segment_bytes) / 4 * 3;
        (streams.table.spare().max(1) * each).min(BATCH_BYTES_MAX)
    }

    /// Returns the number of segments that the next checkpoint frees or makes available for cleaning.
    fn gained_by_checkpoint(&self, table: &SegmentTable) -> usize {
        use crate::segment::SegmentState::{Cleaned, Pending};
        table.count_of(Pending) + table.count_of(Cleaned)
    }

    /// Returns true if no more nodes may change before a checkpoint is made.
    pub(crate) fn needs_checkpoint(&self) -> bool {
        let many = self.changed_memory >= self.map_bytes || self.checkpoint > self.checkpoint_cap;
        many && self.changed > CHANGED_MIN
    }

    /// Returns true if free space for the cleaner is so short that it must clean one segment at a time, the segment
    /// that gains most: moved data changes many nodes, which a checkpoint writes before any segment becomes free. The
    /// cleaner must also move all data to one stream, since each stream has an open segment and records that are not
    /// full.
    pub(crate) fn is_tight(&self, queued: usize) -> bool {
        queued < self.floor(SegmentClaim::Trims) + CLEANED_AT_ONCE + self.moved
    }

    /// Returns the cleaner's floor after the maximum number of nodes has changed. Moved data changes nodes, so the
    /// floor rises while the cleaner works.
    pub(crate) fn floor_at_most(&self) -> usize {
        self.floor(SegmentClaim::Trims) - CLEANED_AT_ONCE
    }

    /// Returns true if the next checkpoint can empty a segment with `sectors` sectors of nodes.
    pub(crate) fn can_rewrite(&self, layout: &SegmentLayout, queued: usize, sectors: u64) -> bool {
        let after = checkpoint_segments(layout, self.changed + sectors * SECTOR_BYTES);
        let most = self.checkpoint_cap.max(self.checkpoint);
        after <= most.max(self.checkpoint_least) && 2 * after <= queued
    }

    /// Returns true if neither work in progress nor a checkpoint frees a segment.
    pub(crate) fn is_stuck(&self, table: &SegmentTable) -> bool {
        table.usable() == 0 && !self.checkpoint_helps(table)
    }

    /// Returns true if a checkpoint frees segments, or lowers the reserve for the next checkpoint.
    pub(crate) fn checkpoint_helps(&self, table: &SegmentTable) -> bool {
        self.gained_by_checkpoint(table) > 0
            || self.checkpoint > self.checkpoint_least
            || self.changed >= CHANGED_MIN / 2
    }

    /// Returns true if a checkpoint frees more segments than it takes, or lowers the floor that currently stops the
    /// cleaner.
    pub(crate) fn checkpoint_makes_room(&self, table: &SegmentTable) -> bool {
        let stands =
            table.queued() <= self.floor(SegmentClaim::Cleaner) && self.checkpoint_helps(table);
        stands || self.gained_by_checkpoint(table) > self.checkpoint
    }

    /// Returns true if a checkpoint should be made although no batch waits for a checkpoint. `entries` is the number of
    /// entries since the newest checkpoint, `entries_max` the maximum for recovery, and `written` the bytes written
    /// since.
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
        // Each checkpoint writes all changed nodes, so optional checkpoints are as rare as space allows: only if they
        // free more than they take.
        if written < WRITTEN_FOR_CHECKPOINT * self.checkpoint_bytes {
            return false;
        }
        let gain = self.gained_by_checkpoint(table);
        let pays = gain as f64 >= CHECKPOINT_GAIN * self.checkpoint as f64;
        // A checkpoint now lowers the reserve for the next checkpoint.
        let lowers = self.checkpoint as u64 > 2 + table.spare() / 8;
        reusable < 2 * self.low && (gain > 0 && pays || lowers) || gain > 2 * reusable
    }
}

impl ClaimFloors for SpaceBudget {
    fn floor(&self, claim: SegmentClaim) -> usize {
        match claim {
            SegmentClaim::Queue => 0,
            SegmentClaim::Checkpoint => 1,
            SegmentClaim::Rescue => rescue_floor(self.checkpoint, self.checkpoint_least),
            SegmentClaim::Cleaner => {
                cleaner_floor(self.checkpoint, self.checkpoint_least) + self.nodes_growth
            }
            SegmentClaim::Trims => {
                trims_floor(self.checkpoint_most, self.checkpoint_least) + self.nodes_growth
            }
            SegmentClaim::Writers => {
                writers_floor(self.checkpoint_most, self.checkpoint_least) + self.nodes_growth
            }
        }
    }
}

/// Leaves segments for a checkpoint of `checkpoint` segments, and for a checkpoint of `least` segments.
fn rescue_floor(checkpoint: usize, least: usize) -> usize {
    checkpoint + least + 1
}

/// Leaves segments for a checkpoint of `checkpoint` segments and a second try. This suffices as well for that
/// checkpoint once, and two tries of a checkpoint of `least` segments, which empties segments of nodes.
fn cleaner_floor(checkpoint: usize, least: usize) -> usize {
    (2 * checkpoint).max(checkpoint + 2 * least) + 1
}

fn trims_floor(checkpoint: usize, least: usize) -> usize {
    cleaner_floor(checkpoint, least) + CLEANED_AT_ONCE
}

fn writers_floor(checkpoint: usize, least: usize) -> usize {
    trims_floor(checkpoint, least) + 1
}

/// Returns the sectors that can be mapped in fragments of one sector if `left` sectors are free by weight.
fn mappable_in(left: u64) -> u64 {
    const PART: u64 = 1 << 10;
    left * PART / (weight_at_most(PART) + (PART * MAP_BYTES).div_ceil(SECTOR_BYTES))
}

/// Returns the sectors that can be mapped in blocks of 4 KiB if `left` sectors are free by weight.
fn mappable_in_blocks(left: u64) -> u64 {
    const PART: u64 = 1 << 16;
    // Fractions of sectors are rounded up: one sector for the entries and one for the nodes.
    let near = (left * PART / weight_in_blocks(PART)).saturating_sub(2);
    let fits = |sectors: &u64| weight_in_blocks(*sectors) <= left;
    (near..near + 8).take_while(fits).last().unwrap_or(0)
}
