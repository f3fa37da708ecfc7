//! A recovery that is interrupted, or whose flush fails, after a process was killed: the data that it read was on the
//! device, but not durable. Also failed durable writes after which a device may lose data that is not durable.

use std::time::Duration;

use forebay_device::{DeviceOp, Durability};
use forebay_rt::Task;
use forebay_units::{LINE_SECTORS, SECTOR_BYTES};
use forebay_vsl::{PlacementKind, SpaceError, SpaceSettings, open};

use crate::world::{
    ExpectedExtents, OpenSpace, SOON, SpaceTestbed, TestbedShape, content, on_a_volume,
};

const BLOCK: usize = 4096;
/// Number of durable blocks of the volume.
const WRITTEN: u64 = 200;

/// Returns the blocks in which two images differ.
fn changed(one: &[u8], other: &[u8]) -> Vec<usize> {
    let blocks = (0..one.len()).step_by(BLOCK);
    blocks
        .filter(|at| one[*at..*at + BLOCK] != other[*at..*at + BLOCK])
        .collect()
}

/// Makes the device lose the writes to these blocks.
fn forget(world: &SpaceTestbed, blocks: &[usize], before: &[u8]) {
    for at in blocks {
        let block = &before[*at..*at + BLOCK];
        world.device.below.poke(*at as u64, block);
    }
}

/// Opens a volume and flushes some blocks. Returns it with the expected contents.
async fn flushed(world: &SpaceTestbed) -> (OpenSpace, ExpectedExtents) {
    let volume = world.open(SpaceSettings::default()).await;
    let mut model = ExpectedExtents::of_blocks(WRITTEN);
    for n in 0..WRITTEN {
        model.write(&volume, n, Durability::Flush).await;
    }
    volume.flush().await;
    (volume, model)
}

fn shape(kind: PlacementKind) -> TestbedShape {
    TestbedShape {
        segments: 64,
        segment: 256 << 10,
        kind,
    }
}

/// A process is killed after writes that no client flushed. The next process recovers them, its first flush fails, and
/// the device loses the unflushed writes.
#[test]
fn a_failed_flush_in_recovery_preserves_data_flushed_before_the_kill() {
    for kind in [PlacementKind::Lfs, PlacementKind::HyLogSepBit] {
        on_a_volume(shape(kind), async move |world| {
            let (volume, model) = flushed(&world).await;
            let durable = world.image();
            for n in 0..20 {
                volume.apply(&model.next(n)).await;
            }
            world.rt.sleep(Duration::from_secs(1)).await;
            drop(volume);
            let unflushed = changed(&durable, &world.image());
            assert!(!unflushed.is_empty());
            let faults = &world.device;
            faults.failed.take();
            faults.flushes_fail.set(true);
            let (rt, below) = (world.rt.clone(), world.below());
            let opening = world
                .rt
                .spawn(async move { open(rt, below, SpaceSettings::default(), false).await });
            while faults.failed.get() == 0 {
                world.rt.sleep(Duration::from_micros(10)).await;
            }
            forget(&world, &unflushed, &durable);
            faults.flushes_fail.set(false);
            let opened = world.rt.timeout(600 * SOON, opening).await;
            drop(opened.expect("opening ends"));
            let volume = world.open_damaged(SpaceSettings::default()).await;
            for n in 0..WRITTEN {
                let read = volume.read(n * LINE_SECTORS, LINE_SECTORS).await;
                let read = read.unwrap_or_else(|error| panic!("{kind}: {n}: {error}"));
                let is = |version| read[..] == content(n, version, LINE_SECTORS * SECTOR_BYTES)[..];
                assert!(is(1) || n < 20 && is(2), "{kind}: {n}");
            }
            volume.audit().await;
        });
    }
}

