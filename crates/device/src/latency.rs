//! Latencies of requests: a histogram, and its summary in a report.

use hdrhistogram::Histogram;
use serde::{Deserialize, Deserializer, Serialize};

/// Distribution of the latency of requests, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Requests measured.
    pub count: u64,
    /// Mean.
    pub mean_us: f64,
    /// Median.
    pub p50_us: u64,
    /// 90th percentile.
    pub p90_us: u64,
    /// 99th percentile.
    pub p99_us: u64,
    /// 99.9th percentile.
    pub p999_us: u64,
    /// Largest.
    pub max_us: u64,
    /// Requests that took at most the time in [`LATENCY_BOUNDS_US`] with the same index.
    #[serde(default, deserialize_with = "buckets_or_none")]
    pub buckets: [u64; LATENCY_BOUNDS_US.len()],
}

/// Reads the counts. Counts of other bounds, from another version, become zeroes, so the rest of the report stays readable.
fn buckets_or_none<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<[u64; LATENCY_BOUNDS_US.len()], D::Error> {
    let counts = Vec::<u64>::deserialize(from)?;
    Ok(counts.try_into().unwrap_or_default())
}

/// Upper bounds of [`LatencySummary::buckets`], in microseconds.
pub const LATENCY_BOUNDS_US: [u64; 20] = [
    10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000,
    500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000, 60_000_000,
];

/// A histogram of latencies.
pub struct LatencyHistogram(Histogram<u32>);

impl Default for LatencyHistogram {
    fn default() -> LatencyHistogram {
        LatencyHistogram::new()
    }
}

impl LatencyHistogram {
    /// Longest latency that is distinguished: a minute, in nanoseconds, with two significant digits.
    const MAX_NS: u64 = 60_000_000_000;

    /// Creates an empty histogram.
    pub fn new() -> LatencyHistogram {
        LatencyHistogram(Histogram::new_with_max(Self::MAX_NS, 2).expect("constant bounds"))
    }

    /// Counts a request that took `ns` nanoseconds.
    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns.max(1));
    }

    /// Returns the distribution.
    pub fn summary(&self) -> LatencySummary {
        let us = |ns: u64| ns / 1000;
        // In one pass, since the histogram has thousands of buckets.
        let mut quantiles = self.0.value_at_quantiles([0.5, 0.9, 0.99, 0.999]);
        let mut next = || {
            us(quantiles
                .next()
                .expect("one value for each requested quantile"))
        };
        LatencySummary {
            count: self.0.len(),
            mean_us: self.0.mean() / 1000.0,
            p50_us: next(),
            p90_us: next(),
            p99_us: next(),
            p999_us: next(),
            max_us: us(self.0.max()),
            buckets: self.buckets(),
        }
    }

    /// Returns the number of requests up to each of [`LATENCY_BOUNDS_US`].
    fn buckets(&self) -> [u64; LATENCY_BOUNDS_US.len()] {
        let mut counts = [0; LATENCY_BOUNDS_US.len()];
        for recorded in self.0.iter_recorded() {
            let ns = recorded.value_iterated_to();
            let first = LATENCY_BOUNDS_US.partition_point(|bound| bound * 1000 < ns);
            if let Some(count) = counts.get_mut(first) {
                *count += recorded.count_since_last_iteration();
            }
        }
        let mut sum = 0;
        counts.map(|count| {
            sum += count;
            sum
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_count_all_requests_up_to_their_bound() {
        let mut latencies = LatencyHistogram::new();
        for us in [1, 9, 15, 150, 1_500, 900_000, 59_000_000] {
            latencies.record(us * 1000);
        }
        // Longer than the last bound: only the total counts it.
        latencies.record(600_000_000_000);
        let summary = latencies.summary();
        let up_to = |us: u64| {
            let at = LATENCY_BOUNDS_US.iter().position(|bound| *bound == us);
            summary.buckets[at.unwrap()]
        };
        assert_eq!((up_to(10), up_to(20), up_to(100)), (2, 3, 3));
        assert_eq!((up_to(200), up_to(2_000), up_to(500_000)), (4, 5, 5));
        assert_eq!((up_to(1_000_000), up_to(60_000_000)), (6, 7));
        assert_eq!(summary.count, 8);
        assert!(summary.buckets.is_sorted());
    }

    #[test]
    fn a_summary_of_a_version_with_other_buckets_is_readable() {
        let mut latencies = LatencyHistogram::new();
        latencies.record(5_000);
        let summary = latencies.summary();
        let mut json = serde_json::to_value(summary).unwrap();
        assert_eq!(
            serde_json::from_value::<LatencySummary>(json.clone()).unwrap(),
            summary
        );
        for buckets in [serde_json::json!([1, 2]), serde_json::json!(vec![1; 40])] {
            json["buckets"] = buckets;
            let read: LatencySummary = serde_json::from_value(json.clone()).unwrap();
            assert_eq!((read.count, read.buckets), (1, Default::default()));
        }
        json.as_object_mut().unwrap().remove("buckets");
        assert!(serde_json::from_value::<LatencySummary>(json).is_ok());
    }
}
