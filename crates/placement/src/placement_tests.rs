use super::*;
use proptest::prelude::*;

fn write(at: u64, sectors: u32, now: u64, old: Option<u64>) -> UserWrite {
    UserWrite {
        at: Sector(at),
        sectors,
        now: WriteClock(now),
        nanos: now * 1_000_000,
        overwrites: old.map(|born| OverwrittenExtent {
            born: WriteClock(born),
            stream: PlacementStream::User(0),
        }),
    }
}

fn piece(at: u64, now: u64, born: u64, stream: PlacementStream) -> MovedExtent {
    MovedExtent {
        at: Sector(at),
        sectors: 8,
        now: WriteClock(now),
        born: WriteClock(born),
        stream,
        segment_age: 0,
    }
}

fn collected(stream: PlacementStream, opened: u64, now: u64) -> CollectedSegment {
    CollectedSegment {
        stream,
        opened: WriteClock(opened),
        closed: WriteClock(opened + 1),
        now: WriteClock(now),
        live: 100,
        capacity: 2048,
    }
}

#[test]
fn names_of_placements_print_and_parse() {
    for kind in PlacementKind::ALL {
        assert_eq!(kind.to_string().parse(), Ok(kind));
        assert_eq!(kind.build(&PlacementOptions::default()).kind(), kind);
    }
    let error = "auto?".parse::<PlacementKind>().unwrap_err().to_string();
    assert!(
        PlacementKind::ALL
            .iter()
            .all(|kind| error.contains(kind.name())),
        "{error}"
    );
}

#[test]
fn lfs_appends_all_writes_and_overwrite_writes_all_mapped_data_in_place() {
    let mut lfs = PlacementKind::Lfs.build(&PlacementOptions::default());
    let all = lfs.place_user(&write(5, 77, 9, None));
    assert_eq!((all.place, all.sectors), (UserPlace::Append(0), 77));
    let mut plain = PlacementKind::Overwrite.build(&PlacementOptions::default());
    let all = plain.place_user(&write(5, 77, 9, Some(3)));
    assert_eq!((all.place, all.sectors), (UserPlace::InPlace(0), 77));
    assert_eq!(lfs.needs().order, MoveOrder::Age);
}

/// Creates a policy with ℓ = 1000: sixteen segments of class 0 lived for 1000 on average.
fn sepbit() -> Box<dyn Placement> {
    let mut sepbit = PlacementKind::SepBit.build(&PlacementOptions::default());
    for n in 0..16 {
        // Segments of other classes do not affect ℓ.
        sepbit.collected(&collected(PlacementStream::User(1), 0, 90_000));
        sepbit.collected(&collected(PlacementStream::Moved(0), 0, 90_000));
        let lived = if n % 2 == 0 { 500 } else { 1500 };
        sepbit.collected(&collected(PlacementStream::User(0), 10_000, 10_000 + lived));
    }
    sepbit
}

#[test]
fn sepbit_treats_all_overwrites_as_short_lived_until_sixteen_segments_are_collected() {
    let mut sepbit = PlacementKind::SepBit.build(&PlacementOptions::default());
    let mut class = |old| sepbit.place_user(&write(0, 8, 1 << 40, old)).place;
    assert_eq!(class(Some(0)), UserPlace::Append(0));
    assert_eq!(class(None), UserPlace::Append(1));
}

#[test]
fn sepbit_sorts_client_writes_by_the_lifetime_of_the_overwritten_data() {
    let mut sepbit = sepbit();
    let mut class = |old| sepbit.place_user(&write(0, 8, 50_000, old)).place;
    assert_eq!(class(Some(49_001)), UserPlace::Append(0));
    assert_eq!(class(Some(49_000)), UserPlace::Append(1));
    assert_eq!(class(None), UserPlace::Append(1));
    // Data born later than now: a clock that went back must not cause a failure.
    assert_eq!(class(Some(60_000)), UserPlace::Append(0));
}

#[test]
fn sepbit_sorts_moved_data_by_stream_and_then_by_age() {
    let mut sepbit = sepbit();
    let now = 50_000;
    let mut class = |age, stream| sepbit.place_moved(&piece(0, now, now - age, stream)).place;
    assert_eq!(
        class(40_000, PlacementStream::User(0)),
        MovedPlace::Append(0)
    );
    for (age, expected) in [
        (0, 1),
        (3999, 1),
        (4000, 2),
        (15_999, 2),
        (16_000, 3),
        (49_000, 3),
    ] {
        for stream in [
            PlacementStream::User(1),
            PlacementStream::Moved(0),
            PlacementStream::Moved(3),
        ] {
            assert_eq!(
                class(age, stream),
                MovedPlace::Append(expected),
                "{age} {stream:?}"
            );
        }
    }
    assert_eq!((sepbit.needs().user, sepbit.needs().moved), (2, 4));
}

