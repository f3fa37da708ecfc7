//! Status of a log-structured volume as users see it. Field names are the names in JSON and in metrics.

use forebay_device::{LatencySummary, described};
use forebay_units::SECTOR_BYTES;
use forebay_vsl::{Space, SpaceCapacity};
use serde::{Deserialize, Serialize};

use super::counted::CountingDevice;
use crate::health::VolumeHealth;

/// Share of the mappable bytes from which the volume is reported as nearly full.
pub(super) const NEARLY_FULL: f64 = 0.9;
/// Share from which the next larger write may not fit.
const FULL: f64 = 0.995;

/// Mode of the volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpaceMode {
    /// The normal state.
    #[default]
    Serving,
    /// Little more can be mapped.
    NearlyFull,
    /// Nothing more can be mapped: writes to new places are refused.
    Full,
    /// The device failed: nothing is written any more.
    Failed,
}

impl SpaceMode {
    /// All modes.
    pub const ALL: [SpaceMode; 4] = [
        SpaceMode::Serving,
        SpaceMode::NearlyFull,
        SpaceMode::Full,
        SpaceMode::Failed,
    ];

    /// Returns the mode's name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            SpaceMode::Serving => "serving",
            SpaceMode::NearlyFull => "nearly_full",
            SpaceMode::Full => "full",
            SpaceMode::Failed => "failed",
        }
    }

    /// Returns the health of a volume in this mode.
    pub(crate) fn health(self) -> VolumeHealth {
        match self {
            SpaceMode::Serving => VolumeHealth::Ok,
            SpaceMode::NearlyFull => VolumeHealth::NearlyFull,
            SpaceMode::Full => VolumeHealth::Full,
            SpaceMode::Failed => VolumeHealth::Failed,
        }
    }

    /// Returns the mode of a volume by the share of its mappable bytes that is mapped.
    pub(crate) fn at(share: f64) -> SpaceMode {
        match share {
            share if share >= FULL => SpaceMode::Full,
            share if share >= NEARLY_FULL => SpaceMode::NearlyFull,
            _ => SpaceMode::Serving,
        }
    }
}

/// A figure that the placement reports about itself.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct PlacementFact {
    /// Name, for example `hot share`.
    pub name: String,
    /// Value.
    pub value: f64,
    /// Unit, for example `of pages`.
    pub unit: String,
}

described! {
    /// Summary of a log-structured volume. Counters start when it was attached.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
    pub struct SpaceStatus {
        Fact mode: SpaceMode = "`serving`; `nearly_full`: 90 % of the mappable bytes are mapped; `full`: all are \
                                mapped; `failed`: the device failed",
        Fact mode_detail: Option<String> = "The failure, or a recommended action",
        Fact placement: String = "Placement of data",
        Fact placement_auto: bool = "True if the volume changes its placement when another is expected to cost less",
        Fact placement_reason: Option<String> = "Placement with the lowest expected cost for the writes of the \
                                                 clients, with the reason; null before enough was written to \
                                                 estimate it",
        Fact placement_leaning: Option<String> = "Placement that the newest samples found better than the present \
                                                  placement by enough to change",
        Counter placement_looks: u64 = "Samples of the writes of the clients",
        Fact placement_facts: Vec<PlacementFact> = "Figures that the placement reports: `name`, `value`, `unit`",
        Fact discards: bool = "True if segments are discarded before they are used again",
        Gauge len: u64 = "Length of the volume in bytes",
        Gauge block_size: u32 = "Block size of the volume in bytes",
        Gauge epoch: u64 = "Number of attaches of the volume",
        Gauge mapped_bytes: u64 = "Mapped bytes",
        Gauge mappable_bytes: u64 = "Maximum of the mapped bytes",
        Gauge mapped_share: f64 = "Mapped share of the mappable bytes, 0 to 1",
        Gauge medium_bytes: u64 = "Length of the segments on the device, in bytes",
        Gauge unused_bytes: u64 = "Segments without live data, in bytes",
        Gauge reclaimable_bytes: u64 = "Garbage in the other segments, which the cleaner reclaims, in bytes",
        Fact utilisation: Vec<u32> = "Full segments by their live share: less than a tenth, less than two tenths, \
                                      and so on; the eleventh number counts segments without garbage",
        Gauge worn_least: u32 = "Number of times that the least worn segment was begun",
        Gauge worn_most: u32 = "Number of times that the most worn segment was begun",
        Gauge map_bytes: u64 = "Memory of the map, in bytes",
        Gauge spare_bytes: u64 = "Space kept free of data in addition to the reserve for cleaning and checkpoints, \
                                  in bytes",
        Gauge map_bytes_max: u64 = "Maximum memory of the map without its unwritten changes, in bytes",
        Counter reads: u64 = "Reads",
        Counter read_bytes: u64 = "Bytes read",
        Counter writes: u64 = "Writes",
        Counter write_bytes: u64 = "Bytes written",
        Counter flushes: u64 = "Flushes",
        Counter trims: u64 = "Discards and writes of zeroes, which free space",
        Counter trim_bytes: u64 = "Bytes trimmed",
        Counter medium_written_bytes: u64 = "Bytes written to the device",
        Counter moved_bytes: u64 = "Bytes moved by the cleaner",
        Counter checkpoint_bytes: u64 = "Bytes written by checkpoints",
        Counter checkpoints: u64 = "Checkpoints",
        Counter levelled_bytes: u64 = "Bytes moved for wear levelling, because their segments were worn less; part \
                                       of the bytes moved",
        Counter in_place_bytes: u64 = "Bytes written again in place; part of the bytes written",
        Counter node_reads: u64 = "Nodes of the map read from the device",
        Counter segments_cleaned: u64 = "Segments emptied by the cleaner",
        Counter full_errors: u64 = "Writes refused because the volume was full",
        Counter errors: u64 = "Requests that failed for other reasons",
        Latency read_latency: LatencySummary = "Latencies of reads",
        Latency write_latency: LatencySummary = "Latencies of writes",
        Latency flush_latency: LatencySummary = "Latencies of flushes",
    }
}

