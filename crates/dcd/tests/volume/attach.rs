//! Attaching: recovered volumes, rejected volumes with their reasons, and that a rejection changes neither device.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use forebay_dcd::{
    AttachOptions, AttachReport, CreateOptions, DcdAttachError, DcdCheckReport, DcdCreateError,
    DcdVolume, InspectError, LogDumpItem, VolumeId,
};
use forebay_device::{AckMode, BufMut, CheckVerdict, Device, DeviceOp, Durability, RamDevice};
use forebay_ring_log::{FormatError, LogOpenError, PairError, RingSuperblock};
use forebay_rt::VirtualTime;
use forebay_sim::disk::WriteFate;
use forebay_sim::stamp::stamp;
use forebay_sim_targets::cache::testbed::{CacheTestbed, DiskBytes, checked, read_all};
use forebay_sim_targets::cache::volume::{LOG_BYTES, fresh, identity};
use forebay_units::ByteLen;

use crate::stamped::{holds, write};

const DATA_BYTES: u64 = 1 << 20;
const LINE: u64 = 4096;
const B_AT: usize = 512 << 10;

/// Returns a volume with data in its log that was not destaged.
fn dirty() -> DiskBytes {
    let scenario = DiskBytes::fresh(DATA_BYTES).scenario(1, None);
    scenario.with_volume(AttachOptions::default(), |volume| async move {
        write(&volume, 1, 64 * LINE, 3 * LINE).await;
        volume.close().await.expect("close");
    });
    scenario.after_cut(WriteFate::Drop)
}

/// Returns a volume that was used and drained.
fn clean() -> DiskBytes {
    let scenario = DiskBytes::fresh(DATA_BYTES).scenario(1, None);
    scenario.with_volume(AttachOptions::default(), |volume| async move {
        write(&volume, 1, 64 * LINE, 3 * LINE).await;
        volume.drain().await.expect("drain");
        volume.close().await.expect("close");
    });
    scenario.after_cut(WriteFate::Drop)
}

fn attach(images: &DiskBytes, options: AttachOptions) -> Result<AttachReport, DcdAttachError> {
    let scenario = images.scenario(2, None);
    let attached = scenario.attach(options).expect("no cut");
    attached.map(|(_, report)| report)
}

/// Returns the error of a rejected attach, and asserts that the attach changed neither device.
fn refused(images: &DiskBytes) -> DcdAttachError {
    let scenario = images.scenario(2, None);
    let attached = scenario.attach(AttachOptions::default()).expect("no cut");
    let now = scenario.now();
    assert!(now.log == images.log && now.data == images.data, "changed");
    let written = scenario.log.writes.borrow().len() + scenario.data.writes.borrow().len();
    assert_eq!(written, 0, "asked for changes");
    attached.err().expect("refused")
}

fn accepting() -> AttachOptions {
    AttachOptions {
        accept_changed: true,
        ..AttachOptions::default()
    }
}

fn check(images: &DiskBytes, with_data: bool) -> Result<DcdCheckReport, InspectError> {
    let scenario = images.scenario(3, None);
    let (log, data) = (Rc::clone(&scenario.log), Rc::clone(&scenario.data));
    let told = Rc::new(Cell::new((0, 0)));
    let progress = Rc::clone(&told);
    let report = scenario.run(async move {
        let identity = identity(data.geometry().len);
        let data: Rc<dyn Device> = data;
        let pair = with_data.then_some((data, identity));
        forebay_dcd::check(log, pair, &mut |done, total| progress.set((done, total))).await
    });
    let now = scenario.now();
    assert!(
        now.log == images.log && now.data == images.data,
        "a check changed something"
    );
    assert_eq!(scenario.power.requests(), 0);
    let report = report.expect("no cut")?;
    assert_eq!(told.get().0, report.bytes_checked);
    Ok(report)
}

/// Changes a superblock's copy and corrects its checksum.
fn edit(log: &mut [u8], at: usize, change: impl FnOnce(&mut RingSuperblock)) {
    let mut superblock = RingSuperblock::decode(&log[at..at + 4096]).expect("a superblock");
    change(&mut superblock);
    log[at..at + 4096].copy_from_slice(&superblock.encode());
}

