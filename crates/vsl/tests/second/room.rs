//! A volume that guarantees space for its length provides it for any kind of writes.

use forebay_device::{Device, Durability};
use forebay_rng::Rng;
use forebay_units::SECTOR_BYTES;
use forebay_vsl::{PlacementKind, SpaceDevice, SpaceSettings};

use crate::world::{ExpectedExtents, SOON, TestbedShape, content, on_a_device, on_a_volume};

/// Fills a volume of the usual length in random order in fragments.
fn filled_in_pieces(shape: TestbedShape, piece: u64) {
    on_a_volume(shape, async move |world| {
        let volume = world.open(SpaceSettings::default()).await;
        let len = volume.usual_length();
        let sectors = piece / SECTOR_BYTES;
        let mut model = ExpectedExtents::new(len / piece, sectors, sectors);
        let mut order: Vec<u64> = (0..len / piece).collect();
        Rng::new(3).shuffle(&mut order);
        for n in order {
            model.write(&volume, n, Durability::Flush).await;
        }
        assert_eq!(volume.space.capacity().mapped, len / piece * piece);
        volume.flush().await;
        volume.audit().await;
        drop(volume);
        model
            .compare(&world.open(SpaceSettings::default()).await)
            .await;
    });
}

/// Found by a hostile review: fragments of 512 bytes were refused at 80 % of the length, and fragments of 2 KiB at 99
/// %.
#[test]
fn a_volume_of_the_usual_length_is_filled_in_random_order_with_fragments_of_any_size() {
    for piece in [4096, 2048, 1024, 512] {
        for (segments, segment) in [(64, 128 << 10), (128, 256 << 10)] {
            let kind = PlacementKind::Lfs;
            filled_in_pieces(
                TestbedShape {
                    segments,
                    segment,
                    kind,
                },
                piece,
            );
        }
    }
}

/// Placements with several streams.
#[test]
fn a_volume_with_several_streams_is_filled_with_single_sectors() {
    for kind in [
        PlacementKind::Wolf,
        PlacementKind::SepBit,
        PlacementKind::HyLogSepBit,
        PlacementKind::Overwrite,
    ] {
        let (segments, segment) = (64, 128 << 10);
        filled_in_pieces(
            TestbedShape {
                segments,
                segment,
                kind,
            },
            SECTOR_BYTES,
        );
    }
}

/// Found by a hostile review: large writes to small empty volumes were refused, as each was one batch. Found while this
/// test was written: an overwrite waited forever for more segments than could be free at once.
#[test]
fn a_single_write_of_any_length_that_fits_succeeds_on_a_small_volume() {
    for kind in PlacementKind::ALL {
        for (segments, segment) in [(40, 128u64 << 10), (64, 128 << 10), (64, 1 << 20)] {
            let shape = TestbedShape {
                segments,
                segment,
                kind,
            };
            on_a_volume(shape, async |world| {
                let volume = world.open(SpaceSettings::default()).await;
                let linear = SpaceDevice::new(volume.space.clone());
                let whole = volume.usual_length();
                let lengths = [256 << 10, 1 << 20, 4 << 20, 16 << 20, whole];
                for len in lengths.into_iter().filter(|len| *len <= whole) {
                    let data = content(1, len, len);
                    let written = linear.write(0, data.clone(), Durability::Flush);
                    let written = world.rt.timeout(10 * SOON, written).await;
                    let written = written.unwrap_or_else(|_| {
                        panic!(
                            "{:?} {len}: it waits: {}",
                            world.shape,
                            volume.space.explain()
                        )
                    });
                    written.unwrap_or_else(|error| panic!("{:?} {len}: {error}", world.shape));
                    let read = volume.read(0, len / SECTOR_BYTES).await.expect("read");
                    assert!(read[..] == data[..], "{len}");
                }
                volume.audit().await;
            });
        }
    }
}

/// Found by a hostile review: a table of this many segments did not fit into the segments queued for the first
/// checkpoint, so creating the volume never ended.
#[test]
fn a_volume_of_very_many_small_segments_can_be_created_and_used() {
    for segments in [64 << 10, 256 << 10] {
        let kind = PlacementKind::Lfs;
        let segment = 128 << 10;
        on_a_device(
            TestbedShape {
                segments,
                segment,
                kind,
            },
            async move |world| {
                world
                    .rt
                    .timeout(SOON, Box::pin(world.create()))
                    .await
                    .expect("making ends");
                let volume = world.open(SpaceSettings::default()).await;
                let mut model = ExpectedExtents::of_blocks(1000);
                for n in 0..1000 {
                    model.write(&volume, n, Durability::Flush).await;
                }
                volume.checkpoint().await;
                let len = volume.usual_length();
                assert!(len > segments * segment / 2, "{len} of {segments} segments");
                drop(volume);
                model
                    .compare(&world.open(SpaceSettings::default()).await)
                    .await;
            },
        );
    }
}
