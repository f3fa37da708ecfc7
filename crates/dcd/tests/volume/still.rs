//! Devices that are held still: copies of them, and the use of the log afterwards.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use forebay_dcd::{AttachOptions, DcdVolume, OffsetPolicy};
use forebay_device::{AckMode, BufMut, Device, DeviceOp, Durability};
use forebay_ring_log::{HEADER_BYTES, RingSuperblock, SUPERBLOCK_A_AT, SUPERBLOCK_B_AT};
use forebay_sim::disk::WriteFate;
use forebay_sim::stamp::stamp;
use forebay_sim_targets::cache::testbed::{DiskBytes, read_all};

const LEN: u64 = 1 << 20;

async fn write(volume: &DcdVolume, id: u64, at: u64, durability: Durability) {
    let bytes = BufMut::copy_of(&stamp(id, at, 4096)).freeze();
    volume.write(at, bytes, durability).await.expect("written");
}

/// Returns both copies of the log's superblock.
fn superblocks(log: &[u8]) -> [RingSuperblock; 2] {
    [SUPERBLOCK_A_AT, SUPERBLOCK_B_AT].map(|at| {
        let bytes = &log[at as usize..at as usize + HEADER_BYTES];
        RingSuperblock::decode(bytes).expect("sound")
    })
}

#[test]
fn copies_of_held_devices_are_a_closed_volume_and_the_data_device_alone_is_complete() {
    let scenario = DiskBytes::fresh(LEN).scenario(1, None);
    let (rt, log, data) = scenario.parts();
    let copy = scenario.with_volume(AttachOptions::default(), |volume| async move {
        for n in 0..64 {
            write(&volume, n + 1, n * 7 % 64 * 4096, Durability::Flush).await;
        }
        volume.hold_still().await.expect("the devices work");
        let copied = || DiskBytes {
            log: log.after_cut(WriteFate::Drop),
            data: data.after_cut(WriteFate::Drop),
        };
        let copy = copied();
        let waits = volume.clone();
        let late = rt.spawn(async move {
            write(&waits, 99, 0, Durability::Fua).await;
        });
        rt.sleep(Duration::from_secs(3600)).await;
        volume.flush().await.expect("nothing is pending");
        assert!(!late.is_finished(), "a write that arrives waits");
        let after = copied();
        assert!(
            after.log == copy.log && after.data == copy.data,
            "a device changed"
        );
        volume.resume();
        late.await;
        copy
    });
    let copy = copy.expect("no cut");
    let mut expected = stamp(forebay_sim::stamp::BEFORE, 0, LEN);
    for n in 0..64 {
        let at = n * 7 % 64 * 4096;
        expected[at as usize..at as usize + 4096].copy_from_slice(&stamp(n + 1, at, 4096));
    }
    assert!(copy.data == expected, "the data device alone is the volume");
    assert!(superblocks(&copy.log).iter().all(|copy| copy.clean));
    let copied = copy.scenario(2, None);
    let report = copied
        .attach(AttachOptions::default())
        .expect("no cut")
        .expect("attached")
        .1;
    assert!(report.was_clean && report.records == 0, "{report:?}");
    // The write after the freeze survives a power cut: the mark was removed before.
    let left = scenario.after_cut(WriteFate::Drop);
    assert!(superblocks(&left.log).iter().all(|copy| !copy.clean));
    let seen = left
        .scenario(3, None)
        .with_volume(AttachOptions::default(), |volume| async move {
            read_all(&volume).await.expect("read")
        });
    assert!(seen.expect("no cut")[..4096] == stamp(99, 0, 4096)[..]);
}

#[test]
fn a_log_leaves_rotational_offsets_again_after_it_was_held_still() {
    let scenario = DiskBytes::fresh(LEN).scenario(1, None);
    let (_, log, _) = scenario.parts();
    let options = AttachOptions {
        gaps: OffsetPolicy::Scattered(7),
        acknowledge: AckMode::Durable,
        ..AttachOptions::default()
    };
    scenario.with_volume(options, |volume| async move {
        for round in 0..3 {
            for n in 0..40 {
                write(&volume, 100 * round + n + 1, n * 4096, Durability::Flush).await;
            }
            assert!(
                superblocks(&log.now())
                    .iter()
                    .all(|copy| copy.gaps && !copy.clean)
            );
            volume.hold_still().await.expect("the devices work");
            // A program without offsets may open this log.
            assert!(
                superblocks(&log.now())
                    .iter()
                    .all(|copy| copy.clean && !copy.gaps)
            );
            volume.resume();
        }
    });
    let left = scenario.after_cut(WriteFate::Drop);
    let seen = left
        .scenario(3, None)
        .with_volume(AttachOptions::default(), |volume| async move {
            read_all(&volume).await.expect("read")
        });
    let seen = seen.expect("no cut");
    for n in 0..40 {
        let at = n * 4096;
        let found = &seen[at as usize..at as usize + 4096];
        assert!(found == stamp(200 + n + 1, at, 4096), "block {n}");
    }
}

