use super::super::{named, names};
use super::*;

/// The order of the slots of a disk: cylinder, then place in the cylinder, then place on the track.
fn physical(geometry: &Geometry, block: u64) -> (u32, u64, u64) {
    let index = geometry.zones.partition_point(|z| z.first <= block) - 1;
    let zone = &geometry.zones[index];
    let slot = zone.slot_of(block - zone.first);
    let track = slot / zone.sectors;
    (
        zone.first_cylinder + (track / geometry.surfaces) as u32,
        track % geometry.surfaces,
        slot % zone.sectors,
    )
}

#[test]
fn every_block_of_every_drive_has_a_slot_of_its_own_in_rising_order() {
    for (name, _) in names() {
        let spec = named(name).expect("it is in the list");
        let geometry = Geometry::new(&spec.layout).expect("the table was checked");
        // All of a disk of gigabytes; of a terabyte, a million blocks at each end.
        let blocks = geometry.blocks();
        let ends = if blocks > 40_000_000 {
            [0..1_000_000, blocks - 1_000_000..blocks]
        } else {
            [0..blocks, 0..0]
        };
        for range in ends {
            let mut last = None;
            for block in range {
                let here = physical(&geometry, block);
                assert!(
                    last.is_none_or(|last| last < here),
                    "{name}: block {block} at {here:?} is not after {last:?}"
                );
                assert!(here.0 < spec.layout.cylinders, "{name}: block {block}");
                last = Some(here);
            }
        }
    }
}
