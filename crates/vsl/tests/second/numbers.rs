//! Epochs and numbers of segments: each belongs to one opening of the volume, successful or not.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use forebay_device::Durability;
use forebay_vsl::{PlacementKind, SpaceSettings, open};

use crate::world::{ExpectedExtents, SOON, SpaceTestbed, TestbedShape, on_a_volume};

const BLOCK: usize = 4096;

/// The first fields of a record's header.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct HeaderNumbers {
    epoch: u64,
    segment: u64,
    record: u64,
}

/// Returns the headers of records on a device, by their places.
fn headers(image: &[u8]) -> BTreeMap<usize, HeaderNumbers> {
    let blocks = (0..image.len()).step_by(BLOCK);
    let headers = blocks.filter_map(|at| {
        let block = &image[at..at + BLOCK];
        let word = |at: usize| u64::from_le_bytes(block[at..at + 8].try_into().expect("eight"));
        let header = HeaderNumbers {
            epoch: word(32),
            segment: word(40),
            record: word(48),
        };
        (&block[..7] == b"FOREVRC").then_some((at, header))
    });
    headers.collect()
}

/// Returns the headers in `after` that are not in `before`.
fn written(
    before: &BTreeMap<usize, HeaderNumbers>,
    after: &BTreeMap<usize, HeaderNumbers>,
) -> Vec<HeaderNumbers> {
    let new = after
        .iter()
        .filter(|(at, header)| before.get(at) != Some(header));
    new.map(|(_, header)| *header).collect()
}

/// A volume is killed, and each recovery is interrupted one write later than the recovery before, until one recovery
/// succeeds. Remains of a try must not be mistaken for writes of a later try, so each try has its own epoch and
/// numbers.
#[test]
fn each_attempt_of_a_recovery_has_its_own_epoch_and_segment_numbers() {
    for kind in [PlacementKind::Lfs, PlacementKind::HyLogSepBit] {
        let shape = TestbedShape {
            segments: 64,
            segment: 128 << 10,
            kind,
        };
        on_a_volume(shape, async move |world| {
            let volume = world.open(SpaceSettings::default()).await;
            let mut model = ExpectedExtents::of_blocks(300);
            for n in 0..300 {
                model.write(&volume, n, Durability::Flush).await;
            }
            volume.flush().await;
            drop(volume);
            let (mut epochs, mut numbers) = (BTreeSet::new(), BTreeSet::new());
            let mut tries = 0;
            for writes in 0.. {
                let before = headers(&world.image());
                world.device.writes_left.set(Some(writes));
                let opening = open(
                    world.rt.clone(),
                    world.below(),
                    SpaceSettings::default(),
                    false,
                );
                let opened = world.rt.timeout(SOON, Box::pin(opening)).await;
                world.device.writes_left.set(None);
                let new = written(&before, &headers(&world.image()));
                let of_try: BTreeSet<u64> = new.iter().map(|header| header.epoch).collect();
                assert!(of_try.len() <= 1, "{kind}: {writes}: {of_try:?}");
                assert!(epochs.is_disjoint(&of_try), "{kind}: {writes}: {of_try:?}");
                let given: BTreeSet<u64> = new.iter().map(|header| header.segment).collect();
                assert!(numbers.is_disjoint(&given), "{kind}: {writes}: {given:?}");
                epochs.extend(of_try);
                numbers.extend(given);
                assert!(
                    writes >= 2 || new.is_empty(),
                    "{kind}: both copies come first"
                );
                tries += u32::from(!new.is_empty());
                if opened.is_ok() {
                    break;
                }
            }
            assert!(tries >= 3, "{tries} tries wrote something");
            let volume = world.open(SpaceSettings::default()).await;
            model.compare(&volume).await;
        });
    }
}

/// Writes while every flush fails, until segments are filled that a record added to the allocation queue. This record
/// is not durable. Then the power fails, and the first record that is not durable is lost.
async fn lose_the_queue(world: &SpaceTestbed, model: &ExpectedExtents) {
    let volume = world.open(SpaceSettings::default()).await;
    volume.flush().await;
    let durable = world.image();
    let known = headers(&durable);
    world.device.flushes_fail.set(true);
    for n in 0..model.len() {
        volume.apply(&model.next(n)).await;
    }
    world.rt.sleep(Duration::from_secs(1)).await;
    drop(volume);
    world.device.flushes_fail.set(false);
    let left = headers(&world.image());
    let new = left
        .iter()
        .filter(|(at, header)| known.get(at) != Some(header));
    let (at, _) = new.min_by_key(|(_, header)| header.record).expect("some");
    let (at, block) = (*at as u64, &durable[*at..*at + BLOCK]);
    world.device.below.poke(at, block);
}

/// Remains of a segment whose number no durable record contains must not be mistaken for a part of a later segment, so
/// no number is used twice.
#[test]
fn a_segment_number_queued_by_a_lost_record_is_never_reused() {
    let shape = TestbedShape {
        segments: 256,
        segment: 128 << 10,
        kind: PlacementKind::Lfs,
    };
    on_a_volume(shape, async |world| {
        let volume = world.open(SpaceSettings::default()).await;
        let mut model = ExpectedExtents::of_blocks(2000);
        for n in 0..500 {
            model.write(&volume, n, Durability::Flush).await;
        }
        volume.checkpoint().await;
        drop(volume);
        let mut given: BTreeMap<u64, u64> = BTreeMap::new();
        for _ in 0..5 {
            lose_the_queue(&world, &model).await;
            let volume = world.open(SpaceSettings::default()).await;
            model.compare(&volume).await;
            for n in 0..500 {
                model.write(&volume, n, Durability::Flush).await;
            }
            volume.flush().await;
            drop(volume);
            for header in headers(&world.image()).values() {
                let epoch = *given.entry(header.segment).or_insert(header.epoch);
                assert_eq!(
                    epoch, header.epoch,
                    "the epoch of number {}",
                    header.segment
                );
            }
        }
    });
}
