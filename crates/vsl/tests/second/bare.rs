//! Segments without a summary: recovery of their contents, with and without damage.

use std::collections::BTreeSet;
use std::time::Duration;

use forebay_device::{Buf, BufMut};
use forebay_rng::Rng;
use forebay_units::{LINE_SECTORS, SECTOR_BYTES, Sector};
use forebay_vsl::{Batch, PlacementKind, SpaceError, SpaceOpenError, SpaceSettings, open};

use crate::world::{ExpectedExtents, OpenSpace, SpaceTestbed, TestbedShape, content, on_a_volume};

const SEGMENT: u64 = 1 << 20;
const RECORD: &[u8; 8] = b"FOREVRC\x02";
const SUMMARY: &[u8; 8] = b"FOREVSU\x02";

fn shape(segments: u64, kind: PlacementKind) -> TestbedShape {
    TestbedShape {
        segments,
        segment: SEGMENT,
        kind,
    }
}

fn block(world: &SpaceTestbed, at: u64) -> Vec<u8> {
    let mut block = vec![0; 4096];
    world.device.below.peek(at, &mut block);
    block
}

/// Returns the offsets of segments that contain a record, and whether they end with a summary.
fn segments(world: &SpaceTestbed) -> Vec<(u64, bool)> {
    let all = (0..world.shape.segments).map(|n| (1 << 20) + n * SEGMENT);
    let used = all.filter(|at| block(world, *at).starts_with(RECORD));
    let ends = |at: u64| block(world, at + SEGMENT - 4096).starts_with(SUMMARY);
    used.map(|at| (at, ends(at))).collect()
}

/// Returns the offsets of the headers of the records in a segment.
fn headers(world: &SpaceTestbed, segment: u64) -> Vec<u64> {
    let all = (segment..segment + SEGMENT).step_by(4096);
    let number = |at: u64| block(world, at)[40..48].to_vec();
    let first = number(segment);
    let is_header = |at: &u64| block(world, *at).starts_with(RECORD) && number(*at) == first;
    all.filter(is_header).collect()
}

fn rot(world: &SpaceTestbed, at: u64) {
    let mut byte = [0];
    world.device.below.peek(at, &mut byte);
    world.device.below.poke(at, &[byte[0] ^ 8]);
}

async fn write(volume: &OpenSpace, key: u64, sector: u64, sectors: u64) {
    let data = content(key, 1, sectors * SECTOR_BYTES);
    volume.apply(&Batch::of_write(Sector(sector), data)).await;
}

async fn is_read(
    volume: &OpenSpace,
    key: u64,
    sector: u64,
    sectors: u64,
) -> Result<(), SpaceError> {
    let read = volume.read(sector, sectors).await?;
    assert!(
        read[..] == content(key, 1, sectors * SECTOR_BYTES)[..],
        "{key}"
    );
    Ok(())
}

/// Sectors in a MiB.
const MIB: u64 = 2048;

#[test]
fn segments_of_large_writes_have_no_summary_and_are_recovered_by_few_reads() {
    on_a_volume(shape(128, PlacementKind::Lfs), async |world| {
        let volume = world.open(SpaceSettings::default()).await;
        for n in 0..64 {
            write(&volume, n, n * MIB, MIB).await;
            if n % 8 == 7 {
                volume.flush().await;
            }
        }
        volume.flush().await;
        // This record proves that all earlier records are durable.
        write(&volume, 64, 100 * MIB, LINE_SECTORS).await;
        volume.flush().await;
        drop(volume);
        let bare = segments(&world)
            .iter()
            .filter(|(_, summary)| !summary)
            .count();
        assert!(bare >= 60, "{bare} segments have no summary");
        let ends = segments(&world)
            .into_iter()
            .map(|(at, _)| at + SEGMENT - 4096);
        let full = ends.filter(|at| block(&world, *at).iter().any(|byte| *byte != 0));
        assert!(full.count() >= 50, "they are full to their last block");
        let faults = &world.device;
        faults.reads.take();
        faults.bytes_read.take();
        let opened = open(
            world.rt.clone(),
            world.below(),
            SpaceSettings::default(),
            false,
        );
        let (space, workers, _) = opened.await.expect("opened");
        let (reads, bytes) = (faults.reads.get(), faults.bytes_read.get());
        println!("{reads} reads of {bytes} bytes");
        // Unopened segments of the queue are examined as well.
        assert!(reads < 4 * 66 + 2 * 70, "{reads}");
        assert!(bytes < 3 << 20, "{bytes}");
        space.audit().await.expect("all is counted");
        drop((space, workers));
        let volume = world.open(SpaceSettings::default()).await;
        for n in 0..64 {
            is_read(&volume, n, n * MIB, MIB).await.expect("read");
        }
    });
}

