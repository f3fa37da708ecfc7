//! Volumes in use whose placement changes.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{BufMut, Device, Durability};
use forebay_rng::Rng;
use forebay_sim::disk::{DiskImage, WriteFate};
use forebay_sim::machine::Machine;
use forebay_units::{ByteLen, LINE_SECTORS, Sector};
use forebay_vsl::{
    Batch, DiskParameters, PlacementKind, SegmentLayout, SpaceError, SpaceSettings, SpaceSpec,
    TuneError, VolumeId, create, open,
};

use crate::power::{SEGMENT, SoleDisk, machine, made};
use crate::world::{
    ExpectedExtents, OpenSpace, SECTORS, SOON, TestbedShape, content, on_a_device, on_a_volume,
};

const SEGMENTS: u64 = 80;

fn shape(kind: PlacementKind) -> TestbedShape {
    TestbedShape {
        segments: SEGMENTS,
        segment: SEGMENT,
        kind,
    }
}

/// Writes blocks at random until the cleaner must work.
async fn churn(volume: &OpenSpace, model: &mut ExpectedExtents, rng: &Rng, writes: u64) {
    for _ in 0..writes {
        let n = rng.below(model.len());
        model.write(volume, n, Durability::Flush).await;
    }
}

/// Every pair of placements, one after the other, with concurrent writes; then a kill.
#[test]
fn the_placement_changes_from_any_to_any_under_writers_without_data_loss() {
    for from in PlacementKind::ALL {
        on_a_volume(shape(from), async move |world| {
            let volume = world.open(SpaceSettings::default()).await;
            let mut model = ExpectedExtents::of_blocks(SEGMENTS * SEGMENT / 4096 / 2);
            let rng = Rng::new(from.code().into());
            for n in 0..model.len() {
                model.write(&volume, n, Durability::Flush).await;
            }
            for to in PlacementKind::ALL {
                let space = volume.space.clone();
                let changing = world
                    .rt
                    .spawn(async move { space.set_placement(Some(to)).await });
                churn(&volume, &mut model, &rng, 300).await;
                changing.await.expect("changed");
                assert_eq!(volume.space.placement(), to);
                assert_eq!(volume.space.superblock().placement, to);
                churn(&volume, &mut model, &rng, 300).await;
                volume.audit().await;
                volume
                    .space
                    .set_placement(Some(from))
                    .await
                    .expect("changed back");
            }
            volume.flush().await;
            drop(volume);
            let volume = world.open(SpaceSettings::default()).await;
            assert_eq!(volume.space.placement(), from);
            model.compare(&volume).await;
        });
    }
}

#[test]
fn a_volume_that_is_too_full_for_a_placement_keeps_its_placement() {
    on_a_volume(shape(PlacementKind::Overwrite), async |world| {
        let volume = world.open(SpaceSettings::default()).await;
        let mut model = ExpectedExtents::of_blocks(SEGMENTS * SEGMENT / 4096);
        let mut written = 0;
        for n in 0..model.len() {
            match volume.try_apply(&model.next(n), Durability::Flush).await {
                Ok(_) => {
                    model.written(n);
                    written = n + 1;
                }
                Err(SpaceError::Full { .. }) => break,
                Err(error) => panic!("{n}: {error}"),
            }
        }
        let error = volume
            .space
            .set_placement(Some(PlacementKind::SepBit))
            .await;
        let Err(TuneError::Full { kind, over }) = error else {
            panic!("{error:?}");
        };
        assert!(
            kind == PlacementKind::SepBit && over > ByteLen(SEGMENT),
            "{over}"
        );
        assert_eq!(volume.space.placement(), PlacementKind::Overwrite);
        volume.trim(0, written / 4 * LINE_SECTORS).await;
        model.trimmed(0..written / 4);
        let changed = volume
            .space
            .set_placement(Some(PlacementKind::SepBit))
            .await;
        changed.expect("it fits now");
        model.compare(&volume).await;
    });
}

