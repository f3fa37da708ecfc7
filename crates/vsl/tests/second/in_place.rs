//! A block whose write in place is slow, while the log wraps around.

use std::time::Duration;

use forebay_device::{DeviceOp, Durability};
use forebay_rng::Rng;
use forebay_units::{LINE_BYTES, LINE_SECTORS, Sector};
use forebay_vsl::{Batch, PlacementKind, SpaceSettings};

use crate::world::{ExpectedExtents, OpenSpace, SOON, TestbedShape, content, on_a_volume};

const SHAPE: TestbedShape = TestbedShape {
    segments: 40,
    segment: 128 << 10,
    kind: PlacementKind::Overwrite,
};
const BLOCK: u64 = 5;
/// Blocks from here on are written once each, to fill segments, and trimmed.
const FILLER: u64 = 1000;

/// Writes blocks until earlier data is no longer in memory.
async fn fill(volume: &OpenSpace, next: &mut u64, blocks: u64) {
    for _ in 0..blocks {
        let at = Sector(*next * LINE_SECTORS);
        volume
            .apply(&Batch::of_write(at, content(*next, 9, 4096)))
            .await;
        *next += 1;
    }
}

/// Found by a hostile review: the write in place was confirmed by comparing places of the device only. The newest
/// version lay at the old place of the copy that was written in place.
#[test]
fn a_slow_write_in_place_does_not_replace_a_newer_version_at_a_reused_place() {
    on_a_volume(SHAPE, async |world| {
        let volume = world.open(SpaceSettings::default()).await;
        let mut model = ExpectedExtents::of_blocks(100);
        for n in 0..100 {
            model.write(&volume, n, Durability::Flush).await;
        }
        volume.flush().await;
        world.rt.sleep(Duration::from_secs(3)).await;
        let (at, faults) = (BLOCK * LINE_SECTORS, &world.device);
        let home = volume.place(at).await.expect("it is on the device");
        faults.held.set(Some((DeviceOp::Write, home)));
        let mut next = FILLER;
        fill(&volume, &mut next, 40).await;
        model.write(&volume, BLOCK, Durability::Flush).await;
        volume.flush().await;
        world.rt.sleep(SOON).await;
        assert_eq!(
            faults.holding.get(),
            1,
            "the block is being written in place"
        );
        let mut copy = volume.place(at).await;
        while copy.is_none() {
            fill(&volume, &mut next, 30).await;
            volume.flush().await;
            copy = volume.place(at).await;
        }
        let copy = copy.expect("it is on the device");
        // The log wraps around until the newest version lies at the old place of that copy on the device.
        let mut rounds = 0;
        loop {
            rounds += 1;
            assert!(rounds < 6000, "the log does not come to this place again");
            model.write(&volume, BLOCK, Durability::Flush).await;
            // The log advances by a different amount in each round, so that it reaches every place.
            fill(&volume, &mut next, 20 + rounds * rounds % 17).await;
            volume
                .trim(FILLER * LINE_SECTORS, (next - FILLER) * LINE_SECTORS)
                .await;
            volume.flush().await;
            if rounds % 8 == 0 {
                volume.checkpoint().await;
            }
            if volume.place(at).await == Some(copy) {
                break;
            }
        }
        println!("at the same place after {rounds} rounds");
        assert_eq!(
            faults.holding.get(),
            1,
            "the block is still being written in place"
        );
        volume.flush().await;
        faults.held.set(None);
        world.rt.sleep(SOON).await;
        model.compare(&volume).await;
        volume.audit().await;
        volume.flush().await;
        drop(volume);
        model
            .compare(&world.open(SpaceSettings::default()).await)
            .await;
    });
}

/// Found by the simulator of aged volumes: data of a record had been overwritten in place. The headers that proved the
/// record durable were in segments that the checkpoint's queue did not contain yet. Recovery treated the record as a
/// torn end, and all flushed data was lost.
#[test]
fn data_overwritten_in_place_is_not_treated_as_a_torn_end() {
    const LARGE: TestbedShape = TestbedShape {
        segments: 512,
        ..SHAPE
    };
    for segments in [2, 9, 40, 100, 200] {
        on_a_volume(LARGE, async move |world| {
            let volume = world.open(SpaceSettings::default()).await;
            let mut model = ExpectedExtents::of_blocks(segments * 32);
            for n in 0..model.len() {
                model.write(&volume, n, Durability::Flush).await;
            }
            // The data that these writes overwrite was not durable when any earlier header was composed.
            for n in [0, 1, 2, 30, 31] {
                model.write(&volume, n, Durability::Flush).await;
            }
            volume.flush().await;
            world.rt.sleep(SOON).await;
            drop(volume);
            let volume = world.open(SpaceSettings::default()).await;
            model.compare(&volume).await;
        });
    }
}

/// Found by the simulator: most garbage was in segments that waited for the write in place. The cleaner repeatedly
/// emptied segments that it had just filled.
#[test]
fn the_cleaner_rests_while_a_write_in_place_hangs() {
    on_a_volume(SHAPE, async |world| {
        let volume = world.open(SpaceSettings::default()).await;
        let mut model =
            ExpectedExtents::of_blocks(volume.space.capacity().mappable_in_blocks / LINE_BYTES);
        for n in 0..model.len() {
            model.write(&volume, n, Durability::Flush).await;
        }
        volume.flush().await;
        world.rt.sleep(SOON).await;
        let faults = &world.device;
        let home = volume.place(BLOCK * LINE_SECTORS).await;
        faults
            .held
            .set(Some((DeviceOp::Write, home.expect("it is on the device"))));
        model.write(&volume, BLOCK, Durability::Flush).await;
        let rng = Rng::new(3);
        for _ in 0..60 {
            model
                .write(&volume, rng.below(model.len()), Durability::Flush)
                .await;
        }
        world.rt.sleep(SOON).await;
        // A block that is trimmed first is not written in place. Eventually writers wait: most garbage is in segments
        // that the cleaner may not empty while a write in place is held.
        let (mut written, mut waits) = (0, false);
        while !waits {
            written += 1;
            assert!(written < 10_000, "nobody waits for the write in place");
            let n = rng.below(model.len());
            let at = Sector(n * LINE_SECTORS);
            let mut trim = Batch::new();
            trim.trim(at, LINE_SECTORS);
            let write = Batch::of_write(at, content(n, 77, LINE_BYTES));
            for batch in [trim, write] {
                let applied = volume.space.apply(&batch, Durability::Flush);
                waits |= world.rt.timeout(SOON, applied).await.is_err();
            }
        }
        assert_eq!(faults.holding.get(), 1, "a write in place is held up");
        let before = faults.reads.get();
        world.rt.sleep(SOON).await;
        let reads = faults.reads.get() - before;
        assert!(reads < 100, "the cleaner read {reads} times");
        faults.held.set(None);
        world.rt.sleep(SOON).await;
        model.write(&volume, BLOCK, Durability::Flush).await;
        volume.audit().await;
    });
}
