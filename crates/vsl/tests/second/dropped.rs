//! A checkpoint whose caller stops waiting for it, such as a drain with a time limit.

use std::time::Duration;

use forebay_device::Durability;
use forebay_rng::Rng;
use forebay_vsl::{PlacementKind, SpaceSettings};

use crate::world::{ExpectedExtents, SOON, TestbedShape, on_a_volume};

const SHAPE: TestbedShape = TestbedShape {
    segments: 64,
    segment: 128 << 10,
    kind: PlacementKind::Lfs,
};

/// Stops waiting for checkpoints at each of their steps, with writes and complete checkpoints in between.
#[test]
fn a_volume_continues_after_checkpoints_whose_callers_stop_waiting() {
    on_a_volume(SHAPE, async |world| {
        let volume = world.open(SpaceSettings::default()).await;
        let rng = Rng::new(3);
        let mut model = ExpectedExtents::of_blocks(volume.usual_length() / 2 / 4096);
        let (mut abandoned, mut complete) = (0, 0);
        for step in 0.. {
            for _ in 0..20 {
                let n = rng.below(model.len());
                model.write(&volume, n, Durability::Flush).await;
            }
            let limit = Duration::from_micros(7 * step);
            match world.rt.timeout(limit, volume.space.checkpoint()).await {
                Err(_) => abandoned += 1,
                Ok(made) => {
                    made.expect("the device works");
                    complete += 1;
                }
            }
            if rng.coin() {
                volume.checkpoint().await;
                volume.audit().await;
            }
            if complete == 5 {
                break;
            }
        }
        assert!(abandoned > 20, "{abandoned}");
        // The cleaner works: without it, so many updates would not fit.
        for _ in 0..6 * model.len() {
            let n = rng.below(model.len());
            model.write(&volume, n, Durability::Flush).await;
        }
        model.compare(&volume).await;
        volume.checkpoint().await;
        drop(volume);
        let volume = world.open(SpaceSettings::default()).await;
        assert_eq!(volume.recovery.entries, 0, "{:?}", volume.recovery);
        model.compare(&volume).await;
    });
}

/// A change whose caller stops waiting before its checkpoint has begun does not happen later.
#[test]
fn a_checkpoint_that_has_not_begun_is_not_made_for_a_caller_that_stopped_waiting() {
    on_a_volume(SHAPE, async |world| {
        let volume = world.open(SpaceSettings::default()).await;
        let mut model = ExpectedExtents::of_blocks(64);
        for n in 0..model.len() {
            model.write(&volume, n, Durability::Flush).await;
        }
        let before = volume.space.stats().checkpoints;
        let space = volume.space.clone();
        let first = world.rt.spawn(async move { space.checkpoint().await });
        world.rt.sleep(Duration::from_micros(60)).await;
        let second = volume.space.set_placement(Some(PlacementKind::HyLog));
        let second = world.rt.timeout(Duration::from_micros(60), second).await;
        assert!(second.is_err() && !first.is_finished());
        world
            .rt
            .timeout(SOON, first)
            .await
            .expect("it ends")
            .expect("made");
        world.rt.sleep(SOON).await;
        assert_eq!(volume.space.stats().checkpoints, before + 1);
        assert_eq!(volume.space.superblock().placement, PlacementKind::Lfs);
        model.compare(&volume).await;
    });
}

/// A freeze that is released while the device fails leaves the cleaner at work, although it has not ended.
#[test]
fn writers_continue_after_a_release_while_the_superblock_cannot_be_written() {
    on_a_volume(SHAPE, async |world| {
        let volume = world.open(SpaceSettings::default()).await;
        let rng = Rng::new(5);
        let mut model = ExpectedExtents::of_blocks(volume.usual_length() * 9 / 10 / 4096);
        for n in 0..model.len() {
            model.write(&volume, n, Durability::Flush).await;
        }
        world.device.superblocks_fail.set(true);
        let space = volume.space.clone();
        let holding = world.rt.spawn(async move { space.hold_still().await });
        world.rt.sleep(Duration::from_secs(5)).await;
        assert!(!holding.is_finished());
        volume.space.resume();
        world.device.superblocks_fail.set(false);
        for _ in 0..3 * model.len() {
            let n = rng.below(model.len());
            model.write(&volume, n, Durability::Flush).await;
        }
        world
            .rt
            .timeout(SOON, holding)
            .await
            .expect("it ends")
            .expect("released");
        model.compare(&volume).await;
    });
}
