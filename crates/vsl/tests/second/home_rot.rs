//! Damage to a block that was written in place, before the cleaner moves it.

use std::time::Duration;

use forebay_units::{LINE_SECTORS, Sector};
use forebay_vsl::{Batch, PlacementKind, SpaceError, SpaceSettings};

use crate::world::{OpenSpace, SpaceTestbed, TestbedShape, content, on_a_volume};

/// The block that is written in place, and the byte of it that changes.
const BLOCK: u64 = 5;
const DAMAGED: u64 = 100;

/// Fate of the block.
struct RotOutcome {
    /// True if the block was moved from the place of its write in place.
    moved: bool,
    read: Result<bool, SpaceError>,
}

/// Writes a block whole or in two halves, and then whole again, so that it is written in place. Returns its place.
async fn written_in_place(
    world: &SpaceTestbed,
    volume: &OpenSpace,
    blocks: u64,
    halves: bool,
) -> u64 {
    let half = LINE_SECTORS / 2;
    for n in 0..blocks * 8 / 10 {
        let at = n * LINE_SECTORS;
        if n == BLOCK && halves {
            volume
                .apply(&Batch::of_write(Sector(at), content(n, 1, 2048)))
                .await;
            volume
                .apply(&Batch::of_write(Sector(at + half), content(n, 1, 2048)))
                .await;
        } else {
            volume
                .apply(&Batch::of_write(Sector(at), content(n, 1, 4096)))
                .await;
        }
    }
    volume.flush().await;
    world.rt.sleep(Duration::from_secs(2)).await;
    let (at, before) = (BLOCK * LINE_SECTORS, volume.space.stats().bytes_in_place);
    let first = volume.place(at).await;
    volume
        .apply(&Batch::of_write(Sector(at), content(BLOCK, 2, 4096)))
        .await;
    volume.flush().await;
    world.rt.sleep(Duration::from_secs(5)).await;
    assert_eq!(
        volume.space.stats().bytes_in_place - before,
        4096,
        "it was written in place"
    );
    volume.checkpoint().await;
    let place = volume.place(at).await;
    assert_eq!(place, first, "it lies where it lay before");
    place.expect("it is on the device")
}

/// Trims nearly all of the block's segment and much of all other segments, writes as much elsewhere, and waits until
/// the cleaner has read the block.
async fn cleaned(world: &SpaceTestbed, volume: &OpenSpace, blocks: u64, place: u64) {
    let mut trim = Batch::new();
    trim.trim(Sector(0), BLOCK * LINE_SECTORS);
    trim.trim(Sector((BLOCK + 1) * LINE_SECTORS), 54 * LINE_SECTORS);
    volume.apply(&trim).await;
    for n in (60..blocks * 8 / 10).step_by(3) {
        volume.trim(n * LINE_SECTORS, LINE_SECTORS).await;
    }
    let faults = &world.device;
    faults.watch.set(Some(place));
    faults.watched.set(0);
    for n in 0..blocks * 55 / 100 {
        let at = Sector((1 << 30) + n * LINE_SECTORS);
        volume
            .apply(&Batch::of_write(at, content(n, 3, 4096)))
            .await;
    }
    volume.flush().await;
    world.rt.sleep(Duration::from_secs(60)).await;
    assert!(faults.watched.get() > 0, "the cleaner has read the block");
    assert!(
        volume.space.stats().segments_cleaned > 0,
        "segments were emptied"
    );
    faults.watch.set(None);
}

fn cleaned_after(halves: bool, damage: bool) -> RotOutcome {
    let shape = TestbedShape {
        segments: 96,
        segment: 256 << 10,
        kind: PlacementKind::Overwrite,
    };
    on_a_volume(shape, async move |world| {
        let volume = world.open(SpaceSettings::default()).await;
        let blocks = volume.space.capacity().mappable / 4096;
        let place = written_in_place(&world, &volume, blocks, halves).await;
        if damage {
            world.device.below.poke(place + DAMAGED, &[77]);
            let read = volume.read(BLOCK * LINE_SECTORS, LINE_SECTORS).await;
            assert!(matches!(read, Err(SpaceError::Damaged { .. })));
        }
        cleaned(&world, &volume, blocks, place).await;
        volume.audit().await;
        let (at, expected) = (BLOCK * LINE_SECTORS, content(BLOCK, 2, 4096));
        let is_right = |read: forebay_device::BufMut| read[..] == expected[..];
        let before = volume.read(at, LINE_SECTORS).await.map(is_right);
        let moved = volume.place(at).await != Some(place);
        drop(volume);
        let volume = world.open(SpaceSettings::default()).await;
        let read = volume.read(at, LINE_SECTORS).await.map(is_right);
        assert_eq!(
            before.is_ok(),
            read.is_ok(),
            "a crash changes nothing of it"
        );
        RotOutcome { moved, read }
    })
}

/// Found by a hostile review: the cleaner compared the original halves of the block with no checksum, and gave the
/// damaged data a new checksum.
#[test]
fn damage_to_a_block_written_in_place_by_halves_stays_an_error_after_cleaning() {
    let outcome = cleaned_after(true, true);
    assert!(
        matches!(outcome.read, Err(SpaceError::Damaged { .. })),
        "{:?}",
        outcome.read
    );
    assert!(!outcome.moved, "damaged data is not copied");
}

/// The block was always written whole.
#[test]
fn damage_to_a_block_written_in_place_as_a_whole_stays_an_error_after_cleaning() {
    let outcome = cleaned_after(false, true);
    assert!(
        matches!(outcome.read, Err(SpaceError::Damaged { .. })),
        "{:?}",
        outcome.read
    );
    assert!(!outcome.moved, "damaged data is not copied");
}

/// The two tests above depend on this: without damage, the cleaner moves the block.
#[test]
fn a_block_written_in_place_is_moved_when_its_segment_is_cleaned() {
    for halves in [true, false] {
        let outcome = cleaned_after(halves, false);
        assert!(outcome.moved, "halves: {halves}");
        assert!(
            matches!(outcome.read, Ok(true)),
            "halves: {halves}: {:?}",
            outcome.read
        );
    }
}
