//! Which share of the pages receives which share of the writes.

/// Pages that are written equally often.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Class {
    /// Their share of all pages that hold data.
    pub pages: f64,
    /// The share of all writes that goes to them.
    pub writes: f64,
}

impl Class {
    /// How often one of them is written, as a multiple of the mean over all pages.
    pub fn rate(&self) -> f64 {
        self.writes / self.pages
    }
}

/// A distribution of writes over pages: a few classes, hottest first, whose shares of pages and of writes
/// each come to 1.
#[derive(Clone, PartialEq, Debug)]
pub struct Access(Vec<Class>);

/// How many of the hottest pages of a Zipf distribution are a class each.
const ZIPF_SINGLE: u64 = 16;
/// How much larger, in percent, a class of the others is than the one before.
const ZIPF_GROWTH: u64 = 50;

impl Access {
    /// Every page equally often.
    pub fn uniform() -> Access {
        Access(vec![Class {
            pages: 1.0,
            writes: 1.0,
        }])
    }

    /// `writes` of the writes go to `pages` of the pages: 0.8 to 0.2, say.
    pub fn skewed(writes: f64, pages: f64) -> Access {
        Access::of([(pages, writes), (1.0 - pages, 1.0 - writes)])
    }

    /// The n-th page of `pages` is written in proportion to n^−`exponent`.
    pub fn zipf(pages: u64, exponent: f64) -> Access {
        let (mut classes, mut first) = (Vec::new(), 1);
        while first <= pages {
            let many = match first <= ZIPF_SINGLE {
                true => 1,
                false => first * ZIPF_GROWTH / 100,
            };
            let next = (first + many).min(pages + 1);
            classes.push(((next - first) as f64, power_sum(first, next, exponent)));
            first = next;
        }
        Access::of(classes)
    }

    /// From numbers of pages and of the writes that went to them, in any unit and order. What is no
    /// number, or negative, or writes without a page, does not count; if nothing is left, or no writes,
    /// it is uniform.
    pub fn of(counts: impl IntoIterator<Item = (f64, f64)>) -> Access {
        let sound = |value: f64| value.is_finite() && value >= 0.0;
        let counts = counts.into_iter();
        let mut classes: Vec<Class> = counts
            .filter(|&(pages, writes)| sound(pages) && sound(writes) && pages > 0.0)
            .map(|(pages, writes)| Class { pages, writes })
            .collect();
        let pages: f64 = classes.iter().map(|class| class.pages).sum();
        let writes: f64 = classes.iter().map(|class| class.writes).sum();
        let whole = pages.is_finite() && writes.is_finite() && writes > 0.0;
        if !whole {
            return Access::uniform();
        }
        for class in &mut classes {
            class.pages /= pages;
            class.writes /= writes;
        }
        classes.sort_by(|a, b| b.rate().total_cmp(&a.rate()));
        Access(classes)
    }

    /// The classes, hottest first.
    pub fn classes(&self) -> &[Class] {
        &self.0
    }

    /// w(h): the share of the writes that goes to the hottest share `hot` of the pages.
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

    /// The same of the hottest share `hot` of the pages alone. Uniform if that is none.
    pub fn hottest(&self, hot: f64) -> Access {
        let mut left = hot.clamp(0.0, 1.0);
        let mut taken = Vec::new();
        for class in &self.0 {
            let pages = class.pages.min(left);
            taken.push((pages, pages * class.rate()));
            left -= pages;
        }
        Access::of(taken)
    }
}

/// The sum of n^−s from `first` to before `end`: term by term where few, and else by the integral between
/// the middles, whose relative error is below s(s+1)/(24·first²).
fn power_sum(first: u64, end: u64, exponent: f64) -> f64 {
    if first <= ZIPF_SINGLE {
        return (first..end).map(|n| (n as f64).powf(-exponent)).sum();
    }
    let (low, high) = (first as f64 - 0.5, end as f64 - 0.5);
    let power = 1.0 - exponent;
    match power.abs() < 1e-9 {
        true => (high / low).ln(),
        false => (high.powf(power) - low.powf(power)) / power,
    }
}
