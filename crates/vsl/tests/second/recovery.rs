//! The cost of opening a volume is proportional to the data written since the last checkpoint.

use forebay_device::{BufMut, Device as _, Durability};
use forebay_segment_log::{FormatError, PairError, SuperblockFormat as _};
use forebay_units::LINE_SECTORS;
use forebay_vsl::{PlacementKind, SpaceError, SpaceOpenError, SpaceSettings, open};

use crate::world::{ExpectedExtents, TestbedShape, on_a_device, on_a_volume};

/// Returns the number of reads, and the bytes read, to open a volume after `flushes` durable writes of one block.
fn read_by_recovery(flushes: u64, segment: u64) -> (u64, u64) {
    let shape = TestbedShape {
        segments: (256 << 20) / segment,
        segment,
        kind: PlacementKind::Lfs,
    };
    on_a_volume(shape, async move |world| {
        let volume = world.open(SpaceSettings::default()).await;
        let mut model = ExpectedExtents::of_blocks(10_007);
        for n in 0..flushes {
            model
                .write(&volume, n * 7919 % 10_007, Durability::Fua)
                .await;
        }
        assert_eq!(
            volume.space.stats().checkpoints,
            1,
            "all is left to recovery"
        );
        drop(volume);
        let faults = &world.device;
        faults.reads.take();
        faults.bytes_read.take();
        let opened = open(
            world.rt.clone(),
            world.below(),
            SpaceSettings::default(),
            false,
        );
        let (space, workers, recovery) = opened.await.expect("opened");
        let read = (faults.reads.get(), faults.bytes_read.get());
        assert_eq!(recovery.entries, flushes);
        space.audit().await.expect("all is counted");
        drop((space, workers));
        model
            .compare(&world.open(SpaceSettings::default()).await)
            .await;
        read
    })
}

/// Found by a hostile review: recovery took four times as long for twice as many flushed records.
#[test]
fn twice_the_flushed_records_cost_recovery_at_most_twice_the_reads() {
    for segment in [128 << 10, 1 << 20] {
        let few = read_by_recovery(5_000, segment);
        let many = read_by_recovery(10_000, segment);
        println!("segments of {segment}: {few:?}, {many:?}");
        assert!(many.0 < few.0 * 5 / 2, "{few:?} {many:?}");
        assert!(many.1 < few.1 * 5 / 2, "{few:?} {many:?}");
        // A record and its header have 8 KiB, and are read a few times.
        assert!(many.1 < 4 * 10_000 * 8192 + (64 << 20), "{many:?}");
    }
}

/// The data of a flushed record is damaged. Only headers far behind prove that the record was durable, in segments that
/// the checkpoint's queue did not contain yet.
#[test]
fn damage_to_flushed_data_is_not_treated_as_a_torn_end() {
    for kind in [PlacementKind::Lfs, PlacementKind::HyLogSepBit] {
        for blocks in [64, 1000, 4000, 8000] {
            let shape = TestbedShape {
                segments: 512,
                segment: 128 << 10,
                kind,
            };
            on_a_volume(shape, async move |world| {
                let volume = world.open(SpaceSettings::default()).await;
                let mut model = ExpectedExtents::of_blocks(blocks);
                for n in 0..blocks {
                    model.write(&volume, n, Durability::Flush).await;
                }
                volume.flush().await;
                model.write(&volume, 0, Durability::Fua).await;
                let at = volume.place(3 * LINE_SECTORS).await.expect("on the device");
                drop(volume);
                let sector = BufMut::zeroed(4096).freeze();
                let damaged = world
                    .device
                    .write(at / 4096 * 4096, sector, Durability::Fua);
                damaged.await.expect("written");
                let volume = world.open(SpaceSettings::default()).await;
                let read = volume.read(3 * LINE_SECTORS, LINE_SECTORS).await;
                let error = read.err();
                assert!(
                    matches!(error, Some(SpaceError::Damaged { .. })),
                    "{blocks} blocks, {kind}: {error:?}"
                );
                model.write(&volume, 3, Durability::Flush).await;
                model.compare(&volume).await;
            });
        }
    }
}

