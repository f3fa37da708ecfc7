//! A device that fails for a while, and damage to the map: writers continue when the device works again.

use std::time::Duration;

use forebay_device::{DeviceOp, Durability};
use forebay_rng::Rng;
use forebay_units::{LINE_SECTORS, Sector};
use forebay_vsl::{Batch, PlacementKind, SpaceError, SpaceSettings};

use crate::world::{
    ExpectedExtents, OpenSpace, SOON, SpaceTestbed, TestbedShape, content, on_a_volume,
};

const STRIDE: u64 = 4096;
const SHAPE: TestbedShape = TestbedShape {
    segments: 128,
    segment: 256 << 10,
    kind: PlacementKind::Lfs,
};

/// Fills a volume to 90 % and overwrites it until the cleaner works.
async fn in_use(volume: &OpenSpace, rng: &Rng) -> ExpectedExtents {
    let mut model = ExpectedExtents::of_blocks(volume.usual_length() * 9 / 10 / 4096);
    for n in 0..model.len() {
        model.write(volume, n, Durability::Flush).await;
    }
    for _ in 0..model.len() {
        model
            .write(volume, rng.below(model.len()), Durability::Flush)
            .await;
    }
    assert!(
        volume.space.stats().segments_cleaned > 0,
        "the cleaner works"
    );
    model
}

/// Overwrites blocks for a time, as far as writes succeed meanwhile. An interrupted write may or may not have been
/// applied: these blocks are written again at the end. Returns the number of refused writes.
async fn write_for(
    world: &SpaceTestbed,
    volume: &OpenSpace,
    model: &mut ExpectedExtents,
    rng: &Rng,
    span: Duration,
) -> u64 {
    let until = world.rt.now().plus(span);
    let (mut unknown, mut refused) = (Vec::new(), 0);
    while world.rt.now() < until {
        let n = rng.below(model.len());
        let batch = model.next(n);
        let (began, left) = (world.rt.now(), until.since(world.rt.now()));
        let write = volume.space.apply(&batch, Durability::Flush);
        match world.rt.timeout(left, write).await {
            Ok(Ok(_)) => model.written(n),
            Ok(Err(SpaceError::Failing { .. })) => {
                let (waited, patience) = (
                    world.rt.now().since(began),
                    SpaceSettings::default().patience,
                );
                assert!(waited >= patience && waited < patience + SOON, "{waited:?}");
                refused += 1;
            }
            Ok(Err(error)) => panic!("no write is refused: {error}"),
            Err(_) => unknown.push(n),
        }
    }
    world.device.reads_fail.set(false);
    for n in unknown {
        model.write(volume, n, Durability::Flush).await;
    }
    refused
}

fn reads_fail_for(span: Duration) {
    on_a_volume(SHAPE, async move |world| {
        let volume = world.open(SpaceSettings::default()).await;
        let rng = Rng::new(1);
        let mut model = in_use(&volume, &rng).await;
        world.device.reads_fail.set(true);
        let refused = write_for(&world, &volume, &mut model, &rng, span).await;
        assert!(world.device.failed.get() > 0, "reads failed");
        assert_eq!(refused > 0, span > SpaceSettings::default().patience);
        for _ in 0..2 * model.len() {
            model
                .write(&volume, rng.below(model.len()), Durability::Flush)
                .await;
        }
        assert!(volume.space.failure().is_none());
        volume.audit().await;
        model.compare(&volume).await;
        let half = model.len() / 2;
        volume.trim(0, half * LINE_SECTORS).await;
        model.trimmed(0..half);
        volume.flush().await;
        drop(volume);
        model
            .compare(&world.open(SpaceSettings::default()).await)
            .await;
    });
}

/// Found by a hostile review: segments that could not be read for 0.3 s were never cleaned again, and writers hung.
#[test]
fn writers_continue_after_reads_have_failed_for_a_third_of_a_second() {
    reads_fail_for(Duration::from_millis(300));
}