/// Writes records of more than half a segment, so that some segments contain one record and a part of another. Returns
/// the offset of such a segment.
async fn two_records(world: &SpaceTestbed, volume: &OpenSpace) -> u64 {
    write(volume, 1, 100 * MIB, MIB).await;
    volume.flush().await;
    for n in 0..8 {
        write(
            volume,
            2 + n,
            n * MIB,
            MIB * 6 / 10 / LINE_SECTORS * LINE_SECTORS,
        )
        .await;
        volume.flush().await;
    }
    let with_two = segments(world).into_iter().find(|(at, summary)| {
        let headers = headers(world, *at);
        let second = || headers[1] - at > 100 << 10;
        !summary && headers.len() == 2 && second() && SEGMENT + at - headers[1] > 100 << 10
    });
    with_two.expect("a bare segment of two long records").0
}

/// Returns the sectors of 4 KiB blocks of the space that lie in a range of the device.
async fn blocks_in(volume: &OpenSpace, range: std::ops::Range<u64>) -> Vec<u64> {
    let mut found = Vec::new();
    for from in [0, 100 * MIB] {
        for at in (from..from + 8 * MIB).step_by(LINE_SECTORS as usize) {
            let place = volume.place(at).await;
            found.extend(place.filter(|place| range.contains(place)).map(|_| at));
        }
    }
    found
}

#[test]
fn only_data_with_checksums_in_a_damaged_header_is_unreadable() {
    for damaged in [0, 1] {
        on_a_volume(shape(128, PlacementKind::Lfs), async move |world| {
            let volume = world.open(SpaceSettings::default()).await;
            let segment = two_records(&world, &volume).await;
            volume.checkpoint().await;
            world.rt.sleep(Duration::from_secs(2)).await;
            let second = headers(&world, segment)[1];
            let parts = [segment..second, second..segment + SEGMENT];
            let header = parts[damaged].start;
            rot(&world, header + 100);
            for (n, part) in parts.into_iter().enumerate() {
                let blocks = blocks_in(&volume, part).await;
                assert!(blocks.len() > 10, "{}", blocks.len());
                for at in blocks {
                    let buf = BufMut::zeroed(4096);
                    let read = volume.space.read(Sector(at), buf).await;
                    let is_error = matches!(read, Err(SpaceError::Damaged { .. }));
                    assert_eq!(is_error, n == damaged, "{n} {at} {:?}", read.err());
                }
            }
            volume.audit().await;
            // A header was only read wrongly: this must not be remembered.
            rot(&world, header + 100);
            for at in blocks_in(&volume, segment..segment + SEGMENT).await {
                assert!(volume.read(at, LINE_SECTORS).await.is_ok());
            }
        });
    }
}

#[test]
fn a_damaged_header_after_the_checkpoint_is_not_treated_as_a_torn_end() {
    for damaged in [0, 1] {
        on_a_volume(shape(128, PlacementKind::Lfs), async move |world| {
            let volume = world.open(SpaceSettings::default()).await;
            let segment = two_records(&world, &volume).await;
            write(&volume, 9, 400 * MIB, MIB).await;
            volume.flush().await;
            write(&volume, 10, 500 * MIB, LINE_SECTORS).await;
            volume.flush().await;
            drop(volume);
            rot(&world, headers(&world, segment)[damaged] + 200);
            let before = world.image();
            let opened = open(
                world.rt.clone(),
                world.below(),
                SpaceSettings::default(),
                false,
            );
            let Err(error) = opened.await else {
                panic!("it was opened");
            };
            assert!(matches!(error, SpaceOpenError::Damaged { .. }), "{error}");
            assert!(world.image() == before, "the device was changed");
            // With the loss accepted, the data written before is present.
            let opened = open(
                world.rt.clone(),
                world.below(),
                SpaceSettings::default(),
                true,
            );
            let (space, workers, _) = opened.await.expect("opened");
            space.audit().await.expect("all is counted");
            let read = space.read(Sector(100 * MIB), BufMut::zeroed(4096)).await;
            assert!(read.expect("read")[..] == content(1, 1, 4096)[..]);
            drop((space, workers));
        });
    }
}

