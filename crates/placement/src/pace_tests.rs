use super::*;

const ROOM: CleaningSpace = CleaningSpace {
    free: 0,
    soon: 0,
    reserve: 1000,
    spare: 33_000,
    window: 500,
};

fn room(free: u64) -> CleaningSpace {
    CleaningSpace { free, ..ROOM }
}

fn seen(free: u64) -> CleaningConditions {
    CleaningConditions {
        room: room(free),
        idle: 0,
        pressed: false,
        gains: true,
    }
}

#[test]
fn writers_are_slowed_smoothly_to_a_fraction_of_the_cleaning_rate() {
    // Pacing begins at a thirty-second of the spare space above the reserve, and the level to keep is a third of that.
    assert_eq!(room(2000).multiple(), None);
    assert!(room(1999).multiple().unwrap() > 3.0);
    assert!((room(1333).multiple().unwrap() - 1.0).abs() < 0.01);
    assert!((room(1000).multiple().unwrap() - LEAST).abs() < 1e-9);
    assert_eq!(room(0).multiple(), Some(LEAST));
    let multiples: Vec<f64> = (0..2000).filter_map(|free| room(free).multiple()).collect();
    assert!(multiples.windows(2).all(|pair| pair[0] <= pair[1]));
    let steps = multiples.windows(2).take(1900);
    assert!(steps.into_iter().all(|pair| pair[1] - pair[0] < 0.02));
    // Space that will be free soon is as good as free.
    let soon = CleaningSpace {
        soon: 800,
        ..room(500)
    };
    assert_eq!(soon.multiple(), room(1300).multiple());
}

#[test]
fn cleaning_becomes_more_urgent_as_free_space_shrinks() {
    assert_eq!(
        decide(&seen(1999)),
        CleaningDecision::Clean(CleaningUrgency::Urgent)
    );
    assert_eq!(
        decide(&seen(2000)),
        CleaningDecision::Clean(CleaningUrgency::Background)
    );
    // A sixteenth of the spare space above the reserve, then a quarter.
    assert_eq!(
        decide(&seen(2999)),
        CleaningDecision::Clean(CleaningUrgency::Background)
    );
    assert!(matches!(decide(&seen(3000)), CleaningDecision::Wait(_)));
    let idle = CleaningConditions {
        idle: 1_000_000_000,
        ..seen(8999)
    };
    assert_eq!(
        decide(&idle),
        CleaningDecision::Clean(CleaningUrgency::Idle)
    );
    assert_eq!(decide(&seen(9000)), CleaningDecision::Rest);
    let pressed = CleaningConditions {
        pressed: true,
        ..seen(50_000)
    };
    assert_eq!(
        decide(&pressed),
        CleaningDecision::Clean(CleaningUrgency::Urgent)
    );
    let vain = CleaningConditions {
        gains: false,
        pressed: true,
        ..seen(0)
    };
    assert_eq!(decide(&vain), CleaningDecision::Rest);
}

#[test]
fn a_nearly_full_disk_does_not_demand_more_free_space_than_cleaning_can_make() {
    for spare in [0, 900, 1000, 1100, 2000] {
        let most = CleaningSpace {
            free: spare,
            spare,
            ..ROOM
        };
        let full = CleaningConditions {
            room: most,
            ..seen(0)
        };
        // If all spare space is free, nothing is left to gain.
        if spare >= 1000 {
            assert_eq!(decide(&full), CleaningDecision::Rest, "{spare}");
            assert_eq!(most.multiple(), None, "{spare}");
        } else {
            assert_eq!(most.multiple(), Some(LEAST));
        }
    }
}

#[test]
fn cleaning_waits_for_shorter_idle_times_as_free_space_shrinks() {
    assert_eq!(idle_threshold(100, 100), 1_000_000_000);
    assert_eq!(idle_threshold(50, 100), 100_000_000);
    assert_eq!(idle_threshold(0, 100), 10_000_000);
}

#[test]
fn the_cleaning_rate_is_the_sectors_transferred_per_second_times_their_yield() {
    let mut pacer = Pacer::new(100.0);
    assert_eq!(pacer.rate(), 100.0);
    pacer.begin(0);
    // 800 sectors are moved out of segments of 1000: 1800 sectors of work for a gain of 200.
    pacer.begin_window(200, 800);
    pacer.record(900, 1_000_000_000);
    assert!((pacer.rate() - 100.0).abs() < 1e-9);
    assert_eq!(pacer.soon(), 100);
    pacer.stood_back(3_000_000_000);
    pacer.record(900, 5_000_000_000);
    assert!((pacer.rate() - 100.0).abs() < 1e-9);
    pacer.end_window();
    assert_eq!(pacer.soon(), 200);
    pacer.freed(200);
    assert_eq!(pacer.soon(), 0);
    // The next window yields 0.5. The mean is used, with the speed unchanged.
    pacer.begin_window(1000, 500);
    assert!((pacer.rate() - 900.0 * (1.0 / 9.0 + 0.5) / 2.0).abs() < 1e-9);
    // The time of a pause is not measured.
    pacer.pause();
    pacer.begin(90_000_000_000);
    pacer.record(900, 91_000_000_000);
    assert!((pacer.speed.unwrap() - 900.0).abs() < 1e-9);
}

