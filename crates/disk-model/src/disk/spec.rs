//! A drive's parameters, as its table has them.

use std::num::NonZeroU64;

use forebay_units::SECTOR_BYTES;

use super::options::CacheChoice;

/// Parameters of a drive: the maker's figures and measurements.
///
/// Returned by [`named()`](super::named()), or read from a table by [`DiskSpec::parse`].
#[derive(Clone, PartialEq, Debug)]
pub struct DiskSpec {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) layout: DiskLayout,
    pub(crate) mechanics: MechanicsSpec,
    pub(crate) controller: ControllerSpec,
    pub(crate) cache: CacheSpec,
}

impl DiskSpec {
    /// Returns the name of the model.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns one line with the drive's full name and the source of its figures.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// Returns the drive's capacity in 512-byte blocks.
    pub fn blocks(&self) -> u64 {
        self.layout.blocks
    }

    /// Returns the cache settings of the drive when its parameters were measured.
    pub fn own_caches(&self) -> CacheChoice {
        CacheChoice {
            immediate_report: self.cache.fast_write != FastWrite::No,
            read_ahead: true,
        }
    }

    /// Returns this drive on a bus with a bandwidth of `bytes_per_second`.
    ///
    /// A table has the bus on which the drive was measured. For drives from 1997 on this is 5 MB/s, although they
    /// support 20 to 80.
    #[must_use]
    pub fn on_bus(mut self, bytes_per_second: NonZeroU64) -> DiskSpec {
        let block_ms = SECTOR_BYTES as f64 * 1000.0 / bytes_per_second.get() as f64;
        self.controller.bus_ms = block_ms;
        self.controller.first_block_ms = block_ms;
        self
    }

    /// Returns the duration of one rotation, in milliseconds.
    pub fn rotation_ms(&self) -> f64 {
        60_000.0 / self.mechanics.rpm
    }
}

/// Places of blocks.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct DiskLayout {
    pub(crate) surfaces: u32,
    pub(crate) cylinders: u32,
    pub(crate) blocks: u64,
    pub(crate) order: TrackOrder,
    pub(crate) spares: SpareRegion,
    pub(crate) zones: Vec<ZoneSpec>,
}

/// Order in which the tracks of a cylinder are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TrackOrder {
    /// Every cylinder begins at surface 0.
    Cylinders,
    /// Every second cylinder of a zone is used backwards, so that a change of cylinder keeps the head.
    Serpentine,
    /// Like `Serpentine`, with cylinders counted from the disk's edge instead of the zone's.
    SerpentineOverZones,
}

/// Part of the disk that shares spare blocks, which lie at its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SpareRegion {
    /// Each track has its own spares.
    Track,
    /// Each range of this many cylinders has its own spares.
    Cylinders(u32),
    /// Each zone has its own spares.
    Zone,
    /// All spares are at the end of the disk: a slipped block shortens its zone.
    Disk,
}

/// A range of cylinders whose tracks have the same number of blocks.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ZoneSpec {
    pub(crate) first_cylinder: u32,
    pub(crate) last_cylinder: u32,
    /// Blocks on a track.
    pub(crate) sectors: u32,
    /// Place of the zone's first block, in blocks after the index mark.
    pub(crate) offset: f64,
    /// Blocks at the start of the zone that the drive reserves for itself.
    pub(crate) reserved: u64,
    /// Blocks skipped from the end of a track to the beginning of the next one in the cylinder.
    pub(crate) track_skew: f64,
    /// Blocks skipped from the end of a cylinder to the beginning of the next one.
    pub(crate) cylinder_skew: f64,
    /// Spare blocks in each part that has its own.
    pub(crate) spares: u64,
    /// Defective blocks that are skipped, counted physically from the zone's start; increasing.
    pub(crate) slips: Vec<u64>,
}

/// Movement of the arm and the platters.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct MechanicsSpec {
    pub(crate) rpm: f64,
    pub(crate) head_switch_ms: f64,
    /// Time added to a seek or head switch before a write. Negative if the published seek curve is that of writes.
    pub(crate) write_settle_ms: f64,
    /// Distances in cylinders and times in milliseconds; distances increase from 1.
    pub(crate) seek: Vec<(u32, f64)>,
    /// True if a read that arrives in the middle of its blocks begins at once, in any order.
    pub(crate) any_order_read: bool,
    /// True if a write that arrives in the middle of its blocks begins at once, in any order.
    pub(crate) any_order_write: bool,
}

/// Times that depend on the previous request.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct OverheadSpec {
    pub(crate) after_read_ms: f64,
    pub(crate) after_write_ms: f64,
}

/// Costs of a command in addition to the mechanics.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct ControllerSpec {
    /// Time of a block on the bus.
    pub(crate) bus_ms: f64,
    /// Time of a request's first block on the bus. Overheads were measured with requests of one block as the rest of
    /// their duration, so both values belong together.
    pub(crate) first_block_ms: f64,
    pub(crate) read_hit: OverheadSpec,
    pub(crate) read_miss: OverheadSpec,
    pub(crate) write_hit: OverheadSpec,
    pub(crate) write_miss: OverheadSpec,
    /// Time added to the end of every write.
    pub(crate) write_completion_ms: f64,
}

/// Range of a drive's read-ahead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ReadAhead {
    No,
    /// This many blocks beyond the requested ones.
    Blocks(u32),
    /// To the end of the track, and one track further if the read blocks began on an earlier track.
    TrackThenOn,
    /// No read-ahead, unless the read begins at the end of an earlier one. Then to the end of the next track.
    TracksInSequence,
}

/// Writes that are reported as done when they are in the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FastWrite {
    No,
    /// Writes that follow the previous write on the disk.
    Sequential,
    /// All writes for which the cache has space.
    Yes,
}

/// The on-disk cache.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct CacheSpec {
    pub(crate) segments: u32,
    pub(crate) segment_blocks: u32,
    pub(crate) write_segments: u32,
    /// True if writes have their own segments. Otherwise they share the segments of reads.
    pub(crate) own_write_segment: bool,
    pub(crate) reads_hit_writes: bool,
    pub(crate) read_ahead: ReadAhead,
    /// True if a hit in a segment that is not being filled restarts the read-ahead.
    pub(crate) read_ahead_on_hit: bool,
    /// True if the read-ahead may replace the requested blocks.
    pub(crate) read_ahead_discards: bool,
    /// True if the drive keeps blocks that pass under the head before the first requested one. A drive that also reads
    /// ahead to the end of the track has the whole track after one rotation.
    pub(crate) keeps_passing: bool,
    pub(crate) fast_write: FastWrite,
}

impl CacheSpec {
    /// Returns true if the read-ahead includes the blocks of the track before the requested ones.
    pub(crate) fn reads_whole_tracks(&self) -> bool {
        let by_track = match self.read_ahead {
            ReadAhead::No | ReadAhead::Blocks(_) => false,
            ReadAhead::TrackThenOn | ReadAhead::TracksInSequence => true,
        };
        by_track && self.keeps_passing
    }
}
