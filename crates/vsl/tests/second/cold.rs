//! Full volumes with mostly cold data and a little garbage among it. The rest is overwritten constantly.

use std::time::Duration;

use forebay_device::Durability;
use forebay_rng::Rng;
use forebay_units::{LINE_BYTES, LINE_SECTORS, Sector};
use forebay_vsl::{Batch, PlacementKind, SpaceSettings};

use crate::world::{ExpectedExtents, SOON, TestbedShape, content, on_a_volume};

/// One of this number of cold blocks is overwritten once.
const EVERY: u64 = 250;

/// Fills `fill` % of a volume of the usual length, and overwrites `hot` % of it `times` times. Returns the bytes
/// written to the device for each byte of clients.
fn overwritten(kind: PlacementKind, fill: u64, hot: u64, times: u64, how: Durability) -> f64 {
    let shape = TestbedShape {
        segments: 128,
        segment: 256 << 10,
        kind,
    };
    on_a_volume(shape, async move |world| {
        let volume = world.open(SpaceSettings::default()).await;
        let mut model = ExpectedExtents::of_blocks(volume.usual_length() * fill / 100 / LINE_BYTES);
        for n in 0..model.len() {
            model.write(&volume, n, Durability::Flush).await;
        }
        let cold = model.len() * (100 - hot) / 100;
        for n in (0..cold).step_by(EVERY as usize) {
            model.write(&volume, n, Durability::Flush).await;
        }
        let rng = Rng::new(2);
        let before = (volume.space.stats(), volume.space.log_stats());
        for _ in 0..times * (model.len() - cold) {
            model
                .write(&volume, cold + rng.below(model.len() - cold), how)
                .await;
        }
        let after = (volume.space.stats(), volume.space.log_stats());
        let written = after.1.bytes_written - before.1.bytes_written;
        let written = written as f64 / (after.0.bytes_written - before.0.bytes_written) as f64;
        println!("{kind}, {fill} % full, {hot} % hot: {written:.2} written for each byte");
        volume.flush().await;
        volume.audit().await;
        drop(volume);
        model
            .compare(&world.open(SpaceSettings::default()).await)
            .await;
        written
    })
}

/// Found by a hostile review: no segment was worth cleaning, and checkpoints were made forever.
#[test]
fn writers_continue_when_all_but_a_tenth_of_a_volume_is_cold() {
    for kind in PlacementKind::ALL {
        for fill in [90, 98] {
            let written = overwritten(kind, fill, 10, 10, Durability::Flush);
            assert!(written < 30.0, "{kind}, {fill} %: {written}");
        }
    }
}

/// Found by a hostile review: with durable writes, the records' headers took the space that the cleaner gained.
#[test]
fn durable_writes_continue_when_a_full_volume_is_cold() {
    for kind in PlacementKind::ALL {
        overwritten(kind, 98, 5, 8, Durability::Fua);
    }
}

/// Two writers compete with the cleaner for segments, and the volume is opened again at any moment of both.
#[test]
fn a_full_volume_stays_writable_wherever_cleaning_was_interrupted() {
    for seed in 0..8 {
        let rng = Rng::new(seed);
        let shape = TestbedShape {
            segments: rng.pick(&[64, 96, 128]),
            segment: rng.pick(&[128 << 10, 256 << 10]),
            kind: rng.pick(&[
                PlacementKind::Lfs,
                PlacementKind::Lfs,
                PlacementKind::HyLogSepBit,
            ]),
        };
        on_a_volume(shape, async move |world| {
            let options = SpaceSettings {
                spare_part: Some(128),
                ..SpaceSettings::default()
            };
            let mut volume = world.open(options).await;
            let blocks = volume.space.capacity().mappable_in_blocks / LINE_BYTES;
            let mut model = ExpectedExtents::of_blocks(blocks);
            for n in 0..blocks {
                model.write(&volume, n, Durability::Flush).await;
            }
            for _ in 0..30 {
                let delay = rng.pick(&[50, 2000, 30_000]);
                world.device.delay.set(Duration::from_micros(delay));
                let hot = blocks / (1 + rng.below(20));
                let writer = async || {
                    for _ in 0..rng.below(blocks) {
                        let at = Sector(rng.below(hot) * LINE_SECTORS);
                        let how = if rng.one_in(8) {
                            Durability::Fua
                        } else {
                            Durability::Flush
                        };
                        let batch = Batch::of_write(at, content(at.0, 1, LINE_BYTES));
                        let written = volume.space.apply(&batch, how);
                        let written = world.rt.timeout(60 * SOON, written).await;
                        let Ok(written) = written else {
                            panic!("seed {seed}: a write waits: {}", volume.space.explain());
                        };
                        written.expect("written");
                    }
                };
                let writers = futures_util::future::join(writer(), writer());
                let most = Duration::from_millis(1 << rng.below(14));
                let _ = world.rt.timeout(most, writers).await;
                drop(volume);
                volume = world.open(options).await;
            }
        });
    }
}
