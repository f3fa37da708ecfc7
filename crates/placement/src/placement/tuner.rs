//! When a volume in use should place data otherwise.
//!
//! A new volume's policy rests on two assumptions: what its users write, and how full it will be. Both are learnt while it is in
//! use, and so is what cleaning really costs. At the end of each epoch of the [`Profile`] the tuner chooses anew. It
//! changes the policy only when several looks in a row found the same one better, and by enough to be worth that new segments
//! are filled beside old ones for a while.

use super::{Chosen, Fill, Kind, Known, Medium, Profile, choose};
use forebay_units::{SECTOR_BYTES, Sector};

/// Looks in a row that must find the same policy better.
const LOOKS: u32 = 3;
/// What the other one is expected to cost at most, of what the present one is.
const WORTH: f64 = 0.9;
/// Looks after a change before the next: what cleaning costs then is that of the present policy.
const REST: u32 = 4;
/// What users write at least while it is measured what cleaning costs, in segments.
const MEASURED_SEGMENTS: u64 = 16;
/// A policy that logs all writes at most this share in place.
const LOGS_ALL: f64 = 0.01;
/// The weight of what is new against what was before, and how far measured costs count.
const NEWEST: f64 = 0.5;
const RATIO_MIN: f64 = 0.25;
const RATIO_MAX: f64 = 4.0;

/// What a volume has done until a look, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Done {
    /// Written by users.
    pub written: u64,
    /// Of those, written in place.
    pub in_place: u64,
    /// Moved by the cleaner.
    pub moved: u64,
}

/// What a look found.
#[derive(Clone, PartialEq, Debug)]
pub struct Look {
    /// The policy to change to now, if it should be changed.
    pub change: Option<Kind>,
    /// What costs least, and why.
    pub chosen: Chosen,
}

/// What a tuner can say of itself.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Tuning {
    /// The newest reason.
    pub why: Option<String>,
    /// Looks so far.
    pub looks: u64,
    /// The policy that the newest looks found better than the present one, and how many did in a row.
    pub leaning: Option<(Kind, u32)>,
}

/// What a volume has learnt for the choice of its policy.
#[derive(Clone, Debug)]
pub struct Tuner {
    medium: Medium,
    profile: Profile,
    /// When the last look was.
    done: Done,
    log_ratio: f64,
    rest: u32,
    said: Tuning,
}

impl Tuner {
    /// Nothing is known yet of what users write to this medium.
    pub fn new(medium: Medium) -> Tuner {
        let page_sectors = (medium.page_bytes / SECTOR_BYTES).clamp(1, 1 << 16) as u32;
        Tuner {
            medium,
            profile: Profile::new(page_sectors),
            done: Done::default(),
            log_ratio: 1.0,
            rest: 0,
            said: Tuning::default(),
        }
    }

    /// A user writes so many sectors; see [`Profile::wrote`].
    pub fn wrote(&mut self, at: Sector, sectors: u32, is_mapped: impl Fn(Sector) -> bool) {
        self.profile.wrote(at, sectors, is_mapped);
    }

    /// True if it is time for a look, on a volume with so many sectors of data.
    pub fn wants_look(&self, live_sectors: u64) -> bool {
        self.profile.is_full(live_sectors)
    }

    /// What it says of itself.
    pub fn said(&self) -> &Tuning {
        &self.said
    }

    /// The policy was changed, by whomever: what was learnt of it does not count for the new one.
    pub fn changed(&mut self) {
        self.rest = REST;
        self.said.leaning = None;
    }

    /// Chooses among the policies that fit, on a volume that is so full and has `present`. Says nothing as long as nothing is
    /// known of its users.
    pub fn look(
        &mut self,
        present: Kind,
        (fill, live_sectors): (Fill, u64),
        done: Done,
        fits: impl Fn(Kind) -> bool,
    ) -> Option<Look> {
        let profiled = self.profile.turn(live_sectors)?;
        let mut known = Known {
            access: profiled.access,
            utilisation: fill.utilisation(),
            write_bytes: profiled.write_bytes,
            log_ratio: 1.0,
        };
        self.measure(present, done, &known);
        known.log_ratio = self.log_ratio;
        let chosen = choose(&self.medium, &known);
        self.said.looks += 1;
        self.said.why = Some(chosen.why.clone());
        self.rest = self.rest.saturating_sub(1);
        let cost = |kind| chosen.costs.iter().find(|(other, _)| *other == kind);
        let better = match (cost(present), cost(chosen.kind)) {
            (Some((_, now)), Some((_, then))) => *then < now * WORTH,
            // The medium does not allow the present one.
            _ => true,
        };
        self.said.leaning = match self.said.leaning {
            _ if chosen.kind == present || !better || !fits(chosen.kind) => None,
            Some((kind, looks)) if kind == chosen.kind => Some((kind, looks + 1)),
            _ => Some((chosen.kind, 1)),
        };
        let change = self.said.leaning.filter(|(_, looks)| *looks >= LOOKS);
        let change = change.filter(|_| self.rest == 0);
        Some(Look {
            change: change.map(|(kind, _)| kind),
            chosen,
        })
    }

    /// What cleaning cost since the last look, if all was logged. What is moved is read and written; what is dead is not read,
    /// so one segment I/O less is done than the model has.
    fn measure(&mut self, present: Kind, done: Done, known: &Known) {
        let since = |now: u64, before: u64| now.saturating_sub(before);
        let written = since(done.written, self.done.written);
        let in_place = since(done.in_place, self.done.in_place);
        let moved = since(done.moved, self.done.moved);
        let logs_all = (in_place as f64) <= LOGS_ALL * written as f64;
        if written < MEASURED_SEGMENTS * self.medium.segment_bytes {
            return;
        }
        self.done = done;
        // Without cleaning nothing is known of its cost: room has not been short.
        if !logs_all || moved == 0 {
            return;
        }
        let model = choose(&self.medium, known).costs;
        let log = if present.in_place() {
            Kind::Lfs
        } else {
            present
        };
        let Some((_, model)) = model.into_iter().find(|(kind, _)| *kind == log) else {
            return;
        };
        let cost = 2.0 + 2.0 * moved as f64 / written as f64;
        let ratio = (cost / model).clamp(RATIO_MIN, RATIO_MAX);
        if ratio.is_finite() {
            self.log_ratio += NEWEST * (ratio - self.log_ratio);
        }
    }
}

#[cfg(test)]
#[path = "tuner_tests.rs"]
mod tests;
