//! Growth: the additional space that a batch takes, beyond the space of the data that it replaces.

use forebay_extent_map::ExtentMap;
use forebay_units::{LINE_SECTORS, Sector};

use crate::batch::{Batch, BatchOp};
use crate::prepared::mapped;
use crate::weight::{in_blocks_at_most, units_at_most, units_in_run, weight_in_map};

/// Maximum number of writes and trims of a batch for which unmapped sectors are determined.
const LOOKED_AT_MAX: usize = 64;

/// Change of the used space by a batch.
pub(crate) struct BatchGrowth {
    /// Upper bound of the added weight, in sectors.
    pub(crate) weight: u64,
    /// Lower bound of the freed weight, in sectors.
    pub(crate) freed: u64,
    /// True if more sectors are mapped than before.
    pub(crate) maps_more: bool,
}

impl BatchGrowth {
    /// Returns an upper bound of the growth by a batch. For a small batch, the unmapped sectors are subtracted. Trims
    /// of `huge` sectors or more are not subtracted, since their ranges were not examined. Neither are trims of ranges
    /// that the batch touches twice.
    pub(crate) fn of(
        map: &ExtentMap,
        batch: &Batch,
        ranges: &[(Sector, u64)],
        huge: u64,
    ) -> BatchGrowth {
        let (mut grows, mut units, mut extents, mut shrinks) = (0, 0, 0, 0);
        let may_shrink = ranges.len() <= LOOKED_AT_MAX;
        for (n, (op, (sector, sectors))) in batch.ops().iter().zip(ranges).enumerate() {
            let there = || -> u64 {
                let mapped = mapped(map, *sector, *sectors);
                mapped.iter().map(|extent| extent.sectors).sum()
            };
            match op {
                BatchOp::Write { .. } => {
                    let new = sectors - there();
                    grows += new;
                    let whole = sector.0.is_multiple_of(LINE_SECTORS)
                        && sectors.is_multiple_of(LINE_SECTORS);
                    if whole && new == 0 {
                        continue;
                    }
                    // A write of parts of blocks leaves up to two parts of the old data.
                    let parts = if whole { 0 } else { 2 };
                    let most = in_blocks_at_most(new, 1).0;
                    extents += most.min(new.max(1)) + parts;
                    units += units_in_run(sector.0, new.max(1)) + units_at_most(parts);
                }
                BatchOp::Trim { .. } if may_shrink && *sectors < huge && is_alone(ranges, n) => {
                    shrinks += there();
                }
                BatchOp::Trim { .. } => {}
            }
        }
        let most = grows + 3 * ranges.len() as u64;
        let weight = weight_in_map(grows, units.min(units_at_most(most)), extents.min(most));
        BatchGrowth {
            weight: weight.saturating_sub(shrinks),
            freed: shrinks.saturating_sub(weight),
            maps_more: grows > shrinks,
        }
    }
}

/// Returns true if no other range overlaps range `n`.
fn is_alone(ranges: &[(Sector, u64)], n: usize) -> bool {
    let (sector, sectors) = ranges[n];
    let others = ranges.iter().enumerate().filter(|(other, _)| *other != n);
    let mut others = others.map(|(_, other)| other);
    others.all(|(at, len)| at.0 + len <= sector.0 || sector.0 + sectors <= at.0)
}
