//! The moving parts: where the heads are after a time, and how long a transfer takes.
//!
//! The rotational position is a function of the clock alone, computed with 64 bits of a rotation,
//! so it is carried from request to request without error, however long the run.

use super::geometry::{Angle, Geometry, Piece};
use super::spec::Spec;

/// Where the arm is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Arm {
    pub(crate) cylinder: u32,
    pub(crate) head: u32,
    /// What it did there last was to write.
    pub(crate) wrote: bool,
}

impl Arm {
    pub(crate) fn at(piece: &Piece) -> Arm {
        Arm {
            cylinder: piece.cylinder,
            head: piece.head,
            wrote: false,
        }
    }

    pub(crate) fn is_over(self, other: Arm) -> bool {
        (self.cylinder, self.head) == (other.cylinder, other.head)
    }
}

/// Where a block begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) arm: Arm,
    pub(crate) angle: Angle,
}

impl Place {
    pub(crate) fn of(piece: &Piece) -> Place {
        Place {
            arm: Arm::at(piece),
            angle: piece.angle,
        }
    }
}

/// A transfer between the medium and the drive's memory. Times in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Transfer {
    /// Moving the arm and choosing the head, and settling.
    pub(crate) seek: u64,
    /// Waiting for the first block to come by.
    pub(crate) latency: u64,
    /// When the heads were in place and the waiting began.
    pub(crate) arrived: u64,
    /// When the first block, in the order of the blocks, is through.
    pub(crate) first_done: u64,
    /// When all are through.
    pub(crate) end: u64,
    pub(crate) arm: Arm,
}

pub(crate) struct Motor {
    /// Fraction of a rotation in a nanosecond.
    angle_per_ns: Angle,
    rotation_ps: u64,
    phase: Angle,
    /// Time of a seek in nanoseconds, by distance in cylinders.
    seek: Vec<u32>,
    head_switch: u64,
    write_settle: i64,
    /// What a request takes on the track where the heads are, until its first block may come by.
    least_on_track: u64,
    /// The same on another track of the cylinder, less the head switch.
    least_on_cylinder: u64,
    overhead_in_seeks: bool,
    any_order_read: bool,
    any_order_write: bool,
}

pub(crate) fn ns(ms: f64) -> u64 {
    (ms * 1e6).round() as u64
}

impl Motor {
    /// `phase`: the position at instant 0, as a fraction of a rotation.
    pub(crate) fn new(spec: &Spec, phase: f64) -> Motor {
        let m = &spec.mechanics;
        let miss = spec.controller.read_miss;
        let rotation_ps = (60e12 / m.rpm).round() as u64;
        Motor {
            angle_per_ns: ((1000u128 << 64) / u128::from(rotation_ps)) as u64,
            rotation_ps,
            phase: (phase.rem_euclid(1.0) * 2f64.powi(64)) as u64,
            seek: seek_table(&m.seek, spec.layout.cylinders),
            head_switch: ns(head_switch_ms(spec)),
            least_on_track: ns((m.seek[0].1 - m.head_switch_ms).max(0.0)),
            overhead_in_seeks: miss.after_read_ms == 0.0 && miss.after_write_ms == 0.0,
            least_on_cylinder: ns((head_switch_needed_ms(spec) - head_switch_ms(spec)).max(0.0)),
            write_settle: (m.write_settle_ms * 1e6).round() as i64,
            any_order_read: m.any_order_read,
            any_order_write: m.any_order_write,
        }
    }

    /// The angle under the heads.
    pub(crate) fn angle_at(&self, at: u64) -> Angle {
        self.phase.wrapping_add(at.wrapping_mul(self.angle_per_ns))
    }

    /// How long the disk takes to turn by `angle`, rounded up.
    pub(crate) fn time_of(&self, angle: Angle) -> u64 {
        let ps = (u128::from(angle) * u128::from(self.rotation_ps)) >> 64;
        (ps as u64).div_ceil(1000)
    }

    /// How far the disk turns in `ns` nanoseconds, as far as it is less than a rotation.
    pub(crate) fn turned_in(&self, ns: u64) -> Angle {
        ns.saturating_mul(self.angle_per_ns)
    }

    pub(crate) fn rotation(&self) -> u64 {
        self.rotation_ps.div_ceil(1000)
    }

    /// How long until `angle` is under the heads. Rounding may have put the clock a few
    /// nanoseconds past an angle it was meant to meet; that is not a rotation missed.
    fn wait_for(&self, angle: Angle, at: u64) -> u64 {
        let ahead = angle.wrapping_sub(self.angle_at(at));
        if ahead.wrapping_neg() <= 8 * self.angle_per_ns {
            return 0;
        }
        self.time_of(ahead)
    }

    /// How long the arm takes from one place to another.
    pub(crate) fn seek(&self, from: Arm, to: Arm, write: bool) -> u64 {
        if from.is_over(to) {
            return 0;
        }
        let distance = from.cylinder.abs_diff(to.cylinder) as usize;
        let mut time = u64::from(self.seek[distance]);
        if from.head != to.head {
            time = time.max(self.head_switch);
        }
        if write {
            time = time.saturating_add_signed(self.write_settle);
        }
        time
    }

