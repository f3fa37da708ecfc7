//! Data devices that became longer.
//!
//! Found by review: an extended data device (`lvextend`) could not be attached any more, not even with an empty log.
//! With a log that was not empty, following the advice in the error message destroyed its data.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use forebay_dcd::{
    AttachOptions, CreateOptions, DataIdentity, DcdAttachError, DcdCreateError, DcdVolume,
    ResizeError, VolumeId,
};
use forebay_device::{CheckVerdict, Device, RamDevice, Tap, TapHooks};
use forebay_ring_log::read_superblocks;
use forebay_sim::disk::WriteFate;
use forebay_sim::stamp::stamp;
use forebay_sim_targets::cache::testbed::{CacheTestbed, DiskBytes, checked, read_all};
use forebay_sim_targets::cache::volume::identity;
use forebay_units::ByteLen;

use crate::stamped::{holds, write};

const BEFORE: u64 = 1 << 20;
const AFTER: u64 = 3 << 20;
const LINE: u64 = 4096;

/// Returns a volume that was used, drained or not, with a data device that is longer now.
fn grown(drained: bool, len: u64) -> DiskBytes {
    let scenario = DiskBytes::fresh(BEFORE).scenario(1, None);
    scenario.with_volume(AttachOptions::default(), move |volume| async move {
        write(&volume, 1, 0, 3 * LINE).await;
        write(&volume, 2, BEFORE - LINE, LINE).await;
        if drained {
            volume.drain().await.expect("drain");
        }
        volume.close().await.expect("close");
    });
    let mut images = scenario.after_cut(WriteFate::Drop);
    images.data.resize(len as usize, 0xee);
    images
}

/// Returns the length recorded in the log.
fn recorded(images: &DiskBytes) -> u64 {
    let scenario = images.scenario(5, None);
    let log = Rc::clone(&scenario.log);
    let info = scenario.run(async move { forebay_dcd::inspect(log).await });
    info.expect("no cut").expect("a log").data.len
}

/// Returns true if `content` has all data written before the device grew, and the device's own content behind it.
fn holds_all(content: &[u8]) -> bool {
    let new = &content[BEFORE as usize..];
    holds(content, 1, 0, 3 * LINE)
        && holds(content, 2, BEFORE - LINE, LINE)
        && (content.len() as u64 == AFTER)
        && new.iter().all(|byte| *byte == 0xee)
}

#[test]
fn the_next_attach_gives_the_volume_the_length_of_its_data_device() {
    for drained in [true, false] {
        let scenario = grown(drained, AFTER).scenario(2, None);
        let content = scenario.with_volume(AttachOptions::default(), |volume| async move {
            assert_eq!(volume.geometry().len, AFTER);
            let content = read_all(&checked(&volume)).await.expect("read");
            write(&volume, 3, AFTER - 2 * LINE, 2 * LINE).await;
            volume.close().await.expect("close");
            content
        });
        assert!(holds_all(&content.expect("no cut")), "drained: {drained}");
        // Data written behind the old end is recovered and destaged like other data.
        let images = scenario.after_cut(WriteFate::Drop);
        assert_eq!(recorded(&images), AFTER);
        let scenario = images.scenario(3, None);
        scenario.with_volume(AttachOptions::default(), |volume| async move {
            volume.drain().await.expect("drain");
            volume.close().await.expect("close");
        });
        assert!(holds(&scenario.data.now(), 3, AFTER - 2 * LINE, 2 * LINE));
    }
}

#[test]
fn an_attach_reports_that_the_device_grew_and_check_reports_no_problem() {
    for (drained, verdict) in [(true, CheckVerdict::Clean), (false, CheckVerdict::Dirty)] {
        let images = grown(drained, AFTER);
        let scenario = images.scenario(2, None);
        let (log, data) = (Rc::clone(&scenario.log), Rc::clone(&scenario.data));
        let report = scenario.run(async move {
            let data: Rc<dyn Device> = data;
            let pair = Some((data, identity(AFTER)));
            forebay_dcd::check(log, pair, &mut |_, _| {}).await
        });
        let report = report.expect("no cut").expect("a log");
        assert_eq!((report.verdict, report.problems.len()), (verdict, 0));
        assert_eq!(report.grown_bytes, AFTER - BEFORE);
        let attached = scenario.attach(AttachOptions::default()).expect("no cut");
        let notes = attached.expect("attach").1.notes;
        assert!(notes[0].contains("3MiB instead of 1MiB"), "{notes:?}");
    }
}

