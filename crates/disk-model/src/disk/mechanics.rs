//! The moving parts: position of the heads over time, and durations of transfers.
//!
//! The rotational position is a function of the clock alone, computed with 64 bits for a rotation. So it accumulates no
//! error from request to request, even in long runs.

use super::geometry::{Angle, DiskGeometry, TrackExtent};
use super::spec::DiskSpec;

/// Position of the arm.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ArmPosition {
    pub(crate) cylinder: u32,
    pub(crate) head: u32,
    /// True if the last operation at this position was a write.
    pub(crate) wrote: bool,
}

impl ArmPosition {
    pub(crate) fn at(piece: &TrackExtent) -> ArmPosition {
        ArmPosition {
            cylinder: piece.cylinder,
            head: piece.head,
            wrote: false,
        }
    }

    pub(crate) fn is_over(self, other: ArmPosition) -> bool {
        (self.cylinder, self.head) == (other.cylinder, other.head)
    }
}

/// Position of the arm at a time in nanoseconds, when a seek or a transfer begins.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ArmStart {
    pub(crate) at: u64,
    pub(crate) arm: ArmPosition,
}

/// Start of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockStart {
    pub(crate) arm: ArmPosition,
    pub(crate) angle: Angle,
}

impl BlockStart {
    pub(crate) fn of(piece: &TrackExtent) -> BlockStart {
        BlockStart {
            arm: ArmPosition::at(piece),
            angle: piece.angle,
        }
    }
}

/// A transfer between the platters and the drive's cache. Times are in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PlatterTransfer {
    /// Duration of moving the arm, switching the head, and settling.
    pub(crate) seek: u64,
    /// Duration of the wait for the first block.
    pub(crate) latency: u64,
    /// Time at which the heads were in place and the wait began.
    pub(crate) arrived: u64,
    /// Completion time of the first block, in the order of the blocks.
    pub(crate) first_done: u64,
    /// Completion time of all blocks.
    pub(crate) end: u64,
    pub(crate) arm: ArmPosition,
}

pub(crate) struct DriveMotor {
    /// Fraction of a rotation in a nanosecond.
    angle_per_ns: Angle,
    rotation_ps: u64,
    phase: Angle,
    /// Duration of a seek in nanoseconds, by distance in cylinders.
    seek: Vec<u32>,
    head_switch: u64,
    write_settle: i64,
    /// Minimum time on the current track from a request to the start of its first block.
    least_on_track: u64,
    /// Minimum time on another track of the cylinder, less the head switch.
    least_on_cylinder: u64,
    overhead_in_seeks: bool,
    any_order_read: bool,
    any_order_write: bool,
}

pub(crate) fn ns(ms: f64) -> u64 {
    (ms * 1e6).round() as u64
}

