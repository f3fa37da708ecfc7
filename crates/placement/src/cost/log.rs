//! Utilisation of segments at cleaning, beyond uniform updates and large segments.
//!
//! Pages are written independently of each other, each class at its own rate, and the number of segments is very large
//! (mean field): as in Desnoyers, "Analytic modeling of SSD write performance", SYSTOR 2012, and Van Houdt, "A mean
//! field model for a class of garbage collection algorithms in flash-based solid state drives", SIGMETRICS 2013. The
//! derivations are short and given here, so that they can be checked.

use super::{AccessDistribution, decreasing_root};

/// Returns the utilisation at cleaning, averaged over writes, for **perfect** separation: the classes are grouped into
/// at most `streams` logs. Each log is cleaned separately, and the free space is divided optimally. This is a bound for
/// the gain of separation.
///
/// A log with n of the pages, r their rate and u = e^−x takes n·x/(1 − e^−x) of space and costs 1/(1 − e^−x) per write.
/// The gain of a little more space is r/(e^x − 1 − x), which is the same λ for all logs at the optimum.
///
/// The groups are found step by step. Each step adds the boundary with the largest gain.
pub fn separated_utilisation(access: &AccessDistribution, d: f64, streams: usize) -> f64 {
    let count = access.classes().len();
    let mut bounds = vec![0, count];
    let mut best = grouped(access, &bounds, d);
    while bounds.len() <= streams.min(count) {
        let free = (1..count).filter(|at| !bounds.contains(at));
        let tried = free.map(|at| {
            let mut with = bounds.clone();
            with.push(at);
            with.sort_unstable();
            (grouped(access, &with, d), with)
        });
        match tried.min_by(|a, b| a.0.total_cmp(&b.0)) {
            Some((u, with)) if u < best => (best, bounds) = (u, with),
            _ => break,
        }
    }
    best
}

/// Returns the utilisation for the groups of classes that end at `bounds`.
fn grouped(access: &AccessDistribution, bounds: &[usize], d: f64) -> f64 {
    let groups = bounds.windows(2).map(|pair| {
        let classes = &access.classes()[pair[0]..pair[1]];
        let sum = |part: fn(&super::PageClass) -> f64| classes.iter().map(part).sum::<f64>();
        (sum(|class| class.pages), sum(|class| class.writes))
    });
    let groups: Vec<(f64, f64)> = groups.collect();
    let d = match d {
        d if d <= 0.0 => return 0.0,
        d if d >= 1.0 => return 1.0,
        d => d,
    };
    let exponents = |worth: f64| {
        let rates = groups.iter().map(|(pages, writes)| writes / pages);
        rates.map(move |rate| exponent_of(rate * worth))
    };
    let room = |worth: f64| -> f64 {
        let terms = groups.iter().zip(exponents(worth));
        terms.map(|((pages, _), x)| pages * copies(x)).sum()
    };
    // The search uses the logarithm, since rates differ by many powers of ten.
    let worth = decreasing_root(-60.0, 60.0, |log| 1.0 / d - room(log.exp())).exp();
    let terms = groups.iter().zip(exponents(worth));
    let amplification: f64 = terms
        .filter(|((_, writes), _)| *writes > 0.0)
        .map(|((_, writes), x)| writes / -(-x).exp_m1())
        .sum();
    1.0 - 1.0 / amplification.max(1.0)
}

/// Returns x/(1 − e^−x), at least 1: the number of writes of a page by client and cleaner during the lifetime of a
/// segment.
fn copies(x: f64) -> f64 {
    match x {
        x if x < 1e-9 => 1.0,
        x => x / -(-x).exp_m1(),
    }
}

/// Returns the x with e^x − 1 − x = `worth`, by Newton's method from above, whose steps never pass the solution.
fn exponent_of(worth: f64) -> f64 {
    // e^x − 1 − x is at least x²/2, and at least e^x/4 from x = 2 on.
    let mut x = (2.0 * worth).sqrt().min(2.0 + (1.0 + 4.0 * worth).ln());
    if x < 1e-6 {
        return x;
    }
    for _ in 0..16 {
        let slope = x.exp_m1();
        x -= (slope - x - worth) / slope;
    }
    x
}

/// Returns the utilisation of the **emptiest** segments, which greedy cleaning chooses, for uniform updates on a disk
/// of utilisation `d` with `pages` pages in a segment. With few pages greedy cleaning is better than the order of age,
/// since segments differ by chance. With many pages the result is [`super::cleaning_utilisation`].
///
/// All pages die at the same rate. So the number of segments that pass from j live pages to j − 1 equals the number of
/// cleaned segments: C for each page that clients write. This number is j/(d·pages) of the segments with j live pages,
/// so their number is C·d·pages/j. If only segments with m live pages are cleaned, all others add up to 1:
/// d·pages·(H(pages) − H(m)) = pages − m, with H the harmonic numbers. For utilisations in between, segments with m + 1
/// live pages are cleaned, too, as many as needed to have space for each written page.
pub fn greedy_utilisation(d: f64, pages: u32) -> f64 {
    let n = f64::from(pages.max(1));
    let d = match d {
        d if d <= 0.0 => return 0.0,
        d if d >= 1.0 => return 1.0,
        d => d,
    };
    // The lowest m whose d is not below the given one is m + 1 here.
    let mut harmonic = 0.0;
    for above in (1..=pages).rev() {
        // `harmonic` is H(pages) − H(above).
        let m = f64::from(above - 1);
        let spread = harmonic + 1.0 / (m + 1.0);
        if (n - m) / (n * spread) <= d {
            // At m = pages − 1, close to d = 1, both are 0: the gain is a single page.
            let taken = (1.0 / (d * n) - 1.0 / (m + 1.0)) / (harmonic - (n - m - 1.0) / (m + 1.0));
            let taken = if taken.is_finite() {
                taken
            } else {
                1.0 / (n - m)
            };
            return (1.0 - 1.0 / (taken * n)).clamp(0.0, 1.0);
        }
        harmonic = spread;
    }
    0.0
}
