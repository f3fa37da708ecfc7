//! A volume of the usual length is overwritten in fragments of one sector.

use forebay_device::Durability;
use forebay_rng::Rng;
use forebay_units::LINE_SECTORS;
use forebay_vsl::{PlacementKind, SpaceSettings};

use crate::world::{ExpectedExtents, TestbedShape, on_a_volume};

/// Writes `fill` % of a volume in blocks of 4 KiB, then overwrites all of this data in fragments of one sector. Trims
/// half of it before and after the volume is opened again.
fn overwritten_in_sectors(kind: PlacementKind, fill: u64, how: Durability) {
    let shape = TestbedShape {
        segments: 96,
        segment: 128 << 10,
        kind,
    };
    on_a_volume(shape, async move |world| {
        let volume = world.open(SpaceSettings::default()).await;
        let blocks = volume.usual_length() * fill / 100 / 4096;
        let mut whole = ExpectedExtents::of_blocks(blocks);
        for n in 0..blocks {
            whole.write(&volume, n, Durability::Flush).await;
        }
        let sectors = blocks * LINE_SECTORS;
        let mut model = ExpectedExtents::new(sectors, 1, 1);
        let rng = Rng::new(3);
        println!("{kind}, {fill} % of {blocks} blocks in sectors");
        let mut order: Vec<u64> = (0..sectors).collect();
        rng.shuffle(&mut order);
        for n in &order {
            model.write(&volume, *n, how).await;
        }
        for _ in 0..sectors / 8 {
            model.write(&volume, rng.below(sectors), how).await;
        }
        volume.flush().await;
        volume.audit().await;
        drop(volume);
        // On a full volume that was just opened, a trim must find free space immediately.
        let volume = world.open(SpaceSettings::default()).await;
        volume.trim(0, sectors / 4).await;
        model.trimmed(0..sectors / 4);
        model.compare(&volume).await;
        volume.trim(sectors / 4, sectors / 4).await;
        model.trimmed(0..sectors / 2);
        for _ in 0..sectors / 8 {
            model
                .write(&volume, sectors / 2 + rng.below(sectors / 2), how)
                .await;
        }
        volume.flush().await;
        volume.audit().await;
        drop(volume);
        model
            .compare(&world.open(SpaceSettings::default()).await)
            .await;
    });
}

/// Found by a hostile review: a volume that was overwritten in sectors got stuck with all of its segments partly used.
#[test]
fn a_full_volume_accepts_writes_of_one_sector_and_then_trims() {
    for kind in [
        PlacementKind::Lfs,
        PlacementKind::SepBit,
        PlacementKind::HyLog,
    ] {
        overwritten_in_sectors(kind, 100, Durability::Flush);
    }
}

/// Found by a hostile review: the volume got stuck as well if each sector is a record with its own header.
#[test]
fn a_full_volume_accepts_durable_writes_of_one_sector_and_then_trims() {
    for kind in [
        PlacementKind::Lfs,
        PlacementKind::Wolf,
        PlacementKind::Overwrite,
    ] {
        overwritten_in_sectors(kind, 96, Durability::Fua);
    }
}
