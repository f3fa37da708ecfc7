use super::*;
use forebay_rng::Rng;

fn closed(live: u32, born: u64) -> ClosedSegment {
    ClosedSegment {
        capacity: 1000,
        live,
        closed: WriteClock(born),
    }
}

fn index(segments: &[(u32, u64)]) -> Victims {
    let mut victims = Victims::new();
    for (number, &(live, born)) in segments.iter().enumerate() {
        victims.add(number as u32, closed(live, born));
    }
    victims
}

fn numbers(victims: Vec<CleaningVictim>) -> Vec<u32> {
    victims.iter().map(|victim| victim.segment).collect()
}

const NOW: WriteClock = WriteClock(1000);

#[test]
fn greedy_selects_the_emptiest_then_the_oldest_then_the_lowest_numbered_segment() {
    let victims = index(&[(500, 9), (100, 8), (900, 1), (100, 5), (100, 8), (0, 900)]);
    let chosen = victims.choose(VictimSelection::Greedy, NOW, u64::MAX, 9, 1);
    assert_eq!(numbers(chosen), [5, 3, 1, 4, 0, 2]);
}

#[test]
fn cost_benefit_weighs_free_space_by_age() {
    // (1−u)·age/(1+u): 0.25·900/1.75 = 128.6, 0.75·100/1.25 = 60, 0.5·400/1.5 = 133.3, 0.9·0/1.1 = 0.
    let victims = index(&[(750, 100), (250, 900), (500, 600), (100, 1000)]);
    let chosen = victims.choose(VictimSelection::CostBenefit, NOW, u64::MAX, 9, 1);
    assert_eq!(numbers(chosen), [2, 0, 1, 3]);
    let chosen = victims.choose(VictimSelection::Greedy, NOW, u64::MAX, 9, 1);
    assert_eq!(numbers(chosen), [3, 1, 2, 0]);
}

#[test]
fn victims_are_selected_until_the_wanted_gain_and_never_without_gain() {
    let victims = index(&[(900, 0), (1000, 0), (800, 0), (950, 0), (2000, 0)]);
    let gains = |wanted, most| {
        let chosen = victims.choose(VictimSelection::Greedy, NOW, wanted, most, 1);
        chosen.iter().map(|victim| victim.gain).collect::<Vec<_>>()
    };
    assert_eq!(gains(1, 9), [200]);
    assert_eq!(gains(201, 9), [200, 100]);
    assert_eq!(gains(u64::MAX, 9), [200, 100, 50]);
    assert_eq!(gains(u64::MAX, 2), [200, 100]);
    assert_eq!(gains(0, 9), [0; 0]);
    assert_eq!(victims.reclaimable(), 350);
    let by_benefit = victims.choose(VictimSelection::CostBenefit, NOW, u64::MAX, 9, 1);
    assert_eq!(numbers(by_benefit), [2, 0, 3]);
}

#[test]
fn removed_and_never_closed_segments_are_not_selected() {
    let mut victims = index(&[(500, 0), (400, 0)]);
    assert_eq!(victims.remove(1), Some(closed(400, 0)));
    victims.changed(1, 0);
    victims.changed(7_000_000, 0);
    assert_eq!((victims.remove(1), victims.remove(9)), (None, None));
    let none = ClosedSegment {
        capacity: 0,
        live: 0,
        closed: NOW,
    };
    victims.add(3, none);
    assert_eq!(
        numbers(victims.choose(VictimSelection::Greedy, NOW, 9999, 9, 1)),
        [0]
    );
}

#[test]
fn holes_are_plugged_first_in_segments_that_will_not_be_cleaned_soon() {
    // u·age: 0.5·1000 = 500, 0.99·100 = 99, full, 0.9·900 = 810, 0.1·1000 = 100.
    let victims = index(&[(500, 0), (990, 900), (1000, 0), (900, 100), (100, 0)]);
    assert_eq!(victims.holed(NOW).collect::<Vec<_>>(), [3, 0, 4, 1]);
}

