//! A detached volume whose log is out of use gets another log. Both log devices are halves of one simulated disk.

use std::rc::Rc;
use std::time::Duration;

use forebay_dcd::{AttachOptions, DataIdentity, FailedLogRegistry, FormerLog, SuccessorError};
use forebay_device::{Device, DeviceOp, DeviceSlice};
use forebay_sim::disk::WriteFate;
use forebay_sim_targets::cache::testbed::{
    CacheTestbed, DiskBytes, MemoryLogRegistry, fresh_log, read_all,
};
use forebay_sim_targets::cache::volume::{LOG_BYTES, identity};
use forebay_units::ByteLen;

use crate::replacement::{DATA_BYTES, attaching, fresh, half, replace, with_volume};
use crate::stamped::{holds, write};

const LINE: u64 = 4096;
const SEGMENT: ByteLen = ByteLen::kib(128);

/// Gives the volume on `testbed` a log on the half that is not `number`, whose log is out of use. Returns `None` if the
/// power is cut.
pub(crate) fn succeed(
    testbed: &CacheTestbed,
    number: u64,
) -> Option<Result<Vec<String>, SuccessorError>> {
    let (_, log, data) = testbed.parts();
    let records = testbed.witness.borrow().clone();
    testbed.run(async move {
        let former = FormerLog::find(&*half(&log, number), records.as_deref()).await;
        let former = former
            .expect("a record that can be read")
            .expect("a log out of use");
        let new = half(&log, 1 - number);
        let identity = identity(DATA_BYTES);
        former
            .make_successor(&*new, SEGMENT, &*data, &identity)
            .await
    })
}

/// Returns true if the log on a half is out of use.
fn is_out_of_use(testbed: &CacheTestbed, number: u64) -> bool {
    let (_, log, _) = testbed.parts();
    let records = testbed.witness.borrow().clone();
    let found = testbed.run(async move {
        let found = FormerLog::find(&*half(&log, number), records.as_deref()).await;
        found.expect("a record that can be read").is_some()
    });
    found.expect("no cut")
}

fn content(testbed: &CacheTestbed, number: u64) -> Vec<u8> {
    let seen = with_volume(testbed, number, |_, volume, _, _| async move {
        read_all(&volume).await.expect("read")
    });
    seen.expect("no cut")
}

/// Returns the disks after a replacement that took the log out of use, and could not record the new log.
fn interrupted() -> DiskBytes {
    let testbed = fresh().scenario(1, None);
    with_volume(&testbed, 0, |_, volume, log, data| async move {
        write(&volume, 1, 0, 8 * LINE).await;
        let refused = replace(&volume, &log, &data, 1, || Err("the disk is full".into())).await;
        assert!(refused.is_err(), "{refused:?}");
        write(&volume, 2, 8 * LINE, 8 * LINE).await;
        volume.flush().await.expect("flush");
    });
    testbed.after_cut(WriteFate::Drop)
}

fn has_all(seen: &[u8]) -> bool {
    holds(seen, 1, 0, 8 * LINE) && holds(seen, 2, 8 * LINE, 8 * LINE)
}

#[test]
fn every_cut_while_another_log_is_made_keeps_the_volume_and_its_former_log() {
    let left = interrupted();
    let whole = left.scenario(2, None);
    succeed(&whole, 0).expect("no cut").expect("a new log");
    assert!(has_all(&content(&whole, 1)));
    let requests = whole.power.requests();
    for cut_at in 0..requests {
        let testbed = left.scenario(2, Some(cut_at));
        let _ = succeed(&testbed, 0);
        for fate in [WriteFate::Keep, WriteFate::Drop, WriteFate::Blocks(cut_at)] {
            let case = format!("cut at {cut_at}, {fate:?}");
            let again = testbed.after_cut(fate).scenario(3, None);
            assert!(is_out_of_use(&again, 0), "{case}");
            let repeated = succeed(&again, 0).expect("no cut");
            assert!(repeated.is_ok(), "{case}: {repeated:?}");
            assert!(has_all(&content(&again, 1)), "{case}");
        }
    }
}

#[test]
fn a_failed_log_that_only_a_record_names_is_followed_by_another() {
    let witness = Rc::new(MemoryLogRegistry::default());
    let testbed = fresh().scenario(1, None).witnessed(&witness);
    with_volume(&testbed, 0, |rt, volume, log, _| async move {
        write(&volume, 1, 0, 8 * LINE).await;
        log.fail(|op, range| op == DeviceOp::Write && range.start < LOG_BYTES);
        rt.sleep(Duration::from_secs(10)).await;
        write(&volume, 2, 8 * LINE, 8 * LINE).await;
        volume.flush().await.expect("flush");
    });
    let left = testbed.after_cut(WriteFate::Drop).scenario(2, None);
    assert!(!is_out_of_use(&left, 0), "the log itself is not marked");
    left.witness
        .replace(Some(witness as Rc<dyn FailedLogRegistry>));
    succeed(&left, 0).expect("no cut").expect("a new log");
    assert!(has_all(&content(&left, 1)));
    // Records of the former log do not concern the new one, and the former one stays out of use.
    let refused = left.run(attaching(&left, 0)).expect("no cut");
    assert!(refused.is_err() && is_out_of_use(&left, 0));
}

