//! What needs no engine: the figures that the slides have from their model, by ours (`forebay_placement::cost`).

use anyhow::Result;
use forebay_placement::cost::{
    self, AccessDistribution, DiskParameters, cleaning_cost, crossover, disk_utilisation,
    hole_plugging_cost, hybrid_cost, lfs_cost,
};

use crate::medium::StudyDisk;
use crate::workload::PAGE_BYTES;

/// A disk of the slides' table of crossovers.
pub(crate) struct CrossoverDisk {
    /// Which.
    pub(crate) model: StudyDisk,
    /// Bytes of a segment by which the slides' figure comes out: 1 MiB, but for the disk of 1991.
    pub(crate) segment: u64,
    /// Positioning and bandwidth in the slides, where they give them.
    pub(crate) slide: Option<DiskParameters>,
    /// The utilisations of segments when cleaned, and of the disk, at which the slides' LFS costs as much as
    /// overwriting.
    pub(crate) slide_crossover: [f64; 2],
    /// Positioning (seek and half a turn) and bandwidth of our model of the disk.
    pub(crate) ours: DiskParameters,
}

impl CrossoverDisk {
    /// The three disks.
    ///
    /// # Errors
    /// If there is no model of one.
    pub(crate) fn all() -> Result<[CrossoverDisk; 3]> {
        let one = |model: StudyDisk, segment, slide, slide_crossover| -> Result<CrossoverDisk> {
            Ok(CrossoverDisk {
                model,
                segment,
                slide,
                slide_crossover,
                ours: model.nominal()?,
            })
        };
        Ok([
            one(
                StudyDisk::Of1991,
                128 << 10,
                Some(DiskParameters::OF_1991),
                [0.52, 0.74],
            )?,
            one(StudyDisk::Of1999, 1 << 20, None, [0.88, 0.94])?,
            one(
                StudyDisk::Of2003,
                1 << 20,
                Some(DiskParameters::OF_2003),
                [0.94, 0.97],
            )?,
        ])
    }

    /// The slides' figures of the disk, or where they have none those of our model.
    pub(crate) fn disk(&self) -> DiskParameters {
        self.slide.unwrap_or(self.ours)
    }

    /// Both utilisations at the crossover of a disk.
    pub(crate) fn crossover(&self, disk: &DiskParameters) -> [f64; 2] {
        let u = crossover(disk.efficiency(PAGE_BYTES, self.segment));
        [u, disk_utilisation(u)]
    }
}

/// Sizes of segments that are compared, in bytes.
pub(crate) fn segment_sizes() -> impl Iterator<Item = u64> {
    (15..=23).map(|power| 1 << power)
}

/// Costs of overwriting, cleaning and hole-plugging on a disk where a segment is so much faster than its
/// pages, by the utilisation of what is cleaned.
pub(crate) fn costs(efficiency: f64, utilisations: &[f64]) -> [Vec<f64>; 3] {
    let each = |cost: &dyn Fn(f64) -> f64| utilisations.iter().map(|u| cost(*u)).collect();
    [
        each(&|_| efficiency),
        each(&cleaning_cost),
        each(&|u| hole_plugging_cost(u, efficiency)),
    ]
}

/// HyLog's cost by the hot share, beside those of overwriting and LFS, as shares of overwriting's.
pub(crate) struct HyLogPotential {
    /// The disk's utilisation.
    pub(crate) utilisation: f64,
    /// LFS, for even accesses: what the slides have.
    pub(crate) lfs: f64,
    /// HyLog, at each of the shares.
    pub(crate) hylog: Vec<f64>,
    /// The share that costs least.
    pub(crate) best: cost::HybridSplit,
}

/// The slides' accesses: 80 % to 20 % of the pages.
pub(crate) fn slide_access() -> AccessDistribution {
    AccessDistribution::skewed(0.8, 0.2)
}

/// HyLog's potential on a disk of such efficiency, for the slides' accesses.
pub(crate) fn potential(efficiency: f64, utilisation: f64, shares: &[f64]) -> HyLogPotential {
    let access = slide_access();
    let cost = |share: &f64| {
        hybrid_cost(*share, access.received(*share), utilisation, efficiency) / efficiency
    };
    HyLogPotential {
        utilisation,
        lfs: lfs_cost(utilisation) / efficiency,
        hylog: shares.iter().map(cost).collect(),
        best: cost::best_hot_share(&access, utilisation, efficiency),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_six_crossovers_are_within_0_02_of_the_slides() {
        for compared in CrossoverDisk::all().unwrap() {
            for disk in [compared.disk(), compared.ours] {
                let found = compared.crossover(&disk);
                for (found, slide) in found.iter().zip(compared.slide_crossover) {
                    let name = compared.model.name();
                    assert!((found - slide).abs() <= 0.02, "{name}: {found}, {slide}");
                }
            }
        }
    }

    #[test]
    fn a_segment_of_a_mebibyte_is_33_times_as_efficient_on_the_disk_of_2003() {
        let [.., compared] = CrossoverDisk::all().unwrap();
        let e = compared.disk().efficiency(PAGE_BYTES, 1 << 20);
        assert_eq!(e.round(), 33.0);
    }

    #[test]
    fn hylog_at_its_best_costs_no_more_than_overwriting_and_lfs() {
        let shares: Vec<f64> = (0..=20).map(|n| f64::from(n) / 20.0).collect();
        for utilisation in [0.5, 0.9, 0.98] {
            let found = potential(33.3, utilisation, &shares);
            let least = found.hylog.iter().copied().fold(f64::INFINITY, f64::min);
            assert!(least <= 1.0 && least <= found.lfs + 1e-9, "{least}");
            assert!(found.best.cost / 33.3 <= least + 1e-9);
            assert!((found.hylog[0] - 1.0).abs() < 1e-9);
            assert!((found.hylog[20] - found.lfs).abs() < 1e-9);
        }
    }
}
