//! Where ranges lie: in memory, on the medium, or nowhere.

use std::ops::Range;

use forebay_extents::{Extent, Need};

use crate::error::SpaceError;
use crate::space::{Inner, Space};

/// Leaves of the map that one question looks at, at most.
const LEAVES_MAX: usize = 256;

/// What has a run of sectors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Where {
    /// Nothing: it is not mapped, and reads as zeroes.
    Nowhere,
    /// Memory: what is gathered for a segment, and what is not durable on the medium yet.
    Memory,
    /// The medium, from this byte on.
    Medium(u64),
}

/// A run of sectors that one thing has, in one piece.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlacedRun {
    /// The sectors; never none.
    pub sectors: Range<u64>,
    /// What has them.
    pub at: Where,
}

impl PlacedRun {
    /// Whether `next`, which follows it, is of the same piece.
    fn goes_on_as(&self, next: Where) -> bool {
        let bytes = (self.sectors.end - self.sectors.start) * forebay_units::SECTOR_BYTES;
        match (self.at, next) {
            (Where::Medium(at), Where::Medium(next)) => at + bytes == next,
            (this, next) => this == next,
        }
    }
}

impl Space {
    /// Where the sectors of `range` lie: runs in order and without gaps from its start on, of which no two neighbours are one.
    /// They end before `range` does where there would be more than `most` (at least 1), or where much was looked at: then go
    /// on there. Nothing that is written meanwhile waits, so of what changes each run was right at some moment.
    ///
    /// # Errors
    /// If the map cannot be read.
    pub async fn places(
        &self,
        range: Range<u64>,
        most: usize,
    ) -> Result<Vec<PlacedRun>, SpaceError> {
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

    /// The same as far as the map is in memory, and with no bound: the runs end where it would have to be read.
    pub fn places_now(&self, range: Range<u64>) -> Vec<PlacedRun> {
        let (mut runs, mut at) = (Vec::new(), range.start);
        while at < range.end {
            let next = next_extents(&self.inner.map.borrow(), at..range.end);
            let Ok(next) = next else { break };
            at = self.inner.place_extents(&mut runs, at..range.end, &next);
        }
        runs
    }
}

/// What is mapped of a range from its first mapped sector on, as far as that is a run in one leaf of the map; nothing if
/// nothing is mapped.
fn next_extents(map: &forebay_extents::Map, range: Range<u64>) -> Result<Vec<Extent>, Need> {
    let mut found = Vec::new();
    if let Some(run) = map.next_mapped(range)? {
        map.get(run, &mut found)?;
    }
    Ok(found)
}

impl Inner {
    /// Says where the next extents of a range lie, and what is before them. Gives the sector behind, the range's end if there
    /// are none.
    fn place_extents(
        &self,
        runs: &mut Vec<PlacedRun>,
        range: Range<u64>,
        extents: &[Extent],
    ) -> u64 {
        let streams = self.commit.composer();
        let mut at = range.start;
        for extent in extents {
            push(runs, at..extent.sector, Where::Nowhere);
            at = extent.end();
            let place = match streams.table.byte_at(extent.place) {
                _ if streams.is_in_ram(extent.place) => Where::Memory,
                Some(at) => Where::Medium(at),
                // The map is damaged: a read says so.
                None => Where::Nowhere,
            };
            push(runs, extent.sector..at, place);
        }
        if extents.is_empty() {
            push(runs, range.clone(), Where::Nowhere);
            at = range.end;
        }
        at
    }
}

fn push(runs: &mut Vec<PlacedRun>, sectors: Range<u64>, at: Where) {
    if sectors.is_empty() {
        return;
    }
    match runs.last_mut() {
        Some(last) if last.goes_on_as(at) => last.sectors.end = sectors.end,
        _ => runs.push(PlacedRun { sectors, at }),
    }
}