/// Writes versions of scattered blocks in batches of 200, so that each segment has one or two records.
async fn rewrite(volume: &OpenSpace, model: &mut ExpectedExtents, keys: &[u64]) {
    for some in keys.chunks(200) {
        let mut batch = Batch::new();
        for key in some {
            model.add_next(&mut batch, *key);
        }
        volume.apply(&batch).await;
        for key in some {
            model.written(*key);
        }
    }
}

#[test]
fn segments_of_moved_data_are_recovered_by_few_reads() {
    on_a_volume(shape(48, PlacementKind::Lfs), async |world| {
        let volume = world.open(SpaceSettings::default()).await;
        let count = volume.space.capacity().mappable / 4096 * 9 / 10;
        let mut model = ExpectedExtents::new(count, LINE_SECTORS, 2 * LINE_SECTORS);
        let all: Vec<u64> = (0..count).collect();
        rewrite(&volume, &mut model, &all).await;
        let stats = || volume.space.stats();
        let (rng, mut before) = (Rng::new(5), stats());
        while stats().bytes_moved < before.bytes_moved + (8 << 20) {
            if stats().checkpoints > before.checkpoints {
                before = stats();
            }
            let some: Vec<u64> = (0..50).map(|_| rng.below(count)).collect();
            let some: Vec<u64> = BTreeSet::from_iter(some).into_iter().collect();
            rewrite(&volume, &mut model, &some).await;
        }
        volume.flush().await;
        drop(volume);
        let faults = &world.device;
        faults.reads.take();
        let opened = open(
            world.rt.clone(),
            world.below(),
            SpaceSettings::default(),
            false,
        );
        let (space, workers, _) = opened.await.expect("opened");
        let reads = faults.reads.get();
        println!("{reads} reads");
        assert!(reads < 10 * 48, "{reads}");
        drop((space, workers));
        model
            .compare(&world.open(SpaceSettings::default()).await)
            .await;
    });
}

/// Each block of data has its own checksum in the map, but the cleaner finds it through the header.
#[test]
fn a_segment_with_a_damaged_header_is_kept_while_its_data_is_live() {
    for damaged in [0, 1] {
        on_a_volume(shape(48, PlacementKind::Lfs), async move |world| {
            let volume = world.open(SpaceSettings::default()).await;
            let count = volume.space.capacity().mappable / 4096 * 8 / 10;
            let mut model = ExpectedExtents::new(count, LINE_SECTORS, 2 * LINE_SECTORS);
            let all: Vec<u64> = (0..count).collect();
            rewrite(&volume, &mut model, &all).await;
            volume.flush().await;
            volume.checkpoint().await;
            let victims = segments(&world).into_iter().filter(|(at, summary)| {
                let headers = headers(&world, *at);
                !summary && headers.len() == 2
            });
            let mut in_segment = Vec::new();
            let mut segment = 0;
            for (at, _) in victims {
                segment = at;
                in_segment.clear();
                for key in &all {
                    let place = volume.place(key * 2 * LINE_SECTORS).await;
                    let here = place.filter(|place| (at..at + SEGMENT).contains(place));
                    in_segment.extend(here.map(|place| (*key, place)));
                }
                if in_segment.len() > 200 {
                    break;
                }
            }
            assert!(in_segment.len() > 200, "a bare segment with data");
            let begins = headers(&world, segment);
            let header = begins[damaged];
            rot(&world, header + 50);
            // Blocks listed by the damaged header, which cannot be moved.
            let end = if damaged == 0 {
                begins[1]
            } else {
                segment + SEGMENT
            };
            let listed = in_segment
                .iter()
                .filter(|(_, at)| *at > header && *at < end);
            let kept: BTreeSet<u64> = listed.map(|(key, _)| *key).take(10).collect();
            assert!(kept.len() > 5, "{kept:?}");
            let others: Vec<u64> = all
                .iter()
                .copied()
                .filter(|key| !kept.contains(key))
                .collect();
            let rng = Rng::new(3);
            for _ in 0..6 {
                let mut some = others.clone();
                rng.shuffle(&mut some);
                rewrite(&volume, &mut model, &some).await;
            }
            volume.flush().await;
            world.rt.sleep(Duration::from_secs(10)).await;
            let why = volume.space.explain();
            assert!(volume.space.stats().segments_cleaned > 10);
            for key in &kept {
                let place = volume.place(key * 2 * LINE_SECTORS).await.expect("there");
                assert!((header..end).contains(&place), "it was moved");
            }
            assert!(why.contains("Unreadable: 1"), "{why}");
            volume.audit().await;
            model.compare(&volume).await;
            drop(volume);
            let volume = world.open(SpaceSettings::default()).await;
            model.compare(&volume).await;
            // The segment is usable again once these blocks are overwritten.
            let kept: Vec<u64> = kept.into_iter().collect();
            rewrite(&volume, &mut model, &kept).await;
            rewrite(&volume, &mut model, &others).await;
            volume.flush().await;
            volume.checkpoint().await;
            volume.audit().await;
            model.compare(&volume).await;
            let why = volume.space.explain();
            assert!(!why.contains("Unreadable"), "{why}");
        });
    }
}

