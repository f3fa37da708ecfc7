use super::super::spec::SpareRegion;
use super::super::{named, names};
use super::*;

fn motor(name: &str) -> (DiskSpec, DiskGeometry, DriveMotor) {
    let spec = named(name).expect("a known name");
    let geometry = DiskGeometry::new(&spec.layout).expect("the table was checked");
    let motor = DriveMotor::new(&spec, 0.0);
    (spec, geometry, motor)
}

#[test]
fn the_rotational_position_stays_exact_for_years() {
    for (name, _) in names() {
        let (_, _, motor) = motor(name);
        // A thousand rotations take almost a whole number of nanoseconds: compare after a year.
        let rotations = 31_536_000_000_000_000_000 / u128::from(motor.rotation_ps) / 1000 * 1000;
        let at = (rotations * u128::from(motor.rotation_ps) / 1000) as u64;
        let angle = motor.angle_at(at) as i64;
        let nanoseconds = angle.unsigned_abs() / motor.angle_per_ns;
        // The error of a rounded fraction of a rotation per nanosecond, 3e16 times.
        assert!(
            nanoseconds < 20_000,
            "{name}: {nanoseconds} ns off after a year"
        );
    }
}

#[test]
fn a_block_passes_the_head_once_per_rotation() {
    for (name, _) in names() {
        let (_, geometry, motor) = motor(name);
        let first = motor.transfer(&geometry, ArmStart::default(), (5000, 1), false, 0);
        let next = ArmStart {
            at: first.end,
            arm: first.arm,
        };
        let again = motor.transfer(&geometry, next, (5000, 1), false, 0);
        let apart = again.end - first.end;
        assert!(apart.abs_diff(motor.rotation()) <= 10, "{name}: {apart}");
    }
}

#[test]
fn a_long_transfer_runs_at_the_rate_of_its_zone_minus_the_skews() {
    for (name, _) in names() {
        for write in [false, true] {
            let (spec, geometry, motor) = motor(name);
            let zone = &spec.layout.zones[0];
            let surfaces = u64::from(spec.layout.surfaces);
            let cylinders = 8;
            let spares = match spec.layout.spares {
                SpareRegion::Track => zone.spares,
                _ => 0,
            };
            let blocks = (u64::from(zone.sectors) - spares) * surfaces * cylinders;
            let transfer = motor.transfer(&geometry, ArmStart::default(), (0, blocks), write, 0);
            let rotation = motor.rotation() as f64;
            let turns = (transfer.end - transfer.first_done) as f64 / rotation;
            let skews = (zone.track_skew * (surfaces - 1) as f64 + zone.cylinder_skew)
                * cylinders as f64
                / f64::from(zone.sectors);
            let expected = (surfaces * cylinders) as f64 + skews;
            let any_order = if write {
                spec.mechanics.any_order_write
            } else {
                spec.mechanics.any_order_read
            };
            // The tolerance is the skew at the end and the first block; a lost rotation would be visible. Transfers in
            // any order can be faster, down to a rotation for each track.
            let least = if any_order {
                (surfaces * cylinders) as f64
            } else {
                expected
            };
            assert!(
                least - 0.9 < turns && turns < expected + 0.9,
                "{name}, writing {write}: {turns} rotations, not {expected}"
            );
        }
    }
}

#[test]
fn the_seek_curve_passes_through_the_measured_points_and_rises_with_them() {
    for (name, _) in names() {
        let (spec, _, motor) = motor(name);
        for w in spec.mechanics.seek.windows(3) {
            let rising = w[0].1 <= w[1].1 && w[1].1 <= w[2].1;
            let (Some(&before), Some(&at)) = (
                motor.seek.get(w[0].0 as usize),
                motor.seek.get(w[1].0 as usize),
            ) else {
                continue;
            };
            if rising {
                assert_eq!(u64::from(at), ns(w[1].1), "{name}: {} cylinders", w[1].0);
            }
            if rising && u64::from(before) == ns(w[0].1) {
                let between = &motor.seek[w[0].0 as usize..=w[1].0 as usize];
                assert!(between.is_sorted(), "{name}: up to {} cylinders", w[1].0);
            }
        }
        // The curve has no jump: one more cylinder costs less than a millisecond more.
        for pair in motor.seek[1..].windows(2) {
            assert!(pair[0].abs_diff(pair[1]) < 1_000_000, "{name}: {pair:?}");
        }
    }
}

#[test]
fn an_outlier_is_removed_from_the_seek_curve() {
    let (_, _, motor) = motor("atlas10k");
    assert!(motor.seek[4700] < ns(6.8) as u32);
}

#[test]
fn a_head_switch_takes_time_and_fits_into_the_track_skew() {
    for (name, _) in names() {
        let (spec, _, motor) = motor(name);
        let change = motor.seek(
            ArmPosition {
                cylinder: 7,
                head: 0,
                wrote: false,
            },
            ArmPosition {
                cylinder: 7,
                head: 1,
                wrote: false,
            },
            true,
        );
        let zone = &spec.layout.zones[0];
        let skew = ns(zone.track_skew / f64::from(zone.sectors) * spec.rotation_ms());
        assert!(change > 0 && change <= skew, "{name}: {change} of {skew}");
    }
}

#[test]
fn reading_a_track_in_any_order_takes_at_most_one_rotation() {
    let (spec, geometry, motor) = motor("atlas10k");
    let track = u64::from(spec.layout.zones[0].sectors);
    for start in 0..40 {
        let at = start * 150_000;
        let start = ArmStart {
            at,
            arm: ArmPosition::default(),
        };
        let read = motor.transfer(&geometry, start, (0, track), false, 0);
        let took = read.end - at;
        let most = motor.rotation() + motor.rotation() / track + 10;
        assert!(took <= most, "{took} from {at}");
    }
}
