//! Bounds for all scenarios, and the comparison of a volume's counters with its content.

use std::time::Duration;

use forebay_placement::cost::{greedy_utilisation, write_amplification};
use forebay_segment_log::LogStats;
use forebay_sim::Violation;
use forebay_units::{LINE_BYTES, SECTOR_BYTES};
use forebay_vsl::{PlacementKind, Space, SpaceStats};

use super::recipe::{Age, Recipe};

/// The longest time of a request while the disk works.
pub(super) const REQUEST: Duration = Duration::from_secs(60);
/// The longest time of an open.
pub(super) const OPEN: Duration = Duration::from_secs(600);
/// The longest time of a close, in addition to the time for its data.
pub(super) const CLOSE: Duration = Duration::from_secs(10);
/// Time after the last request of a writer until the disk must be quiet.
pub(super) const QUIET_AFTER: Duration = Duration::from_secs(60);
/// Permitted requests per second to a quiet disk.
pub(super) const QUIET_RATE: u64 = 100;

/// Permitted share of checkpoints in all written bytes.
const CHECKPOINTS_SHARE: f64 = 0.05;
/// Permitted share of checkpoints if many writers have pages written in place. The log's segments are empty once their
/// pages are written in place, but only a checkpoint makes them usable again. A checkpoint costs less than the cleaning
/// of other segments.
const CHECKPOINTS_SHARE_IN_PLACE: f64 = 0.15;
/// Permitted ratio of the cost of uniform overwrites to the cost in the model.
const ABOVE_MODEL: f64 = 1.1;
/// Entries in a leaf of the map, if leaves are half full.
const LEAF_ENTRIES: u64 = 40;

/// Returns the maximum number of disk requests during one request of a writer.
///
/// The bound is above the number of requests that read and write the whole disk block by block, twice. The bound grows
/// as the reserved free space shrinks, and if nodes of the map must be read again.
pub(super) fn requests_max(recipe: &Recipe) -> u64 {
    let usual = 30_000 + 4 * recipe.medium_bytes() / LINE_BYTES;
    // With memory for a few nodes, each moved fragment reads a leaf. If reads fail, the volume reads the leaf several
    // times.
    let reads = if recipe.map_bytes.is_some() { 4 } else { 1 };
    usual * reads * (recipe.spare_part / 16).max(1)
}

/// Compares the counters of all segments with a walk of the map.
///
/// # Errors
/// The difference.
pub(super) async fn audit(space: &Space) -> Result<(), Violation> {
    let audited = space.audit().await;
    audited.map_err(|wrong| Violation::new("accounts", wrong))
}

/// Returns true if the volume can map almost no more data.
pub(super) fn is_brimful(space: &Space, recipe: &Recipe) -> bool {
    let capacity = space.capacity();
    capacity.mapped + 2 * recipe.segment_bytes > capacity.mappable
}

/// Checks that the volume was full when it refused a batch, which would have mapped `new` more sectors.
///
/// # Errors
/// If the volume had capacity for the batch.
pub(super) fn is_full(space: &Space, recipe: &Recipe, new: u64) -> Result<(), Violation> {
    let capacity = space.capacity();
    // Other writers and the cleaner may have changed the capacity since the refusal.
    let slack = 2 * recipe.segment_bytes;
    let need = capacity.mapped + new * SECTOR_BYTES;
    if need + slack > capacity.mappable {
        return Ok(());
    }
    let text = format!("a batch of {new} new sectors is refused though {capacity:?}");
    Err(Violation::new("room", text))
}

/// Checks the number of bytes that checkpoints wrote in one incarnation, with `asked` requested checkpoints and
/// `extents` extents in the map.
///
/// # Errors
/// If checkpoints wrote too much.
pub(super) fn checkpoints(
    recipe: &Recipe,
    stats: &SpaceStats,
    log: &LogStats,
    asked: u64,
    extents: u64,
) -> Result<(), Violation> {
    // If fragments are one sector long, or each block has its own leaf, the map is a large part of the written bytes. A
    // full volume has no space to delay its write. With memory for a few nodes, every few nodes need a checkpoint.
    let lets_wait = recipe.map_bytes.is_none();
    if matches!(recipe.age, Age::Pieces | Age::Sparse | Age::Small) || !lets_wait {
        return Ok(());
    }
    let nodes = 4096 * (8 + extents / LEAF_ENTRIES);
    let one = nodes * 9 / 8 + 32 * recipe.segments + (64 << 10);
    let constant = (1 << 20) + (asked + 2) * one;
    let share = if recipe.age == Age::Crowd && (recipe.changes || recipe.placement.in_place()) {
        CHECKPOINTS_SHARE_IN_PLACE
    } else {
        CHECKPOINTS_SHARE
    };
    let most = (log.bytes_written as f64 * share) as u64 + constant;
    if stats.bytes_checkpoints <= most {
        return Ok(());
    }
    let text = format!(
        "{} bytes of {} are of {} checkpoints; {most} would do",
        stats.bytes_checkpoints, log.bytes_written, stats.checkpoints
    );
    Err(Violation::new("checkpoints", text))
}

/// Checks the cost of uniform overwrites of `pages` blocks, in a log with `unused` unused segments.
///
/// # Errors
/// If the cost exceeds the model's cost.
pub(super) fn amplification(
    recipe: &Recipe,
    before: &SpaceStats,
    after: &SpaceStats,
    pages: u64,
    unused: f64,
) -> Result<String, Violation> {
    let lines = recipe.segment_bytes / LINE_BYTES - 3;
    let users = (after.bytes_written - before.bytes_written) as f64;
    let moved = (after.bytes_moved - before.bytes_moved) as f64;
    let utilisation = pages as f64 / ((recipe.segments as f64 - unused) * lines as f64);
    let found = (users + moved) / users;
    let utilisation = utilisation.clamp(0.01, 0.99);
    let model = write_amplification(greedy_utilisation(utilisation, lines as u32));
    let text = format!("uniform overwrites cost {found:.2}, by the model {model:.2}");
    let is_lfs = recipe.placement == PlacementKind::Lfs && !recipe.changes;
    let is_plain = is_lfs && recipe.segment_bytes >= 256 << 10;
    if is_plain && found > ABOVE_MODEL * model {
        Err(Violation::new("amplification", text))
    } else {
        Ok(text)
    }
}
