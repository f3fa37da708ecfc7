//! Salvage: data that was lost with an abandoned log is recovered if it can be read after all, and no newer data is
//! replaced.

use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use forebay_dcd::{AttachOptions, DcdCheckReport, DcdVolume, LogSalvageReport, SalvageError};
use forebay_device::{Device, DeviceOp};
use forebay_ring_log::{RingSuperblock, SUPERBLOCK_A_AT, SUPERBLOCK_B_AT};
use forebay_sim::disk::WriteFate;
use forebay_sim_targets::cache::testbed::{CacheTestbed, DiskBytes};
use forebay_sim_targets::cache::volume::identity;

use crate::stamped::{holds, write};

const DATA_BYTES: u64 = 2 << 20;
const LINE: u64 = 4096;
const SEGMENTS_AT: u64 = 1 << 20;
/// Data that is lost at first: 40 blocks.
const LOST: Range<u64> = 64 * LINE..104 * LINE;

/// Returns the disks after a log was abandoned while its data could not be read. `since` runs between the abandonment
/// and the close of the volume.
fn abandoned<F: Future<Output = ()> + 'static>(
    since: impl FnOnce(Rc<forebay_sim::disk::SimDisk>, DcdVolume) -> F + 'static,
) -> DiskBytes {
    let scenario = DiskBytes::fresh(DATA_BYTES).scenario(1, None);
    let (rt, log) = (scenario.rt.clone(), Rc::clone(&scenario.log));
    scenario.with_volume(AttachOptions::default(), move |volume| async move {
        // The log also holds older data of the same sectors.
        write(&volume, 1, LOST.start, LOST.end - LOST.start).await;
        volume.flush().await.unwrap();
        write(&volume, 2, LOST.start, LOST.end - LOST.start).await;
        // Enough data that the earlier segments are no longer in memory.
        write(&volume, 2, 200 * LINE, 80 * LINE).await;
        volume.flush().await.unwrap();
        log.fail(|_, range| range.end > SEGMENTS_AT);
        write(&volume, 3, 300 * LINE, LINE).await;
        rt.sleep(Duration::from_secs(5)).await;
        assert!(volume.can_abandon() && volume.status().damaged_bytes == 0);
        volume.abandon_unreadable();
        while volume.is_abandoning() {
            rt.sleep(Duration::from_millis(100)).await;
        }
        let lost = volume.status().damaged_bytes;
        assert!(lost >= LOST.end - LOST.start, "{lost}");
        since(log, volume.clone()).await;
        volume.close().await.expect("what was written is durable");
    });
    scenario.after_cut(WriteFate::Drop)
}

fn salvage(scenario: &CacheTestbed) -> Result<LogSalvageReport, SalvageError> {
    let (log, data) = (Rc::clone(&scenario.log), Rc::clone(&scenario.data));
    let salvaged = async move { forebay_dcd::salvage(log, data, &identity(DATA_BYTES)).await };
    scenario.run(salvaged).expect("no cut")
}

fn check(scenario: &CacheTestbed) -> DcdCheckReport {
    let log: Rc<dyn Device> = Rc::clone(&scenario.log) as _;
    let checked = async move { forebay_dcd::check(log, None, &mut |_, _| {}).await };
    scenario.run(checked).expect("no cut").expect("a log")
}

fn superblocks(image: &[u8]) -> [RingSuperblock; 2] {
    [SUPERBLOCK_A_AT, SUPERBLOCK_B_AT]
        .map(|at| RingSuperblock::decode(&image[at as usize..at as usize + 4096]).unwrap())
}

#[test]
fn data_lost_with_a_log_is_salvaged_when_the_log_can_be_read_again() {
    let images = abandoned(|_, _| async {});
    let lost = LOST.end - LOST.start;
    assert!(!holds(&images.data, 2, LOST.start, lost));
    let scenario = images.scenario(2, None);
    let found = check(&scenario).salvage.expect("something was lost");
    assert!(found.found_bytes == found.lost_bytes && found.unreadable_bytes == 0);
    for superblock in superblocks(&images.log) {
        let lost = forebay_dcd::SuperblockPayload::decode(&superblock.layer)
            .unwrap()
            .lost;
        assert!(lost.len() <= 2, "neighbours are named as one: {lost:?}");
    }
    assert!(scenario.now().log == images.log, "checking changes nothing");
    let report = salvage(&scenario).expect("all is readable");
    assert_eq!(report, found);
    let after = scenario.after_cut(WriteFate::Drop);
    assert!(holds(&after.data, 2, LOST.start, lost));
    assert!(
        holds(&after.data, 3, 300 * LINE, LINE),
        "newer than the log"
    );
    // No data is named as lost any more, and the log still must not be attached.
    for superblock in superblocks(&after.log) {
        assert!(superblock.abandoned);
        let payload = forebay_dcd::SuperblockPayload::decode(&superblock.layer).unwrap();
        assert_eq!((payload.lost_sectors, payload.lost), (0, Vec::new()));
    }
    let again = after.scenario(3, None);
    assert!(
        again
            .attach(AttachOptions::default())
            .expect("no cut")
            .is_err()
    );
    assert_eq!(salvage(&again).unwrap(), LogSalvageReport::default());
}

