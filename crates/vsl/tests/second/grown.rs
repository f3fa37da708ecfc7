//! Volumes on devices that became longer.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{BufMut, Device, Durability};
use forebay_sim::disk::{DiskImage, WriteFate};
use forebay_sim::machine::Machine;
use forebay_units::{LINE_SECTORS, Sector};
use forebay_vsl::{Batch, GrowError, PlacementKind, SpaceError, SpaceSettings, open};

use crate::power::{SEGMENT, SEGMENTS_AT, SoleDisk, machine, made};
use crate::world::{
    ExpectedExtents, OpenSpace, SECTORS, SpaceTestbed, TestbedShape, content, on_a_volume,
};

fn shape(segments: u64) -> TestbedShape {
    TestbedShape {
        segments,
        segment: SEGMENT,
        kind: PlacementKind::Lfs,
    }
}

/// Extends the device to the length of `segments` segments and a part of another.
fn extend(world: &SpaceTestbed, segments: u64) {
    let len = SEGMENTS_AT + segments * SEGMENT + SEGMENT / 2;
    world.device.below.grow(len);
}

/// Writes new blocks from `first` on until the volume is full. Returns the number of blocks that fitted.
async fn fill(volume: &OpenSpace, model: &mut ExpectedExtents, first: u64) -> u64 {
    for n in first..model.len() {
        match volume.try_apply(&model.next(n), Durability::Flush).await {
            Ok(_) => model.written(n),
            Err(SpaceError::Full { .. }) => return n - first,
            Err(error) => panic!("{n}: {error}"),
        }
    }
    panic!("the volume did not get full");
}

/// The volume is full to the last block, so that a checkpoint with a longer table has only its reserved space.
#[test]
fn growing_a_full_volume_in_use_adds_the_space_of_the_longer_device_and_loses_nothing() {
    for (before, after) in [(40, 60), (40, 300), (600, 5000)] {
        on_a_volume(shape(before), async move |world| {
            let volume = world.open(SpaceSettings::default()).await;
            let mut model = ExpectedExtents::of_blocks(after * SEGMENT / 4096);
            let full = fill(&volume, &mut model, 0).await;
            let room = volume.space.capacity().mappable;
            extend(&world, after);
            volume.space.grow(0).await.expect("grown");
            assert_eq!(u64::from(volume.space.superblock().segment_count), after);
            volume.audit().await;
            let more = volume.space.capacity().mappable - room;
            let expected = (after - before) * SEGMENT;
            // Some of the new segments are kept free as well.
            assert!(
                more > expected / 10 && more <= expected,
                "{more} of {expected}"
            );
            let more = fill(&volume, &mut model, full).await;
            assert!(more > 0, "{before} segments, then {after}");
            volume.flush().await;
            volume.audit().await;
            drop(volume);
            let volume = world.open(SpaceSettings::default()).await;
            assert_eq!(u64::from(volume.space.superblock().segment_count), after);
            model.compare(&volume).await;
        });
    }
}

#[test]
fn the_space_grows_with_and_without_the_device_and_never_shrinks() {
    on_a_volume(shape(40), async move |world| {
        let volume = world.open(SpaceSettings::default()).await;
        let sectors = || volume.space.sectors();
        volume.space.grow(SECTORS / 2).await.expect("nothing to do");
        assert_eq!((sectors(), volume.space.stats().checkpoints), (SECTORS, 1));
        volume.space.grow(SECTORS + 8).await.expect("longer");
        assert_eq!(sectors(), SECTORS + 8);
        extend(&world, 50);
        volume.space.grow(SECTORS + 16).await.expect("both");
        assert_eq!(sectors(), SECTORS + 16);
        assert_eq!(volume.space.superblock().segment_count, 50);
        drop(volume);
        let volume = world.open(SpaceSettings::default()).await;
        assert_eq!(volume.space.sectors(), SECTORS + 16);
    });
}

#[test]
fn clients_write_while_a_volume_grows_and_recovery_finds_their_data() {
    on_a_volume(shape(40), async move |world| {
        let volume = world.open(SpaceSettings::default()).await;
        let mut model = ExpectedExtents::of_blocks(2000);
        for n in 0..400 {
            model.write(&volume, n, Durability::Flush).await;
        }
        extend(&world, 3000);
        let (space, grown) = (volume.space.clone(), Rc::new(Cell::new(false)));
        let done = Rc::clone(&grown);
        let growing = world.rt.spawn(async move {
            space.grow(0).await.expect("grown");
            done.set(true);
        });
        let mut n = 0;
        while !grown.get() || n < 1900 {
            model.write(&volume, n * 7 % 2000, Durability::Flush).await;
            n += 1;
            if !grown.get() {
                // Slow down, so that the volume is not full before it has grown.
                world.rt.sleep(Duration::from_micros(100)).await;
            }
        }
        growing.await;
        volume.flush().await;
        volume.audit().await;
        // The volume was not closed: records behind the checkpoint are recovered, also from new segments.
        drop(volume);
        let volume = world.open(SpaceSettings::default()).await;
        assert!(volume.recovery.entries > 0);
        model.compare(&volume).await;
    });
}

