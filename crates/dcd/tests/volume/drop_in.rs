//! Drop-in use: any device can be cached, and alone is the volume again once drained.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use forebay_dcd::{AttachOptions, CreateOptions, DcdVolume, VolumeId};
use forebay_device::{CheckVerdict, Device, DeviceGeometry, RamDevice, ZeroedSpace};
use forebay_rng::Rng;
use forebay_sim::history::{History, SharedHistory, perform, random_action};
use forebay_sim::stamp::stamp;
use forebay_sim_targets::cache::testbed::{CacheTestbed, DiskBytes, checked, fresh_log, read_all};
use forebay_sim_targets::cache::volume::{LOG_BYTES, identity};
use forebay_units::ByteLen;

use crate::stamped::write;

const DATA_BYTES: u64 = 1 << 20;
const LINE: u64 = 4096;

/// Random use, then a drain: the data device differs exactly where clients wrote, and alone is the volume.
#[test]
fn only_ranges_written_by_clients_are_written_to_the_data_device() {
    for seed in 0..6 {
        let images = DiskBytes::fresh(DATA_BYTES);
        let scenario = images.scenario(seed, None);
        let (rt, rng) = (scenario.rt.clone(), Rng::new(seed));
        let written = Rc::new(RefCell::new(BTreeSet::new()));
        let (noted, data) = (Rc::clone(&written), Rc::clone(&scenario.data));
        let history: SharedHistory = Rc::new(RefCell::new(History::whole(images.data.clone(), 1)));
        scenario.with_volume(AttachOptions::default(), move |volume| async move {
            let region = 0..DATA_BYTES;
            for _ in 0..60 {
                let action = random_action(&rng, &region, 32 << 10);
                if let Some(range) = action.range() {
                    noted
                        .borrow_mut()
                        .extend(range.start / 512..range.end / 512);
                }
                perform(&checked(&volume), &rt, &history, &action)
                    .await
                    .unwrap();
            }
            let seen = read_all(&checked(&volume)).await.unwrap();
            volume.drain().await.unwrap();
            volume.close().await.unwrap();
            let open = history.borrow();
            let after = open.prefixes(&seen, &|_| false).expect("the last state");
            assert!(after.contains(&open.acknowledged()));
            assert!(open.prefixes(&data.now(), &|_| false).is_ok());
        });
        for range in scenario.data.writes.borrow().iter() {
            let strange =
                (range.start / 512..range.end / 512).find(|s| !written.borrow().contains(s));
            assert_eq!(strange, None, "seed {seed}: written {range:?}");
        }
        // The log is clean now, so that the data device can be used alone.
        let log = Rc::clone(&scenario.log);
        let found =
            scenario.run(async move { forebay_dcd::check(log, None, &mut |_, _| ()).await });
        assert_eq!(found.unwrap().unwrap().verdict, CheckVerdict::Clean);
    }
}

/// A device of 4 KiB blocks differs only in that all requests are in whole blocks of 4 KiB.
#[test]
fn devices_of_4096_byte_blocks_can_be_cached() {
    let scenario = DiskBytes::fresh(DATA_BYTES).scenario(1, None);
    let (rt, log) = (scenario.rt.clone(), RamDevice::new(LOG_BYTES, 4096));
    let data = Rc::new(RamDevice::new(DATA_BYTES, 4096));
    data.poke(0, &stamp(5, 0, DATA_BYTES));
    let (log, home): (Rc<dyn Device>, Rc<dyn Device>) = (Rc::new(log), Rc::clone(&data) as _);
    scenario.run(async move {
        let options = CreateOptions {
            name: "test".into(),
            volume: VolumeId([1; 16]),
            segment: ByteLen::kib(128),
            data: identity(DATA_BYTES),
        };
        forebay_dcd::create(Rc::clone(&log), Rc::clone(&home), options)
            .await
            .unwrap();
        for incarnation in 0..3 {
            let (log, home) = (Rc::clone(&log), Rc::clone(&home));
            let options = AttachOptions::default();
            let (volume, _) =
                DcdVolume::attach(rt.clone(), log, home, identity(DATA_BYTES), options)
                    .await
                    .unwrap();
            assert!(matches!(
                volume.geometry(),
                DeviceGeometry {
                    block_size: 4096,
                    ..
                }
            ));
            for n in 0..40 {
                write(&volume, incarnation * 100 + n, n * 2 * LINE, 3 * LINE).await;
            }
            volume.flush().await.unwrap();
        }
        let options = AttachOptions::default();
        let (volume, _) = DcdVolume::attach(rt, log, home, identity(DATA_BYTES), options)
            .await
            .unwrap();
        volume.drain().await.unwrap();
        volume.close().await.unwrap();
    });
    let mut bytes = vec![0; DATA_BYTES as usize];
    data.peek(0, &mut bytes);
    for n in 0..40u64 {
        let at = (n * 2 * LINE) as usize;
        let len = if n == 39 { 3 } else { 2 } * LINE as usize;
        let wrote = stamp(200 + n, at as u64, 3 * LINE);
        assert!(bytes[at..at + len] == wrote[..len], "write {n}");
    }
}

/// The data device's file may be any number of sectors long.
#[test]
fn a_volume_whose_length_is_not_a_multiple_of_a_block_is_cached_to_its_last_sector() {
    let len = DATA_BYTES + 512 * 3;
    let data = stamp(u64::MAX, 0, len);
    let log = fresh_log(LOG_BYTES, &data);
    let scenario = CacheTestbed::with_images(1, None, &log, &data);
    let home = Rc::clone(&scenario.data);
    scenario.with_volume(AttachOptions::default(), move |volume| async move {
        write(&volume, 1, len - 1024, 1024).await;
        volume
            .write_zeroes(len - 512..len, ZeroedSpace::Keep)
            .await
            .unwrap();
        let seen = read_all(&checked(&volume)).await.unwrap();
        assert!(seen[len as usize - 512..].iter().all(|byte| *byte == 0));
        volume.drain().await.unwrap();
        volume.close().await.unwrap();
        assert!(seen == home.now());
    });
}