/// Reads fail for an hour. Found by the simulator: writers waited for segments the whole time, and got no error.
#[test]
fn writers_continue_after_reads_have_failed_for_an_hour() {
    reads_fail_for(Duration::from_secs(3600));
}

/// Fills the volume with single blocks far apart until it is full. Returns the number of blocks.
async fn filled(volume: &OpenSpace, from: u64) -> u64 {
    for n in from.. {
        let batch = Batch::of_write(Sector(n * STRIDE), content(n, 1, 4096));
        match volume.try_apply(&batch, Durability::Flush).await {
            Ok(_) => {}
            Err(SpaceError::Full { .. }) => return n - from,
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!()
}

/// Returns options with memory for so few nodes of the map that most nodes must be read.
fn little_map() -> SpaceSettings {
    SpaceSettings {
        map_bytes: 64 << 10,
        ..SpaceSettings::default()
    }
}

/// Fills a volume and trims most of it in one batch. Reads fail from then on. Also returns the number of blocks that
/// filled the volume.
async fn trimmed_and_failing(world: &SpaceTestbed) -> (OpenSpace, u64) {
    let volume = world.open(little_map()).await;
    let all = filled(&volume, 0).await;
    volume.checkpoint().await;
    let (first, end) = (100, all - 100);
    let mut trim = Batch::new();
    trim.trim(Sector(first * STRIDE), (end - first) * STRIDE);
    for n in [first, end - 1] {
        volume.read(n * STRIDE, 1).await.expect("read");
    }
    volume.apply(&trim).await;
    world.device.reads_fail.set(true);
    (volume, all)
}

/// Found by a hostile review: the reaper stopped at the first read that failed, and the space below the trimmed
/// subtrees was never freed.
#[test]
fn a_trim_frees_its_range_although_reads_fail_for_a_second_after_it() {
    on_a_volume(SHAPE, async |world| {
        let (volume, all) = trimmed_and_failing(&world).await;
        world.rt.sleep(Duration::from_secs(1)).await;
        assert!(world.device.failed.get() > 0, "reads failed");
        world.device.reads_fail.set(false);
        let large = Batch::of_write(Sector((all + 5000) * STRIDE), content(0, 1, 4 << 20));
        volume.apply(&large).await;
        volume
            .apply(&Batch::of_write(Sector(50 * STRIDE), content(50, 2, 4096)))
            .await;
        volume.trim(0, STRIDE).await;
        let again = filled(&volume, 2 * all + 10_000).await;
        assert!(again > all * 8 / 10, "{again} of {all}");
        volume.audit().await;
        drop(volume);
        world.open(little_map()).await;
    });
}

/// Found by the simulator: the reaper paused only once before it tried again. A device that failed immediately was then
/// asked as fast as it could fail.
#[test]
fn trimmed_subtrees_are_read_ever_less_often_while_reads_fail() {
    on_a_volume(SHAPE, async |world| {
        let (volume, _) = trimmed_and_failing(&world).await;
        world.rt.sleep(Duration::from_secs(60)).await;
        // Tries after 100 ms, and then after twice as long each time, up to 2 s: by the reaper and by the cleaner.
        let tries = world.device.failed.get();
        assert!((5..200).contains(&tries), "{tries}");
        world.device.reads_fail.set(false);
        world.rt.sleep(Duration::from_secs(10)).await;
        assert!(!volume.space.capacity().is_reaping);
        volume.audit().await;
    });
}

/// Changes bytes in the leaf of the map that describes these sectors.
fn damage_leaf(world: &SpaceTestbed, sectors: std::ops::Range<u64>) {
    let (from, to) = (1 << 20, (1 << 20) + SHAPE.segments * SHAPE.segment);
    for at in (from..to).step_by(4096) {
        let mut block = [0; 4096];
        world.device.below.peek(at, &mut block);
        let base = u64::from_le_bytes(block[32..40].try_into().expect("eight"));
        if &block[..7] == b"FOREMAP" && block[42] == 0 && sectors.contains(&base) {
            world.device.below.poke(at + 500, &[0xaa; 8]);
            return;
        }
    }
    panic!("no leaf of these sectors is on the device");
}

/// Found by a hostile review: one damaged leaf below a trim made writers wait forever.
#[test]
fn a_damaged_leaf_below_a_trim_costs_only_the_space_below_it() {
    on_a_volume(SHAPE, async |world| {
        let options = SpaceSettings {
            map_bytes: 64 << 10,
            ..SpaceSettings::default()
        };
        let volume = world.open(options).await;
        let capacity = volume.space.capacity().mappable / 4096;
        let blocks = capacity * 8 / 10;
        for n in 0..blocks {
            volume
                .apply(&Batch::of_write(Sector(n * STRIDE), content(n, 1, 4096)))
                .await;
        }
        volume.checkpoint().await;
        drop(volume);
        damage_leaf(&world, blocks / 2 * STRIDE..(blocks / 2 + 300) * STRIDE);
        let volume = world.open_damaged(options).await;
        volume.trim(100 * STRIDE, (blocks - 200) * STRIDE).await;
        world.rt.sleep(SOON).await;
        let from = 2 * blocks;
        let written = filled(&volume, from).await;
        assert!(written > capacity * 8 / 10, "{written} of {capacity}");
        volume
            .apply(&Batch::of_write(
                Sector(from * STRIDE),
                content(from, 2, 4096),
            ))
            .await;
        volume.trim((from + 1) * STRIDE, 100 * STRIDE).await;
        volume.flush().await;
        drop(volume);
        // Live data is counted again, so the space becomes free.
        let volume = world.open(options).await;
        let more = filled(&volume, from + written).await;
        assert!(more > 100, "{more}");
        volume.audit().await;
    });
}

/// Found by a hostile review: a read that never ended prevented a segment from being opened, and all segments behind
/// it.
#[test]
fn a_hanging_read_in_a_segment_that_becomes_free_blocks_no_writer() {
    on_a_volume(SHAPE, async |world| {
        let volume = world.open(SpaceSettings::default()).await;
        let rng = Rng::new(1);
        let mut model = in_use(&volume, &rng).await;
        volume.flush().await;
        let held = rng.below(model.len());
        let at = held * LINE_SECTORS;
        let before = volume.read(at, LINE_SECTORS).await.expect("read");
        let place = volume.place(at).await.expect("it is on the device");
        world.device.held.set(Some((DeviceOp::Read, place)));
        let space = volume.space.clone();
        let reading = world.rt.spawn(async move {
            let buf = forebay_device::BufMut::zeroed(4096);
            space.read(Sector(at), buf).await
        });
        world.rt.sleep(Duration::from_secs(1)).await;
        assert_eq!(world.device.holding.get(), 1, "the read is under way");
        for _ in 0..3 {
            for n in 0..model.len() {
                model.write(&volume, n, Durability::Flush).await;
            }
        }
        volume.checkpoint().await;
        volume.audit().await;
        world.device.held.set(None);
        let read = world
            .rt
            .timeout(SOON, reading)
            .await
            .expect("the read ends");
        assert!(
            read.expect("read")[..] == before[..],
            "the segment was kept for it"
        );
        model.compare(&volume).await;
    });
}

/// Found by a hostile review: closing took as long as the cleaner had work, which on a full volume is forever.
#[test]
fn a_volume_settles_within_ten_seconds_while_the_cleaner_has_work() {
    on_a_volume(SHAPE, async |world| {
        let volume = world.open(SpaceSettings::default()).await;
        let rng = Rng::new(1);
        let model = in_use(&volume, &rng).await;
        let settled = world.rt.timeout(SOON, volume.space.settle()).await;
        let settled = settled.unwrap_or_else(|_| panic!("{}", volume.space.explain()));
        settled.expect("settled");
        drop(volume);
        let volume = world.open(SpaceSettings::default()).await;
        assert_eq!(volume.recovery.entries, 0, "{:?}", volume.recovery);
        model.compare(&volume).await;
    });
}