/// Returns the mapped share of the mappable bytes, 0 to 1.
pub(super) fn share(capacity: &SpaceCapacity) -> f64 {
    capacity.mapped as f64 / capacity.mappable.max(1) as f64
}

/// Returns the volume's present status.
pub(super) fn of(served: &CountingDevice) -> SpaceStatus {
    use forebay_device::Device as _;
    let (geometry, counted) = (served.geometry(), served.counted());
    let [read_latency, write_latency, flush_latency] = served.latencies();
    SpaceStatus {
        len: geometry.len,
        block_size: geometry.block_size,
        reads: counted.reads,
        read_bytes: counted.read_bytes,
        writes: counted.writes,
        write_bytes: counted.write_bytes,
        flushes: counted.flushes,
        trims: counted.trims,
        trim_bytes: counted.trim_bytes,
        full_errors: counted.full,
        errors: counted.errors,
        read_latency,
        write_latency,
        flush_latency,
        ..status_of(served.linear().space())
    }
}

/// Returns the present status of a space, without the counters of its requests.
pub(crate) fn status_of(space: &Space) -> SpaceStatus {
    let (capacity, stats) = (space.capacity(), space.stats());
    let share = share(&capacity);
    let failure = space.failure().map(|failure| failure.to_string());
    let mode = match &failure {
        Some(_) => SpaceMode::Failed,
        None => SpaceMode::at(share),
    };
    let advice = match mode {
        SpaceMode::NearlyFull | SpaceMode::Full => Some(
            "delete unneeded data and run fstrim, or copy the volume to a larger device".into(),
        ),
        _ => None,
    };
    // Unknown figures are omitted: JSON has no number for them.
    let known = space.facts().into_iter();
    let known = known.filter(|fact| fact.value.is_finite());
    let facts = known.map(|fact| PlacementFact {
        name: fact.name.into(),
        value: fact.value,
        unit: fact.unit.into(),
    });
    let (worn, tuning) = (space.wear(), space.tuning());
    SpaceStatus {
        mode,
        mode_detail: failure.or(advice),
        placement: space.placement().to_string(),
        placement_auto: space.is_auto(),
        placement_reason: tuning.why,
        placement_leaning: tuning.leaning.map(|(kind, _)| kind.to_string()),
        placement_looks: tuning.looks,
        placement_facts: facts.collect(),
        discards: space.options().discard,
        len: capacity.mappable,
        block_size: SECTOR_BYTES as u32,
        epoch: space.superblock().epoch.0,
        mapped_bytes: capacity.mapped,
        mappable_bytes: capacity.mappable,
        mapped_share: share,
        medium_bytes: capacity.total,
        unused_bytes: capacity.unused,
        reclaimable_bytes: capacity.reclaimable,
        utilisation: space.histogram().into(),
        worn_least: worn.0,
        worn_most: worn.1,
        spare_bytes: capacity.total / space.spare_part(),
        map_bytes: space.map_memory() as u64,
        map_bytes_max: space.options().map_bytes,
        medium_written_bytes: space.log_stats().bytes_written,
        moved_bytes: stats.bytes_moved,
        checkpoint_bytes: stats.bytes_checkpoints,
        checkpoints: stats.checkpoints,
        levelled_bytes: stats.bytes_levelled,
        in_place_bytes: stats.bytes_in_place,
        node_reads: stats.node_reads,
        segments_cleaned: stats.segments_cleaned,
        ..SpaceStatus::default()
    }
}
