//! Operations on ranges of the map whose nodes are in memory.

use forebay_units::Sector;

use forebay_extent_map::{ExtentMap, NeededNode, RangePins};
use forebay_extent_map::{MapChanges, MapExtent};

/// Pins the nodes in memory that [`unmap`] needs for a range.
pub(crate) fn prepare_to_unmap(
    map: &mut ExtentMap,
    sector: Sector,
    sectors: u64,
    huge: u64,
    pins: &mut RangePins,
) -> Result<(), NeededNode> {
    let range = sector.0..sector.0 + sectors;
    if sectors >= huge {
        map.prepare_ends(range, pins)
    } else {
        map.prepare(range, pins)
    }
}

/// Unmaps a range. A range of `huge` sectors or more is detached without examining all its mappings: the reaper
/// examines them later, node by node.
///
/// # Panics
/// The nodes were not prepared.
pub(crate) fn unmap(
    map: &mut ExtentMap,
    sector: Sector,
    sectors: u64,
    huge: u64,
    changes: &mut MapChanges,
) {
    let range = sector.0..sector.0 + sectors;
    let done = if sectors >= huge {
        map.detach(range, changes)
    } else {
        map.clear(range, changes)
    };
    done.expect("the nodes were prepared");
}

/// Returns the mapped extents of a range, in order.
///
/// # Panics
/// The nodes were not prepared.
pub(crate) fn mapped(map: &ExtentMap, sector: Sector, sectors: u64) -> Vec<MapExtent> {
    let mut extents = Vec::new();
    let got = map.get(sector.0..sector.0 + sectors, &mut extents);
    got.expect("the nodes were prepared");
    extents
}