#[test]
fn writers_continue_without_a_log_that_fails_while_the_devices_are_held_still() {
    let scenario = DiskBytes::fresh(LEN)
        .scenario(1, None)
        .witnessed(&Rc::default());
    let (rt, log, data) = scenario.parts();
    scenario.with_volume(AttachOptions::default(), |volume| async move {
        write(&volume, 1, 0, Durability::Flush).await;
        volume.hold_still().await.expect("the devices work");
        log.fail(|op, _| op == DeviceOp::Write);
        volume.resume();
        let written = write(&volume, 2, 4096, Durability::Fua);
        let limit = Duration::from_secs(120);
        rt.timeout(limit, written)
            .await
            .expect("it goes to the data device");
        assert!(data.durable(4096..8192) == stamp(2, 4096, 4096));
        volume.hold_still().await.expect("the data device works");
        volume.resume();
        write(&volume, 3, 8192, Durability::Fua).await;
    });
}

#[test]
fn a_held_volume_can_be_closed_and_its_waiting_writers_are_refused() {
    let scenario = DiskBytes::fresh(LEN).scenario(1, None);
    let (rt, _, _) = scenario.parts();
    scenario.with_volume(AttachOptions::default(), |volume| async move {
        volume.hold_still().await.expect("the devices work");
        let waits = Rc::new(volume.clone());
        let late = rt.spawn(async move {
            let bytes = BufMut::zeroed(4096).freeze();
            waits.write(0, bytes, Durability::Flush).await
        });
        rt.sleep(Duration::from_secs(1)).await;
        volume.close().await.expect("closed");
        late.await.expect_err("refused");
    });
    let left = scenario.after_cut(WriteFate::Drop);
    assert!(superblocks(&left.log).iter().all(|copy| copy.clean));
}

#[test]
fn a_log_that_is_held_again_at_once_is_marked_and_later_in_use() {
    let scenario = DiskBytes::fresh(LEN).scenario(1, None);
    let (rt, log, _) = scenario.parts();
    scenario.with_volume(AttachOptions::default(), |volume| async move {
        for n in 0..20 {
            write(&volume, n + 1, 0, Durability::Flush).await;
            volume.hold_still().await.expect("the devices work");
            volume.resume();
            // The removal of the mark is in progress, in a different step each time.
            rt.sleep(Duration::from_micros(100 * n)).await;
            volume.hold_still().await.expect("the devices work");
            assert!(superblocks(&log.now()).iter().all(|copy| copy.clean));
            volume.resume();
            write(&volume, 100 + n, 4096, Durability::Fua).await;
            assert!(superblocks(&log.now()).iter().all(|copy| !copy.clean));
        }
    });
}

#[test]
fn writers_continue_after_a_release_while_the_data_device_fails() {
    let scenario = DiskBytes::fresh(LEN).scenario(1, None);
    let (rt, log, data) = scenario.parts();
    scenario.with_volume(AttachOptions::default(), |volume| async move {
        write(&volume, 1, 0, Durability::Flush).await;
        let fails = Rc::new(Cell::new(true));
        let failing = Rc::clone(&fails);
        data.fail(move |op, _| failing.get() && op != DeviceOp::Read);
        let held = volume.clone();
        let holding = rt.spawn(async move { held.hold_still().await });
        rt.sleep(Duration::from_secs(30)).await;
        assert!(!holding.is_finished());
        volume.resume();
        for n in 0..10 {
            write(&volume, 2 + n, 4096, Durability::Fua).await;
        }
        fails.set(false);
        write(&volume, 50, 8192, Durability::Fua).await;
        holding.await.expect("the data device works again");
        let limit = Duration::from_secs(1);
        let written = write(&volume, 51, 8192, Durability::Fua);
        rt.timeout(limit, written)
            .await
            .expect("nothing holds it back");
        assert!(superblocks(&log.now()).iter().all(|copy| !copy.clean));
    });
}
