//! Random requests compared with an array of bytes, during destaging and wraps of the log.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use forebay_dcd::{AttachOptions, DcdVolume, OffsetPolicy};
use forebay_device::{BufMut, Device, Durability, ZeroedSpace};
use forebay_rng::Rng;
use forebay_sim::stamp::stamp;
use forebay_sim_targets::cache::testbed::{CacheTestbed, checked, fresh_log, read_all};
use forebay_sim_targets::cache::volume::LOG_BYTES;
use forebay_units::ByteLen;

const DATA_BYTES: u64 = 3 << 20;

/// Expected content of the volume; `None` where a discard left it undefined.
#[derive(Clone)]
struct ContentModel(Vec<Option<u8>>);

impl ContentModel {
    fn check(&self, at: u64, bytes: &[u8], what: &str) {
        let want = &self.0[at as usize..at as usize + bytes.len()];
        let wrong = want
            .iter()
            .zip(bytes)
            .position(|(want, got)| want.is_some_and(|w| w != *got));
        if let Some(n) = wrong {
            panic!(
                "{what}: byte {} is {}, not {:?}",
                at as usize + n,
                bytes[n],
                want[n]
            );
        }
    }
}

/// Returns a position and a length between 512 B and 1 MiB; small lengths are more likely.
fn extent(rng: &Rng) -> (u64, u64) {
    let len = 512 * (1 + rng.below(1 << rng.below(12)));
    let len = if rng.below(3) == 0 {
        len.next_multiple_of(4096)
    } else {
        len
    };
    let at = rng.below((DATA_BYTES - len) / 512 + 1) * 512;
    if len.is_multiple_of(4096) {
        (at / 4096 * 4096, len)
    } else {
        (at, len)
    }
}

async fn one_request(volume: &DcdVolume, rng: &Rng, model: &RefCell<ContentModel>, id: u64) {
    let device = checked(volume);
    let (at, len) = extent(rng);
    let range = at as usize..(at + len) as usize;
    match rng.below(20) {
        0..=9 => {
            let bytes = stamp(id, at, len);
            for (want, byte) in model.borrow_mut().0[range].iter_mut().zip(&bytes) {
                *want = Some(*byte);
            }
            let durability = if rng.below(8) == 0 {
                Durability::Fua
            } else {
                Durability::Flush
            };
            device
                .write(at, BufMut::copy_of(&bytes).freeze(), durability)
                .await
                .unwrap();
        }
        10..=16 => {
            let bytes = device.read(at, BufMut::zeroed(len as usize)).await.unwrap();
            model.borrow().check(at, &bytes, "read");
        }
        17 => {
            model.borrow_mut().0[range].fill(None);
            device.discard(at..at + len).await.unwrap();
        }
        18 => {
            model.borrow_mut().0[range].fill(Some(0));
            let room = match rng.below(2) {
                0 => ZeroedSpace::Keep,
                _ => ZeroedSpace::Release,
            };
            device.write_zeroes(at..at + len, room).await.unwrap();
        }
        _ => device.flush().await.unwrap(),
    }
}

/// Runs `requests` requests. Returns a digest of all events.
fn scenario(seed: u64, requests: u64, options: AttachOptions) -> u64 {
    let data: Vec<u8> = stamp(u64::MAX, 0, DATA_BYTES);
    let log = fresh_log(LOG_BYTES, &data);
    let scenario = CacheTestbed::with_images(seed, None, &log, &data);
    let (rng, rt) = (scenario.rng.clone(), scenario.rt.clone());
    let model = Rc::new(RefCell::new(ContentModel(
        data.into_iter().map(Some).collect(),
    )));
    let expected = Rc::clone(&model);
    let home = Rc::clone(&scenario.data);
    let digest = scenario.with_volume(options, move |volume| async move {
        for id in 0..requests {
            one_request(&volume, &rng, &model, id).await;
            // Bursts and pauses, so that destaging in idle periods happens, too.
            if rng.below(40) == 0 {
                rt.sleep(Duration::from_millis(rng.below(2_000))).await;
            }
        }
        let bytes = read_all(&checked(&volume)).await.unwrap();
        model.borrow().check(0, &bytes, "at the end");
        volume.drain().await.unwrap();
        let status = volume.status();
        assert_eq!(
            (status.dirty_bytes, status.log_used_bytes),
            (0, 0),
            "drained"
        );
        volume.close().await.unwrap();
        u64::from(crc32c::crc32c(&bytes)) << 32 | rt.now().as_nanos() & 0xffff_ffff
    });
    expected
        .borrow()
        .check(0, &home.now(), "the data device alone, drained");
    digest.expect("no cut")
}

#[test]
fn every_read_returns_the_last_completed_write_with_overlapping_requests() {
    for seed in 0..12 {
        scenario(seed, 600, AttachOptions::default());
    }
}

#[test]
fn every_read_returns_the_last_completed_write_with_large_writes_bypassing_the_log() {
    let options = AttachOptions {
        bypass: Some(ByteLen::kib(64)),
        ..AttachOptions::default()
    };
    for seed in 100..108 {
        scenario(seed, 600, options);
    }
}

#[test]
fn every_read_returns_the_last_completed_write_with_durable_acknowledgements() {
    let acknowledge = forebay_device::AckMode::Durable;
    let options = AttachOptions {
        acknowledge,
        ..AttachOptions::default()
    };
    for seed in 200..206 {
        scenario(seed, 400, options);
    }
}

#[test]
fn every_read_returns_the_last_completed_write_with_acknowledgement_at_handover() {
    let options = AttachOptions {
        acknowledge: forebay_device::AckMode::Device,
        ..AttachOptions::default()
    };
    for seed in 300..306 {
        scenario(seed, 400, options);
    }
}

#[test]
fn every_read_returns_the_last_completed_write_with_any_rotational_offsets() {
    for seed in 400..408 {
        let options = AttachOptions {
            gaps: OffsetPolicy::Scattered(seed),
            ..AttachOptions::default()
        };
        scenario(seed, 400, options);
    }
}

#[test]
fn equal_seeds_give_equal_runs() {
    let options = AttachOptions::default();
    assert_eq!(scenario(42, 300, options), scenario(42, 300, options));
    assert_ne!(scenario(42, 300, options), scenario(43, 300, options));
}
