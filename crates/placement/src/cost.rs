//! What it costs to write where: the analytic model of the HyLog study (Wang, Zhao and Bunt, "HyLog: A
//! High Performance Approach to Managing Disk Layout", FAST 2004), and what it leaves open.
//!
//! A segment holds N pages. Its positioning takes P and a page's transfer p, so that N pages written one
//! by one take N(P + p), and as a segment P + Np. Their ratio is the *segment I/O efficiency*
//! E = N(P + p)/(P + Np). All costs here are **segment I/Os per segment's worth of pages that users
//! write**:
//!
//! | way to write | cost | why |
//! |---|---|---|
//! | overwrite | E | every page by itself |
//! | log, cleaned at utilisation u | 2/(1−u) | 1/(1−u) segments read, u/(1−u) written with what was live, 1 with what is new |
//! | log, holes plugged | 2 + uE | one segment read, its live pages written one by one, 1 written with what is new |
//!
//! All three are equal at u = 1 − 2/E. Utilisations are shares from 0 to 1: of a *segment* when it is
//! cleaned (u) or of the *disk* (d), which for updates spread evenly and cleaning in order of age are
//! related by d = (1−u)/(−ln u) (Rosenblum and Ousterhout 1992 have it as a figure; Menon, "A
//! performance comparison of RAID-5 and log-structured arrays", HPDC 1995, as this formula).
//!
//! - `cost/access.rs`: which share of the pages receives which share of the writes.
//! - `cost/log.rs`: what cleaning costs if hot and cold are told apart, and for greedy cleaning of segments of
//!   few pages.
//! - `cost/hybrid.rs`: HyLog, and the hot share that costs least.

mod access;
mod hybrid;
mod log;

pub use access::{Access, Class};
pub use hybrid::{Hybrid, best_hot_share, best_hot_share_by, hot_log_utilisation, hybrid_cost};
pub use log::{greedy_utilisation, separated_utilisation};

/// A disk as the model sees it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Disk {
    /// How long it takes to get to a random place, in seconds: seek and half a turn.
    pub positioning: f64,
    /// Bytes a second in sequence.
    pub bandwidth: f64,
    /// The number of requests that it positions at the same time, at least 1: an array positions one on each disk. A segment lies on all
    /// disks, and is one request. Media without arms have 1: `positioning` is all that is known of their cost.
    pub arms: f64,
}

/// What a log-structured volume writes in place is appended first, so that it is whole after a crash: so many segment I/Os more for each
/// segment's worth.
pub const APPENDED: f64 = 1.0;

const MIB: f64 = 1048576.0;

impl Disk {
    /// The DEC RZ26 of 1991, from the study's table.
    pub const OF_1991: Disk = Disk {
        positioning: 0.015,
        bandwidth: 2.3 * MIB,
        arms: 1.0,
    };
    /// The Seagate Cheetah X15 36LP of 2003, from the study's table.
    pub const OF_2003: Disk = Disk {
        positioning: 0.0056,
        bandwidth: 61.0 * MIB,
        arms: 1.0,
    };

    /// Segment I/O efficiency E = N(P/a + p)/(P + Np), at least 1, with a the arms: how much faster a segment of
    /// `segment_bytes` is written in one piece than in pieces of `page_bytes`, as many at a time as there are arms.
    pub fn efficiency(&self, page_bytes: u64, segment_bytes: u64) -> f64 {
        let page = page_bytes.clamp(1, segment_bytes.max(1)) as f64;
        let pages = segment_bytes.max(1) as f64 / page;
        let (place, transfer) = (self.positioning.max(0.0), page / self.bandwidth.max(1.0));
        let each = place / self.arms.max(1.0) + transfer;
        (pages * each / (place + pages * transfer)).max(1.0)
    }

    /// What it takes in segment I/Os, at least 1, to write a segment's worth of pieces home: many at a time, in the
    /// order of their places. The arm goes a little further each time, and then there is half a turn: about half of
    /// what it takes to get to a random place.
    pub fn home_cost(&self, piece_bytes: u64, segment_bytes: u64) -> f64 {
        let in_order = Disk {
            positioning: 0.5 * self.positioning,
            ..*self
        };
        let whole = |disk: &Disk| {
            disk.positioning.max(0.0) + segment_bytes as f64 / disk.bandwidth.max(1.0)
        };
        let cost = in_order.efficiency(piece_bytes, segment_bytes);
        (cost * whole(&in_order) / whole(self)).max(1.0)
    }
}

/// Cost of a log whose segments are `u` utilised when they are cleaned: 2/(1−u).
pub fn cleaning_cost(u: f64) -> f64 {
    2.0 / (1.0 - u.clamp(0.0, 1.0))
}

/// Cost of a log that makes room by plugging holes with what is live in segments utilised to `u`:
/// 2 + uE (Matthews et al., SOSP 1997, section 4).
pub fn hole_plugging_cost(u: f64, efficiency: f64) -> f64 {
    2.0 + u.clamp(0.0, 1.0) * efficiency
}

/// The utilisation of cleaned segments at which overwriting, cleaning and hole-plugging cost the same,
/// 1 − 2/E: below it a log is cheaper. 0 where overwriting always is.
pub fn crossover(efficiency: f64) -> f64 {
    (1.0 - 2.0 / efficiency).max(0.0)
}

/// How often a page of a log is written for each time that a user writes one, 1/(1−u).
pub fn write_amplification(u: f64) -> f64 {
    1.0 / (1.0 - u.clamp(0.0, 1.0))
}

/// The disk utilisation at which segments are `u` utilised when they are cleaned: (1−u)/(−ln u).
pub fn disk_utilisation(u: f64) -> f64 {
    match u {
        u if u <= 0.0 => 0.0,
        u if u >= 1.0 => 1.0,
        u => disk_utilisation_at(-u.ln()),
    }
}

/// How utilised segments are when they are cleaned, on a disk utilised to `d`: the inverse of
/// [`disk_utilisation`].
pub fn cleaning_utilisation(d: f64) -> f64 {
    match d {
        d if d <= 0.0 => 0.0,
        d if d >= 1.0 => 1.0,
        d => (-decreasing_root(0.0, 1.0 / d, |x| disk_utilisation_at(x) - d)).exp(),
    }
}

/// (1 − e^−x)/x, where u = e^−x.
fn disk_utilisation_at(x: f64) -> f64 {
    match x {
        x if x <= 0.0 => 1.0,
        x => -(-x).exp_m1() / x,
    }
}

/// Cost of one log for even accesses on a disk utilised to `d`.
pub fn lfs_cost(d: f64) -> f64 {
    cleaning_cost(cleaning_utilisation(d))
}

/// Where `f`, which decreases, passes 0 between `low` and `high`; the nearer end if it does not.
fn decreasing_root(mut low: f64, mut high: f64, f: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..64 {
        let middle = 0.5 * (low + high);
        match f(middle) > 0.0 {
            true => low = middle,
            false => high = middle,
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
#[path = "cost_tests.rs"]
mod tests;
