//! Bounds of the map's memory, and of the time that a task runs without a pause.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::Durability;
use forebay_rng::Rng;
use forebay_units::{LINE_BYTES, LINE_SECTORS};
use forebay_vsl::{PlacementKind, SpaceSettings};

use crate::world::{ExpectedExtents, TestbedShape, on_a_device, on_a_volume};

/// A leaf of the map holds one extent at this distance.
const FAR: u64 = 1 << 33;
const NODE: u64 = 4096;
const SHAPE: TestbedShape = TestbedShape {
    segments: 1024,
    segment: 1 << 20,
    kind: PlacementKind::Lfs,
};

/// Found by a hostile review: changed leaves stayed in memory without a bound, and each read searched through all of
/// them.
#[test]
fn changed_leaves_take_limited_memory_and_concurrent_reads_load_few_nodes() {
    const LEAVES: u64 = 20_000;
    const MAP: u64 = 4 << 20;
    on_a_volume(SHAPE, async |world| {
        let options = SpaceSettings {
            map_bytes: MAP,
            ..SpaceSettings::default()
        };
        let volume = world.open(options).await;
        let mut model = ExpectedExtents::new(LEAVES, 1, FAR);
        let mut most = 0;
        for n in 0..LEAVES {
            model.write(&volume, n, Durability::Flush).await;
            most = most.max(volume.space.map_memory() as u64);
        }
        volume.checkpoint().await;
        for n in 0..LEAVES / 2 {
            model.write(&volume, n, Durability::Flush).await;
            most = most.max(volume.space.map_memory() as u64);
        }
        let before = volume.space.stats().node_reads;
        let rng = Rng::new(1);
        for _ in 0..50 {
            let n = LEAVES / 2 + rng.below(LEAVES / 2);
            volume.read(n * FAR, 1).await.expect("read");
            most = most.max(volume.space.map_memory() as u64);
        }
        let reads = volume.space.stats().node_reads - before;
        println!("{most} bytes of memory at most, of {MAP}; {reads} nodes for 50 reads");
        assert!(most <= 3 * MAP, "{most}");
        assert!(reads <= 50 * 4, "{reads}");
        volume.checkpoint().await;
        volume.read(0, 1).await.expect("read");
        let memory = volume.space.map_memory() as u64;
        assert!(memory <= MAP + MAP / 8, "{memory}");
        volume.audit().await;
        drop(volume);
        model.compare(&world.open(options).await).await;
    });
}

/// Found by a hostile review: the cleaner kept all loaded nodes of the map in memory, and recovery had more entries to
/// apply than its bound.
#[test]
fn cleaning_and_an_idle_hour_respect_the_limits_of_memory_and_recovery() {
    const ENTRIES: u64 = 2000;
    const MAP: u64 = 256 << 10;
    let shape = TestbedShape {
        segments: 256,
        segment: 256 << 10,
        ..SHAPE
    };
    on_a_volume(shape, async |world| {
        let options = SpaceSettings {
            map_bytes: MAP,
            recovery_entries: ENTRIES,
            ..SpaceSettings::default()
        };
        let volume = world.open(options).await;
        let blocks = volume.space.capacity().mappable / 8 * 7 / LINE_BYTES;
        let mut model = ExpectedExtents::of_blocks(blocks);
        let rng = Rng::new(2);
        let mut order: Vec<u64> = (0..blocks).collect();
        rng.shuffle(&mut order);
        for n in order {
            model.write(&volume, n, Durability::Flush).await;
        }
        let (before, mut most) = (volume.space.stats().bytes_moved, 0);
        for _ in 0..blocks {
            model
                .write(&volume, rng.below(blocks), Durability::Flush)
                .await;
            most = most.max(volume.space.map_memory() as u64);
        }
        for _ in 0..3600 {
            world.rt.sleep(Duration::from_secs(1)).await;
            most = most.max(volume.space.map_memory() as u64);
        }
        let moved = volume.space.stats().bytes_moved - before;
        println!("{moved} bytes moved; {most} bytes of memory at most");
        assert!(moved > 0, "the cleaner worked");
        assert!(most <= 3 * MAP, "{most}");
        drop(volume);
        let volume = world.open(options).await;
        let entries = volume.recovery.entries;
        assert!(entries <= ENTRIES + ENTRIES / 2, "{entries}");
        model.compare(&volume).await;
    });
}

/// Found by a hostile review: a checkpoint of many changed leaves blocked all other tasks until it was composed.
#[test]
fn other_tasks_run_while_a_checkpoint_of_many_leaves_is_composed() {
    const LEAVES: u64 = 10_000;
    // The device takes no time, so only the checkpoint itself can yield.
    on_a_device(SHAPE, async |world| {
        world.create().await;
        let volume = world.open(SpaceSettings::default()).await;
        let mut model = ExpectedExtents::new(LEAVES, 1, FAR);
        for n in 0..LEAVES {
            model.write(&volume, n, Durability::Flush).await;
        }
        let (most, ended) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
        let watch = world.rt.spawn({
            let (rt, space) = (world.rt.clone(), volume.space.clone());
            let (most, ended) = (Rc::clone(&most), Rc::clone(&ended));
            async move {
                let mut last = space.stats().bytes_checkpoints;
                while !ended.get() {
                    rt.yield_now().await;
                    let now = space.stats().bytes_checkpoints;
                    most.set(most.get().max(now - last));
                    last = now;
                }
            }
        });
        let before = volume.space.stats().bytes_checkpoints;
        volume
            .space
            .checkpoint()
            .await
            .expect("a checkpoint was made");
        ended.set(true);
        watch.await;
        let written = volume.space.stats().bytes_checkpoints - before;
        println!(
            "of {written} bytes, at most {} without a turn of other tasks",
            most.get()
        );
        assert!(written > LEAVES / 2 * NODE, "{written}");
        assert!(most.get() <= 1 << 20, "{}", most.get());
        volume.audit().await;
    });
}

/// Found while these tests were written: the walk of an audit released the nodes that it had just read, and never
/// ended.
#[test]
fn an_audit_ends_even_with_a_map_memory_limit_of_zero() {
    on_a_volume(SHAPE, async |world| {
        let options = SpaceSettings {
            map_bytes: 0,
            ..SpaceSettings::default()
        };
        let volume = world.open(options).await;
        let mut model = ExpectedExtents::new(3000, LINE_SECTORS, 2 * LINE_SECTORS);
        for n in 0..3000 {
            model.write(&volume, n, Durability::Flush).await;
        }
        volume.checkpoint().await;
        let audited = world
            .rt
            .timeout(Duration::from_secs(2), volume.audit())
            .await;
        audited.expect("the audit ends");
        drop(volume);
        model.compare(&world.open(options).await).await;
    });
}