/// A process is killed after writes that no client flushed. The next process recovers them, and is interrupted after
/// some writes by a power failure. The recovered records are then lost although the process flushed the device, but its
/// own writes remain. A third process opens the volume and continues.
fn killed_then_cut(kind: PlacementKind, cut_after: u64, writes: u64) {
    let shape = TestbedShape {
        segments: 512,
        segment: 128 << 10,
        kind,
    };
    on_a_volume(shape, async move |world| {
        let volume = world.open(SpaceSettings::default()).await;
        let mut model = ExpectedExtents::new(19_700, 1, 4096);
        for n in 0..model.len() {
            model.write(&volume, n, Durability::Flush).await;
        }
        volume.checkpoint().await;
        model.write(&volume, 7, Durability::Fua).await;
        let durable = world.image();
        // So many nodes change that the checkpoint of the recovery takes two segments.
        for n in 0..90 {
            volume.apply(&model.next(n * 100)).await;
        }
        world.rt.sleep(Duration::from_secs(1)).await;
        drop(volume);
        let killed = world.image();
        world.device.writes_left.set(Some(cut_after));
        let opening = open(
            world.rt.clone(),
            world.below(),
            SpaceSettings::default(),
            false,
        );
        let opened = world.rt.timeout(SOON, Box::pin(opening)).await;
        assert!(opened.is_err(), "recovery writes more");
        world.device.writes_left.set(None);
        let recovered = changed(&killed, &world.image());
        let mut lost = changed(&durable, &killed);
        lost.retain(|at| !recovered.contains(at));
        forget(&world, &lost, &durable);
        let volume = world.open(SpaceSettings::default()).await;
        model.compare(&volume).await;
        for n in 0..writes {
            model.write(&volume, n * 37, Durability::Fua).await;
        }
        drop(volume);
        let volume = world.open(SpaceSettings::default()).await;
        model.compare(&volume).await;
    });
}

#[test]
fn remains_of_an_interrupted_recovery_are_not_mistaken_for_those_of_a_later_recovery() {
    for kind in [PlacementKind::Lfs, PlacementKind::SepBit] {
        for (cut_after, writes) in [(3, 1), (4, 30)] {
            killed_then_cut(kind, cut_after, writes);
        }
    }
}

/// Begins a checkpoint, and waits until its superblock is being written. This write is held until [`fail_superblock`].
async fn hold_superblock(world: &SpaceTestbed, volume: &OpenSpace) -> Task<Result<(), SpaceError>> {
    world.device.held.set(Some((DeviceOp::Write, 0)));
    let space = volume.space.clone();
    let checkpoint = world.rt.spawn(async move { space.checkpoint().await });
    while world.device.holding.get() == 0 {
        world.rt.sleep(Duration::from_millis(1)).await;
    }
    checkpoint
}

/// Makes the writes of the superblock fail.
async fn fail_superblock(world: &SpaceTestbed) {
    world.device.superblocks_fail.set(true);
    world.device.held.set(None);
    while world.device.failed.get() == 0 {
        world.rt.sleep(Duration::from_millis(1)).await;
    }
}

/// A write with FUA fails. The device may implement FUA by a flush: it loses the data in its cache, and works again
/// before it reports the failure. A flush between the two events would not make that data durable.
#[test]
fn no_successful_flush_loses_data_during_a_superblock_write_that_fails_late() {
    on_a_volume(shape(PlacementKind::Lfs), async move |world| {
        let (volume, mut model) = flushed(&world).await;
        let checkpoint = hold_superblock(&world, &volume).await;
        let durable = world.image();
        for n in 0..40 {
            model.write(&volume, n, Durability::Flush).await;
        }
        world.rt.sleep(Duration::from_secs(1)).await;
        let forgotten = changed(&durable, &world.image());
        assert!(!forgotten.is_empty());
        forget(&world, &forgotten, &durable);
        let space = volume.space.clone();
        let flush = world.rt.spawn(async move { space.flush().await });
        world.rt.sleep(Duration::from_secs(1)).await;
        fail_superblock(&world).await;
        let flushed = world.rt.timeout(SOON, flush).await;
        let flushed = flushed.expect("a flush ends");
        drop((volume, checkpoint));
        world.device.superblocks_fail.set(false);
        let volume = world.open(SpaceSettings::default()).await;
        if flushed.is_ok() {
            model.compare(&volume).await;
        }
    });
}

/// A durable write of the log at the same time: the device may implement it by a write and a flush, and lose the write
/// in between.
#[test]
fn no_successful_durable_write_loses_data_during_a_superblock_write_that_fails_late() {
    on_a_volume(shape(PlacementKind::Lfs), async move |world| {
        let (volume, mut model) = flushed(&world).await;
        // No other data must become durable.
        let checkpoint = hold_superblock(&world, &volume).await;
        world.rt.sleep(Duration::from_secs(1)).await;
        let durable = world.image();
        let (space, batch) = (volume.space.clone(), model.next(0));
        let writing = async move { space.apply(&batch, Durability::Fua).await };
        let writing = world.rt.spawn(writing);
        world.rt.sleep(Duration::from_secs(1)).await;
        let begun = changed(&durable, &world.image());
        forget(&world, &begun, &durable);
        fail_superblock(&world).await;
        let written = world.rt.timeout(SOON, writing).await;
        let written = written.expect("a write ends");
        drop((volume, checkpoint));
        world.device.superblocks_fail.set(false);
        let volume = world.open(SpaceSettings::default()).await;
        if written.is_ok() {
            model.written(0);
            model.compare(&volume).await;
        }
    });
}
