//! Trims of large ranges: the space below them is freed late, and a crash may come earlier.

use std::time::Duration;

use forebay_device::Durability;
use forebay_units::{LINE_SECTORS, Sector};
use forebay_vsl::{Batch, PlacementKind, SpaceSettings};
use futures_util::future::join3;

use crate::world::{ExpectedExtents, SOON, TestbedShape, on_a_volume};

const STRIDE: u64 = 4096;
const SHAPE: TestbedShape = TestbedShape {
    segments: 252,
    segment: 256 << 10,
    kind: PlacementKind::Lfs,
};

/// The minimum lengths of huge trims before and after a crash, and whether a checkpoint follows the trim.
struct TrimCase {
    before: u64,
    after: u64,
    checkpoint: bool,
}

/// Trims most of a volume, fills the freed segments, loses power, and continues.
fn trimmed_and_filled_again(case: TrimCase) {
    on_a_volume(SHAPE, async move |world| {
        let options = SpaceSettings {
            huge_trim: case.before,
            ..SpaceSettings::default()
        };
        let volume = world.open(options).await;
        let mut model = ExpectedExtents::new(28_000, LINE_SECTORS, STRIDE);
        for n in 0..12_000 {
            model.write(&volume, n, Durability::Flush).await;
        }
        volume.checkpoint().await;
        let mut trim = Batch::new();
        trim.trim(Sector(1000 * STRIDE), 10_000 * STRIDE);
        volume
            .try_apply(&trim, Durability::Fua)
            .await
            .expect("trimmed");
        model.trimmed(1000..11_000);
        if case.checkpoint {
            volume.checkpoint().await;
        }
        world.rt.sleep(Duration::from_secs(1)).await;
        for n in 20_000..28_000 {
            model.write(&volume, n, Durability::Flush).await;
        }
        volume.flush().await;
        drop(volume);
        let options = SpaceSettings {
            huge_trim: case.after,
            ..options
        };
        let volume = world.open(options).await;
        model.compare(&volume).await;
        for _ in 0..3 {
            for n in (20_000..28_000).filter(|n| n % 8 != 0) {
                model.write(&volume, n, Durability::Flush).await;
            }
            volume.checkpoint().await;
        }
        volume.audit().await;
        model.compare(&volume).await;
        drop(volume);
        model.compare(&world.open(options).await).await;
    });
}

/// Found by a hostile review: recovery mistook segments that were reused after the trim for their old contents.
#[test]
fn flushed_data_in_segments_that_a_huge_trim_freed_survives_a_crash() {
    let usual = SpaceSettings::default().huge_trim;
    trimmed_and_filled_again(TrimCase {
        before: usual,
        after: usual,
        checkpoint: false,
    });
}

/// Found by a hostile review: a checkpoint named trimmed subtrees whose segments were used again before the crash.
#[test]
fn flushed_data_survives_a_crash_after_a_checkpoint_that_names_trimmed_subtrees() {
    let usual = SpaceSettings::default().huge_trim;
    trimmed_and_filled_again(TrimCase {
        before: usual,
        after: usual,
        checkpoint: true,
    });
}

/// Found by a hostile review: recovery with a smaller `huge_trim` detached subtrees that the trim had examined before
/// the crash.
#[test]
fn a_trim_that_only_recovery_treats_as_huge_loses_no_data() {
    trimmed_and_filled_again(TrimCase {
        before: u64::MAX,
        after: SpaceSettings::default().huge_trim,
        checkpoint: false,
    });
}

/// Found by a hostile review: two batches detached more trimmed subtrees than a checkpoint had space to name.
#[test]
fn a_checkpoint_after_two_batches_of_huge_trims_is_written_and_opened() {
    const EXTENTS: u64 = 2 * 8192;
    // A leaf of the map holds one extent at this distance.
    const FAR: u64 = 1 << 33;
    let shape = TestbedShape {
        segments: 1024,
        ..SHAPE
    };
    on_a_volume(shape, async move |world| {
        let volume = world.open(SpaceSettings::default()).await;
        let mut model = ExpectedExtents::new(EXTENTS + 1, LINE_SECTORS, FAR);
        for n in 0..=EXTENTS {
            model.write(&volume, n, Durability::Flush).await;
        }
        volume.checkpoint().await;
        let mut batches = [Batch::new(), Batch::new()];
        for n in 0..EXTENTS {
            let batch = &mut batches[usize::from(n >= EXTENTS / 2)];
            batch.trim(Sector(n * FAR), FAR);
        }
        let [first, second] = &batches;
        let (space, rt) = (&volume.space, &world.rt);
        let (first, second) = (
            space.apply(first, Durability::Flush),
            space.apply(second, Durability::Flush),
        );
        let both = join3(first, second, space.checkpoint());
        let both = rt.timeout(10 * SOON, both).await;
        let both = both.unwrap_or_else(|_| panic!("they wait: {}", volume.space.explain()));
        both.0.expect("trimmed");
        both.1.expect("trimmed");
        both.2.expect("a checkpoint was made");
        model.trimmed(0..EXTENTS);
        let made = rt.timeout(10 * SOON, volume.space.checkpoint()).await;
        made.expect("it ends").expect("a checkpoint was made");
        drop(volume);
        let volume = world.open(SpaceSettings::default()).await;
        model.compare(&volume).await;
        rt.sleep(SOON).await;
        for n in 0..2000 {
            model.write(&volume, n, Durability::Flush).await;
        }
        volume.checkpoint().await;
        volume.audit().await;
        assert_eq!(volume.space.capacity().mapped, 2001 * 4096);
        drop(volume);
        model
            .compare(&world.open(SpaceSettings::default()).await)
            .await;
    });
}