/// A volume that was created as a log, is nearly full, and is written with a skew on a disk that positions slowly.
#[test]
fn a_volume_changes_its_placement_automatically_only_if_configured_and_else_reports_it() {
    for auto in [true, false] {
        on_a_device(shape(PlacementKind::Overwrite), async move |world| {
            let layout =
                SegmentLayout::for_device(&world.device.geometry(), Some(ByteLen(SEGMENT)));
            let making = SpaceSpec {
                volume: VolumeId([7; 16]),
                layout: layout.expect("fits"),
                space_sectors: SECTORS,
                placement: PlacementKind::Overwrite,
                auto,
                page_sectors: 8,
                disk: Some(DiskParameters {
                    positioning: 0.01,
                    bandwidth: 60e6,
                    arms: 1.0,
                }),
            };
            create(world.rt.clone(), world.below(), &making)
                .await
                .expect("made");
            let volume = world.open(SpaceSettings::default()).await;
            let mut model = ExpectedExtents::of_blocks(SEGMENTS * SEGMENT / 4096 / 3);
            for n in 0..model.len() {
                model.write(&volume, n, Durability::Flush).await;
            }
            assert_eq!(volume.space.tuning().why, None);
            // Writing a segment in place costs many times as much as in a log that is a third full.
            churn(&volume, &mut model, &Rng::new(1), 12 * 1024).await;
            let tuning = volume.space.tuning();
            assert!(tuning.looks > 3, "{tuning:?}");
            let why = tuning.why.expect("known");
            let best: PlacementKind = why
                .split(',')
                .next()
                .and_then(|kind| kind.parse().ok())
                .expect("named");
            assert!(best != PlacementKind::Overwrite, "{why}");
            let placed = volume.space.placement();
            assert_eq!(placed != PlacementKind::Overwrite, auto, "{placed}");
            volume.flush().await;
            drop(volume);
            let volume = world.open(SpaceSettings::default()).await;
            assert_eq!(volume.space.is_auto(), auto);
            assert_eq!(volume.space.placement(), placed);
            model.compare(&volume).await;
        });
    }
}

/// The cleaner and the writes in place wait for nodes and for space while the placement changes under them.
#[test]
fn many_placement_changes_on_a_nearly_full_volume_leave_no_stream_behind_and_lose_nothing() {
    for seed in 0..2 {
        let shape = TestbedShape {
            segments: 280,
            ..shape(PlacementKind::HyLogSepBit)
        };
        on_a_volume(shape, async move |world| {
            let options = SpaceSettings {
                map_bytes: 0,
                ..SpaceSettings::default()
            };
            let volume = world.open(options).await;
            // Single sectors, so that the map does not fit its memory, and the cleaner reads it before it moves data.
            let mut model = ExpectedExtents::new(36_000, 1, 2);
            for n in 0..model.len() {
                model.write(&volume, n, Durability::Flush).await;
            }
            let end = Rc::new(Cell::new(false));
            let changes: Vec<_> = (0..8)
                .map(|n| {
                    let (rt, space, end) =
                        (world.rt.clone(), volume.space.clone(), Rc::clone(&end));
                    let rng = Rng::new(100 * seed + n);
                    world.rt.spawn(async move {
                        let mut count = 0;
                        while !end.get() {
                            rt.sleep(Duration::from_micros(rng.below(4000))).await;
                            let kind = rng.pick(&PlacementKind::ALL);
                            match space.set_placement(Some(kind)).await {
                                Ok(()) => count += 1,
                                Err(TuneError::Full { .. }) => {}
                                Err(error) => panic!("{kind}: {error}"),
                            }
                        }
                        count
                    })
                })
                .collect();
            churn(&volume, &mut model, &Rng::new(seed), 10_000).await;
            end.set(true);
            let mut count = 0;
            for change in changes {
                count += change.await;
            }
            assert!(count > 100, "{count}");
            volume.audit().await;
            let placed = volume.space.placement();
            assert_eq!(volume.space.superblock().placement, placed);
            volume.flush().await;
            drop(volume);
            let volume = world.open(SpaceSettings::default()).await;
            assert_eq!(volume.space.placement(), placed);
            model.compare(&volume).await;
        });
    }
}

/// As full as it gets with the placement that keeps most free, a volume changes to every other one and back, while all of it is
/// overwritten.
#[test]
fn a_volume_full_under_one_placement_stays_writable_under_each_placement_that_fits() {
    on_a_volume(shape(PlacementKind::SepBit), async |world| {
        let volume = world.open(SpaceSettings::default()).await;
        let mut model = ExpectedExtents::of_blocks(SEGMENTS * SEGMENT / 4096);
        let mut written = 0;
        for n in 0..model.len() {
            match volume.try_apply(&model.next(n), Durability::Flush).await {
                Ok(_) => {
                    model.written(n);
                    written = n + 1;
                }
                Err(SpaceError::Full { .. }) => break,
                Err(error) => panic!("{n}: {error}"),
            }
        }
        let rng = Rng::new(3);
        let mut changed = 0;
        for kind in PlacementKind::ALL
            .into_iter()
            .chain([PlacementKind::Overwrite, PlacementKind::HyLog])
        {
            match volume.space.set_placement(Some(kind)).await {
                Ok(()) => changed += 1,
                Err(TuneError::Full { .. }) => {}
                Err(error) => panic!("{kind}: {error}"),
            }
            for _ in 0..written {
                model
                    .write(&volume, rng.below(written), Durability::Flush)
                    .await;
            }
            volume.audit().await;
        }
        assert!(changed > 4, "{changed}");
        model.compare(&volume).await;
    });
}