    /// The least that the controller takes before the arm sets out for a read.
    ///
    /// The extracted time of a head switch is what a request takes longer on another track of the
    /// cylinder than on the same one. So on the same one it takes the shortest seek less that. Two
    /// sorts of reads do: those after a write, for which the servo has to bring another part of the
    /// head over the track; and all on a drive whose overhead is in its seek curve, because none was
    /// extracted.
    pub(crate) fn least_before_read(&self, from: Arm, to: Arm) -> u64 {
        if from.cylinder != to.cylinder {
            0
        } else if from.head != to.head {
            self.least_on_cylinder
        } else if from.wrote || self.overhead_in_seeks {
            self.least_on_track
        } else {
            0
        }
    }

    /// When the first block is under the heads, if the arm sets out at `at` and the block may not
    /// begin before `ready`: what scheduling by positioning time compares.
    pub(crate) fn positioned(
        &self,
        (at, arm): (u64, Arm),
        place: Place,
        write: bool,
        ready: u64,
    ) -> u64 {
        let arrived = (at + self.seek(arm, place.arm, write)).max(ready);
        arrived + self.wait_for(place.angle, arrived)
    }

    /// A transfer of `blocks` blocks from `first` on, begun at `at` with the arm at `arm`. The
    /// first block may not begin before `ready`.
    pub(crate) fn transfer(
        &self,
        geometry: &Geometry,
        (at, arm): (u64, Arm),
        (first, blocks): (u64, u64),
        write: bool,
        ready: u64,
    ) -> Transfer {
        let any_order = if write {
            self.any_order_write
        } else {
            self.any_order_read
        };
        let mut result = Transfer {
            seek: 0,
            latency: 0,
            arrived: at,
            first_done: 0,
            end: at,
            arm,
        };
        let mut done = 0;
        while done < blocks {
            let piece = geometry.piece(first + done, blocks - done);
            let to = Arm::at(&piece);
            let seek = self.seek(result.arm, to, write);
            let arrived = (result.end + seek).max(ready);
            let wait = self.wait_for(piece.angle, arrived);
            let mut latency = wait;
            let first_done = arrived + wait + self.time_of(piece.slot);
            let mut end = arrived + wait + self.time_of(piece.span);
            let into = self.angle_at(arrived).wrapping_sub(piece.angle);
            if any_order && wait > 0 && into < piece.span - piece.slot {
                // From the next block to come by, once around, back to where that began.
                let partial = into % piece.slot;
                latency = self.time_of(piece.slot - partial);
                end = end.min(arrived + latency + self.rotation());
            }
            if done == 0 {
                result.seek = seek;
                result.latency = latency;
                result.arrived = arrived;
                result.first_done = first_done;
            }
            result.end = end;
            result.arm = Arm { wrote: write, ..to };
            done += u64::from(piece.blocks);
        }
        result
    }
}

/// How long changing heads takes.
///
/// The heads of an arm are not aligned to the width of a track, so after a change the servo has to
/// find the track as it does after a seek to the next cylinder, and takes about as long; but no
/// longer than the maker left for it, which is the skew from track to track, less what a write
/// needs to settle in addition. On most drives the extracted figure is a small fraction of that
/// (with it, a drive would waste nearly all of its skew); such a figure is not taken at its word.
fn head_switch_ms(spec: &Spec) -> f64 {
    let needed_ms = head_switch_needed_ms(spec);
    let extracted_ms = spec.mechanics.head_switch_ms;
    if extracted_ms < needed_ms / 2.0 {
        needed_ms
    } else {
        extracted_ms
    }
}

/// As long as a seek to the next cylinder, or the skew if that is less.
fn head_switch_needed_ms(spec: &Spec) -> f64 {
    let m = &spec.mechanics;
    let rotation_ms = 60_000.0 / m.rpm;
    let skew_ms = spec
        .layout
        .zones
        .iter()
        .map(|z| z.track_skew / f64::from(z.sectors) * rotation_ms)
        .fold(f64::INFINITY, f64::min);
    (skew_ms - m.write_settle_ms.max(0.0)).min(m.seek[0].1)
}

/// The seek curve for every distance: linear between the points measured, and on past the last.
///
/// Each point is the median of itself and its neighbours. That leaves a rising curve as it is and
/// takes out single points that went wrong: the extracted curve of `atlas10k` has 9.5 ms for 4700
/// cylinders, between 6.5 ms for 4600 and 6.7 ms for 4800.
fn seek_table(measured: &[(u32, f64)], cylinders: u32) -> Vec<u32> {
    let mut points = measured.to_vec();
    for (i, w) in measured.windows(3).enumerate() {
        let (a, b, c) = (w[0].1, w[1].1, w[2].1);
        points[i + 1].1 = a.max(b).min(a.min(b).max(c));
    }
    let mut table = Vec::with_capacity(cylinders as usize);
    table.push(0);
    let mut upper = 1;
    for distance in 1..cylinders {
        while upper + 1 < points.len() && points[upper].0 < distance {
            upper += 1;
        }
        let ((d0, t0), (d1, t1)) = (points[upper - 1], points[upper]);
        let share = (f64::from(distance) - f64::from(d0)) / f64::from(d1 - d0);
        table.push(ns((t0 + share * (t1 - t0)).max(0.0)) as u32);
    }
    table
}

#[cfg(test)]
#[path = "mechanics_tests.rs"]
mod tests;
