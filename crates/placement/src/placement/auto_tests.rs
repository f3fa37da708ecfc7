use super::*;

const DISK: DeviceProperties = DeviceProperties {
    disk: DiskParameters::OF_2003,
    in_place: true,
    page_bytes: 8 << 10,
    segment_bytes: 1 << 20,
};

const FLASH: DeviceProperties = DeviceProperties {
    disk: DiskParameters {
        positioning: 0.0,
        bandwidth: 500e6,
        arms: 1.0,
    },
    in_place: false,
    ..DISK
};

fn at(d: f64, access: AccessDistribution) -> WorkloadProperties {
    WorkloadProperties {
        access,
        utilisation: d,
        ..WorkloadProperties::assumed(8 << 10, 0, 1)
    }
}

fn chosen(medium: &DeviceProperties, d: f64) -> PlacementKind {
    choose(medium, &at(d, AccessDistribution::skewed(0.8, 0.2))).kind
}

#[test]
fn a_hybrid_is_chosen_for_a_full_disk_and_a_log_for_an_empty_disk() {
    assert_eq!(chosen(&DISK, 0.3), PlacementKind::Lfs);
    assert_eq!(chosen(&DISK, 0.98), PlacementKind::HyLog);
    let even = choose(&DISK, &at(0.999, AccessDistribution::uniform()));
    assert_eq!(even.kind, PlacementKind::Overwrite);
}

#[test]
fn devices_with_fast_page_writes_are_overwritten_and_devices_without_overwrites_are_logged() {
    let fast = DeviceProperties {
        in_place: true,
        ..FLASH
    };
    assert_eq!(chosen(&fast, 0.9), PlacementKind::Overwrite);
    let zipf = AccessDistribution::zipf(1 << 16, 0.99);
    assert_eq!(choose(&FLASH, &at(0.9, zipf)).kind, PlacementKind::SepBit);
    assert_eq!(
        choose(&FLASH, &at(0.9, AccessDistribution::uniform())).kind,
        PlacementKind::Lfs
    );
    let costs = choose(&FLASH, &at(0.9, AccessDistribution::uniform())).costs;
    assert!(costs.iter().all(|(kind, _)| !kind.in_place()), "{costs:?}");
}

#[test]
fn the_reason_names_the_measurements_and_the_cost_of_every_placement() {
    let chosen = choose(&DISK, &at(0.98, AccessDistribution::skewed(0.8, 0.2)));
    let costs: Vec<PlacementKind> = chosen.costs.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(costs.len(), PlacementKind::ALL.len());
    for part in ["33.3 times", "0.94", "98 %", "80 %", "overwrite ", "lfs "] {
        assert!(chosen.why.contains(part), "{part}: {}", chosen.why);
    }
}

#[test]
fn a_placement_is_chosen_for_full_and_for_empty_devices() {
    for (medium, d) in [(&DISK, 1.0), (&FLASH, 1.0), (&DISK, 0.0), (&FLASH, 0.0)] {
        let chosen = choose(medium, &at(d, AccessDistribution::uniform()));
        assert!(
            chosen.costs.iter().any(|(kind, _)| *kind == chosen.kind),
            "{chosen:?}"
        );
    }
}

#[test]
fn with_differing_measurements_the_choice_is_near_the_best_for_each_measurement() {
    let slow = |positioning| DeviceProperties {
        disk: DiskParameters {
            positioning,
            ..DISK.disk
        },
        ..DISK
    };
    let known = at(0.9, AccessDistribution::uniform());
    let same = choose_by_all(&[slow(0.005), slow(0.006)], &known).unwrap();
    assert_eq!(same, choose(&slow(0.005), &known));
    let all = [slow(0.002), slow(0.0), slow(0.0002), slow(0.02)];
    let chosen = choose_by_all(&all, &known).unwrap();
    assert!(chosen.why.contains("measured 4 times"), "{}", chosen.why);
    assert!(chosen.why.contains("differ"), "{}", chosen.why);
    assert_eq!(choose_by_all(&[], &known), None);
}

#[test]
fn the_choice_for_a_volume_that_can_fill_up_beyond_the_usual_assumes_its_maximum_fill() {
    let kind = |size| choose(&DISK, &WorkloadProperties::assumed(8 << 10, size, 1000)).kind;
    assert_eq!(kind(500), chosen(&DISK, 0.8));
    assert_eq!(kind(980), chosen(&DISK, 0.98));
    // The volume is larger than the device, so it will not be full.
    assert_eq!(kind(4000), chosen(&DISK, 0.8));
}