/// Found by a hostile review: on a device with other old data, opening a new volume read 1 GiB, 512 MiB of it at once.
#[test]
fn a_device_with_other_old_data_is_opened_with_few_reads_and_little_memory() {
    for (segments, segment) in [(200, 1 << 20), (1000, 1 << 20), (100, 4 << 20)] {
        let kind = PlacementKind::Lfs;
        let shape = TestbedShape {
            segments,
            segment,
            kind,
        };
        on_a_device(shape, async move |world| {
            // The start and the end of each segment, and blocks in between, contain other data.
            let junk = [0x5a; 4096];
            for n in 0..segments {
                let at = (1 << 20) + n * segment;
                for block in (0..segment).step_by(256 << 10).chain([segment - 4096]) {
                    world.device.below.poke(at + block, &junk);
                }
            }
            world
                .device
                .delay
                .set(std::time::Duration::from_micros(100));
            world.create().await;
            for _ in 0..3 {
                let faults = &world.device;
                faults.bytes_read.take();
                faults.most_reading.take();
                let opened = open(
                    world.rt.clone(),
                    world.below(),
                    SpaceSettings::default(),
                    false,
                );
                let (space, workers, _) = opened.await.expect("opened");
                space.settle().await.expect("settled");
                let (read, most) = (faults.bytes_read.get(), faults.most_reading.get());
                println!("{segments} segments of {segment}: {read} bytes read, {most} at once");
                // The limit covers the open segments of the placement with the most streams, and the segments in
                // memory.
                assert!(read < 64 << 20, "{read}");
                // One segment is searched at a time, beside the first blocks of other segments.
                assert!(most <= segment + (256 << 10), "{most}");
                space.audit().await.expect("all is counted");
                drop((space, workers));
            }
        });
    }
}

/// Volumes of version 1 named places by slots: read as the current version, their maps would point to wrong places. In
/// volumes of version 2, openings reserved no epoch. In volumes of version 3, superblocks named no durable record.
#[test]
fn a_volume_of_an_older_version_is_rejected_by_its_version_and_not_changed() {
    for version in [1, 2, 3, 4] {
        refuse_version(version);
    }
}

fn refuse_version(version: u32) {
    let shape = TestbedShape {
        segments: 64,
        segment: 256 << 10,
        kind: PlacementKind::Lfs,
    };
    on_a_volume(shape, async move |world| {
        let volume = world.open(SpaceSettings::default()).await;
        let mut model = ExpectedExtents::of_blocks(50);
        for n in 0..50 {
            model.write(&volume, n, Durability::Fua).await;
        }
        let mut old = volume.space.superblock().encode();
        drop(volume);
        old[8..12].copy_from_slice(&version.to_le_bytes());
        old[12..16].fill(0);
        let crc = crc32c::crc32c(&old);
        old[12..16].copy_from_slice(&crc.to_le_bytes());
        let mut first = vec![0; 1 << 20];
        world.device.below.peek(0, &mut first);
        let copies: Vec<usize> = (0..first.len())
            .step_by(4096)
            .filter(|at| first[*at..*at + 7] == old[..7])
            .collect();
        assert_eq!(copies.len(), 2, "two copies of the superblock");
        for at in &copies {
            first[*at..*at + 4096].copy_from_slice(&old);
            world.device.below.poke(*at as u64, &old);
        }
        for accept_loss in [false, true] {
            let opened = open(
                world.rt.clone(),
                world.below(),
                SpaceSettings::default(),
                accept_loss,
            );
            let Err(error) = opened.await else {
                panic!("it was opened");
            };
            let SpaceOpenError::Superblocks(PairError::NoSuperblock { a, .. }) = &error else {
                panic!("{error:?}");
            };
            let is_old =
                matches!(a, FormatError::Old { found, oldest: 5, .. } if *found == version);
            assert!(is_old, "{a:?}");
            let message = error.to_string();
            assert!(
                message.contains(&format!("version {version}"))
                    && message.contains("copy the data"),
                "{message}"
            );
        }
        let mut after = vec![0; 1 << 20];
        world.device.below.peek(0, &mut after);
        assert!(after == first, "the device was changed");
    });
}

/// Checks the helpers: a checkpoint leaves recovery nothing to apply.
#[test]
fn after_a_checkpoint_recovery_has_no_entries_to_apply() {
    let shape = TestbedShape {
        segments: 64,
        segment: 256 << 10,
        kind: PlacementKind::Lfs,
    };
    on_a_volume(shape, async |world| {
        let volume = world.open(SpaceSettings::default()).await;
        let mut model = ExpectedExtents::new(500, LINE_SECTORS, LINE_SECTORS);
        for n in 0..500 {
            model.write(&volume, n, Durability::Flush).await;
        }
        volume.checkpoint().await;
        drop(volume);
        let volume = world.open(SpaceSettings::default()).await;
        assert_eq!(volume.recovery.entries, 0);
        model.compare(&volume).await;
    });
}