#[test]
fn salvage_does_not_replace_data_written_after_the_loss() {
    // The log's device takes writes again, and 10 of the lost blocks are rewritten, directly on the data device.
    let images = abandoned(|log, volume| async move {
        log.fault.replace(None);
        write(&volume, 4, LOST.start + 8 * LINE, 10 * LINE).await;
        volume.flush().await.unwrap();
    });
    let scenario = images.scenario(2, None);
    let report = salvage(&scenario).expect("all is readable");
    assert_eq!(report.unreadable_bytes, 0);
    let home = scenario.after_cut(WriteFate::Drop).data;
    assert!(holds(&home, 2, LOST.start, 8 * LINE));
    assert!(
        holds(&home, 4, LOST.start + 8 * LINE, 10 * LINE),
        "replaced"
    );
    assert!(holds(&home, 2, LOST.start + 18 * LINE, 22 * LINE));
}

#[test]
fn unreadable_data_stays_listed_as_lost_and_can_be_salvaged_later() {
    let images = abandoned(|_, _| async {});
    let scenario = images.scenario(2, None);
    let all = check(&scenario).salvage.unwrap();
    // Within the second record: a block that holds data of some blocks of the volume.
    let bad = SEGMENTS_AT + (128 << 10) + 20 * LINE;
    scenario
        .log
        .fail(move |op, range| op == DeviceOp::Read && range.contains(&bad));
    let first = salvage(&scenario).expect("the rest is readable");
    assert_eq!(first.found_bytes, all.lost_bytes - LINE);
    assert_eq!(first.unreadable_bytes, LINE);
    scenario.log.fault.replace(None);
    let second = salvage(&scenario).expect("all is readable");
    assert_eq!((second.lost_bytes, second.found_bytes), (LINE, LINE));
    let home = scenario.after_cut(WriteFate::Drop).data;
    assert!(holds(&home, 2, LOST.start, LOST.end - LOST.start));
}

/// Otherwise the older copy of a sector would be treated as the newest.
#[test]
fn nothing_is_salvaged_while_records_of_the_log_are_missing() {
    let images = abandoned(|_, _| async {});
    let scenario = images.scenario(2, None);
    // Everything but the first segment.
    let rest = SEGMENTS_AT + (128 << 10);
    scenario
        .log
        .fail(move |op, range| op == DeviceOp::Read && range.end > rest);
    let error = salvage(&scenario).expect_err("the newest is behind that");
    assert!(
        matches!(error, SalvageError::Incomplete(_) | SalvageError::Device(_)),
        "{error}"
    );
    assert!(scenario.now().data == images.data, "nothing is changed");
}

#[test]
fn salvage_rejects_a_valid_log_and_another_data_device() {
    let fresh = DiskBytes::fresh(DATA_BYTES).scenario(1, None);
    assert!(matches!(salvage(&fresh), Err(SalvageError::NotAbandoned)));
    let images = abandoned(|_, _| async {});
    let scenario = images.scenario(2, None);
    let (log, data) = (Rc::clone(&scenario.log), Rc::clone(&scenario.data));
    let other = forebay_dcd::DataIdentity {
        names: vec!["serial-2".into()],
        ..identity(DATA_BYTES)
    };
    let salvaged = scenario.run(async move { forebay_dcd::salvage(log, data, &other).await });
    assert!(matches!(salvaged, Some(Err(SalvageError::OtherData(_)))));
    assert!(scenario.now().data == images.data && scenario.now().log == images.log);
}

/// The power may fail at any request of a salvage: no data is worse off than before, and the salvage can be repeated.
#[test]
fn a_power_cut_during_salvage_loses_nothing_and_the_log_stays_abandoned() {
    let images = abandoned(|_, _| async {});
    for cut in 0.. {
        let scenario = images.scenario(cut, Some(cut));
        let (log, data) = (Rc::clone(&scenario.log), Rc::clone(&scenario.data));
        let salvaged = scenario
            .run(async move { forebay_dcd::salvage(log, data, &identity(DATA_BYTES)).await });
        for coin in [WriteFate::Keep, WriteFate::Drop, WriteFate::Blocks(cut)] {
            let again = scenario.after_cut(coin).scenario(cut, None);
            assert!(
                again
                    .attach(AttachOptions::default())
                    .expect("no cut")
                    .is_err()
            );
            let report = salvage(&again).expect("all is readable");
            assert_eq!(report.unreadable_bytes, 0);
            let home = again.after_cut(WriteFate::Drop).data;
            assert!(
                holds(&home, 2, LOST.start, LOST.end - LOST.start),
                "cut {cut}"
            );
        }
        if salvaged.is_some() {
            break;
        }
    }
}