/// Returns data in which each sector begins like a summary.
fn forged() -> Buf {
    let mut forged = BufMut::copy_of(&content(3, 3, MIB * SECTOR_BYTES));
    for sector in forged.chunks_exact_mut(512) {
        sector[..8].copy_from_slice(SUMMARY);
    }
    forged.freeze()
}

/// Asserts that segments that seem to end with a summary have one. Returns the number of other segments.
fn bare_of(world: &SpaceTestbed) -> usize {
    let (bare, with): (Vec<_>, Vec<_>) = segments(world)
        .into_iter()
        .partition(|(_, summary)| !summary);
    for (at, _) in with {
        let end = block(world, at + SEGMENT - 4096);
        assert_eq!(end[16..32], [7; 16], "no summary of this volume");
    }
    bare.len()
}

/// A client that knows the format of summaries writes them everywhere. None of them must reach the end of a segment.
#[test]
fn client_data_is_never_mistaken_for_a_summary() {
    on_a_volume(shape(48, PlacementKind::Lfs), async move |world| {
        let volume = world.open(SpaceSettings::default()).await;
        for n in 0..60 {
            // Fragments begin at block boundaries, and elsewhere.
            let at = n % 20 * 2 * MIB + n / 20;
            volume.apply(&Batch::of_write(Sector(at), forged())).await;
            volume.flush().await;
            world.rt.sleep(Duration::from_secs(3)).await;
        }
        volume.checkpoint().await;
        assert!(bare_of(&world) > 10);
        for n in 0..20 {
            let read = volume.read(n * 2 * MIB + 2, MIB).await.expect("read");
            assert!(read[..] == forged()[..], "{n}");
        }
        drop(volume);
        let volume = world.open(SpaceSettings::default()).await;
        let read = volume.read(2, MIB).await.expect("read");
        assert!(read[..] == forged()[..]);
    });
}

/// Data of other clients lies at the end of segments, and is overwritten in place with forged summaries.
#[test]
fn data_written_in_place_is_never_mistaken_for_a_summary() {
    on_a_volume(shape(64, PlacementKind::Overwrite), async move |world| {
        let volume = world.open(SpaceSettings::default()).await;
        for n in 0..16 {
            write(&volume, n, n * MIB, MIB).await;
        }
        volume.flush().await;
        volume.checkpoint().await;
        let full = segments(&world).into_iter().filter(|(at, _)| {
            let end = block(&world, at + SEGMENT - 4096);
            end.iter().any(|byte| *byte != 0)
        });
        assert!(full.count() >= 10, "they are full to their last block");
        let forged = forged().slice(..4096);
        for n in 0..16 * MIB / LINE_SECTORS {
            let batch = Batch::of_write(Sector(n * LINE_SECTORS), forged.clone());
            volume.apply(&batch).await;
        }
        volume.flush().await;
        world.rt.sleep(Duration::from_secs(5)).await;
        let in_place = volume.space.stats().bytes_in_place;
        assert!(in_place > 8 << 20, "{in_place} bytes were written in place");
        bare_of(&world);
        volume.audit().await;
        for n in 0..16 * MIB / LINE_SECTORS {
            let read = volume.read(n * LINE_SECTORS, LINE_SECTORS).await;
            assert!(read.expect("read")[..] == forged[..], "{n}");
        }
    });
}