#[test]
fn a_shorter_device_is_rejected_and_the_volume_stays_unchanged() {
    on_a_volume(shape(40), async move |world| {
        let volume = world.open(SpaceSettings::default()).await;
        world.device.shorter.set(4096);
        let error = volume.space.grow(0).await.expect_err("refused");
        assert!(matches!(error, GrowError::Shrunk { .. }), "{error}");
        assert_eq!(volume.space.superblock().segment_count, 40);
    });
}

/// Number of blocks that are written and flushed before the disk grows.
const OLD: u64 = 200;

/// Returns a disk with a volume of 40 segments that contains data.
fn used() -> DiskImage {
    let machine = machine(1, None, &made(40, PlacementKind::Lfs));
    let (rt, disk) = (machine.rt.clone(), Rc::clone(&machine.disks[SoleDisk]));
    let written = machine.run(async move {
        let opened = open(rt, disk, SpaceSettings::default(), false).await;
        let (space, _workers, _) = opened.expect("opened");
        for n in 0..OLD {
            let batch = Batch::of_write(Sector(n * LINE_SECTORS), content(n, 1, 4096));
            space.apply(&batch, Durability::Flush).await.expect("done");
        }
        space.flush().await.expect("flushed");
    });
    written.expect("no cut");
    machine.cut(WriteFate::Keep)[SoleDisk].clone()
}

/// Grows a volume in use from 40 to 700 segments, which takes several checkpoints. The power fails at request `cut_at`.
/// Returns the number of blocks that are durable afterwards, whether all writes completed, and the machine with the
/// disk.
fn grown_with_a_cut(image: &DiskImage, cut_at: u64) -> (u64, bool, Machine<SoleDisk>) {
    let machine = machine(cut_at, Some(cut_at), image);
    let (rt, disk) = (machine.rt.clone(), Rc::clone(&machine.disks[SoleDisk]));
    let durable = Rc::new(Cell::new(0));
    let told = Rc::clone(&durable);
    let ended = machine.run(async move {
        disk.grow(SEGMENTS_AT + 700 * SEGMENT);
        let disk: Rc<dyn Device> = disk;
        let opened = open(rt, disk, SpaceSettings::default(), false).await;
        let (space, _workers, _) = opened.expect("opened");
        space.grow(SECTORS + 8).await.expect("grown");
        for n in 0..40 {
            let batch =
                Batch::of_write(Sector((OLD + n) * LINE_SECTORS), content(OLD + n, 1, 65536));
            space.apply(&batch, Durability::Fua).await.expect("done");
            told.set(n + 1);
        }
    });
    (durable.get(), ended.is_some(), machine)
}

/// One seed is one scenario: the time of the power failure, and the blocks that reached the disk by then.
#[test]
fn a_power_cut_anywhere_while_a_volume_grows_leaves_the_old_or_the_new_length() {
    let image = used();
    let (mut lengths, mut n) = ([0, 0], 0);
    loop {
        let (durable, ended, cut) = grown_with_a_cut(&image, n);
        for coin in [WriteFate::Drop, WriteFate::Keep, WriteFate::Blocks(n)] {
            let left = cut.cut(coin)[SoleDisk].clone();
            let again = machine(n + 1000, None, &left);
            let (rt, disk) = (again.rt.clone(), Rc::clone(&again.disks[SoleDisk]));
            let found = again.run(async move {
                let disk: Rc<dyn Device> = disk;
                let opened = open(rt, disk, SpaceSettings::default(), false).await;
                let (space, _workers, _) = opened.unwrap_or_else(|error| panic!("{n}: {error}"));
                space.audit().await.expect("all is counted");
                for block in 0..OLD + durable {
                    let bytes = if block < OLD { 4096 } else { 65536 };
                    // The new extents of 64 KiB overlap each other. Only the first 4 KiB of each keep their contents.
                    let buf = BufMut::zeroed(4096);
                    let read = space.read(Sector(block * LINE_SECTORS), buf).await;
                    let read = read.expect("read");
                    assert!(read[..] == content(block, 1, bytes)[..4096], "{block}");
                }
                let superblock = space.superblock().clone();
                (superblock.segment_count, superblock.space_sectors)
            });
            match found.expect("no cut") {
                (40.., SECTORS) => lengths[0] += 1,
                (700, longer) if longer == SECTORS + 8 => lengths[1] += 1,
                other => panic!("a cut at {n}: {other:?}"),
            }
        }
        if ended {
            break;
        }
        n += 1;
    }
    assert!(
        n > 40 && lengths[0] > 0 && lengths[1] > 0,
        "{n}: {lengths:?}"
    );
}
