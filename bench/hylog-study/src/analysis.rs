//! Figures that need no engine: the slides' figures of their cost model, computed with the model of this project
//! (`forebay_placement::cost`).

use anyhow::Result;
use forebay_placement::cost::{
    self, AccessDistribution, DiskParameters, cleaning_cost, crossover, disk_utilisation,
    hole_plugging_cost, hybrid_cost, lfs_cost,
};

use crate::medium::StudyDisk;
use crate::workload::PAGE_BYTES;

/// A disk of the slides' table of crossovers.
pub(crate) struct CrossoverDisk {
    /// The disk.
    pub(crate) model: StudyDisk,
    /// Segment size in bytes that reproduces the slides' figure: 1 MiB, except for the disk of 1991.
    pub(crate) segment: u64,
    /// Positioning and bandwidth in the slides, if they contain these figures.
    pub(crate) slide: Option<DiskParameters>,
    /// The utilisations of cleaned segments, and of the disk, at which the slides' LFS costs as much as overwriting.
    pub(crate) slide_crossover: [f64; 2],
    /// Positioning (seek and half a rotation) and bandwidth in the model of this project.
    pub(crate) ours: DiskParameters,
}

impl CrossoverDisk {
    /// Returns the three disks.
    ///
    /// # Errors
    /// If the model of a disk does not exist.
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

    /// Returns the slides' figures of the disk, or the model's figures if the slides have none.
    pub(crate) fn disk(&self) -> DiskParameters {
        self.slide.unwrap_or(self.ours)
    }

    /// Returns both utilisations at the crossover of a disk.
    pub(crate) fn crossover(&self, disk: &DiskParameters) -> [f64; 2] {
        let u = crossover(disk.efficiency(PAGE_BYTES, self.segment));
        [u, disk_utilisation(u)]
    }
}

/// Returns the segment sizes of the comparison, in bytes.
pub(crate) fn segment_sizes() -> impl Iterator<Item = u64> {
    (15..=23).map(|power| 1 << power)
}

/// Returns the costs of overwriting, cleaning and hole-plugging, by the utilisation of the cleaned segments.
/// `efficiency` is the speed of a segment relative to its pages.
pub(crate) fn costs(efficiency: f64, utilisations: &[f64]) -> [Vec<f64>; 3] {
    let each = |cost: &dyn Fn(f64) -> f64| utilisations.iter().map(|u| cost(*u)).collect();
    [
        each(&|_| efficiency),
        each(&cleaning_cost),
        each(&|u| hole_plugging_cost(u, efficiency)),
    ]
}

/// HyLog's cost by the hot share, and the cost of LFS, relative to the cost of overwriting.
pub(crate) struct HyLogPotential {
    /// The disk's utilisation.
    pub(crate) utilisation: f64,
    /// Cost of LFS for uniform accesses, as in the slides.
    pub(crate) lfs: f64,
    /// Cost of HyLog at each share.
    pub(crate) hylog: Vec<f64>,
    /// The share with the lowest cost.
    pub(crate) best: cost::HybridSplit,
}

/// Returns the slides' accesses: 80 % to 20 % of the pages.
pub(crate) fn slide_access() -> AccessDistribution {
    AccessDistribution::skewed(0.8, 0.2)
}

/// Returns HyLog's potential on a disk of this efficiency, for the slides' accesses.
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
