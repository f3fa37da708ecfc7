//! Preallocation: other batches are refused the preallocated space, and the intended batches get all of it.

use forebay_device::Durability;
use forebay_rng::Rng;
use forebay_units::{LINE_BYTES, LINE_SECTORS, SECTOR_BYTES, Sector};
use forebay_vsl::{Batch, PlacementKind, SpaceError, SpaceSettings};

use crate::world::{OpenSpace, TestbedShape, content, on_a_volume};

const BLOCK: i64 = LINE_SECTORS as i64;
/// The first sector of data written without preallocation.
const ELSEWHERE: u64 = 1 << 40;

/// Writes a block of which `preallocated` sectors were preallocated.
async fn write(volume: &OpenSpace, block: u64, preallocated: i64) -> Result<i64, SpaceError> {
    let data = content(block, 1, LINE_BYTES);
    let mut batch = Batch::of_write(Sector(block * LINE_SECTORS), data);
    batch.preallocate(-preallocated);
    volume.try_apply(&batch, Durability::Flush).await
}

/// Writes blocks, and then sectors, far apart until the volume is full. Returns the sectors written.
async fn fill_elsewhere(volume: &OpenSpace) -> u64 {
    let mut written = 0;
    for bytes in [LINE_BYTES, SECTOR_BYTES] {
        let data = content(1, 1, bytes);
        loop {
            let at = Sector(ELSEWHERE + written * 1000);
            let batch = Batch::of_write(at, data.clone());
            match volume.try_apply(&batch, Durability::Flush).await {
                Ok(_) => written += bytes / SECTOR_BYTES,
                Err(SpaceError::Full { .. }) => break,
                Err(other) => panic!("{other}"),
            }
        }
    }
    written
}

#[test]
fn preallocated_space_is_available_to_its_batches_only() {
    for kind in [
        PlacementKind::Lfs,
        PlacementKind::HyLog,
        PlacementKind::SepBit,
        PlacementKind::Overwrite,
    ] {
        for part in [10, 50, 100] {
            preallocates(kind, part);
        }
    }
}

fn preallocates(kind: PlacementKind, part: u64) {
    let shape = TestbedShape {
        segments: 128,
        segment: 128 << 10,
        kind,
    };
    on_a_volume(shape, async move |world| {
        let volume = world.open(SpaceSettings::default()).await;
        let blocks = volume.space.capacity().mappable_in_blocks / LINE_BYTES * part / 100;
        let mut batch = Batch::of_write(Sector(1 << 45), content(0, 1, SECTOR_BYTES));
        batch.preallocate((blocks - 1) as i64 * BLOCK);
        volume.apply(&batch).await;
        assert_eq!(
            volume.space.capacity().preallocated,
            (blocks - 1) * LINE_BYTES
        );
        let elsewhere = fill_elsewhere(&volume).await;
        println!("{kind}: {blocks} blocks preallocated, {elsewhere} sectors elsewhere");
        assert_eq!(part == 100, elsewhere < 64, "{elsewhere} sectors");
        let mut order: Vec<u64> = (0..blocks - 1).collect();
        Rng::new(part).shuffle(&mut order);
        for (n, block) in order.iter().enumerate() {
            let written = write(&volume, *block, BLOCK).await;
            written.unwrap_or_else(|error| panic!("{n}: {error}; {}", volume.space.explain()));
        }
        assert_eq!(volume.space.capacity().preallocated, 0);
        // Existing data can be written again, and no space is left for more.
        for block in order.iter().take(500) {
            write(&volume, *block, 0).await.expect("written again");
        }
        volume.flush().await;
        volume.audit().await;
    });
}

#[test]
fn only_free_space_can_be_preallocated_and_released_space_can_be_preallocated_again() {
    let shape = TestbedShape {
        segments: 96,
        segment: 128 << 10,
        kind: PlacementKind::HyLog,
    };
    on_a_volume(shape, async move |world| {
        let volume = world.open(SpaceSettings::default()).await;
        let free = volume.space.capacity().mappable_in_blocks;
        let asking = |bytes: u64| {
            let mut batch = Batch::of_write(Sector(8), content(0, 1, SECTOR_BYTES));
            batch.preallocate((bytes / SECTOR_BYTES) as i64);
            batch
        };
        let refused = volume
            .try_apply(&asking(free + LINE_BYTES), Durability::Flush)
            .await;
        assert!(
            matches!(refused, Err(SpaceError::Full { need, have }) if need > have),
            "{refused:?}"
        );
        assert_eq!(volume.space.capacity().preallocated, 0);
        volume.apply(&asking(free / 4 * 3)).await;
        let refused = volume.try_apply(&asking(free / 2), Durability::Flush).await;
        assert!(
            matches!(refused, Err(SpaceError::Full { .. })),
            "{refused:?}"
        );
        let mut back = Batch::new();
        back.trim(Sector(8), 1);
        back.preallocate(-((free / 4 * 3 / SECTOR_BYTES) as i64));
        volume.apply(&back).await;
        volume.apply(&asking(free / 2)).await;
    });
}
