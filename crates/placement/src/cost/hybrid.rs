//! HyLog: hot pages in a log, cold pages overwritten in place.

use super::{AccessDistribution, cleaning_cost, cleaning_utilisation};

/// Number of evenly spaced hot shares that are tried, besides the bounds of the classes.
const TRIED: u32 = 64;

/// A division of the pages into hot and cold.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HybridSplit {
    /// h: the fraction of the pages that is logged, the hottest ones. At 0 all pages are overwritten. At 1 all pages
    /// are logged.
    pub share: f64,
    /// w(h): the fraction of the writes that these pages receive.
    pub received: f64,
    /// Cost in segment I/Os per segment's worth of pages that clients write.
    pub cost: f64,
}

/// Returns the utilisation of the hot log, h·d/(h·d + 1 − d): all free space of a disk with utilisation `d` belongs to
/// the hot log.
pub fn hot_log_utilisation(share: f64, d: f64) -> f64 {
    let (hot, free) = (share.clamp(0.0, 1.0) * d, (1.0 - d).max(0.0));
    match hot + free {
        all if all > 0.0 => hot / all,
        _ => 1.0,
    }
}

/// Returns `w(h)·2/(1 − u_h) + (1 − w(h))·E` for a log of the hottest `share` of the pages, which receive `received` of
/// the writes, evenly distributed.
pub fn hybrid_cost(share: f64, received: f64, d: f64, efficiency: f64) -> f64 {
    let u = cleaning_utilisation(hot_log_utilisation(share, d));
    hybrid_cost_at(u, share, received, efficiency)
}

/// Returns the cost of [`hybrid_cost`] if the hot log is cleaned at utilisation `u`.
fn hybrid_cost_at(u: f64, share: f64, received: f64, efficiency: f64) -> f64 {
    if share > 0.0 && received > 0.0 {
        received * cleaning_cost(u) + (1.0 - received) * efficiency
    } else {
        efficiency
    }
}

/// Returns the hot share with the lowest cost on a disk of utilisation `d`, with uniform updates in the hot log. Of
/// equal shares it returns the smallest.
pub fn best_hot_share(access: &AccessDistribution, d: f64, efficiency: f64) -> HybridSplit {
    best_hot_share_by(access, d, efficiency, |_, dense| {
        cleaning_utilisation(dense)
    })
}

/// Returns the best hot share like [`best_hot_share`], with a model of cleaning: `cleaned` returns the utilisation at
/// which a hot log is cleaned, from the log's fraction of the pages and the log's utilisation.
pub fn best_hot_share_by(
    access: &AccessDistribution,
    d: f64,
    efficiency: f64,
    cleaned: impl Fn(f64, f64) -> f64,
) -> HybridSplit {
    let mut bound = 0.0;
    let bounds = access.classes().iter().map(|class| {
        bound += class.pages;
        f64::min(bound, 1.0)
    });
    let even = (0..=TRIED).map(|n| f64::from(n) / f64::from(TRIED));
    let mut shares: Vec<f64> = bounds.chain(even).collect();
    shares.sort_by(f64::total_cmp);
    let mut best = HybridSplit {
        share: 0.0,
        received: 0.0,
        cost: efficiency,
    };
    for share in shares {
        let received = access.received(share);
        let u = cleaned(share, hot_log_utilisation(share, d));
        let cost = hybrid_cost_at(u, share, received, efficiency);
        if cost < best.cost {
            best = HybridSplit {
                share,
                received,
                cost,
            };
        }
    }
    best
}
