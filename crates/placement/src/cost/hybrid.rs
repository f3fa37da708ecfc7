//! HyLog: hot pages in a log, cold ones overwritten in place.

use super::{Access, cleaning_cost, cleaning_utilisation};

/// Hot shares that are tried besides the bounds of the classes: so many, evenly.
const TRIED: u32 = 64;

/// A division of the pages into hot and cold.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Hybrid {
    /// h: the share of the pages that is logged, the hottest ones. At 0 all is overwritten; at 1 it is a
    /// log as any other.
    pub share: f64,
    /// w(h): the share of the writes that they receive.
    pub received: f64,
    /// Segment I/Os for each segment's worth of pages that users write.
    pub cost: f64,
}

/// How utilised the hot log is: all free space of the disk, which is utilised to `d`, is its own, so it
/// is h·d/(h·d + 1 − d).
pub fn hot_log_utilisation(share: f64, d: f64) -> f64 {
    let (hot, free) = (share.clamp(0.0, 1.0) * d, (1.0 - d).max(0.0));
    match hot + free {
        all if all > 0.0 => hot / all,
        _ => 1.0,
    }
}

/// w(h)·2/(1 − u_h) + (1 − w(h))·E for a log of the hottest `share` of the pages, which receive
/// `received` of the writes, evenly.
pub fn hybrid_cost(share: f64, received: f64, d: f64, efficiency: f64) -> f64 {
    let u = cleaning_utilisation(hot_log_utilisation(share, d));
    hybrid_cost_at(u, share, received, efficiency)
}

/// The same where the hot log is cleaned at utilisation `u`.
fn hybrid_cost_at(u: f64, share: f64, received: f64, efficiency: f64) -> f64 {
    match share > 0.0 && received > 0.0 {
        true => received * cleaning_cost(u) + (1.0 - received) * efficiency,
        false => efficiency,
    }
}

/// The hot share that costs least on a disk utilised to `d`, with even accesses in the hot log; of equal
/// ones the smallest.
pub fn best_hot_share(access: &Access, d: f64, efficiency: f64) -> Hybrid {
    best_hot_share_by(access, d, efficiency, |_, dense| {
        cleaning_utilisation(dense)
    })
}

/// The same where `cleaned` says at which utilisation a hot log is cleaned, from the share of the pages
/// that it holds and how full it is.
pub fn best_hot_share_by(
    access: &Access,
    d: f64,
    efficiency: f64,
    cleaned: impl Fn(f64, f64) -> f64,
) -> Hybrid {
    let mut bound = 0.0;
    let bounds = access.classes().iter().map(|class| {
        bound += class.pages;
        f64::min(bound, 1.0)
    });
    let even = (0..=TRIED).map(|n| f64::from(n) / f64::from(TRIED));
    let mut shares: Vec<f64> = bounds.chain(even).collect();
    shares.sort_by(f64::total_cmp);
    let mut best = Hybrid {
        share: 0.0,
        received: 0.0,
        cost: efficiency,
    };
    for share in shares {
        let received = access.received(share);
        let u = cleaned(share, hot_log_utilisation(share, d));
        let cost = hybrid_cost_at(u, share, received, efficiency);
        if cost < best.cost {
            best = Hybrid {
                share,
                received,
                cost,
            };
        }
    }
    best
}