#[test]
fn wolf_separates_repeatedly_written_pages_from_other_pages() {
    let options = PlacementOptions {
        segment_bytes: 256 << 10,
        ..PlacementOptions::default()
    };
    let mut wolf = PlacementKind::Wolf.build(&options);
    let mut place = |page: u64, nanos| {
        let write = UserWrite {
            nanos,
            ..write(page * 16, 16, 0, None)
        };
        wolf.place_user(&write).place
    };
    // Half of the writes go to four pages, half to pages that are never written again.
    for n in 0..2000 {
        place(n % 4, 1_000_000_000);
        place(1000 + n, 1_000_000_000);
    }
    assert_eq!(place(2, 2_000_000_000), UserPlace::Append(0));
    assert_eq!(place(9999, 2_000_000_000), UserPlace::Append(1));
    // Eleven minutes later, all counts restart.
    assert_eq!(place(2, 662_000_000_000), UserPlace::Append(1));
}

fn bar_of(wolf: &dyn Placement) -> f64 {
    let facts = wolf.describe();
    let bar = facts.iter().find(|fact| fact.unit == "seconds");
    bar.expect("it says for how long").value
}

#[test]
fn wolf_adapts_the_lifetime_of_references_to_the_share_of_pages_with_equal_counts() {
    let mut wolf = PlacementKind::Wolf.build(&PlacementOptions::default());
    assert_eq!(bar_of(&*wolf), 600.0);
    // Two buffers of 128 pages, all written once.
    for page in 0..256 {
        wolf.place_user(&write(page * 16, 16, 0, None));
    }
    assert_eq!(bar_of(&*wolf), 1200.0);
    // The same number of writes with counts from 1 to 16, so one in sixteen is equal.
    for page in 0..16 {
        (0..16).for_each(|_| _ = wolf.place_user(&write(page << 20, 16, 0, None)));
    }
    assert_eq!(bar_of(&*wolf), 600.0);
    // Half of the counts 1, half of them 2: the limit is unchanged.
    for page in 0..128 {
        (0..2).for_each(|_| _ = wolf.place_user(&write((page + 999) << 20, 16, 0, None)));
    }
    assert_eq!(bar_of(&*wolf), 600.0);
}

/// Creates a policy after writes to a disk that is 98 % full. A fifth of the pages receives four fifths of the writes.
/// While everything is logged, twenty pages are moved for each page written.
fn warm(kind: PlacementKind) -> Box<dyn Placement> {
    let (pages, rng) = (10_000, forebay_rng::Rng::new(7));
    let mut policy = kind.build(&PlacementOptions::default());
    policy.filled(FillLevel {
        live: 98 * pages * 16 / 100,
        capacity: pages * 16,
    });
    for n in 0..10 * pages {
        let page = match rng.below(5) {
            0 => pages / 5 + rng.below(pages * 4 / 5),
            _ => rng.below(pages / 5),
        };
        policy.place_user(&write(page * 16, 16, n * 16, Some(0)));
        // Logging everything is expensive, and a hot log beside cold pages is not.
        let facts = policy.describe();
        let hot = facts.iter().find(|fact| fact.name == "hot share");
        if hot.is_none_or(|hot| hot.value >= 1.0) {
            policy.place_moved(&MovedExtent {
                sectors: 20 * 16,
                ..piece(page * 16, n * 16, 0, PlacementStream::User(0))
            });
        }
    }
    policy
}

#[test]
fn hylog_logs_hot_pages_overwrites_cold_pages_and_plugs_holes_with_cooled_pages() {
    let mut hylog = warm(PlacementKind::HyLog);
    let now = 200_000 * 16;
    let (mut logged, mut appended) = ([0; 2], [0; 2]);
    for page in 0..10_000 {
        let class = usize::from(page >= 2000);
        match hylog.place_user(&write(page * 16, 16, now, Some(0))).place {
            UserPlace::Append(0) => logged[class] += 1,
            place => assert_eq!(place, UserPlace::InPlace(1)),
        }
        match hylog
            .place_moved(&piece(page * 16, now, 0, PlacementStream::User(0)))
            .place
        {
            MovedPlace::Append(0) => appended[class] += 1,
            place => assert_eq!(place, MovedPlace::Plug(1)),
        }
    }
    for [hot, cold] in [logged, appended] {
        assert!(hot > 1500 && cold < 200, "{hot} of 2000, {cold} of 8000");
    }
    assert_eq!((hylog.needs().user, hylog.needs().moved), (2, 2));
}

#[test]
fn a_write_across_hot_and_cold_pages_is_split() {
    let mut hylog = warm(PlacementKind::HyLog);
    let (mut at, mut parts, end) = (1990 * 16, Vec::new(), 2010 * 16);
    while at < end {
        let placed = hylog.place_user(&write(at, (end - at) as u32, 99, Some(0)));
        assert!(placed.sectors > 0 && at + u64::from(placed.sectors) <= end);
        at += u64::from(placed.sectors);
        parts.push(placed.place);
    }
    assert!(
        parts.len() > 1 && parts.windows(2).all(|pair| pair[0] != pair[1]),
        "{parts:?}"
    );
    assert_eq!(
        (parts.first(), parts.last()),
        (Some(&UserPlace::Append(0)), Some(&UserPlace::InPlace(1)))
    );
}

