//! Damage to the last flushed record: no later record proves that it was durable, so the superblock must.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use forebay_device::{BufMut, Device as _, DeviceOp, Durability};
use forebay_rt::{Driver, DriverTurn, Instant, Unpark, VirtualTime, WaitLimit};
use forebay_segment_log::{SUPERBLOCK_A_AT, SUPERBLOCK_B_AT, read_copies};
use forebay_units::{LINE_SECTORS, Sector};
use forebay_vsl::{
    Batch, PlacementKind, SpaceError, SpaceOpenError, SpaceSettings, SpaceSuperblock, open,
};

use crate::world::{
    ExpectedExtents, OpenSpace, SpaceTestbed, TestbedShape, add, content, on_a_clock, on_a_volume,
};

/// Bytes of a record's header.
const HEADER: u64 = 4096;
/// Idle time of a volume before its process is killed.
const IDLE: Duration = Duration::from_secs(2);

fn shape(kind: PlacementKind) -> TestbedShape {
    TestbedShape {
        segments: 64,
        segment: 256 << 10,
        kind,
    }
}

/// Writes some blocks durably, one of them twice, and leaves the volume idle.
async fn idle_behind_a_flush(volume: &OpenSpace, how: Durability) {
    let mut model = ExpectedExtents::of_blocks(8);
    for n in 0..model.len() {
        model.write(volume, n, Durability::Fua).await;
    }
    model.write(volume, 3, how).await;
    volume.flush().await;
    volume.rt.sleep(IDLE).await;
}

/// Returns the byte of the device at which the data of the last record lies.
fn last_data(world: &SpaceTestbed) -> u64 {
    let (image, data) = (world.image(), content(3, 2, HEADER));
    let mut blocks = image.chunks_exact(HEADER as usize);
    let n = blocks.rposition(|block| *block == data[..]);
    n.expect("on the device") as u64 * HEADER
}

/// Replaces a block of the device by zeroes.
async fn damage(world: &SpaceTestbed, at: u64) {
    let zeroes = BufMut::zeroed(HEADER as usize).freeze();
    let written = world.device.write(at, zeroes, Durability::Fua).await;
    written.expect("written");
}

/// Returns the first missing record and the last durable record, if the volume is refused because of them.
async fn missing(world: &SpaceTestbed) -> Option<(u64, u64)> {
    let opened = open(
        world.rt.clone(),
        world.below(),
        SpaceSettings::default(),
        false,
    )
    .await;
    match opened {
        Err(SpaceOpenError::Damaged { missing, stable }) => Some((missing.0, stable.0)),
        Err(error) => panic!("{error}"),
        Ok(_) => None,
    }
}

/// The data of the last flush was lost, and older data of the same sectors was returned without an error.
#[test]
fn damage_to_the_data_of_the_last_flushed_record_is_reported() {
    for kind in [PlacementKind::Lfs, PlacementKind::HyLogSepBit] {
        for how in [Durability::Flush, Durability::Fua] {
            on_a_volume(shape(kind), async move |world| {
                let volume = world.open(SpaceSettings::default()).await;
                idle_behind_a_flush(&volume, how).await;
                drop(volume);
                damage(&world, last_data(&world)).await;
                let volume = world.open(SpaceSettings::default()).await;
                let read = |n: u64| volume.read(n * LINE_SECTORS, LINE_SECTORS);
                let error = read(3).await.err();
                assert!(
                    matches!(error, Some(SpaceError::Damaged { .. })),
                    "{kind}, {how:?}: {error:?}"
                );
                for n in [0, 1, 2, 4, 5, 6, 7] {
                    assert!(read(n).await.is_ok(), "{n}");
                }
            });
        }
    }
}

/// Damage to the record's header: the record is missing.
#[test]
fn a_missing_last_flushed_record_is_reported_and_can_be_abandoned() {
    on_a_volume(shape(PlacementKind::Lfs), async move |world| {
        let volume = world.open(SpaceSettings::default()).await;
        idle_behind_a_flush(&volume, Durability::Flush).await;
        drop(volume);
        damage(&world, last_data(&world) - HEADER).await;
        for _ in 0..2 {
            let (missing, stable) = missing(&world).await.expect("refused");
            assert_eq!(missing, stable);
        }
        let opened = open(
            world.rt.clone(),
            world.below(),
            SpaceSettings::default(),
            true,
        )
        .await;
        drop(opened.expect("opened, with a loss"));
        // The volume continues with the numbers of the lost records.
        assert_eq!(missing(&world).await, None);
    });
}

/// Counts the jumps of the virtual time.
#[derive(Default)]
struct JumpCounter {
    below: VirtualTime,
    jumps: Cell<u64>,
}

impl Driver for JumpCounter {
    fn now(&self) -> Instant {
        self.below.now()
    }

