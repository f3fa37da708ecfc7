//! A device that fails writes or flushes for a long time: the volume retries, and loses no data.

use std::time::Duration;

use forebay_device::Durability;
use forebay_rng::Rng;
use forebay_vsl::{PlacementKind, SpaceError, SpaceSettings, open};

use crate::world::{ExpectedExtents, SOON, TestbedFaults, TestbedShape, on_a_volume};

const SHAPE: TestbedShape = TestbedShape {
    segments: 128,
    segment: 256 << 10,
    kind: PlacementKind::Lfs,
};
const HOUR: Duration = Duration::from_secs(3600);
/// Time after which a volume has tried again. Until then, requests are refused immediately.
const RETRY: Duration = Duration::from_secs(3);
/// Time by which a request may start before the device fails.
const BEFORE: Duration = Duration::from_millis(10);

/// Makes the device fail for an hour while blocks are written, then work again. Compares all data written, before and
/// after a crash.
fn fails_for_an_hour(kind: PlacementKind, set: fn(&TestbedFaults, bool)) {
    on_a_volume(TestbedShape { kind, ..SHAPE }, async move |world| {
        let volume = world.open(SpaceSettings::default()).await;
        let mut model = ExpectedExtents::of_blocks(volume.usual_length() * 8 / 10 / 4096);
        for n in 0..model.len() {
            model.write(&volume, n, Durability::Flush).await;
        }
        let rng = Rng::new(4);
        set(&world.device, true);
        let (until, mut refused, mut done) = (world.rt.now().plus(HOUR), 0, 0);
        while world.rt.now() < until {
            let n = rng.below(model.len());
            let batch = model.next(n);
            let applied = volume.space.apply(&batch, Durability::Flush);
            let applied = world.rt.timeout(10 * SOON, applied).await;
            match applied.expect("a request waits no longer than its patience") {
                Ok(_) => {
                    done += 1;
                    model.written(n);
                }
                Err(SpaceError::Failing { lasted, .. }) => {
                    assert!(
                        lasted + BEFORE >= SpaceSettings::default().patience,
                        "{lasted:?}"
                    );
                    refused += 1;
                    // The next request would be refused immediately, so clients pause.
                    world.rt.sleep(Duration::from_secs(1)).await;
                }
                Err(error) => panic!("{error}"),
            }
        }
        println!("{kind}: {done} written while the device failed, {refused} refused");
        assert!(done > 0 && refused > 0 && world.device.failed.get() > 0);
        assert!(matches!(
            volume.space.failure(),
            Some(SpaceError::Failing { .. })
        ));
        set(&world.device, false);
        world.rt.sleep(RETRY).await;
        volume.flush().await;
        assert!(volume.space.failure().is_none());
        model.compare(&volume).await;
        volume.audit().await;
        drop(volume);
        let volume = world.open(SpaceSettings::default()).await;
        model.compare(&volume).await;
        for _ in 0..model.len() {
            model
                .write(&volume, rng.below(model.len()), Durability::Flush)
                .await;
        }
        volume.flush().await;
        volume.audit().await;
        model.compare(&volume).await;
    });
}

/// Runs the scenario with a placement that only appends, and with one that writes in place.
fn fails_for_an_hour_in_any_placement(set: fn(&TestbedFaults, bool)) {
    for kind in [PlacementKind::Lfs, PlacementKind::Overwrite] {
        fails_for_an_hour(kind, set);
    }
}

/// Found by a hostile review: the first failed write stopped the volume, and all data in memory was lost.
#[test]
fn writes_that_fail_for_an_hour_lose_no_data() {
    fails_for_an_hour_in_any_placement(|faults, fail| faults.writes_fail.set(fail));
}

/// Flushes fail: the data written before them is written again.
#[test]
fn flushes_that_fail_for_an_hour_lose_no_data() {
    fails_for_an_hour_in_any_placement(|faults, fail| faults.flushes_fail.set(fail));
}

/// Found by the simulator: flushes succeeded between the attempts, so the recorded fault was never as old as requests
/// wait.
#[test]
fn superblocks_that_cannot_be_written_for_an_hour_lose_no_data() {
    fails_for_an_hour_in_any_placement(|faults, fail| faults.superblocks_fail.set(fail));
}

/// Opening ends with a checkpoint, so it fails as well.
#[test]
fn opening_fails_after_its_patience_if_superblocks_cannot_be_written() {
    on_a_volume(SHAPE, async |world| {
        let options = SpaceSettings::default();
        let volume = world.open(options).await;
        let mut model = ExpectedExtents::of_blocks(10);
        for n in 0..10 {
            model.write(&volume, n, Durability::Fua).await;
        }
        drop(volume);
        world.device.superblocks_fail.set(true);
        let opened = open(world.rt.clone(), world.below(), options, false);
        let opened = world
            .rt
            .timeout(2 * options.patience, Box::pin(opened))
            .await;
        let error = opened
            .expect("opening ends")
            .map(drop)
            .expect_err("refused");
        assert!(error.to_string().contains("for a while"), "{error}");
        world.device.superblocks_fail.set(false);
        model.compare(&world.open(options).await).await;
    });
}

/// Found by a hostile review: clients of a failed device waited forever.
#[test]
fn a_flush_fails_after_its_patience_and_succeeds_when_the_device_works_again() {
    on_a_volume(SHAPE, async |world| {
        let patience = Duration::from_secs(5);
        let options = SpaceSettings {
            patience,
            ..SpaceSettings::default()
        };
        let volume = world.open(options).await;
        let mut model = ExpectedExtents::of_blocks(10);
        for n in 0..10 {
            model.write(&volume, n, Durability::Flush).await;
        }
        world.device.writes_fail.set(true);
        let begin = world.rt.now();
        let flushed = world.rt.timeout(SOON, volume.space.flush()).await;
        let flushed = flushed.expect("a flush ends after its patience");
        let Err(SpaceError::Failing { lasted, cause }) = flushed else {
            panic!("{flushed:?}");
        };
        let waited = world.rt.now().since(begin);
        assert!(
            lasted + BEFORE >= patience && waited >= patience,
            "{lasted:?} {waited:?}"
        );
        assert!(waited <= patience + Duration::from_secs(2), "{waited:?}");
        assert!(cause.contains("for a while"), "{cause}");
        world.device.writes_fail.set(false);
        world.rt.sleep(RETRY).await;
        volume.flush().await;
        assert!(volume.space.failure().is_none());
        drop(volume);
        model.compare(&world.open(options).await).await;
    });
}