#[test]
fn the_assumed_rate_is_the_client_rate_of_a_disk_that_also_cleans() {
    // At utilisation 0.9, segments have utilisation 0.807 when cleaned: 10.4 sectors are transferred for each client
    // sector.
    assert!((assumed_rate(100_000.0, 0.9) - 9_650.0).abs() < 100.0);
    assert_eq!(Pacer::new(assumed_rate(1000.0, 1.0)).rate(), RATE_UNKNOWN);
}

#[test]
fn writes_flow_evenly_at_the_given_multiple_of_the_rate() {
    let mut pacer = Pacer::new(1000.0);
    let (mut now, mut written) = (0, 0);
    while now < 10_000_000_000 {
        let wait = pacer.wait(8, Some(0.5), now);
        assert!(wait <= 17_000_000, "{wait}");
        now += wait;
        if wait == 0 {
            pacer.take(8);
            written += 8;
        }
    }
    assert!((4990..5020).contains(&written), "{written}");
    // Waiting leaves no debt after pacing has ended.
    assert_eq!(pacer.wait(8, None, now), 0);
    assert_eq!(pacer.wait(8, Some(1.0), now), 0);
}

#[test]
fn a_large_write_waits_for_its_own_sectors_and_does_not_delay_the_next_small_write() {
    let mut pacer = Pacer::new(1000.0);
    let wait = pacer.wait(5000, Some(1.0), 0);
    assert_eq!(wait, 4_800_000_000);
    assert_eq!(pacer.wait(5000, Some(1.0), wait), 0);
    pacer.take(5000);
    assert_eq!(pacer.wait(8, Some(1.0), wait), 200_000_000);
    // A write that was abandoned leaves no allowance to others.
    let mut pacer = Pacer::new(1000.0);
    pacer.wait(5000, Some(1.0), 0);
    pacer.wait(5000, Some(1.0), 4_000_000_000);
    pacer.wait(8, Some(1.0), 4_000_000_000);
    assert!(pacer.debt >= -10.0);
}

/// A disk that transfers `speed` sectors a second. Clients write continuously, and a cleaner moves segments of
/// utilisation `u`, a window of `segments` at a time.
struct PacedDisk {
    speed: f64,
    u: f64,
    segments: f64,
}

/// Returns the sectors written by clients in each tenth of a second.
fn run(disk: &PacedDisk, seconds: u64) -> Vec<f64> {
    const SEGMENT: f64 = 2048.0;
    const STEP: u64 = 1_000_000;
    let gain = disk.segments * SEGMENT * (1.0 - disk.u);
    let moved = disk.segments * SEGMENT * disk.u;
    let mut free = 400.0 * SEGMENT;
    let mut pacer = Pacer::new(assumed_rate(disk.speed, 0.5));
    let mut written = vec![0.0; seconds as usize * 10];
    let mut work: Option<f64> = None;
    let share = STEP as f64 / SECOND * disk.speed;
    for step in 0..seconds * 1000 {
        let now = step * STEP;
        let room = CleaningSpace {
            free: free as u64,
            soon: pacer.soon(),
            reserve: (2.0 * SEGMENT + moved) as u64,
            spare: 4000 * 2048,
            window: gain as u64,
        };
        let decision = decide(&CleaningConditions {
            room,
            idle: 0,
            pressed: false,
            gains: true,
        });
        let mut left = share;
        let urgent = decision == CleaningDecision::Clean(CleaningUrgency::Urgent);
        if let (None, CleaningDecision::Clean(_)) = (work, decision) {
            pacer.begin(now);
            pacer.begin_window(gain as u64, moved as u64);
            work = Some(gain + 2.0 * moved);
        }
        // Urgent cleaning uses all the bandwidth that it can get, otherwise a quarter.
        let mut cleaning = 0.0;
        if work.is_some() {
            cleaning = if urgent { 0.5 * share } else { 0.25 * share };
            left -= cleaning;
        }
        while left >= 8.0 && free >= 8.0 && pacer.wait(8, room.multiple(), now) == 0 {
            pacer.take(8);
            (left, free) = (left - 8.0, free - 8.0);
            written[(step / 100) as usize] += 8.0;
        }
        if let Some(todo) = work.as_mut() {
            if urgent {
                cleaning += left;
            }
            *todo -= cleaning;
            pacer.record(cleaning as u64, now);
            if *todo <= 0.0 {
                work = None;
                pacer.end_window();
                pacer.freed(gain as u64);
                free += gain;
            }
        }
        assert!(free >= 2.0 * SEGMENT, "writers took what cleaning needs");
    }
    written
}

#[test]
fn writers_slow_to_the_cleaning_rate_before_space_runs_out_and_never_stop() {
    for u in [0.3, 0.6, 0.8, 0.9] {
        let disk = PacedDisk {
            speed: 100_000.0,
            u,
            segments: 4.0,
        };
        let written = run(&disk, 120);
        let best = disk.speed / 10.0 / cost::cleaning_cost(u);
        let steady = &written[900..];
        let mean = steady.iter().sum::<f64>() / steady.len() as f64;
        assert!(mean > 0.9 * best, "{u}: {mean} of {best}");
        let least = written.iter().copied().fold(f64::INFINITY, f64::min);
        assert!(least > 0.25 * best, "{u}: {least} of {best}");
        // The change from full speed to the pace of cleaning takes seconds, not one step.
        let falls = written[1..].windows(2).map(|pair| pair[1] / pair[0]);
        let worst = falls.fold(1.0, f64::min);
        assert!(worst > 0.3, "{u}: {worst}");
        println!("u {u}: mean {mean:.0} best {best:.0} least {least:.0} worst fall {worst:.2}");
    }
}
