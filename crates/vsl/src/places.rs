//! Locations of ranges: in memory, on the device, or unmapped.

use std::ops::Range;

use forebay_extent_map::{MapExtent, NeededNode};

use crate::error::SpaceError;
use crate::space::{Space, SpaceInner};

/// Maximum number of leaves of the map that one query examines.
const LEAVES_MAX: usize = 256;

/// Location of a range of sectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SectorLocation {
    /// Not mapped: the range reads as zeroes.
    Nowhere,
    /// In memory: gathered for a segment, or not yet durable on the device.
    Memory,
    /// On the device, from this byte on.
    Medium(u64),
}

/// A range of sectors with one location.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlacedRange {
    /// The sectors. Never empty.
    pub sectors: Range<u64>,
    /// Location of the sectors.
    pub at: SectorLocation,
}

impl PlacedRange {
    /// Returns true if `next`, the location of the following sectors, continues this range.
    fn goes_on_as(&self, next: SectorLocation) -> bool {
        let bytes = (self.sectors.end - self.sectors.start) * forebay_units::SECTOR_BYTES;
        match (self.at, next) {
            (SectorLocation::Medium(at), SectorLocation::Medium(next)) => at + bytes == next,
            (this, next) => this == next,
        }
    }
}

impl Space {
    /// Returns the locations of the sectors of `range`: adjacent ranges in order, without gaps from the start on, each
    /// as long as possible. The result can end before `range` ends, after `most` ranges (at least 1) or after a bounded
    /// number of leaves: the caller then continues behind the last range. Concurrent writes are not blocked, so each
    /// location was correct at some moment.
    ///
    /// # Errors
    /// The map cannot be read.
    pub async fn places(
        &self,
        range: Range<u64>,
        most: usize,
    ) -> Result<Vec<PlacedRange>, SpaceError> {
        let inner = &self.inner;
        let (mut runs, mut at) = (Vec::new(), range.start);
        for _ in 0..LEAVES_MAX {
            if at >= range.end || runs.len() > most {
                break;
            }
            let next = inner
                .loading(|map| next_extents(map, at..range.end))
                .await?;
            at = inner.place_extents(&mut runs, at..range.end, &next);
        }
        let mut map = inner.map.borrow_mut();
        map.shrink(inner.options.map_bytes as usize);
        runs.truncate(most);
        Ok(runs)
    }

    /// Returns the locations as far as the map is in memory, without a bound. The result ends at the first node that
    /// would have to be read.
    pub fn places_now(&self, range: Range<u64>) -> Vec<PlacedRange> {
        let (mut runs, mut at) = (Vec::new(), range.start);
        while at < range.end {
            let next = next_extents(&self.inner.map.borrow(), at..range.end);
            let Ok(next) = next else { break };
            at = self.inner.place_extents(&mut runs, at..range.end, &next);
        }
        runs
    }
}

/// Returns the extents from the first mapped sector of a range on, as far as they are adjacent in one leaf of the map.
/// Empty if the range is not mapped.
fn next_extents(
    map: &forebay_extent_map::ExtentMap,
    range: Range<u64>,
) -> Result<Vec<MapExtent>, NeededNode> {
    let mut found = Vec::new();
    if let Some(run) = map.next_mapped(range)? {
        map.get(run, &mut found)?;
    }
    Ok(found)
}

impl SpaceInner {
    /// Adds the locations of extents and of the gaps before them. Returns the first sector behind the extents, or the
    /// end of the range if `extents` is empty.
    fn place_extents(
        &self,
        runs: &mut Vec<PlacedRange>,
        range: Range<u64>,
        extents: &[MapExtent],
    ) -> u64 {
        let streams = self.commit.composer();
        let mut at = range.start;
        for extent in extents {
            push(runs, at..extent.sector, SectorLocation::Nowhere);
            at = extent.end();
            let place = match streams.table.byte_at(extent.place) {
                _ if streams.is_in_ram(extent.place) => SectorLocation::Memory,
                Some(at) => SectorLocation::Medium(at),
                // The map is damaged. A read reports this.
                None => SectorLocation::Nowhere,
            };
            push(runs, extent.sector..at, place);
        }
        if extents.is_empty() {
            push(runs, range.clone(), SectorLocation::Nowhere);
            at = range.end;
        }
        at
    }
}

fn push(runs: &mut Vec<PlacedRange>, sectors: Range<u64>, at: SectorLocation) {
    if sectors.is_empty() {
        return;
    }
    match runs.last_mut() {
        Some(last) if last.goes_on_as(at) => last.sectors.end = sectors.end,
        _ => runs.push(PlacedRange { sectors, at }),
    }
}
