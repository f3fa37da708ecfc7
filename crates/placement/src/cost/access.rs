//! Distribution of writes over pages.

/// Pages with the same write frequency.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PageClass {
    /// Fraction of all pages that hold data.
    pub pages: f64,
    /// Fraction of all writes that these pages receive.
    pub writes: f64,
}

impl PageClass {
    /// Returns the write frequency of one of these pages, as a multiple of the mean over all pages.
    pub fn rate(&self) -> f64 {
        self.writes / self.pages
    }
}

/// A distribution of writes over pages: a few classes, hottest first. The fractions of pages and of writes each add up
/// to 1.
#[derive(Clone, PartialEq, Debug)]
pub struct AccessDistribution(Vec<PageClass>);

/// Number of the hottest pages of a Zipf distribution that have a class each.
const ZIPF_SINGLE: u64 = 16;
/// Size of each further class relative to the pages before it, in percent.
const ZIPF_GROWTH: u64 = 50;

impl AccessDistribution {
    /// Returns the distribution with the same frequency for all pages.
    pub fn uniform() -> AccessDistribution {
        AccessDistribution(vec![PageClass {
            pages: 1.0,
            writes: 1.0,
        }])
    }

    /// Returns the distribution in which the fraction `pages` of the pages receives the fraction `writes` of the
    /// writes, for example 0.2 and 0.8.
    pub fn skewed(writes: f64, pages: f64) -> AccessDistribution {
        AccessDistribution::of([(pages, writes), (1.0 - pages, 1.0 - writes)])
    }

    /// Returns the distribution in which the frequency of the n-th page of `pages` is proportional to n^−`exponent`.
    pub fn zipf(pages: u64, exponent: f64) -> AccessDistribution {
        let (mut classes, mut first) = (Vec::new(), 1);
        while first <= pages {
            let many = if first <= ZIPF_SINGLE {
                1
            } else {
                first * ZIPF_GROWTH / 100
            };
            let next = (first + many).min(pages + 1);
            classes.push(((next - first) as f64, power_sum(first, next, exponent)));
            first = next;
        }
        AccessDistribution::of(classes)
    }

    /// Creates a distribution from numbers of pages and writes, in any unit and order. Ignores values that are not
    /// finite or negative, and writes without a page. Returns the uniform distribution if no writes are left.
    pub fn of(counts: impl IntoIterator<Item = (f64, f64)>) -> AccessDistribution {
        let sound = |value: f64| value.is_finite() && value >= 0.0;
        let counts = counts.into_iter();
        let mut classes: Vec<PageClass> = counts
            .filter(|&(pages, writes)| sound(pages) && sound(writes) && pages > 0.0)
            .map(|(pages, writes)| PageClass { pages, writes })
            .collect();
        let pages: f64 = classes.iter().map(|class| class.pages).sum();
        let writes: f64 = classes.iter().map(|class| class.writes).sum();
        let whole = pages.is_finite() && writes.is_finite() && writes > 0.0;
        if !whole {
            return AccessDistribution::uniform();
        }
        for class in &mut classes {
            class.pages /= pages;
            class.writes /= writes;
        }
        classes.sort_by(|a, b| b.rate().total_cmp(&a.rate()));
        AccessDistribution(classes)
    }

    /// Returns the classes, hottest first.
    pub fn classes(&self) -> &[PageClass] {
        &self.0
    }

    /// Returns w(h): the fraction of the writes that the hottest fraction `hot` of the pages receives.
    pub fn received(&self, hot: f64) -> f64 {
        let mut left = hot.clamp(0.0, 1.0);
        let mut received = 0.0;
        for class in &self.0 {
            if left < class.pages {
                return (received + left * class.rate()).min(1.0);
            }
            left -= class.pages;
            received += class.writes;
        }
        received.min(1.0)
    }

    /// Returns the distribution over the hottest fraction `hot` of the pages alone. Uniform if `hot` is 0.
    #[must_use]
    pub fn hottest(&self, hot: f64) -> AccessDistribution {
        let mut left = hot.clamp(0.0, 1.0);
        let mut taken = Vec::new();
        for class in &self.0 {
            let pages = class.pages.min(left);
            taken.push((pages, pages * class.rate()));
            left -= pages;
        }
        AccessDistribution::of(taken)
    }
}

/// Returns the sum of n^−s from `first` to before `end`. Small terms are added one by one. Otherwise the integral
/// between the midpoints is used, with a relative error below s(s+1)/(24·first²).
fn power_sum(first: u64, end: u64, exponent: f64) -> f64 {
    if first <= ZIPF_SINGLE {
        return (first..end).map(|n| (n as f64).powf(-exponent)).sum();
    }
    let (low, high) = (first as f64 - 0.5, end as f64 - 0.5);
    let power = 1.0 - exponent;
    if power.abs() < 1e-9 {
        (high / low).ln()
    } else {
        (high.powf(power) - low.powf(power)) / power
    }
}
