use super::super::{named, names};
use super::*;

#[test]
fn read_ahead_position_and_arrival_time_agree() {
    for (name, _) in names() {
        let spec = named(name).expect("it is in the list");
        let geometry = DiskGeometry::new(&spec.layout).expect("the table was checked");
        let motor = DriveMotor::new(&spec, 0.25);
        // The first position is near slipped sectors of `barracuda`, the second is not.
        for first in [110_000, 1_000_000] {
            let start = ArmStart::default();
            let transfer = motor.transfer(&geometry, start, (first, 8), false, 0);
            let limit = first + 1500;
            let begun = ArmStart {
                at: transfer.end,
                arm: transfer.arm,
            };
            let mut ahead = ActiveReadAhead::new(0, begun, first + 8, limit, None);
            let fresh = ahead.clone();
            let mut last = first + 8;
            for step in 0..400 {
                let now = transfer.end + step * 1_250_000;
                let reached = ahead.advance(&motor, &geometry, now);
                assert!(reached >= last && reached <= limit, "{name}: goes back");
                // Intermediate calls do not change the result.
                assert_eq!(
                    reached,
                    fresh.clone().advance(&motor, &geometry, now),
                    "{name}"
                );
                if reached > last {
                    let when = fresh.when(&motor, &geometry, reached - 1);
                    let slack = motor.time_of(geometry.piece(reached - 1, 1).slot) + 20;
                    assert!(
                        when <= now + slack,
                        "{name}: {reached} at {when}, not by {now}"
                    );
                }
                if reached < limit && !spec.mechanics.any_order_read {
                    let when = fresh.when(&motor, &geometry, reached);
                    let slack = 3 * motor.time_of(geometry.piece(reached, 1).slot) + 20;
                    assert!(
                        when + slack >= now,
                        "{name}: {reached} at {when}, after {now}"
                    );
                }
                last = reached;
            }
            assert_eq!(last, limit, "{name}: it gets to its end");
        }
    }
}