/// The length is in the superblock of the new epoch, which has two copies.
#[test]
fn a_power_cut_anywhere_in_the_attach_leaves_the_old_or_the_new_length() {
    for drained in [true, false] {
        let images = grown(drained, AFTER);
        let (mut lengths, mut n) = ([0, 0], 0);
        loop {
            let scenario = images.scenario(n, Some(n));
            let attached = scenario.attach(AttachOptions::default());
            for coin in [WriteFate::Drop, WriteFate::Keep, WriteFate::Blocks(n)] {
                let left = scenario.after_cut(coin);
                match recorded(&left) {
                    BEFORE => lengths[0] += 1,
                    AFTER => lengths[1] += 1,
                    other => panic!("a length of {other} after a cut at request {n}"),
                }
                let again = left.scenario(n + 1000, None);
                let content = again.with_volume(AttachOptions::default(), |volume| async move {
                    read_all(&checked(&volume)).await.expect("read")
                });
                assert!(holds_all(&content.expect("no cut")), "a cut at {n}");
            }
            if attached.is_some() {
                break;
            }
            n += 1;
        }
        assert!(
            n > 3 && lengths[0] > 0 && lengths[1] > 0,
            "{n}: {lengths:?}"
        );
    }
}

/// The content of a device's end shows whether the device was changed. If the device grew, this is its old end.
#[test]
fn a_device_that_grew_and_was_changed_is_rejected_while_its_log_holds_data() {
    for at in [4096, BEFORE - 8192] {
        let mut images = grown(false, AFTER);
        images.data[at as usize] ^= 1;
        let attached = images.scenario(2, None).attach(AttachOptions::default());
        let error = attached.expect("no cut").err().expect("refused");
        assert!(matches!(error, DcdAttachError::Changed { .. }), "{error}");
    }
}

/// Two blank devices have equal ends, and the lengths are no evidence if one device may have grown.
#[test]
fn a_longer_device_of_another_name_is_rejected_while_the_log_holds_data() {
    let attach = |drained: bool, accept_changed| {
        let scenario = grown(drained, AFTER).scenario(2, None);
        let (rt, log, data) = scenario.parts();
        let other = DataIdentity {
            names: vec!["serial-2".into()],
            ..identity(AFTER)
        };
        let options = AttachOptions {
            accept_changed,
            ..AttachOptions::default()
        };
        let attached = DcdVolume::attach(rt, log, data, other, options);
        scenario
            .run(attached)
            .expect("no cut")
            .map(|(_, report)| report)
    };
    let error = attach(false, false).expect_err("refused");
    assert!(matches!(error, DcdAttachError::LongerAndOther { .. }));
    let text = error.to_string();
    assert!(text.contains("serial-1") && text.contains("--accept-changed"));
    assert!(attach(false, true).is_ok());
    let notes = attach(true, false).expect("attached").notes;
    assert!(notes.iter().any(|note| note.contains("serial-1")));
}

/// Found by review: after disks had changed their names, a volume with an empty log accepted a longer disk as its own.
#[test]
fn a_longer_device_of_another_name_and_content_is_rejected_even_with_an_empty_log() {
    let attach = |accept_changed| {
        let mut images = grown(true, AFTER);
        images.data[4096] ^= 1;
        let scenario = images.scenario(2, None);
        let (rt, log, data) = scenario.parts();
        let other = DataIdentity {
            names: vec!["serial-2".into()],
            ..identity(AFTER)
        };
        let options = AttachOptions {
            accept_changed,
            ..AttachOptions::default()
        };
        let attached = DcdVolume::attach(rt, log, data, other, options);
        scenario.run(attached).expect("no cut").map(drop)
    };
    let error = attach(false).expect_err("refused");
    assert!(
        matches!(error, DcdAttachError::LongerAndOther { .. }),
        "{error}"
    );
    attach(true).expect("as told");
}

