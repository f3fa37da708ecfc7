use super::super::{named, names};
use super::*;

/// Returns the slot of a block as a sortable key: cylinder, then place in the cylinder, then place on the track.
fn physical(geometry: &DiskGeometry, block: u64) -> (u32, u64, u64) {
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
fn every_block_of_every_drive_has_its_own_slot_in_ascending_order() {
    for (name, _) in names() {
        let spec = named(name).expect("it is in the list");
        let geometry = DiskGeometry::new(&spec.layout).expect("the table was checked");
        // All blocks of a disk of gigabytes; a million blocks at each end of a disk of a terabyte.
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

#[test]
fn a_drive_has_the_number_of_blocks_of_its_table() {
    let blocks = |name| named(name).expect("a known name").blocks();
    assert_eq!(blocks("barracuda"), 4_110_000);
    assert_eq!(blocks("atlas10k"), 17_938_986);
    assert_eq!(blocks("dec_rz26"), 2_050_860);
    assert_eq!(blocks("cheetah4lp"), 8_887_200);
    assert_eq!(blocks("cheetah9lp"), 17_783_240);
    assert_eq!(blocks("atlas3"), 17_783_250);
    assert_eq!(blocks("ibm18es"), 17_916_240);
}

#[test]
fn no_block_lies_on_a_slip_a_spare_or_a_reserved_slot() {
    for (name, _) in names() {
        let spec = named(name).expect("it is in the list");
        let geometry = DiskGeometry::new(&spec.layout).expect("the table was checked");
        for (zone, table) in geometry.zones.iter().zip(&spec.layout.zones) {
            for &slip in &table.slips {
                // The blocks before and after the slip are adjacent.
                let before = zone.blocks_before(slip);
                assert_eq!(before, zone.blocks_before(slip + 1), "{name}: {slip}");
                let n = before.saturating_sub(zone.reserved);
                if before >= zone.reserved && n < zone.blocks {
                    assert_ne!(zone.slot_of(n), slip, "{name}: {slip}");
                }
            }
            let end = zone.slot_of(zone.blocks - 1);
            assert!(end < zone.slots, "{name}: a block past the zone");
            let spares = zone.part_slots - zone.part_blocks;
            let in_part = end % zone.part_slots;
            // Slips use spares, so fewer spares remain free at the end of a part.
            assert!(in_part < zone.part_slots - spares + table.slips.len() as u64);
            assert!(zone.slot_of(0) >= zone.reserved, "{name}: reserved blocks");
        }
    }
}

#[test]
fn track_extents_cover_a_range_block_by_block() {
    for (name, _) in names() {
        let spec = named(name).expect("it is in the list");
        let geometry = DiskGeometry::new(&spec.layout).expect("the table was checked");
        let blocks = geometry.blocks();
        for start in [0, 112_000, blocks / 3, blocks - 20_000] {
            let mut at = start;
            while at < start + 20_000 {
                let piece = geometry.piece(at, start + 20_000 - at);
                let last = geometry.piece(at + u64::from(piece.blocks) - 1, 1);
                assert_eq!((piece.cylinder, piece.head), (last.cylinder, last.head));
                let to_end = last.angle.wrapping_sub(piece.angle).wrapping_add(last.span);
                assert_eq!(to_end, piece.span, "{name}: block {at}");
                let track = geometry.track_of(at);
                assert!(track.contains(&at), "{name}: block {at}");
                at += u64::from(piece.blocks);
                assert!(
                    at == start + 20_000 || at == track.end,
                    "{name}: block {at}"
                );
            }
        }
    }
}

#[test]
fn an_impossible_layout_is_refused() {
    let good = named("cheetah4lp").expect("a known name").layout;
    let refused = |change: &dyn Fn(&mut DiskLayout)| {
        let mut layout = good.clone();
        change(&mut layout);
        DiskGeometry::new(&layout).is_err()
    };
    assert!(refused(&|l| l.blocks += 1_000_000));
    assert!(refused(&|l| l.blocks = 0));
    assert!(refused(&|l| l.surfaces = 0));
    assert!(refused(&|l| l.zones.clear()));
    assert!(refused(&|l| l.zones.swap(0, 1)));
    assert!(refused(&|l| l.zones[0].last_cylinder = 1_345));
    assert!(refused(&|l| l.zones[0].sectors = 0));
    assert!(refused(&|l| l.zones[0].spares = u64::MAX));
    assert!(refused(&|l| l.zones[0].reserved = u64::MAX));
    assert!(refused(&|l| l.zones[0].slips = vec![u64::MAX]));
    assert!(refused(&|l| l.zones[0].slips = (0..200).collect()));
    assert!(refused(&|l| l.zones[0].track_skew = 1e9));
    assert!(refused(&|l| l.spares = SpareRegion::Cylinders(0)));
    assert!(!refused(&|_| ()));
}
