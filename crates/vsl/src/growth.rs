//! How much more room a batch takes than what it replaces.

use forebay_extents::Map;
use forebay_units::{LINE_SECTORS, Sector};

use crate::batch::{Batch, Op};
use crate::prepared::mapped;
use crate::weight::{in_blocks_at_most, units_at_most, units_in_run, weight_in_map};

/// A batch of more writes and trims is not looked at for what it unmaps.
const LOOKED_AT_MAX: usize = 64;

/// How much more is taken after a batch.
pub(crate) struct Growth {
    /// What weighs more, at most, in sectors.
    pub(crate) weight: u64,
    /// What weighs less, at least, in sectors.
    pub(crate) freed: u64,
    /// More sectors are mapped than before.
    pub(crate) maps_more: bool,
}

impl Growth {
    /// What a batch adds, at most. What a small batch unmaps is subtracted.
    /// What was not looked at, as part of a trim of `huge` sectors or more, is not, nor what the batch touches twice.
    pub(crate) fn of(map: &Map, batch: &Batch, ranges: &[(Sector, u64)], huge: u64) -> Growth {
        let (mut grows, mut units, mut extents, mut shrinks) = (0, 0, 0, 0);
        let may_shrink = ranges.len() <= LOOKED_AT_MAX;
        for (n, (op, (sector, sectors))) in batch.ops().iter().zip(ranges).enumerate() {
            let there = || -> u64 {
                let mapped = mapped(map, *sector, *sectors);
                mapped.iter().map(|extent| extent.sectors).sum()
            };
            match op {
                Op::Write { .. } => {
                    let new = sectors - there();
                    grows += new;
                    let whole = sector.0.is_multiple_of(LINE_SECTORS)
                        && sectors.is_multiple_of(LINE_SECTORS);
                    if whole && new == 0 {
                        continue;
                    }
                    // A write of parts of blocks leaves up to two parts of what was there.
                    let parts = if whole { 0 } else { 2 };
                    let most = in_blocks_at_most(new, 1).0;
                    extents += most.min(new.max(1)) + parts;
                    units += units_in_run(sector.0, new.max(1)) + units_at_most(parts);
                }
                Op::Trim { .. } if may_shrink && *sectors < huge && is_alone(ranges, n) => {
                    shrinks += there();
                }
                Op::Trim { .. } => {}
            }
        }
        let most = grows + 3 * ranges.len() as u64;
        let weight = weight_in_map(grows, units.min(units_at_most(most)), extents.min(most));
        Growth {
            weight: weight.saturating_sub(shrinks),
            freed: shrinks.saturating_sub(weight),
            maps_more: grows > shrinks,
        }
    }
}

/// True if no other of these ranges has a part of this one.
fn is_alone(ranges: &[(Sector, u64)], n: usize) -> bool {
    let (sector, sectors) = ranges[n];
    let others = ranges.iter().enumerate().filter(|(other, _)| *other != n);
    let mut others = others.map(|(_, other)| other);
    others.all(|(at, len)| at.0 + len <= sector.0 || sector.0 + sectors <= at.0)
}