#[test]
fn a_volume_grows_in_whole_blocks() {
    let clean = grown(true, AFTER + 512);
    let clock = Rc::new(forebay_rt::VirtualTime::new());
    let medium = forebay_sim_targets::cache::volume::fresh(BEFORE, 4096);
    let made = CacheTestbed::new(1, None, &medium, 4096, clock);
    let log = made.log.now();
    let scenario = CacheTestbed::with_images(2, None, &log, &clean.data);
    let attached = scenario.with_volume(AttachOptions::default(), |volume| async move {
        (volume.geometry().block_size, volume.geometry().len)
    });
    assert_eq!(attached, Some((4096, AFTER)));
    let log = Rc::clone(&scenario.log);
    let copies = scenario.run(async move { read_superblocks(&*log).await });
    assert!(copies.expect("no cut").expect("read").newest().is_ok());
}

/// Writes to a volume while its data device grows twice; the power fails at request `cut_at`. Returns the acknowledged
/// and flushed writes behind the old ends, whether the run ended, and the scenario with its disks.
fn grows_in_use(seed: u64, cut_at: Option<u64>) -> (Vec<u64>, bool, CacheTestbed) {
    let scenario = DiskBytes::fresh(BEFORE).scenario(seed, cut_at);
    let done = Rc::new(RefCell::new(Vec::new()));
    let (kept, data) = (Rc::clone(&done), Rc::clone(&scenario.data));
    let options = AttachOptions {
        bypass: Some(ByteLen::kib(64)),
        ..AttachOptions::default()
    };
    let ended = scenario.with_volume(options, move |volume| async move {
        write(&volume, 1, 0, 3 * LINE).await;
        write(&volume, 2, BEFORE - LINE, LINE).await;
        // The second step is shorter than the fingerprinted end of a device.
        for (n, len) in [AFTER - (32 << 10), AFTER].into_iter().enumerate() {
            data.grow(len);
            assert!(volume.geometry().len < len, "not before it is told to");
            let before = volume.geometry().len;
            let resized = volume.resize().await.expect("resized");
            assert_eq!((resized.before, resized.len), (before, len));
            let id = 10 + n as u64;
            write(&volume, id, len - LINE, LINE).await;
            checked(&volume).flush().await.expect("flush");
            kept.borrow_mut().push(id);
            if n == 0 {
                volume.drain().await.expect("drain");
            }
        }
        // This write bypasses the log.
        write(&volume, 20, 2 << 20, 128 << 10).await;
        volume.close().await.expect("close");
    });
    let done = done.borrow().clone();
    (done, ended.is_some(), scenario)
}

#[test]
fn a_resize_gives_an_attached_volume_the_length_of_its_data_device() {
    let (done, ended, scenario) = grows_in_use(1, None);
    assert!(ended && done == [10, 11]);
    let images = scenario.after_cut(WriteFate::Drop);
    assert_eq!(recorded(&images), AFTER);
    let scenario = images.scenario(2, None);
    let content = scenario.with_volume(AttachOptions::default(), |volume| async move {
        read_all(&checked(&volume)).await.expect("read")
    });
    let content = content.expect("no cut");
    assert!(holds(&content, 1, 0, 3 * LINE) && holds(&content, 2, BEFORE - LINE, LINE));
    assert!(holds(&content, 10, AFTER - (32 << 10) - LINE, LINE));
    assert!(holds(&content, 11, AFTER - LINE, LINE) && holds(&content, 20, 2 << 20, 128 << 10));
}

