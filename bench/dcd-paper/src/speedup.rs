//! The maximum possible speedup, and the share of it that is reached (the paper's section on it).
//!
//! In two ways. The paper's: from figure 10 it takes how much faster the log's large transfers are than
//! requests of each size, and averages that over the sizes of a program's writes; reading and computing
//! stay as they are. And exactly: the same programs on a device that takes writes in no time, which no
//! cache can beat.
//!
//! The paper averages the ratios by the number of requests. Times are proportional to what requests
//! take, not to their number, so the right average is by time: what all writes take in place over
//! what their bytes take in the log's transfers. Both are given. (The paper's sum, 7.4 × 50 % + 28 × 15 %
//! + 55 × 35 %, is 27.2 and not 25.4.)

use crate::bandwidth::{BandwidthCurve, SIZES};
use crate::response::{UfsRequest, UfsRequestKind};

/// The mixture of a program's writes: sizes in KiB of those in figure 10, and their numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WriteMixture(Vec<(u64, f64)>);

impl WriteMixture {
    /// Writes of other sizes count as the next larger ones.
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

    /// What the paper's program wrote.
    fn papers() -> WriteMixture {
        WriteMixture(vec![(1, 35.0), (2, 15.0), (8, 50.0)])
    }

    /// The shares of the sizes, in percent.
    pub(crate) fn shares(&self) -> impl Iterator<Item = (u64, f64)> + '_ {
        let all = self.count();
        self.0.iter().map(move |(kib, n)| (*kib, 100.0 * n / all))
    }

    fn count(&self) -> f64 {
        self.0.iter().map(|(_, n)| n).sum::<f64>()
    }

    /// Both mean ratios: by number and by time.
    fn ratios(&self, ratio: impl Fn(u64) -> f64) -> [f64; 2] {
        [self.by_number(&ratio), self.by_time(&ratio)]
    }

    /// The mean ratio by number of requests, as the paper has it.
    fn by_number(&self, ratio: impl Fn(u64) -> f64) -> f64 {
        let sum: f64 = self.0.iter().map(|(kib, n)| n * ratio(*kib)).sum();
        sum / self.count()
    }

    /// The mean ratio by time: by what they take in place, over what their bytes take in the log.
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

/// How many times as fast as requests of a size in KiB those of 128 KiB are: the paper's figure 10.
const PAPERS_RATIOS: [(u64, f64); 5] = [(1, 55.0), (2, 28.0), (4, 14.3), (8, 7.4), (128, 1.0)];

/// The paper's ratio for a size in KiB, if it gives one.
pub(crate) fn papers_ratio(kib: u64) -> Option<f64> {
    let found = PAPERS_RATIOS.iter().find(|(size, _)| *size == kib);
    found.map(|(_, ratio)| *ratio)
}

/// The share of reading and computing on the paper's plain disk.
const PAPERS_FIXED: f64 = 0.07;

/// The speedup of a whole program, if a share of its time cannot be improved and the rest is faster by
/// `ratio`.
fn maximum(fixed: f64, ratio: f64) -> f64 {
    1.0 / (fixed + (1.0 - fixed) / ratio)
}

/// Both of the paper's kind of estimates.
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

    /// The estimates by number and by time for a program on the disk of a curve.
    pub(crate) fn both(
        mixture: &WriteMixture,
        curve: &BandwidthCurve,
        fixed: f64,
    ) -> [SpeedupEstimate; 2] {
        mixture
            .ratios(|kib| curve.ratio(kib))
            .map(|ratio| SpeedupEstimate::new(ratio, fixed))
    }

    /// The same for the paper's program on its disk.
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
    fn the_papers_figures_come_out_of_the_papers_formula_but_for_its_sum() {
        let [by_number, by_time] = SpeedupEstimate::papers();
        assert!((by_number.ratio - 27.15).abs() < 0.01, "{by_number:?}");
        assert!((maximum(PAPERS_FIXED, 25.4) - 9.4).abs() < 0.05);
        // 57.25 units of time in place against 4.65: by hand.
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