#[test]
fn hylog_with_sepbit_divides_its_hot_log_by_lifetimes() {
    let mut policy = warm(PlacementKind::HyLogSepBit);
    for _ in 0..16 {
        policy.collected(&collected(PlacementStream::User(0), 0, 1000));
    }
    let now = 200_000 * 16;
    let mut found = std::collections::BTreeSet::new();
    for page in 0..10_000 {
        for lived in [10, 100_000] {
            let place = policy
                .place_user(&write(page * 16, 16, now, Some(now - lived)))
                .place;
            let UserPlace::Append(class) = place else {
                assert_eq!(place, UserPlace::InPlace(2));
                continue;
            };
            assert_eq!(class, u8::from(lived > 1000));
            found.insert(class);
        }
        let moved = policy
            .place_moved(&piece(page * 16, now, now - 5000, PlacementStream::User(1)))
            .place;
        assert!(
            [MovedPlace::Append(2), MovedPlace::Plug(4)].contains(&moved),
            "{moved:?}"
        );
    }
    assert_eq!(found.len(), 2);
    assert_eq!((policy.needs().user, policy.needs().moved), (3, 5));
}

#[test]
fn saved_state_is_small_and_restores_the_policy() {
    for kind in PlacementKind::ALL {
        let mut old = warm(kind);
        for _ in 0..16 {
            old.collected(&collected(PlacementStream::User(0), 0, 1000));
        }
        let bytes = old.save();
        assert!(bytes.len() <= SAVED_MAX);
        let mut new = kind.build(&PlacementOptions::default());
        assert_eq!(new.restore(&bytes), !bytes.is_empty(), "{kind}");
        assert_eq!(new.save(), bytes, "{kind}");
        // A policy does not accept the state of another one.
        for other in PlacementKind::ALL
            .into_iter()
            .filter(|other| *other != kind)
        {
            let mut policy = other.build(&PlacementOptions::default());
            let before = policy.save();
            assert!(!policy.restore(&bytes));
            assert_eq!(policy.save(), before);
        }
    }
}

proptest! {
    #[test]
    fn restoring_arbitrary_bytes_leaves_a_usable_policy(bytes in proptest::collection::vec(any::<u8>(), 0..300), at in 0..40usize, flip in 1..=255u8) {
        for kind in PlacementKind::ALL {
            let mut policy = kind.build(&PlacementOptions::default());
            policy.restore(&bytes);
            let mut damaged = policy.save();
            if let Some(byte) = damaged.get_mut(at) {
                *byte ^= flip;
            }
            policy.restore(&damaged);
            let placed = policy.place_user(&write(0, 64, 5, Some(1)));
            prop_assert!((1..=64).contains(&placed.sectors));
        }
    }

    #[test]
    fn every_placement_decision_names_a_declared_stream(
        writes in proptest::collection::vec((0u64..5000, 1u32..600, any::<bool>(), any::<u16>()), 1..200),
        d in 0u64..=100,
    ) {
        for kind in PlacementKind::ALL {
            let mut policy = kind.build(&PlacementOptions::default());
            let needs = policy.needs();
            policy.filled(FillLevel { live: d * 1000, capacity: 100_000 });
            for (now, &(at, sectors, mapped, age)) in (0u64..).step_by(100).zip(&writes) {
                let old = mapped.then(|| now.saturating_sub(u64::from(age)));
                let placed = policy.place_user(&write(at, sectors, now, old));
                prop_assert!((1..=sectors).contains(&placed.sectors));
                let (UserPlace::Append(stream) | UserPlace::InPlace(stream)) = placed.place;
                prop_assert!(stream < needs.user);
                let in_place = matches!(placed.place, UserPlace::InPlace(_));
                prop_assert!(needs.in_place || !in_place);
                let moved = piece(at, now, now.saturating_sub(u64::from(age)), PlacementStream::Moved(0));
                let placed = policy.place_moved(&moved);
                let (MovedPlace::Append(stream) | MovedPlace::Plug(stream)) = placed.place;
                prop_assert!(stream < needs.moved && (1..=moved.sectors).contains(&placed.sectors));
            }
        }
    }
}

#[test]
fn a_fill_level_differs_by_parts_of_the_free_space() {
    let of = |free: u64| FillLevel {
        live: 1_000_000 - free,
        capacity: 1_000_000,
    };
    assert!(!of(200_000).differs_from(&of(205_000)));
    assert!(of(200_000).differs_from(&of(220_000)));
    // Half of the free space is gone, and a log costs twice as much: a change of the live data by half a percent.
    assert!(of(5_000).differs_from(&of(10_000)));
    assert!(!of(5_000).differs_from(&of(5_200)));
}