/// One seed is one scenario: the moment of the power cut, and the blocks that are on the disk then.
#[test]
fn a_power_cut_anywhere_in_a_resize_loses_no_flushed_data() {
    let mut n = 0;
    loop {
        let (done, ended, scenario) = grows_in_use(n, Some(n));
        for coin in [WriteFate::Drop, WriteFate::Keep, WriteFate::Blocks(n)] {
            let images = scenario.after_cut(coin);
            let len = images.data.len() as u64;
            assert!(recorded(&images) <= len);
            let again = images.scenario(n + 1000, None);
            let (log, data) = (Rc::clone(&again.log), Rc::clone(&again.data));
            let report = again.run(async move {
                let data: Rc<dyn Device> = data;
                let pair = Some((data, identity(len)));
                forebay_dcd::check(log, pair, &mut |_, _| {}).await
            });
            let problems = report.expect("no cut").expect("a log").problems;
            assert!(problems.is_empty(), "a cut at {n}: {problems:?}");
            let content = again.with_volume(AttachOptions::default(), |volume| async move {
                read_all(&checked(&volume)).await.expect("read")
            });
            let content = content.expect("no cut");
            for id in &done {
                let end = AFTER - if *id == 10 { 32 << 10 } else { 0 };
                assert!(holds(&content, *id, end - LINE, LINE), "{id}, a cut at {n}");
            }
        }
        if ended {
            break;
        }
        n += 1;
    }
    assert!(n > 20, "{n}");
}

#[test]
fn a_resize_to_a_shorter_data_device_fails_and_the_volume_keeps_its_length() {
    let scenario = DiskBytes::fresh(BEFORE).scenario(1, None);
    let (rt, log, data) = scenario.parts();
    let shorter = Rc::new(Tap::new(data as Rc<dyn Device>, ShrinkHooks::default()));
    let attached = Rc::clone(&shorter);
    scenario.run(async move {
        let options = AttachOptions::default();
        let (volume, _) = DcdVolume::attach(rt, log, attached, identity(BEFORE), options)
            .await
            .expect("attach");
        shorter.shrunk.set(true);
        let error = volume.resize().await.expect_err("refused");
        assert!(matches!(error, ResizeError::Shrunk { .. }), "{error}");
        assert_eq!(volume.geometry().len, BEFORE);
        write(&volume, 3, 0, LINE).await;
    });
}

/// Reports a length shorter than before.
#[derive(Default)]
struct ShrinkHooks {
    shrunk: Cell<bool>,
}

impl TapHooks for ShrinkHooks {
    fn refreshed(&self, len: u64) -> u64 {
        len - if self.shrunk.get() { LINE } else { 0 }
    }
}

/// Found by review: the message said "up to 4PiB", and a device of 4 PiB was rejected.
#[test]
fn a_device_of_4_pib_is_cached_to_its_last_block_and_a_log_for_a_longer_device_is_rejected() {
    const MOST: u64 = 4 << 50;
    let made = |len| {
        let scenario = DiskBytes::fresh(BEFORE).scenario(1, None);
        let (rt, log, _) = scenario.parts();
        let data = Rc::new(RamDevice::new(len, 512));
        let options = CreateOptions {
            name: "large".into(),
            volume: VolumeId([1; 16]),
            segment: ByteLen::kib(128),
            data: identity(len),
        };
        scenario.run(async move {
            let (of, on) = (Rc::clone(&log), Rc::clone(&data));
            forebay_dcd::create(of, on, options).await?;
            let (of, on) = (log, Rc::clone(&data));
            let options = AttachOptions::default();
            let attached = DcdVolume::attach(rt, of, on, identity(len), options).await;
            let (volume, _) = attached.expect("attach");
            write(&volume, 1, len - LINE, LINE).await;
            volume.drain().await.expect("drain");
            let mut end = vec![0; LINE as usize];
            data.peek(len - LINE, &mut end);
            Ok::<_, DcdCreateError>(end)
        })
    };
    let end = made(MOST).expect("no cut").expect("made");
    assert!(end == stamp(1, MOST - LINE, LINE));
    let error = made(MOST + 512).expect("no cut").expect_err("refused");
    assert!(matches!(error, DcdCreateError::DataTooLarge(_)), "{error}");
    assert!(error.to_string().contains("up to 4PiB"), "{error}");
}