#[test]
fn a_data_device_that_shrank_or_has_larger_blocks_is_rejected() {
    for (images, remedy) in [
        (dirty(), "Restore the device's length"),
        (clean(), "forebay remove"),
    ] {
        let mut data = images.data.clone();
        data.truncate(DATA_BYTES as usize - 4096);
        let other = DiskBytes {
            data,
            ..images.clone()
        };
        let error = refused(&other);
        assert!(matches!(&error, DcdAttachError::Shrunk { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("(data)") && text.contains(remedy), "{text}");
        let accepted = attach(&other, accepting());
        assert!(matches!(accepted, Err(DcdAttachError::Shrunk { .. })));
    }
    let images = dirty();
    let scenario = images.scenario(2, None);
    let (rt, log) = (scenario.rt.clone(), Rc::clone(&scenario.log));
    let data = Rc::new(RamDevice::new(DATA_BYTES, 4096));
    let attach = DcdVolume::attach(
        rt,
        log,
        data,
        identity(DATA_BYTES),
        AttachOptions::default(),
    );
    let error = scenario
        .run(attach)
        .expect("no cut")
        .err()
        .expect("refused");
    assert!(matches!(
        error,
        DcdAttachError::OtherBlockSize {
            have: 4096,
            want: 512
        }
    ));
}

/// Found by review: a volume created on one kind of device was rejected on the other for good, with all data in its
/// log.
#[test]
fn a_volume_keeps_its_block_size_on_a_device_with_smaller_blocks() {
    let clock = || Rc::new(VirtualTime::new());
    let scenario = CacheTestbed::new(1, None, &fresh(DATA_BYTES, 4096), 4096, clock());
    scenario.with_volume(AttachOptions::default(), |volume| async move {
        write(&volume, 1, 64 * LINE, 3 * LINE).await;
        volume.close().await.expect("close");
    });
    let scenario = CacheTestbed::new(2, None, &scenario.cut(WriteFate::Drop), 512, clock());
    assert_eq!(scenario.data.geometry().block_size, 512);
    let (geometry, seen) = scenario
        .with_volume(AttachOptions::default(), |volume| async move {
            write(&volume, 2, 80 * LINE, LINE).await;
            volume.drain().await.expect("drain");
            let seen = read_all(&checked(&volume)).await.expect("read");
            volume.close().await.expect("close");
            (volume.geometry(), seen)
        })
        .expect("no cut");
    assert_eq!(geometry.block_size, 4096);
    for (id, line, lines) in [(1, 64, 3), (2, 80, 1)] {
        let (at, len) = (line * LINE, lines * LINE);
        assert!(seen[at as usize..][..len as usize] == stamp(id, at, len)[..]);
    }
    assert!(scenario.data.now() == seen);
}

/// Found by review: a volume that never wrote to the data device itself did not flush the device. So earlier writes
/// stayed in a cache of the disk or of the system.
#[test]
fn the_first_flush_covers_writes_to_the_data_device_before_the_attach() {
    let scenario = DiskBytes::fresh(DATA_BYTES).scenario(1, None);
    let before = stamp(5, 40 * LINE, LINE);
    let (data, buf) = (Rc::clone(&scenario.data), BufMut::copy_of(&before).freeze());
    scenario.run(async move { data.write(40 * LINE, buf, Durability::Flush).await });
    let data = Rc::clone(&scenario.data);
    scenario.with_volume(AttachOptions::default(), |volume| async move {
        assert_eq!(data.requests_of(DeviceOp::Flush), 1);
        write(&volume, 1, 64 * LINE, LINE).await;
        volume.flush().await.expect("flush");
        volume.flush().await.expect("flush");
        assert_eq!(
            data.requests_of(DeviceOp::Flush),
            1,
            "nothing went there since"
        );
    });
    let after = scenario.after_cut(WriteFate::Drop).data;
    assert!(after[40 * LINE as usize..][..LINE as usize] == before[..]);
}

#[test]
fn a_data_device_changed_at_either_end_while_dirty_is_rejected_unless_accepted() {
    let images = dirty();
    let last = DATA_BYTES as usize - 1;
    for at in [0, 1030, (128 << 10) - 1, last - (64 << 10) + 1, last] {
        let mut changed = images.clone();
        changed.data[at] ^= 0x40;
        let error = refused(&changed);
        assert!(matches!(error, DcdAttachError::Changed { at: block } if block <= at as u64));
        assert!(error.to_string().contains("--accept-changed"), "{error}");
        let report = attach(&changed, accepting()).expect("accepted");
        assert!(
            report
                .notes
                .iter()
                .any(|note| note.contains("as requested")),
            "{:?}",
            report.notes
        );
        let found = check(&changed, true).expect("a log");
        assert_eq!(found.verdict, CheckVerdict::Damaged);
        assert_eq!(
            check(&changed, false).expect("a log").verdict,
            CheckVerdict::Dirty
        );
        // Once the change is accepted, the log records the new content.
        let scenario = changed.scenario(2, None);
        scenario.with_volume(accepting(), |volume| async move {
            volume.close().await.unwrap();
        });
        attach(
            &scenario.after_cut(WriteFate::Drop),
            AttachOptions::default(),
        )
        .expect("known now");
    }
}

#[test]
fn a_change_of_the_data_device_of_a_clean_volume_is_reported() {
    let mut images = clean();
    images.data[0] ^= 1;
    let report = attach(&images, AttachOptions::default()).expect("attach");
    assert!(report.was_clean);
    assert!(
        report
            .notes
            .iter()
            .any(|note| note.contains("without its cache")),
        "{:?}",
        report.notes
    );
}

#[test]
fn an_attach_with_other_names_of_the_data_device_is_reported() {
    let scenario = clean().scenario(2, None);
    let (rt, log, data) = scenario.parts();
    let mut other = identity(DATA_BYTES);
    other.names = vec!["serial-2".into()];
    let attach = DcdVolume::attach(rt, log, data, other, AttachOptions::default());
    let (_, report) = scenario.run(attach).expect("no cut").expect("attach");
    assert!(
        report.notes.iter().any(|note| note.contains("serial-1")),
        "{:?}",
        report.notes
    );
}

#[test]
fn a_single_corrupt_superblock_is_repaired_and_two_are_rejected() {
    let images = dirty();
    for (at, name) in [(0, "copy A"), (B_AT, "copy B")] {
        for garbage in [0u8, 0x5a] {
            let mut broken = images.clone();
            broken.log[at..at + 4096].fill(garbage);
            assert_eq!(
                check(&broken, true).expect("a log").verdict,
                CheckVerdict::Damaged
            );
            let scenario = broken.scenario(2, None);
            let (volume, report) = scenario
                .attach(AttachOptions::default())
                .expect("no cut")
                .expect("attach");
            assert!(
                report.notes.iter().any(|note| note.contains(name)),
                "{:?}",
                report.notes
            );
            let seen = scenario.run(async move {
                let seen = read_all(&checked(&volume)).await.expect("read");
                volume.close().await.expect("close");
                seen
            });
            let at = 64 * LINE as usize;
            let len = 3 * LINE as usize;
            assert!(seen.unwrap()[at..at + len] == stamp(1, 64 * LINE, 3 * LINE)[..]);
            assert!(
                check(&scenario.now(), true)
                    .expect("a log")
                    .problems
                    .is_empty(),
                "repaired"
            );
        }
    }
    let mut broken = images;
    broken.log[100] ^= 1;
    broken.log[B_AT..B_AT + 4096].fill(0);
    let error = refused(&broken);
    let DcdAttachError::Log(LogOpenError::Superblocks(PairError::NoSuperblock { a, b })) = &error
    else {
        panic!("{error}")
    };
    assert_eq!(*a, FormatError::Checksum("superblock"));
    assert_eq!(*b, FormatError::Magic("superblock"));
}

#[test]
fn an_abandoned_log_is_rejected_with_its_losses_in_the_error() {
    let mut images = dirty();
    for at in [0, B_AT] {
        edit(&mut images.log, at, |superblock| {
            superblock.abandoned = true;
        });
    }
    let error = refused(&images);
    assert!(matches!(error, DcdAttachError::Abandoned { .. }));
    assert!(
        error
            .to_string()
            .contains("the data device alone is the volume")
    );
    let found = check(&images, true).expect("a log");
    assert_eq!(found.verdict, CheckVerdict::Abandoned);
    assert!(found.info.abandoned && found.dirty_bytes == 0 && found.problems.is_empty());
}

#[test]
fn a_truncated_log_another_version_and_superblocks_of_two_volumes_are_rejected() {
    let images = dirty();
    for len in [LOG_BYTES - 4096, 1 << 20, 256 << 10, 4096] {
        let log = images.log[..len as usize].to_vec();
        let error = refused(&DiskBytes {
            log,
            ..images.clone()
        });
        assert!(
            matches!(error, DcdAttachError::Log(LogOpenError::Truncated { .. })),
            "{len}: {error}"
        );
    }
    let mut other = images.clone();
    for block in [0, B_AT] {
        // As another version would write it: with a checksum of its own.
        let block = &mut other.log[block..block + 4096];
        block[8] = 9;
        block[12..16].fill(0);
        let crc = crc32c::crc32c(block);
        block[12..16].copy_from_slice(&crc.to_le_bytes());
    }
    let error = refused(&other);
    assert!(error.to_string().contains("version 9"), "{error}");
    let mut two = images;
    edit(&mut two.log, B_AT, |superblock| {
        superblock.volume = VolumeId([9; 16]);
    });
    let error = refused(&two);
    assert!(
        matches!(
            error,
            DcdAttachError::Log(LogOpenError::Superblocks(PairError::TwoVolumes { .. }))
        ),
        "{error}"
    );
}

#[test]
fn a_log_of_another_layer_is_rejected() {
    let mut images = dirty();
    for at in [0, B_AT] {
        edit(&mut images.log, at, |superblock| {
            superblock.layer = vec![1, 2, 3];
        });
    }
    assert!(matches!(refused(&images), DcdAttachError::NotOurs));
    assert!(matches!(check(&images, true), Err(InspectError::NotOurs)));
}

#[test]
fn a_missing_flushed_record_is_rejected_unless_the_loss_is_accepted() {
    let scenario = DiskBytes::fresh(DATA_BYTES).scenario(1, None);
    let rt = scenario.rt.clone();
    scenario.with_volume(AttachOptions::default(), |volume| async move {
        for n in 0..3 {
            write(&volume, n + 1, (64 + n) * LINE, LINE).await;
            volume.flush().await.unwrap();
        }
        rt.sleep(Duration::from_millis(500)).await;
    });
    let mut images = scenario.after_cut(WriteFate::Drop);
    let second = (1 << 20) + 2 * 4096;
    assert!(images.log[second..].starts_with(b"FOREREC\x01"));
    images.log[second + 40] ^= 4;
    let error = refused(&images);
    assert!(
        error.to_string().contains("was flushed") || error.to_string().contains("were"),
        "{error}"
    );
    assert_eq!(
        check(&images, true).expect("a log").verdict,
        CheckVerdict::Damaged
    );
    let options = AttachOptions {
        accept_loss: true,
        ..AttachOptions::default()
    };
    let scenario = images.scenario(2, None);
    let (volume, report) = scenario.attach(options).expect("no cut").expect("accepted");
    assert!(
        report
            .notes
            .iter()
            .any(|note| note.contains("as requested")),
        "{:?}",
        report.notes
    );
    let seen = scenario
        .run(async move { read_all(&checked(&volume)).await.unwrap() })
        .unwrap();
    let line = |n: u64| &seen[((64 + n) * LINE) as usize..][..LINE as usize];
    assert!(line(0) == stamp(1, 64 * LINE, LINE), "before the loss");
    assert!(line(2) == stamp(u64::MAX, 66 * LINE, LINE), "after it");
}

#[test]
fn check_and_dump_report_the_state_and_the_damage_of_a_log() {
    let fresh = check(&DiskBytes::fresh(DATA_BYTES), true).expect("a log");
    assert_eq!((fresh.verdict, fresh.records), (CheckVerdict::Clean, 0));
    let found = check(&clean(), true).expect("a log");
    assert_eq!(
        (found.verdict, found.dirty_bytes, found.info.clean),
        (CheckVerdict::Clean, 0, true)
    );
    let images = dirty();
    let found = check(&images, true).expect("a log");
    assert_eq!(
        (found.verdict, found.dirty_bytes),
        (CheckVerdict::Dirty, 3 * LINE)
    );
    assert_eq!((found.bytes_checked, found.problems.len()), (3 * LINE, 0));
    let mut rotten = images.clone();
    rotten.log[(1 << 20) + 4096 + 5000] ^= 1;
    let found = check(&rotten, true).expect("a log");
    assert_eq!(found.verdict, CheckVerdict::Damaged);
    assert_eq!(found.damaged_ranges, [(65 * LINE, LINE)]);

    let scenario = images.scenario(3, None);
    let log = Rc::clone(&scenario.log);
    let items = scenario.run(async move {
        let mut items = Vec::new();
        forebay_dcd::dump(log, &mut |item| items.push(item))
            .await
            .expect("dump");
        items
    });
    let items = items.unwrap();
    assert!(scenario.log.now() == images.log, "a dump changed something");
    let [
        LogDumpItem::Superblock { copy: "A", .. },
        LogDumpItem::Superblock { copy: "B", .. },
        rest @ ..,
    ] = &items[..]
    else {
        panic!("{items:?}")
    };
    let [
        LogDumpItem::Record { extents, .. },
        LogDumpItem::End { damage: None, .. },
    ] = rest
    else {
        panic!("{rest:?}")
    };
    assert_eq!(extents.len(), 3);
    assert!(
        extents
            .iter()
            .all(|extent| extent.what == "data" && extent.len == LINE)
    );
}

#[test]
fn creation_on_an_unsuitable_device_is_rejected() {
    let create = |log: RamDevice, segment| {
        let scenario = CacheTestbed::with_images(1, None, &[0; 4096], &[0; 4096]);
        let data = Rc::clone(&scenario.data);
        let options = CreateOptions {
            name: "test".into(),
            volume: VolumeId([1; 16]),
            segment,
            data: identity(4096),
        };
        let made = async move { forebay_dcd::create(Rc::new(log), data, options).await };
        scenario
            .run(made)
            .expect("no cut")
            .map(|info| info.segment_count)
    };
    let ram = |len| RamDevice::new(len, 512);
    let error = create(ram(LOG_BYTES - 512), ByteLen::kib(128)).expect_err("too small");
    assert!(matches!(error, DcdCreateError::Ring(_)) && error.to_string().contains("--segment"));
    assert!(
        create(ram(LOG_BYTES), ByteLen::kib(100)).is_err(),
        "no power of two"
    );
    assert!(
        create(ram(LOG_BYTES), ByteLen::kib(64)).is_err(),
        "too short a segment"
    );
    assert_eq!(create(ram(LOG_BYTES), ByteLen::kib(128)).expect("made"), 32);
}

/// Found by the simulator (seed 120), which kills a process and cuts the power in the next attach.
#[test]
fn a_data_device_that_loses_the_writes_of_a_killed_process_is_recognised() {
    let images = DiskBytes::fresh(DATA_BYTES);
    let scenario = images.scenario(1, None);
    let (rt, home) = (scenario.rt.clone(), Rc::clone(&scenario.data));
    scenario.with_volume(AttachOptions::default(), move |volume| async move {
        // Data reaches the data device, but is never flushed there.
        home.fail(|op, _| op == DeviceOp::Flush);
        write(&volume, 1, 0, LINE).await;
        checked(&volume).flush().await.expect("in the log");
        let drained = rt.timeout(Duration::from_secs(5), volume.drain()).await;
        assert!(drained.is_err(), "{drained:?}");
    });
    let (log, data) = (
        scenario.log.running(WriteFate::Keep),
        scenario.data.running(WriteFate::Keep),
    );
    assert_eq!(data.current.bytes(0..LINE), stamp(1, 0, LINE));
    let next = images.scenario(2, None);
    next.log.resume(log);
    next.data.resume(data);
    let attached = next.attach(AttachOptions::default()).expect("no cut");
    assert!(attached.is_ok());
    let left = next.after_cut(WriteFate::Drop);
    let last = left.scenario(3, None);
    let attached = last.attach(AttachOptions::default()).expect("no cut");
    assert!(attached.is_ok(), "{:?}", attached.err());
}

/// The process dies and the disks go on, but requests under way do not reach them.
#[test]
fn acknowledged_writes_survive_the_process_only_with_acknowledgement_at_handover() {
    for (acknowledge, kept) in [(AckMode::Device, true), (AckMode::Memory, false)] {
        let options = AttachOptions {
            acknowledge,
            ..AttachOptions::default()
        };
        let images = DiskBytes::fresh(DATA_BYTES);
        let scenario = images.scenario(1, None);
        let disks = scenario
            .with_volume(options, {
                let (log, data) = (Rc::clone(&scenario.log), Rc::clone(&scenario.data));
                move |volume| async move {
                    let flushes = log.flushes.get();
                    write(&volume, 1, 64 * LINE, 3 * LINE).await;
                    volume
                        .discard(80 * LINE..81 * LINE)
                        .await
                        .expect("takes it");
                    write(&volume, 2, 65 * LINE, LINE).await;
                    assert_eq!(log.flushes.get(), flushes, "nothing was made durable");
                    (log.running(WriteFate::Drop), data.running(WriteFate::Drop))
                }
            })
            .expect("no cut");
        let next = images.scenario(2, None);
        next.log.resume(disks.0);
        next.data.resume(disks.1);
        let seen = next.with_volume(options, |volume| async move {
            read_all(&checked(&volume)).await.expect("reads")
        });
        let seen = seen.expect("no cut");
        let written = [(1, 64), (2, 65), (1, 66)];
        let holds = |(id, line): (u64, u64)| holds(&seen, id, line * LINE, LINE);
        assert_eq!(written.into_iter().all(holds), kept, "{acknowledge}");
    }
}
