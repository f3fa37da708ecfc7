//! A drive's parameters, as they stand in its table.

use std::num::NonZeroU64;

use forebay_units::SECTOR_BYTES;

use super::options::CacheChoice;

/// The parameters of a drive: what its maker built and what was measured on it.
///
/// Got from [`named()`](super::named()) or read from a table by [`Spec::parse`].
#[derive(Clone, PartialEq, Debug)]
pub struct Spec {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) layout: Layout,
    pub(crate) mechanics: Mechanics,
    pub(crate) controller: Controller,
    pub(crate) cache: CacheSpec,
}

impl Spec {
    /// The name of the model.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// One line: what drive it is and where the figures are from.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// The drive's capacity in 512-byte blocks.
    pub fn blocks(&self) -> u64 {
        self.layout.blocks
    }

    /// What of its cache the drive used when its parameters were measured.
    pub fn own_caches(&self) -> CacheChoice {
        CacheChoice {
            immediate_report: self.cache.fast_write != FastWrite::No,
            read_ahead: true,
        }
    }

    /// The same drive on a bus of so many bytes a second.
    ///
    /// A table has the bus that the drive was measured on: for the drives of 1997 on, 5 MB/s,
    /// where they could do 20 to 80.
    #[must_use]
    pub fn on_bus(mut self, bytes_per_second: NonZeroU64) -> Spec {
        let block_ms = SECTOR_BYTES as f64 * 1000.0 / bytes_per_second.get() as f64;
        self.controller.bus_ms = block_ms;
        self.controller.first_block_ms = block_ms;
        self
    }

    /// The time of one rotation, in milliseconds.
    pub fn rotation_ms(&self) -> f64 {
        60_000.0 / self.mechanics.rpm
    }
}

/// Where blocks lie.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Layout {
    pub(crate) surfaces: u32,
    pub(crate) cylinders: u32,
    pub(crate) blocks: u64,
    pub(crate) order: Order,
    pub(crate) spares: Spares,
    pub(crate) zones: Vec<ZoneSpec>,
}

/// In which order the tracks of a cylinder are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// Every cylinder begins at surface 0.
    Cylinders,
    /// Every second cylinder of a zone goes back, so that changing cylinder keeps the head.
    Serpentine,
    /// The same, counting cylinders from the disk's edge instead of the zone's.
    SerpentineOverZones,
}

/// How much of the disk shares its spare blocks, which lie at the end of that part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Spares {
    /// Each track has its own.
    Track,
    /// Each range of so many cylinders has its own.
    Cylinders(u32),
    /// Each zone has its own.
    Zone,
    /// They are all at the end of the disk: a slipped block shortens its zone.
    Disk,
}

/// A range of cylinders whose tracks have the same number of blocks.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ZoneSpec {
    pub(crate) first_cylinder: u32,
    pub(crate) last_cylinder: u32,
    /// Blocks on a track.
    pub(crate) sectors: u32,
    /// Where the zone's first block lies, in blocks after the index mark.
    pub(crate) offset: f64,
    /// Blocks at the zone's front that the drive keeps for itself.
    pub(crate) reserved: u64,
    /// Blocks skipped from the end of a track to the beginning of the next in the cylinder.
    pub(crate) track_skew: f64,
    /// Blocks skipped from the end of a cylinder to the beginning of the next.
    pub(crate) cylinder_skew: f64,
    /// Spare blocks in each part that has its own.
    pub(crate) spares: u64,
    /// Defective blocks that are passed over, counted physically from the zone's front; rising.
    pub(crate) slips: Vec<u64>,
}

/// How the arm and the platters move.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Mechanics {
    pub(crate) rpm: f64,
    pub(crate) head_switch_ms: f64,
    /// Added to a seek or head switch before a write. Negative where the published seek curve is
    /// of writes.
    pub(crate) write_settle_ms: f64,
    /// Distance in cylinders and time in milliseconds; distances rise from 1.
    pub(crate) seek: Vec<(u32, f64)>,
    /// On arrival in the midst of the blocks asked for, reading begins at once, in any order.
    pub(crate) any_order_read: bool,
    /// The same for writing.
    pub(crate) any_order_write: bool,
}

/// Times that depend on what came before.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Overhead {
    pub(crate) after_read_ms: f64,
    pub(crate) after_write_ms: f64,
}

/// What a command costs beside the mechanics.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Controller {
    /// Time a block takes on the bus.
    pub(crate) bus_ms: f64,
    /// Time the first block of a request takes there. Overheads were measured with requests of
    /// one block, as what such a request takes besides this; so the two belong together.
    pub(crate) first_block_ms: f64,
    pub(crate) read_hit: Overhead,
    pub(crate) read_miss: Overhead,
    pub(crate) write_hit: Overhead,
    pub(crate) write_miss: Overhead,
    /// Added to the end of every write.
    pub(crate) write_completion_ms: f64,
}

/// How far a drive reads on after a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReadAhead {
    No,
    /// So many blocks past those asked for.
    Blocks(u32),
    /// To the end of the track; one track more if what was read began on an earlier track.
    TrackThenOn,
    /// Nothing, unless the read goes on where one before it ended; then to the end of the track
    /// after.
    TracksInSequence,
}

/// Which writes are reported as done when they are in the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FastWrite {
    No,
    /// As long as each write follows the one before it on the disk.
    Sequential,
    /// All that find room.
    Yes,
}

/// The on-disk cache.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct CacheSpec {
    pub(crate) segments: u32,
    pub(crate) segment_blocks: u32,
    pub(crate) write_segments: u32,
    /// Writes have segments of their own; otherwise they share those of reads.
    pub(crate) own_write_segment: bool,
    pub(crate) reads_hit_writes: bool,
    pub(crate) read_ahead: ReadAhead,
    /// A hit in a segment that is not being filled starts reading ahead again.
    pub(crate) read_ahead_on_hit: bool,
    /// Reading ahead may use the room of the blocks that were asked for.
    pub(crate) read_ahead_discards: bool,
    /// Blocks that pass under the head before the first one asked for are kept. A drive that reads
    /// on to the end of the track as well has the whole track when it has turned once.
    pub(crate) keeps_passing: bool,
    pub(crate) fast_write: FastWrite,
}

impl CacheSpec {
    /// Whether reading ahead takes in the blocks of the track before those asked for, too.
    pub(crate) fn reads_whole_tracks(&self) -> bool {
        let by_track = match self.read_ahead {
            ReadAhead::No | ReadAhead::Blocks(_) => false,
            ReadAhead::TrackThenOn | ReadAhead::TracksInSequence => true,
        };
        by_track && self.keeps_passing
    }
}
