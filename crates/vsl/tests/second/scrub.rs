//! A scrub of a volume in use: it finds damage, and finds nothing else, whatever writers and the cleaner do meanwhile.

use std::cell::Cell;
use std::rc::Rc;

use forebay_device::{Durability, ScrubArea, ScrubFault, ScrubFaultKind, ScrubTarget};
use forebay_rng::Rng;
use forebay_units::{LINE_SECTORS, Sector};
use forebay_vsl::{Batch, DataScrub, PlacementKind, SpaceSettings, SuperblockScrub};
use futures_util::future::join;

use crate::world::{OpenSpace, SpaceTestbed, TestbedShape, content, on_a_volume};

/// The first bytes of a node of the map on the device.
const NODE_MAGIC: &[u8] = b"FOREMAP\x03";

fn shape(kind: PlacementKind) -> TestbedShape {
    TestbedShape {
        segments: 96,
        segment: 256 << 10,
        kind,
    }
}

/// Scrubs a volume. Returns the bytes that were read, and the faults.
async fn scrubbed(volume: &OpenSpace) -> (u64, Vec<ScrubFault>) {
    let space = &volume.space;
    let targets: [Rc<dyn ScrubTarget>; 2] = [
        Rc::new(SuperblockScrub(space.clone())),
        Rc::new(DataScrub(space.clone())),
    ];
    let (mut bytes, mut faults) = (0, Vec::new());
    for target in targets {
        let (mut at, end) = (0, target.end());
        while at < end {
            let step = target.step(at..end).await;
            assert!(step.next > at, "a step makes progress");
            at = step.next;
            bytes += step.bytes;
            faults.extend(step.faults);
        }
    }
    (bytes, faults)
}

async fn write(volume: &OpenSpace, block: u64, version: u64) {
    let data = content(block, version, 4096);
    volume
        .apply(&Batch::of_write(Sector(block * LINE_SECTORS), data))
        .await;
}

/// Writes blocks, makes a checkpoint, and opens the volume again: no data is in memory.
async fn settled(world: &SpaceTestbed, blocks: u64) -> OpenSpace {
    let volume = world.open(SpaceSettings::default()).await;
    for block in 0..blocks {
        write(&volume, block, 1).await;
    }
    volume.flush().await;
    volume.checkpoint().await;
    drop(volume);
    world.open(SpaceSettings::default()).await
}

/// Scrubs a full volume again and again beside random writers.
fn beside_writers(kind: PlacementKind) {
    on_a_volume(shape(kind), async move |world| {
        let volume = world.open(SpaceSettings::default()).await;
        let blocks = volume.usual_length() / 4096 * 95 / 100;
        for block in 0..blocks {
            write(&volume, block, 1).await;
        }
        let (rng, done) = (Rng::new(5), Cell::new(false));
        let writer = async {
            let mut version = 2;
            while !done.get() {
                write(&volume, rng.below(blocks), version).await;
                if version.is_multiple_of(100) {
                    volume
                        .trim(rng.below(blocks) * LINE_SECTORS, LINE_SECTORS)
                        .await;
                }
                if version.is_multiple_of(64) {
                    volume.flush().await;
                }
                version += 1;
            }
        };
        let work = || {
            let stats = volume.space.stats();
            match kind {
                PlacementKind::Overwrite => stats.bytes_in_place / (64 << 10),
                _ => stats.segments_cleaned,
            }
        };
        let scrubs = async {
            for round in 0..2000 {
                let (bytes, faults) = scrubbed(&volume).await;
                assert_eq!(faults, []);
                assert!(bytes > blocks * 4096 * 9 / 10, "{bytes}");
                if round >= 6 && work() > 10 {
                    break;
                }
            }
            done.set(true);
        };
        join(writer, scrubs).await;
        assert!(work() > 10, "data was moved meanwhile: {}", work());
        volume.audit().await;
    });
}

#[test]
fn a_scrub_beside_writers_and_the_cleaner_finds_no_fault_on_a_healthy_device() {
    beside_writers(PlacementKind::Lfs);
    beside_writers(PlacementKind::SepBit);
}

#[test]
fn a_scrub_beside_writes_in_place_finds_no_fault_on_a_healthy_device() {
    beside_writers(PlacementKind::Overwrite);
}

#[test]
fn a_scrub_names_the_damaged_block_and_no_other() {
    on_a_volume(shape(PlacementKind::Lfs), async |world| {
        let volume = settled(&world, 1000).await;
        assert_eq!(scrubbed(&volume).await.1, []);
        let place = volume.place(700 * LINE_SECTORS).await.unwrap();
        world.device.below.poke(place + 5, &[99]);
        let (_, faults) = scrubbed(&volume).await;
        let [fault] = &faults[..] else {
            panic!("{faults:?}")
        };
        assert_eq!(
            (fault.area, fault.kind),
            (ScrubArea::Data, ScrubFaultKind::Damaged)
        );
        assert_eq!(fault.sectors, 700 * LINE_SECTORS..701 * LINE_SECTORS);
        // A new write repairs the block.
        write(&volume, 700, 2).await;
        volume.flush().await;
        assert_eq!(scrubbed(&volume).await.1, []);
    });
}

#[test]
fn a_scrub_finds_damage_to_a_superblock_and_to_the_copy_of_a_node_in_memory() {
    on_a_volume(shape(PlacementKind::Lfs), async |world| {
        let volume = settled(&world, 3000).await;
        world.device.below.poke((512 << 10) + 100, &[99]);
        let (_, faults) = scrubbed(&volume).await;
        let areas = faults.iter().map(|fault| (fault.area, fault.kind));
        assert!(
            areas.eq([(ScrubArea::Superblock, ScrubFaultKind::Damaged)]),
            "{faults:?}"
        );
        // A checkpoint writes both superblocks again.
        volume.checkpoint().await;
        assert_eq!(scrubbed(&volume).await.1, []);
        let image = world.image();
        let blocks = image.chunks(4096).enumerate();
        let nodes = blocks.filter(|(_, block)| block.starts_with(NODE_MAGIC));
        let nodes: Vec<u64> = nodes.map(|(n, _)| n as u64 * 4096).collect();
        assert!(!nodes.is_empty());
        for at in nodes {
            world.device.below.poke(at + 200, &[0xa5; 8]);
        }
        let (_, faults) = scrubbed(&volume).await;
        assert!(!faults.is_empty());
        for fault in faults {
            assert_eq!(
                (fault.area, fault.kind),
                (ScrubArea::Map, ScrubFaultKind::Damaged)
            );
        }
    });
}

#[test]
fn an_error_of_the_device_is_not_damage() {
    on_a_volume(shape(PlacementKind::Lfs), async |world| {
        let volume = settled(&world, 300).await;
        world.device.reads_fail.set(true);
        let (_, faults) = scrubbed(&volume).await;
        assert!(!faults.is_empty());
        for fault in &faults {
            assert_eq!(fault.kind, ScrubFaultKind::Unreadable, "{fault:?}");
        }
        world.device.reads_fail.set(false);
        assert_eq!(scrubbed(&volume).await.1, []);
        volume
            .space
            .apply(
                &Batch::of_write(Sector(0), content(0, 2, 4096)),
                Durability::Flush,
            )
            .await
            .unwrap();
    });
}