/// The fault lasts for an hour. To a placement that keeps less free, and to one that keeps more.
#[test]
fn a_placement_change_waits_for_a_failing_device_and_loses_nothing() {
    for (from, to) in [
        (PlacementKind::SepBit, PlacementKind::HyLog),
        (PlacementKind::Overwrite, PlacementKind::SepBit),
    ] {
        on_a_volume(shape(from), async move |world| {
            let volume = world.open(SpaceSettings::default()).await;
            let mut model = ExpectedExtents::of_blocks(200);
            for n in 0..model.len() {
                model.write(&volume, n, Durability::Flush).await;
            }
            volume.flush().await;
            world.device.writes_fail.set(true);
            let space = volume.space.clone();
            let changing = world
                .rt
                .spawn(async move { space.set_placement(Some(to)).await });
            world.rt.sleep(Duration::from_secs(3600)).await;
            assert_eq!(volume.space.superblock().placement, from);
            model.compare(&volume).await;
            world.device.writes_fail.set(false);
            let changed = world.rt.timeout(SOON, changing).await;
            changed.expect("it ends").expect("changed");
            churn(&volume, &mut model, &Rng::new(1), 500).await;
            volume.flush().await;
            drop(volume);
            let volume = world.open(SpaceSettings::default()).await;
            assert_eq!(volume.space.placement(), to);
            model.compare(&volume).await;
        });
    }
}

/// Opens a volume, and changes its placement from `from` to `to` between two writes. The power fails at
/// request `cut_at`. Returns the number of durable blocks, whether all writes completed, and the machine with the disk.
fn changed_with_a_cut(
    image: &DiskImage,
    (from, to): (PlacementKind, PlacementKind),
    cut_at: u64,
) -> (u64, bool, Machine<SoleDisk>) {
    let machine = machine(cut_at, Some(cut_at), image);
    let (rt, disk) = (machine.rt.clone(), Rc::clone(&machine.disks[SoleDisk]));
    let durable = Rc::new(Cell::new(0));
    let told = Rc::clone(&durable);
    let ended = machine.run(async move {
        let disk: Rc<dyn Device> = disk;
        let opened = open(rt, disk, SpaceSettings::default(), false).await;
        let (space, _workers, _) = opened.expect("opened");
        assert_eq!(space.placement(), from);
        for n in 0..20 {
            if n == 10 {
                space.set_placement(Some(to)).await.expect("changed");
            }
            let batch = Batch::of_write(Sector(n * LINE_SECTORS), content(n, 1, 4096));
            space.apply(&batch, Durability::Fua).await.expect("done");
            told.set(n + 1);
        }
    });
    (durable.get(), ended.is_some(), machine)
}

/// One seed is one scenario: the time of the power failure, and the blocks that reached the disk by then.
#[test]
fn a_power_cut_anywhere_in_a_placement_change_leaves_either_placement_and_all_data() {
    // A placement that keeps less free, and one that keeps more free.
    for (from, to) in [
        (PlacementKind::SepBit, PlacementKind::HyLog),
        (PlacementKind::Overwrite, PlacementKind::SepBit),
    ] {
        let image = made(SEGMENTS, from);
        let (mut found, mut n) = ([0, 0], 0);
        loop {
            let (durable, ended, cut) = changed_with_a_cut(&image, (from, to), n);
            for coin in [WriteFate::Drop, WriteFate::Keep, WriteFate::Blocks(n)] {
                let left = cut.cut(coin)[SoleDisk].clone();
                let again = machine(n + 1000, None, &left);
                let (rt, disk) = (again.rt.clone(), Rc::clone(&again.disks[SoleDisk]));
                let kind = again.run(async move {
                    let disk: Rc<dyn Device> = disk;
                    let opened = open(rt, disk, SpaceSettings::default(), false).await;
                    let (space, _workers, _) =
                        opened.unwrap_or_else(|error| panic!("{n}: {error}"));
                    space.audit().await.expect("all is counted");
                    for block in 0..durable {
                        let buf = BufMut::zeroed(4096);
                        let read = space.read(Sector(block * LINE_SECTORS), buf).await;
                        assert!(
                            read.expect("read")[..] == content(block, 1, 4096)[..],
                            "{block}"
                        );
                    }
                    space.placement()
                });
                let kind = kind.expect("no cut");
                assert!(kind == from || kind == to && durable >= 10, "{n}: {kind}");
                found[usize::from(kind == to)] += 1;
            }
            if ended {
                break;
            }
            n += 1;
        }
        assert!(n > 20 && found[0] > 0 && found[1] > 0, "{n}: {found:?}");
    }
}
