//! Cost model of placement: the analytic model of the HyLog study (Wang, Zhao and Bunt, "HyLog: A High Performance
//! Approach to Managing Disk Layout", FAST 2004), with extensions.
//!
//! A segment holds N pages. Its positioning takes P and a page's transfer p, so N single page writes take N(P + p), and
//! a segment write takes P + Np. Their ratio is the *segment I/O efficiency* E = N(P + p)/(P + Np). All costs here are
//! **segment I/Os per segment's worth of pages that clients write**:
//!
//! | way to write | cost | reason |
//! |---|---|---|
//! | overwrite | E | each page alone |
//! | log, cleaned at utilisation u | 2/(1−u) | 1/(1−u) segments read, u/(1−u) written with live data, 1 with new data |
//! | log, holes plugged | 2 + uE | one segment read, its live pages written one by one, 1 written with new data |
//!
//! All three are equal at u = 1 − 2/E. Utilisations are fractions from 0 to 1: of a *segment* when it is cleaned (u),
//! or of the *disk* (d). For uniform updates and cleaning in order of age, d = (1−u)/(−ln u) (Rosenblum and Ousterhout
//! 1992 have this as a figure; Menon, "A performance comparison of RAID-5 and log-structured arrays", HPDC 1995, as
//! this formula).
//!
//! - `cost/access.rs`: distribution of writes over pages.
//! - `cost/log.rs`: cost of cleaning if hot and cold pages are separated, and of greedy cleaning of segments with few
//!   pages.
//! - `cost/hybrid.rs`: HyLog, and the hot share with the lowest cost.

mod access;
mod hybrid;
mod log;

pub use access::{AccessDistribution, PageClass};
pub use hybrid::{
    HybridSplit, best_hot_share, best_hot_share_by, hot_log_utilisation, hybrid_cost,
};
pub use log::{greedy_utilisation, separated_utilisation};

/// Parameters of a disk in the model.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DiskParameters {
    /// Time to reach a random place, in seconds: seek and half a rotation.
    pub positioning: f64,
    /// Sequential bandwidth, in bytes a second.
    pub bandwidth: f64,
    /// Number of requests that the device positions concurrently, at least 1: an array positions one on each disk. A
    /// segment spans all disks, and is one request. Devices without arms have 1: for them `positioning` alone models
    /// the cost.
    pub arms: f64,
}

/// Additional segment I/Os per segment's worth of pages written in place. A log-structured volume first appends such
/// pages to the log, so that they are whole after a crash.
pub const APPENDED: f64 = 1.0;

const MIB: f64 = 1_048_576.0;

impl DiskParameters {
    /// Parameters of the DEC RZ26 of 1991, from the study's table.
    pub const OF_1991: DiskParameters = DiskParameters {
        positioning: 0.015,
        bandwidth: 2.3 * MIB,
        arms: 1.0,
    };
    /// Parameters of the Seagate Cheetah X15 36LP of 2003, from the study's table.
    pub const OF_2003: DiskParameters = DiskParameters {
        positioning: 0.0056,
        bandwidth: 61.0 * MIB,
        arms: 1.0,
    };

    /// Returns the segment I/O efficiency E = N(P/a + p)/(P + Np), at least 1, with a the number of arms. E is the
    /// ratio of two times: `segment_bytes` in writes of `page_bytes` with one write for each arm at a time, and the
    /// same bytes in a single write.
    pub fn efficiency(&self, page_bytes: u64, segment_bytes: u64) -> f64 {
        let page = page_bytes.clamp(1, segment_bytes.max(1)) as f64;
        let pages = segment_bytes.max(1) as f64 / page;
        let (place, transfer) = (self.positioning.max(0.0), page / self.bandwidth.max(1.0));
        let each = place / self.arms.max(1.0) + transfer;
        (pages * each / (place + pages * transfer)).max(1.0)
    }

    /// Returns the cost, at least 1, of writing a segment's worth of data in place in writes of `piece_bytes`, in
    /// segment I/Os. The writes are sorted by place. So the arm moves only a little each time, and then waits half a
    /// rotation: about half the time of a random access.
    pub fn home_cost(&self, piece_bytes: u64, segment_bytes: u64) -> f64 {
        let in_order = DiskParameters {
            positioning: 0.5 * self.positioning,
            ..*self
        };
        let whole = |disk: &DiskParameters| {
            disk.positioning.max(0.0) + segment_bytes as f64 / disk.bandwidth.max(1.0)
        };
        let cost = in_order.efficiency(piece_bytes, segment_bytes);
        (cost * whole(&in_order) / whole(self)).max(1.0)
    }
}

/// Returns the cost of a log whose segments have utilisation `u` when they are cleaned: 2/(1−u).
pub fn cleaning_cost(u: f64) -> f64 {
    2.0 / (1.0 - u.clamp(0.0, 1.0))
}

/// Returns the cost of a log that gains free segments by plugging holes with live data from segments of utilisation
/// `u`: 2 + uE (Matthews et al., SOSP 1997, section 4).
pub fn hole_plugging_cost(u: f64, efficiency: f64) -> f64 {
    2.0 + u.clamp(0.0, 1.0) * efficiency
}

/// Returns the utilisation of cleaned segments at which overwriting, cleaning and hole-plugging cost the same: 1 − 2/E.
/// Below this utilisation a log is cheaper. Returns 0 if overwriting is always cheaper.
pub fn crossover(efficiency: f64) -> f64 {
    (1.0 - 2.0 / efficiency).max(0.0)
}

/// Returns the page writes of a log per page that clients write: 1/(1−u).
pub fn write_amplification(u: f64) -> f64 {
    1.0 / (1.0 - u.clamp(0.0, 1.0))
}

/// Returns the disk utilisation at which segments have utilisation `u` when they are cleaned: (1−u)/(−ln u).
pub fn disk_utilisation(u: f64) -> f64 {
    match u {
        u if u <= 0.0 => 0.0,
        u if u >= 1.0 => 1.0,
        u => disk_utilisation_at(-u.ln()),
    }
}

/// Returns the utilisation of segments at cleaning on a disk of utilisation `d`: the inverse of [`disk_utilisation`].
pub fn cleaning_utilisation(d: f64) -> f64 {
    match d {
        d if d <= 0.0 => 0.0,
        d if d >= 1.0 => 1.0,
        d => (-decreasing_root(0.0, 1.0 / d, |x| disk_utilisation_at(x) - d)).exp(),
    }
}

/// Returns (1 − e^−x)/x, where u = e^−x.
fn disk_utilisation_at(x: f64) -> f64 {
    match x {
        x if x <= 0.0 => 1.0,
        x => -(-x).exp_m1() / x,
    }
}

/// Returns the cost of a single log for uniform updates on a disk of utilisation `d`.
pub fn lfs_cost(d: f64) -> f64 {
    cleaning_cost(cleaning_utilisation(d))
}

/// Returns the zero of the decreasing function `f` between `low` and `high`, or the nearer bound if `f` has no zero
/// there.
fn decreasing_root(mut low: f64, mut high: f64, f: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..64 {
        let middle = 0.5 * (low + high);
        if f(middle) > 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
#[path = "cost_tests.rs"]
mod tests;
