//! Bounds that every scenario keeps, and the comparison of what a volume says of itself.

use std::time::Duration;

use forebay_placement::cost::{greedy_utilisation, write_amplification};
use forebay_segment_log::LogStats;
use forebay_sim::Violation;
use forebay_units::{LINE_BYTES, SECTOR_BYTES};
use forebay_vsl::{PlacementKind, Space, SpaceStats};

use super::recipe::{Age, Recipe};

/// The longest that a request takes where the disk works.
pub(super) const REQUEST: Duration = Duration::from_secs(60);
/// The longest that opening takes.
pub(super) const OPEN: Duration = Duration::from_secs(600);
/// The longest that closing takes, beside the time for its data.
pub(super) const CLOSE: Duration = Duration::from_secs(10);
/// After so long without requests of writers the disk is quiet.
pub(super) const QUIET_AFTER: Duration = Duration::from_secs(60);
/// Requests in a second that a quiet disk may still be asked.
pub(super) const QUIET_RATE: u64 = 100;

/// The share of all that is written that checkpoints may write.
const CHECKPOINTS_SHARE: f64 = 0.05;
/// The same where many writers have pages written in place. The log's segments hold nothing once the pages are home, but are used
/// again only with a checkpoint, and a checkpoint costs less than cleaning other segments.
const CHECKPOINTS_SHARE_IN_PLACE: f64 = 0.15;
/// How far above the model the cost of uniform overwrites may be.
const ABOVE_MODEL: f64 = 1.1;
/// Entries of a leaf of the map, where leaves are half full.
const LEAF_ENTRIES: u64 = 40;

/// Requests to the disk that no request of a writer needs: they are more than reading and writing the whole disk
/// line by line, twice; and as much more often as less is kept free, and where nodes of the map are read anew.
pub(super) fn requests_max(recipe: &Recipe) -> u64 {
    let usual = 30_000 + 4 * recipe.medium_bytes() / LINE_BYTES;
    // With memory for a few nodes, each piece that is moved reads a leaf, and where reads fail, several times.
    let reads = if recipe.map_bytes.is_some() { 4 } else { 1 };
    usual * reads * (recipe.spare_part / 16).max(1)
}

/// Compares the counts of all segments with a walk of the map.
///
/// # Errors
/// What differs.
pub(super) async fn audit(space: &Space) -> Result<(), Violation> {
    let audited = space.audit().await;
    audited.map_err(|wrong| Violation::new("accounts", wrong))
}

/// True if next to nothing more can be mapped.
pub(super) fn is_brimful(space: &Space, recipe: &Recipe) -> bool {
    let capacity = space.capacity();
    capacity.mapped + 2 * recipe.segment_bytes > capacity.mappable
}

/// Checks that a refusal for lack of capacity was right: `new` sectors would have been mapped more.
///
/// # Errors
/// If there was capacity.
pub(super) fn is_full(space: &Space, recipe: &Recipe, new: u64) -> Result<(), Violation> {
    let capacity = space.capacity();
    // Other writers and the cleaner may have changed it since.
    let slack = 2 * recipe.segment_bytes;
    let need = capacity.mapped + new * SECTOR_BYTES;
    if need + slack > capacity.mappable {
        return Ok(());
    }
    let text = format!("a batch of {new} new sectors is refused though {capacity:?}");
    Err(Violation::new("room", text))
}

/// Checks how much checkpoints wrote in one incarnation, with so many that were asked for and so many extents in
/// the map.
///
/// # Errors
/// If it was too much.
pub(super) fn checkpoints(
    recipe: &Recipe,
    (stats, log): (&SpaceStats, &LogStats),
    asked: u64,
    extents: u64,
) -> Result<(), Violation> {
    // In pieces of a sector, and with each line in a leaf of its own, the map is a large part of what is written, and a full
    // volume has no room to let it wait.
    // With memory for a few nodes, a checkpoint is made for every few.
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

/// Checks the cost of uniform overwrites of `pages` lines, in a log with so many unused segments.
///
/// # Errors
/// If it is more than the model says.
pub(super) fn amplification(
    recipe: &Recipe,
    (before, after): (&SpaceStats, &SpaceStats),
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
