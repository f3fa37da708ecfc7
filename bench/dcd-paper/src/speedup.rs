//! The maximum possible speedup, and the share of the maximum that is reached (the paper's section on it).
//!
//! The maximum is computed in two ways. The paper's way takes from figure 10 the ratio of the log's transfer rate to
//! the rate of requests of each size, and averages the ratio over the sizes of a program's writes; reading and
//! computing are unchanged. The exact way runs the same programs on a device that completes writes at once, which no
//! cache can beat.
//!
//! The paper averages the ratios by the number of requests. Times are proportional to the time of the requests, not to
//! their number, so the correct average is by time: the time of all writes in place, divided by the time of their bytes
//! in the log's transfers. The report has both averages. (The paper's sum, 7.4 × 50 % + 28 × 15 % + 55 × 35 %, is 27.2
//! and not 25.4.)

use crate::bandwidth::{BandwidthCurve, SIZES};
use crate::response::{UfsRequest, UfsRequestKind};

/// Mixture of a program's writes: sizes in KiB from figure 10, and the number of writes of each size.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WriteMixture(Vec<(u64, f64)>);

impl WriteMixture {
    /// Returns the mixture of some requests. A write of another size is counted as the next larger size.
    pub(crate) fn of(requests: &[UfsRequest]) -> WriteMixture {
        let writes = || {
            requests
                .iter()
                .filter(|request| request.kind != UfsRequestKind::Read)
        };
        let count = |kib: u64, below: u64| {
            let fits =
                |request: &&UfsRequest| (below << 10..kib << 10).contains(&(request.bytes - 1));
            writes().filter(fits).count() as f64
        };
        let below = std::iter::once(0).chain(SIZES);
        let sizes = SIZES.iter().zip(below);
        let counted = sizes.map(|(kib, below)| (*kib, count(*kib, below)));
        WriteMixture(counted.filter(|(_, count)| *count > 0.0).collect())
    }

    /// Returns the mixture of the paper's program.
    fn papers() -> WriteMixture {
        WriteMixture(vec![(1, 35.0), (2, 15.0), (8, 50.0)])
    }

    /// Returns the shares of the sizes, in percent.
    pub(crate) fn shares(&self) -> impl Iterator<Item = (u64, f64)> + '_ {
        let all = self.count();
        self.0.iter().map(move |(kib, n)| (*kib, 100.0 * n / all))
    }

    fn count(&self) -> f64 {
        self.0.iter().map(|(_, n)| n).sum::<f64>()
    }

    /// Returns both mean ratios: by number and by time.
    fn ratios(&self, ratio: impl Fn(u64) -> f64) -> [f64; 2] {
        [self.by_number(&ratio), self.by_time(&ratio)]
    }

    /// Returns the mean ratio by number of requests, as in the paper.
    fn by_number(&self, ratio: impl Fn(u64) -> f64) -> f64 {
        let sum: f64 = self.0.iter().map(|(kib, n)| n * ratio(*kib)).sum();
        sum / self.count()
    }

    /// Returns the mean ratio by time: the time of the writes in place, divided by the time of their bytes in the log.
    fn by_time(&self, ratio: impl Fn(u64) -> f64) -> f64 {
        let bytes: f64 = self.0.iter().map(|(kib, n)| n * *kib as f64).sum();
        let in_place: f64 = self
            .0
            .iter()
            .map(|(kib, n)| n * *kib as f64 * ratio(*kib))
            .sum();
        in_place / bytes
    }
}

/// Ratio of the rate of 128 KiB requests to the rate of requests of a size in KiB: the paper's figure 10.
const PAPERS_RATIOS: [(u64, f64); 5] = [(1, 55.0), (2, 28.0), (4, 14.3), (8, 7.4), (128, 1.0)];

/// Returns the paper's ratio for a size in KiB, if the paper has a value for this size.
pub(crate) fn papers_ratio(kib: u64) -> Option<f64> {
    let found = PAPERS_RATIOS.iter().find(|(size, _)| *size == kib);
    found.map(|(_, ratio)| *ratio)
}

/// Share of reading and computing on the paper's plain disk.
const PAPERS_FIXED: f64 = 0.07;

/// Returns the speedup of a whole program, if the share `fixed` of its time cannot be improved and the rest is faster
/// by `ratio`.
fn maximum(fixed: f64, ratio: f64) -> f64 {
    1.0 / (fixed + (1.0 - fixed) / ratio)
}

/// One estimate of the paper's kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpeedupEstimate {
    pub(crate) ratio: f64,
    pub(crate) maximum: f64,
}

impl SpeedupEstimate {
    pub(crate) fn new(ratio: f64, fixed: f64) -> SpeedupEstimate {
        SpeedupEstimate {
            ratio,
            maximum: maximum(fixed, ratio),
        }
    }

    /// Returns the estimates by number and by time for a program on the disk of a curve.
    pub(crate) fn both(
        mixture: &WriteMixture,
        curve: &BandwidthCurve,
        fixed: f64,
    ) -> [SpeedupEstimate; 2] {
        mixture
            .ratios(|kib| curve.ratio(kib))
            .map(|ratio| SpeedupEstimate::new(ratio, fixed))
    }

    /// Returns both estimates for the paper's program on its disk.
    pub(crate) fn papers() -> [SpeedupEstimate; 2] {
        WriteMixture::papers()
            .ratios(|kib| papers_ratio(kib).unwrap_or(f64::NAN))
            .map(|ratio| SpeedupEstimate::new(ratio, PAPERS_FIXED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formula_of_the_paper_gives_its_figures_except_for_its_sum() {
        let [by_number, by_time] = SpeedupEstimate::papers();
        assert!((by_number.ratio - 27.15).abs() < 0.01, "{by_number:?}");
        assert!((maximum(PAPERS_FIXED, 25.4) - 9.4).abs() < 0.05);
        // Computed by hand: 57.25 units of time in place against 4.65.
        assert!((by_time.ratio - 57.25 / 4.65).abs() < 1e-9, "{by_time:?}");
    }

    #[test]
    fn a_mixture_counts_writes_by_the_size_that_holds_them() {
        let request = |kind, bytes| UfsRequest {
            kind,
            bytes,
            ms: 0.0,
        };
        let requests = [
            request(UfsRequestKind::Write, 1024),
            request(UfsRequestKind::Write, 1025),
            request(UfsRequestKind::WriteBehind, 3000),
            request(UfsRequestKind::Read, 1024),
            request(UfsRequestKind::Write, 8192),
        ];
        let mixture = WriteMixture::of(&requests);
        assert_eq!(
            mixture,
            WriteMixture(vec![(1, 1.0), (2, 1.0), (4, 1.0), (8, 1.0)])
        );
        assert_eq!(mixture.shares().next(), Some((1, 25.0)));
    }
}