#[test]
fn the_histogram_counts_segments_by_tenths_of_utilisation() {
    let victims = index(&[(0, 0), (99, 0), (102, 0), (999, 0), (1000, 0)]);
    assert_eq!(victims.histogram(), [2, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
}

#[test]
fn the_selection_equals_an_examination_of_every_segment_after_any_changes() {
    let rng = Rng::new(17);
    let mut victims = Victims::new();
    let mut model = std::collections::BTreeMap::<u32, ClosedSegment>::new();
    for round in 0..3000u64 {
        let segment = rng.below(60) as u32;
        let live = rng.below(513) as u32;
        match rng.below(4) {
            0 => assert_eq!(victims.remove(segment), model.remove(&segment)),
            1 => {
                let closed = ClosedSegment {
                    capacity: 512,
                    live,
                    closed: WriteClock(rng.below(round + 1)),
                };
                victims.add(segment, closed);
                model.insert(segment, closed);
            }
            _ => {
                victims.changed(segment, live);
                model.entry(segment).and_modify(|closed| closed.live = live);
            }
        }
        let now = WriteClock(round);
        // The capacity equals the number of steps, so no value is rounded.
        let mut greedy: Vec<_> = model.iter().filter(|(_, c)| c.gain() > 0).collect();
        greedy.sort_by_key(|(number, c)| (c.live, c.closed, **number));
        let expected: Vec<u32> = greedy.iter().map(|(number, _)| **number).collect();
        assert_eq!(
            numbers(victims.choose(VictimSelection::Greedy, now, u64::MAX, 99, 1)),
            expected
        );
        let mut benefit = greedy;
        benefit.sort_by(|(m, a), (n, b)| {
            let order = b.benefit(now).total_cmp(&a.benefit(now));
            order.then((a.closed, m).cmp(&(b.closed, n)))
        });
        let expected: Vec<u32> = benefit.iter().map(|(number, _)| **number).collect();
        assert_eq!(
            numbers(victims.choose(VictimSelection::CostBenefit, now, u64::MAX, 99, 1)),
            expected
        );
        let gain: u64 = model.values().map(|c| u64::from(c.gain())).sum();
        assert_eq!(victims.reclaimable(), gain);
    }
}

#[test]
fn holes_are_plugged_if_that_costs_less_than_cleaning_and_enough_holes_exist() {
    let victim = |live| CleaningVictim {
        segment: 0,
        live,
        gain: 1000 - live,
    };
    // At E = 33.3 cleaning costs 10 at u = 0.8 and plugging 28.6; at 0.96, 50 and 34.
    assert_eq!(method(&[victim(800)], 10_000, 33.3), ReclaimMethod::Clean);
    assert_eq!(method(&[victim(960)], 10_000, 33.3), ReclaimMethod::Plug);
    assert_eq!(method(&[victim(960)], 959, 33.3), ReclaimMethod::Clean);
    assert_eq!(
        method(&[victim(920), victim(1000)], 10_000, 33.3),
        ReclaimMethod::Plug
    );
    assert_eq!(method(&[], 10_000, 33.3), ReclaimMethod::Clean);
}

#[test]
fn old_segments_with_little_garbage_do_not_hide_a_young_segment_with_much() {
    let mut victims = Victims::new();
    let closed = |live, closed| ClosedSegment {
        capacity: 1000,
        live,
        closed: WriteClock(closed),
    };
    for old in 0..50 {
        victims.add(old, closed(995, 0));
    }
    victims.add(77, closed(600, 999_000));
    for selection in [VictimSelection::Greedy, VictimSelection::CostBenefit] {
        let chosen = victims.choose(selection, WriteClock(1_000_000), u64::MAX, 8, 100);
        assert_eq!(numbers(chosen), [77], "{selection:?}");
        let chosen = victims.choose(selection, WriteClock(1_000_000), u64::MAX, 8, 5);
        assert_eq!(chosen.len(), 8);
    }
}