    fn turn(&self, wait: WaitLimit) -> DriverTurn {
        add(&self.jumps, matches!(wait, WaitLimit::Until(_)).into());
        self.below.turn(wait)
    }

    fn unparker(&self) -> Arc<dyn Unpark> {
        self.below.unparker()
    }
}

#[test]
fn a_flush_is_recorded_once_and_an_idle_volume_sleeps() {
    let clock = Rc::new(JumpCounter::default());
    let driver = Rc::clone(&clock) as Rc<dyn Driver>;
    on_a_clock(driver, shape(PlacementKind::Lfs), async move |world| {
        world.create().await;
        let volume = world.open(SpaceSettings::default()).await;
        world.rt.sleep(IDLE).await;
        let superblocks = || world.device.superblocks.take();
        superblocks();
        for _ in 0..3 {
            idle_behind_a_flush(&volume, Durability::Flush).await;
            assert_eq!(superblocks(), 2, "both copies");
            let jumps = clock.jumps.take();
            world.rt.sleep(Duration::from_secs(3600)).await;
            volume.flush().await;
            world.rt.sleep(Duration::from_secs(3600)).await;
            assert_eq!(superblocks(), 0, "nothing is new");
            let slept = clock.jumps.take();
            assert!(slept < 5, "{slept} wakes, {jumps} before");
            // A record that is not flushed is not noted.
            let data = content(5, 5, HEADER);
            volume.apply(&Batch::of_write(Sector(0), data)).await;
            world.rt.sleep(IDLE).await;
            assert_eq!(superblocks(), 0);
            volume.checkpoint().await;
            world.rt.sleep(IDLE).await;
            assert_eq!(superblocks(), 2, "the checkpoint's");
        }
    });
}

/// Each later record confirms the record before.
#[test]
fn no_flush_is_recorded_in_the_superblock_while_flushes_follow_each_other() {
    on_a_volume(shape(PlacementKind::Lfs), async move |world| {
        let volume = world.open(SpaceSettings::default()).await;
        let mut model = ExpectedExtents::of_blocks(8);
        world.rt.sleep(IDLE).await;
        world.device.superblocks.take();
        for n in 0..200 {
            model.write(&volume, n % 8, Durability::Fua).await;
            world.rt.sleep(Duration::from_millis(200)).await;
        }
        assert_eq!(world.device.superblocks.get(), 0);
        world.rt.sleep(IDLE).await;
        assert_eq!(world.device.superblocks.get(), 2);
    });
}

#[test]
fn a_failed_superblock_update_after_a_flush_delays_nothing_and_is_retried() {
    on_a_volume(shape(PlacementKind::Lfs), async move |world| {
        let volume = world.open(SpaceSettings::default()).await;
        world.rt.sleep(IDLE).await;
        let faults = &world.device;
        faults.superblocks_fail.set(true);
        faults.superblocks.take();
        for _ in 0..5 {
            idle_behind_a_flush(&volume, Durability::Flush).await;
        }
        let tried = faults.superblocks.take();
        assert!((5..30).contains(&tried), "{tried}");
        faults.superblocks_fail.set(false);
        world.rt.sleep(IDLE).await;
        assert_eq!(faults.superblocks.take(), 2);
        assert!(volume.space.failure().is_none());
        drop(volume);
        damage(&world, last_data(&world) - HEADER).await;
        assert!(missing(&world).await.is_some());
    });
}

/// The superblock of a checkpoint waits for the superblock of a note, and has a later generation.
#[test]
fn a_recorded_flush_and_a_concurrent_checkpoint_leave_both_superblocks_with_the_checkpoint() {
    on_a_volume(shape(PlacementKind::Lfs), async move |world| {
        let volume = world.open(SpaceSettings::default()).await;
        world.rt.sleep(IDLE).await;
        for copy in [SUPERBLOCK_A_AT, SUPERBLOCK_B_AT] {
            let before = volume.space.superblock().clone();
            world.device.held.set(Some((DeviceOp::Write, copy)));
            idle_behind_a_flush(&volume, Durability::Fua).await;
            assert_eq!(world.device.holding.get(), 1, "a note is being written");
            let space = volume.space.clone();
            let checkpoint = world.rt.spawn(async move { space.checkpoint().await });
            world.rt.sleep(IDLE).await;
            assert!(!checkpoint.is_finished());
            world.device.held.set(None);
            checkpoint.await.expect("made");
            let copies = read_copies::<SpaceSuperblock>(&*world.device).await;
            let copies = copies.expect("read");
            let after = volume.space.superblock().clone();
            for found in [copies.a, copies.b] {
                assert_eq!(found.as_ref(), Ok(&after));
            }
            assert!(after.generation > before.generation + 1);
            assert_ne!(after.checkpoint, before.checkpoint);
        }
    });
}
