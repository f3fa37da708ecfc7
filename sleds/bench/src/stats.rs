//! Means and medians with confidence intervals.

/// A mean with its 90 % confidence interval, as in the paper (section 5.1).
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Mean {
    pub(super) mean: f64,
    /// Half the interval's width; 0 for a single value.
    pub(super) half: f64,
}

/// Student's t for a two-sided 90 % interval, by degrees of freedom from 1 on.
const T_90: [f64; 30] = [
    6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771,
    1.761, 1.753, 1.746, 1.740, 1.734, 1.729, 1.725, 1.721, 1.717, 1.714, 1.711, 1.708, 1.706,
    1.703, 1.701, 1.699, 1.697,
];
/// Student's t for very many degrees of freedom.
const T_90_LIMIT: f64 = 1.645;

impl Mean {
    /// Makes a mean without uncertainty.
    pub(super) fn exactly(mean: f64) -> Mean {
        Mean { mean, half: 0.0 }
    }

    /// Returns the mean of at least one value.
    pub(super) fn of(values: &[f64]) -> Mean {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        if values.len() < 2 {
            return Mean { mean, half: 0.0 };
        }
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let t = T_90.get(values.len() - 2).copied().unwrap_or(T_90_LIMIT);
        Mean {
            mean,
            half: t * (variance / n).sqrt(),
        }
    }
}

/// A median with its 90 % confidence interval, valid for any distribution.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Median {
    pub(super) low: f64,
    pub(super) median: f64,
    pub(super) high: f64,
}

impl Median {
    /// Returns the median of at least one value. With fewer than five values, the interval is their range, and its
    /// confidence is lower.
    pub(super) fn of(values: &[f64]) -> Median {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        // Each value lies below the true median with probability 1/2. The probability that at most `k` values lie below
        // therefore equals that of at most `k` heads in `n` tosses of a coin.
        let mut chance = 0.5_f64.powi(n as i32);
        let (mut outside, mut below) = (0.0, 0);
        while below < n / 2 && 2.0 * (outside + chance) <= 0.1 {
            outside += chance;
            chance *= (n - below) as f64 / (below + 1) as f64;
            below += 1;
        }
        let low = below.saturating_sub(1);
        Median {
            low: sorted[low],
            median: f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2]),
            high: sorted[n - 1 - low],
        }
    }
}

/// Returns the share of values at or below each value: the steps of a distribution function.
pub(super) fn distribution(values: &[f64]) -> Vec<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len() as f64;
    let step = |(rank, value): (usize, &f64)| (*value, (rank + 1) as f64 / n);
    sorted.iter().enumerate().map(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_mean_is_that_of_student() {
        // Twelve values with standard deviation 1: half the width is t(11) / sqrt(12).
        let values: Vec<f64> = (0..12)
            .map(|n| if n % 2 == 0 { 1.0 } else { -1.0 })
            .collect();
        let mean = Mean::of(&values);
        let deviation = (12.0_f64 / 11.0).sqrt();
        assert!(mean.mean.abs() < 1e-12);
        assert!((mean.half - 1.796 * deviation / 12.0_f64.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn one_value_is_its_own_mean() {
        let only = Mean::of(&[3.0]);
        assert_eq!((only.mean, only.half), (3.0, 0.0));
    }

    #[test]
    fn the_interval_of_a_median_is_that_of_the_sign_test() {
        // With eleven values the interval reaches from the third to the ninth (93 %), as in published tables.
        let values: Vec<f64> = (1..=11).rev().map(f64::from).collect();
        let middle = Median::of(&values);
        assert_eq!((middle.low, middle.median, middle.high), (3.0, 6.0, 9.0));
        // With twenty, from the sixth to the fifteenth (96 %; from the seventh, it would be 88 %).
        let values: Vec<f64> = (1..=20).map(f64::from).collect();
        let middle = Median::of(&values);
        assert_eq!((middle.low, middle.median, middle.high), (6.0, 10.5, 15.0));
    }

    #[test]
    fn the_interval_of_few_values_contains_all_of_them() {
        let middle = Median::of(&[2.0, 1.0, 4.0]);
        assert_eq!((middle.low, middle.median, middle.high), (1.0, 2.0, 4.0));
        let middle = Median::of(&[2.0]);
        assert_eq!((middle.low, middle.median, middle.high), (2.0, 2.0, 2.0));
    }

    #[test]
    fn a_distribution_ends_at_one() {
        let steps = distribution(&[3.0, 1.0, 2.0, 2.0]);
        assert_eq!(steps, [(1.0, 0.25), (2.0, 0.5), (2.0, 0.75), (3.0, 1.0)]);
    }
}
