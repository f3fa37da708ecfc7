//! Change of the policy of a volume in use.
//!
//! The policy of a new volume rests on two assumptions: the clients' writes, and the utilisation. Both are learnt in
//! use, together with the real cost of cleaning. At the end of each epoch of the [`WriteProfile`] the tuner chooses again.
//! It changes the policy only if several looks in a row found the same better policy. The gain must also be worth a
//! period in which new segments are filled beside old ones.

use super::{
    DeviceProperties, FillLevel, PlacementKind, PolicyChoice, WorkloadProperties, WriteProfile,
    choose,
};
use forebay_units::{SECTOR_BYTES, Sector};

/// Number of consecutive looks that must find the same better policy.
const LOOKS: u32 = 3;
/// Maximum expected cost of the other policy, relative to the present one.
const WORTH: f64 = 0.9;
/// Number of looks after a change before the next one. The measured cost of cleaning is then that of the present
/// policy.
const REST: u32 = 4;
/// Minimum client writes for a measurement of the cost of cleaning, in segments.
const MEASURED_SEGMENTS: u64 = 16;
/// Maximum fraction of writes in place for a policy that logs everything.
const LOGS_ALL: f64 = 0.01;
/// Weight of a new value against the old one, and the bounds of the measured ratio.
const NEWEST: f64 = 0.5;
const RATIO_MIN: f64 = 0.25;
const RATIO_MAX: f64 = 4.0;

/// Work of a volume up to a look, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct WorkTotals {
    /// Bytes written by clients.
    pub written: u64,
    /// Bytes of these that were written in place.
    pub in_place: u64,
    /// Bytes moved by the cleaner.
    pub moved: u64,
}

/// Result of a look.
#[derive(Clone, PartialEq, Debug)]
pub struct TunerDecision {
    /// The policy to change to now, if any.
    pub change: Option<PlacementKind>,
    /// The policy with the lowest cost, with the reason.
    pub chosen: PolicyChoice,
}

/// Status of a tuner.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct TunerStatus {
    /// The newest reason.
    pub why: Option<String>,
    /// Looks so far.
    pub looks: u64,
    /// The policy that the newest looks found better than the present one, and the number of such looks in a row.
    pub leaning: Option<(PlacementKind, u32)>,
}

/// Learnt values for the choice of a volume's policy.
#[derive(Clone, Debug)]
pub struct Tuner {
    medium: DeviceProperties,
    profile: WriteProfile,
    /// Work of the volume at the last look.
    done: WorkTotals,
    log_ratio: f64,
    rest: u32,
    said: TunerStatus,
}

impl Tuner {
    /// Creates a tuner that knows nothing about the writes to this device.
    pub fn new(medium: DeviceProperties) -> Tuner {
        let page_sectors = (medium.page_bytes / SECTOR_BYTES).clamp(1, 1 << 16) as u32;
        Tuner {
            medium,
            profile: WriteProfile::new(page_sectors),
            done: WorkTotals::default(),
            log_ratio: 1.0,
            rest: 0,
            said: TunerStatus::default(),
        }
    }

    /// Notes a client write; see [`WriteProfile::wrote`].
    pub fn wrote(&mut self, at: Sector, sectors: u32, is_mapped: impl Fn(Sector) -> bool) {
        self.profile.wrote(at, sectors, is_mapped);
    }

    /// Returns true if a look is due, on a volume with `live_sectors` of data.
    pub fn wants_look(&self, live_sectors: u64) -> bool {
        self.profile.is_full(live_sectors)
    }

    /// Returns the status.
    pub fn said(&self) -> &TunerStatus {
        &self.said
    }

    /// Notes a change of the policy by the tuner or an administrator: measurements of the old policy do not apply to
    /// the new one.
    pub fn changed(&mut self) {
        self.rest = REST;
        self.said.leaning = None;
    }

    /// Chooses among the policies that fit, on a volume with this fill level and the policy `present`. `None` while the
    /// writes are unknown.
    pub fn look(
        &mut self,
        present: PlacementKind,
        fill: FillLevel,
        live_sectors: u64,
        done: WorkTotals,
        fits: impl Fn(PlacementKind) -> bool,
    ) -> Option<TunerDecision> {
        let profiled = self.profile.turn(live_sectors)?;
        let mut known = WorkloadProperties {
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
            // The device does not allow the present policy.
            _ => true,
        };
        self.said.leaning = match self.said.leaning {
            _ if chosen.kind == present || !better || !fits(chosen.kind) => None,
            Some((kind, looks)) if kind == chosen.kind => Some((kind, looks + 1)),
            _ => Some((chosen.kind, 1)),
        };
        let change = self.said.leaning.filter(|(_, looks)| *looks >= LOOKS);
        let change = change.filter(|_| self.rest == 0);
        Some(TunerDecision {
            change: change.map(|(kind, _)| kind),
            chosen,
        })
    }

    /// Measures the cost of cleaning since the last look, if everything was logged. Moved data is read and written;
    /// dead data is not read. So the cost is one segment I/O less than in the model.
    fn measure(&mut self, present: PlacementKind, done: WorkTotals, known: &WorkloadProperties) {
        let since = |now: u64, before: u64| now.saturating_sub(before);
        let written = since(done.written, self.done.written);
        let in_place = since(done.in_place, self.done.in_place);
        let moved = since(done.moved, self.done.moved);
        let logs_all = (in_place as f64) <= LOGS_ALL * written as f64;
        if written < MEASURED_SEGMENTS * self.medium.segment_bytes {
            return;
        }
        self.done = done;
        // Without cleaning its cost is unknown: free space was never short.
        if !logs_all || moved == 0 {
            return;
        }
        let model = choose(&self.medium, known).costs;
        let log = if present.in_place() {
            PlacementKind::Lfs
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