#[test]
fn a_log_in_use_and_a_device_without_a_log_are_not_former_logs() {
    let left = interrupted().scenario(2, None);
    assert!(!is_out_of_use(&left, 1), "the new log was formatted only");
    let blank = DiskBytes {
        log: vec![0; 2 * LOG_BYTES as usize],
        data: vec![0; DATA_BYTES as usize],
    };
    assert!(!is_out_of_use(&blank.scenario(1, None), 0));
}

#[test]
fn a_log_with_lost_data_is_not_followed_by_another() {
    let testbed = fresh().scenario(1, None);
    with_volume(&testbed, 0, |rt, volume, log, _| async move {
        write(&volume, 1, 0, 64 * LINE).await;
        volume.flush().await.expect("flush");
        write(&volume, 2, 64 * LINE, 100 * LINE).await;
        volume.flush().await.expect("flush");
        log.fail(|_, range| range.end > 1 << 20 && range.start < LOG_BYTES);
        write(&volume, 3, 0, LINE).await;
        rt.sleep(Duration::from_secs(5)).await;
        volume.abandon_unreadable();
        while volume.is_abandoning() {
            rt.sleep(Duration::from_millis(100)).await;
        }
        assert!(volume.status().damaged_bytes > 0);
        volume.close().await.expect("close");
    });
    let left = testbed.after_cut(WriteFate::Drop).scenario(2, None);
    let refused = succeed(&left, 0).expect("no cut");
    assert!(
        matches!(refused, Err(SuccessorError::Lost(_))),
        "{refused:?}"
    );
    assert!(!is_out_of_use(&left, 1) && left.run(attaching(&left, 1)).expect("no cut").is_err());
}

#[test]
fn unfit_devices_are_refused_before_the_new_log_is_written() {
    let left = interrupted();
    let refused = |log_bytes: u64, data: Vec<u8>, names: &[&str]| {
        let bytes = DiskBytes {
            data,
            ..left.clone()
        };
        let testbed = bytes.scenario(2, None);
        let (_, log, data) = testbed.parts();
        let other = DataIdentity {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            ..identity(data.geometry().len)
        };
        let refused = testbed.run(async move {
            let former = FormerLog::find(&*half(&log, 0), None).await;
            let former = former.expect("no record").expect("a log out of use");
            let new = DeviceSlice::new(log as Rc<dyn Device>, LOG_BYTES, log_bytes);
            let new = new.expect("whole blocks");
            former.make_successor(&new, SEGMENT, &*data, &other).await
        });
        assert_eq!(testbed.now().log, left.log, "nothing was written");
        refused.expect("no cut").expect_err("it is refused")
    };
    let short = refused(64 << 10, left.data.clone(), &[]);
    assert!(matches!(short, SuccessorError::Unfit(_)), "{short}");
    let shrunk = refused(
        LOG_BYTES,
        left.data[..DATA_BYTES as usize / 2].to_vec(),
        &[],
    );
    assert!(matches!(shrunk, SuccessorError::Data(_)), "{shrunk}");
    let mut longer = left.data.clone();
    longer.resize(2 * DATA_BYTES as usize, 0);
    let other = refused(LOG_BYTES, longer, &["wwn-of-another-disk"]);
    assert!(matches!(other, SuccessorError::OtherData { .. }), "{other}");
}

#[test]
fn a_data_device_that_grew_lengthens_the_volume_with_its_new_log() {
    let mut left = interrupted();
    left.data.resize(2 * DATA_BYTES as usize, 0);
    let testbed = left.scenario(2, None);
    let (rt, log, data) = testbed.parts();
    let notes = testbed.run(async move {
        let former = FormerLog::find(&*half(&log, 0), None).await;
        let former = former.expect("no record").expect("a log out of use");
        let new = half(&log, 1);
        let grown = identity(2 * DATA_BYTES);
        let notes = former.make_successor(&*new, SEGMENT, &*data, &grown).await;
        let attach = forebay_dcd::DcdVolume::attach(rt, new, data, grown, AttachOptions::default());
        let (volume, _) = attach.await.expect("attach");
        assert_eq!(volume.geometry().len, 2 * DATA_BYTES);
        notes.expect("a new log")
    });
    let notes = notes.expect("no cut");
    assert!(notes.iter().any(|note| note.contains("grew")), "{notes:?}");
}

#[test]
fn the_log_of_a_new_volume_is_in_use() {
    let data = vec![0; DATA_BYTES as usize];
    let mut log = fresh_log(LOG_BYTES, &data);
    log.resize(2 * LOG_BYTES as usize, 0);
    assert!(!is_out_of_use(
        &DiskBytes { log, data }.scenario(1, None),
        0
    ));
}
