//! Delays of an emulated device's answers, compared with its model.

use std::time::Duration;

use forebay_rt::Instant;

/// Upper bounds of the classes in which answers are counted, in microseconds.
const BOUNDS_US: [u64; 17] = [
    5, 10, 20, 30, 50, 70, 100, 150, 200, 300, 500, 1_000, 2_000, 5_000, 10_000, 100_000, 1_000_000,
];

/// Delays so far.
#[derive(Clone, Debug)]
pub(crate) struct LatenessCounts {
    /// Counts by class. The last class is beyond all bounds.
    counts: [u64; BOUNDS_US.len() + 1],
    by_data: u64,
    total: Duration,
    worst: Duration,
}

impl LatenessCounts {
    pub(crate) fn new() -> LatenessCounts {
        LatenessCounts {
            counts: [0; BOUNDS_US.len() + 1],
            by_data: 0,
            total: Duration::ZERO,
            worst: Duration::ZERO,
        }
    }

    /// Counts an answer at `now`. The model completed the request at `model`, and its data was ready at `data`.
    pub(crate) fn note(&mut self, model: Instant, data: Instant, now: Instant) {
        let late = now.since(model);
        let us = late.as_nanos().div_ceil(1000) as u64;
        let class = BOUNDS_US.partition_point(|bound| *bound < us);
        self.counts[class] += 1;
        self.by_data += u64::from(data > model);
        self.total += late;
        self.worst = self.worst.max(late);
    }

    pub(crate) fn summary(&self) -> Lateness {
        let answers: u64 = self.counts.iter().sum();
        Lateness {
            answers,
            by_data: self.by_data,
            mean: Duration::from_nanos((self.total.as_nanos() / u128::from(answers.max(1))) as u64),
            p50: self.percentile(answers, 50),
            p99: self.percentile(answers, 99),
            worst: self.worst,
        }
    }

    /// Returns the lowest class bound for `percent` of the answers.
    fn percentile(&self, answers: u64, percent: u64) -> Duration {
        let enough = (answers * percent).div_ceil(100);
        let mut seen = 0;
        for (count, bound) in self.counts.iter().zip(BOUNDS_US) {
            seen += count;
            if seen >= enough {
                return Duration::from_micros(bound).min(self.worst);
            }
        }
        self.worst
    }
}

/// Delays of answers: the time between the model's completion of a request and the device's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lateness {
    /// Number of answers.
    pub answers: u64,
    /// Number of answers that waited for their data after the model's completion.
    pub by_data: u64,
    /// Mean delay.
    pub mean: Duration,
    /// Median delay (rounded up to a class of about a third).
    pub p50: Duration,
    /// Delay of the 99th percentile (rounded likewise).
    pub p99: Duration,
    /// Longest delay.
    pub worst: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lateness_percentiles_are_valid_upper_bounds() {
        let at = |us: u64| Instant::from_nanos(us * 1000);
        let mut late = LatenessCounts::new();
        assert_eq!(late.summary().p99, Duration::ZERO);
        for us in 1..=100 {
            late.note(at(1000), at(0), at(1000 + us));
        }
        late.note(at(0), at(40), at(900));
        let summary = late.summary();
        assert_eq!((summary.answers, summary.by_data), (101, 1));
        assert_eq!(summary.p50, Duration::from_micros(70));
        assert_eq!(summary.p99, Duration::from_micros(100));
        assert_eq!(summary.worst, Duration::from_micros(900));
    }
}