impl DriveMotor {
    /// Creates the motor. `phase` is the position at instant 0, as a fraction of a rotation.
    pub(crate) fn new(spec: &DiskSpec, phase: f64) -> DriveMotor {
        let m = &spec.mechanics;
        let miss = spec.controller.read_miss;
        let rotation_ps = (60e12 / m.rpm).round() as u64;
        DriveMotor {
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

    /// Returns the angle under the heads.
    pub(crate) fn angle_at(&self, at: u64) -> Angle {
        self.phase.wrapping_add(at.wrapping_mul(self.angle_per_ns))
    }

    /// Returns the time in which the disk rotates by `angle`, rounded up.
    pub(crate) fn time_of(&self, angle: Angle) -> u64 {
        let ps = (u128::from(angle) * u128::from(self.rotation_ps)) >> 64;
        (ps as u64).div_ceil(1000)
    }

    /// Returns the angle by which the disk rotates in `ns` nanoseconds; for less than a rotation.
    pub(crate) fn turned_in(&self, ns: u64) -> Angle {
        ns.saturating_mul(self.angle_per_ns)
    }

    pub(crate) fn rotation(&self) -> u64 {
        self.rotation_ps.div_ceil(1000)
    }

    /// Returns the time until `angle` is under the heads. Rounding may put the clock a few nanoseconds past the
    /// intended angle. This is not a missed rotation.
    fn wait_for(&self, angle: Angle, at: u64) -> u64 {
        let ahead = angle.wrapping_sub(self.angle_at(at));
        if ahead.wrapping_neg() <= 8 * self.angle_per_ns {
            return 0;
        }
        self.time_of(ahead)
    }

    /// Returns the duration of a seek from one position to another.
    pub(crate) fn seek(&self, from: ArmPosition, to: ArmPosition, write: bool) -> u64 {
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

    /// Returns the minimum time of the controller before the arm starts to move for a read.
    ///
    /// The extracted time of a head switch is the additional duration of a request on another track of the cylinder. So
    /// a request on the same track takes the shortest seek less this time. This applies to two kinds of reads. After a
    /// write the servo must bring another part of the head over the track. On some drives the extraction found no
    /// overhead, since it is part of the seek curve; there it applies to all reads.
    pub(crate) fn least_before_read(&self, from: ArmPosition, to: ArmPosition) -> u64 {
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

    /// Returns the time at which the first block is under the heads, if the arm starts at `start` and the block may
    /// not begin before `ready`. Scheduling by positioning time compares these times.
    pub(crate) fn positioned(
        &self,
        start: ArmStart,
        place: BlockStart,
        write: bool,
        ready: u64,
    ) -> u64 {
        let seek = self.seek(start.arm, place.arm, write);
        let arrived = (start.at + seek).max(ready);
        arrived + self.wait_for(place.angle, arrived)
    }

    /// Computes a transfer of `blocks` blocks from `first` on, begun at `start`. The first block may not begin before
    /// `ready`.
    pub(crate) fn transfer(
        &self,
        geometry: &DiskGeometry,
        start: ArmStart,
        (first, blocks): (u64, u64),
        write: bool,
        ready: u64,
    ) -> PlatterTransfer {
        let any_order = if write {
            self.any_order_write
        } else {
            self.any_order_read
        };
        let mut result = PlatterTransfer {
            seek: 0,
            latency: 0,
            arrived: start.at,
            first_done: 0,
            end: start.at,
            arm: start.arm,
        };
        let mut done = 0;
        while done < blocks {
            let piece = geometry.piece(first + done, blocks - done);
            let to = ArmPosition::at(&piece);
            let seek = self.seek(result.arm, to, write);
            let arrived = (result.end + seek).max(ready);
            let wait = self.wait_for(piece.angle, arrived);
            let mut latency = wait;
            let first_done = arrived + wait + self.time_of(piece.slot);
            let mut end = arrived + wait + self.time_of(piece.span);
            let into = self.angle_at(arrived).wrapping_sub(piece.angle);
            if any_order && wait > 0 && into < piece.span - piece.slot {
                // The transfer begins at the next block that passes and ends there after one rotation.
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
            result.arm = ArmPosition { wrote: write, ..to };
            done += u64::from(piece.blocks);
        }
        result
    }
}

/// Returns the duration of a head switch.
///
/// The heads of an arm are not aligned to the width of a track. So after a switch the servo must find the track as
/// after a seek to the next cylinder, and takes about as long. But it takes no longer than the skew from track to
/// track, less the additional settling time of a write: this is the time that the maker planned. On most drives the
/// extracted figure is a small fraction of this time. With such a figure, a drive would waste nearly all of its skew,
/// so the model ignores it.
fn head_switch_ms(spec: &DiskSpec) -> f64 {
    let needed_ms = head_switch_needed_ms(spec);
    let extracted_ms = spec.mechanics.head_switch_ms;
    if extracted_ms < needed_ms / 2.0 {
        needed_ms
    } else {
        extracted_ms
    }
}

/// Returns the duration of a seek to the next cylinder, or the skew if that is less.
fn head_switch_needed_ms(spec: &DiskSpec) -> f64 {
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

/// Returns the seek curve for every distance: linear between the measured points, and beyond the last one.
///
/// Each point is the median of itself and its neighbours. This does not change an increasing curve, and removes single
/// wrong points: the extracted curve of `atlas10k` has 9.5 ms for 4700 cylinders, between 6.5 ms for 4600 and 6.7 ms
/// for 4800.
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
