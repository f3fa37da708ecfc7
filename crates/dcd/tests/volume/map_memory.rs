//! The memory of the map is bounded, like the log: writes beyond the limit wait, and are served.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use forebay_dcd::{AttachOptions, DcdStatus, DcdVolume};
use forebay_device::{BufMut, Device};
use forebay_rng::Rng;
use forebay_rt::VirtualTime;
use forebay_sim::disk::{DiskImage, WriteFate};
use forebay_sim::stamp::stamp;
use forebay_sim_targets::cache::testbed::{CacheTestbed, checked};
use forebay_sim_targets::cache::volume::{CacheImages, with_log};
use forebay_units::ByteLen;
use futures_util::future::join_all;

use crate::stamped::write;

const LINE: u64 = 4096;
const LINES: u64 = 128 << 10;
const LOG_BYTES: u64 = 64 << 20;
/// 26,000 fragments, which is half as many as would fill the log with single sectors.
const BOUND: ByteLen = ByteLen::kib(512);
/// Memory that may be allocated beyond the limit here: a shard that is being replaced or was fuller than the others,
/// the minimum size of tables, and four bytes for each of 500 segments.
const SLACK: u64 = 128 << 10;

fn bounded() -> AttachOptions {
    AttachOptions {
        map_memory: BOUND,
        ..AttachOptions::default()
    }
}

fn medium() -> CacheImages {
    with_log(LOG_BYTES, &DiskImage::new(LINES * LINE), 512)
}

fn scenario(seed: u64, medium: CacheImages) -> CacheTestbed {
    CacheTestbed::new(seed, None, &medium, 512, Rc::new(VirtualTime::new()))
}

fn assert_within_bound(status: &DcdStatus) {
    assert_eq!(status.map_bytes_max, BOUND.0);
    assert!(
        status.map_bytes <= BOUND.0 + SLACK,
        "{} bytes of map",
        status.map_bytes
    );
}

/// Clients that run `each` 80,000 times in total, with a data device that is slow or not.
fn endlessly<F>(
    seed: u64,
    users: u64,
    slowest: Duration,
    each: impl Fn(DcdVolume, u64) -> F + 'static,
) where
    F: Future<Output = ()>,
{
    let scenario = scenario(seed, medium());
    scenario.data.slowest.set(slowest);
    let done = scenario.with_volume(bounded(), move |volume| async move {
        let (next, highest) = (Cell::new(0), Cell::new(0f64));
        let users = (0..users).map(|_| async {
            while next.get() < 80_000 {
                let n = next.replace(next.get() + 1);
                each(volume.clone(), n).await;
                let status = volume.status();
                assert_within_bound(&status);
                let log_used = status.log_used_bytes as f64 / status.log_bytes as f64;
                highest.set(highest.get().max(log_used));
            }
        });
        join_all(users).await;
        let status = volume.status();
        assert!(status.throttled_s > 0.0, "nobody ever waited");
        assert!(highest.get() < 0.7, "it was the log that was full");
        volume.close().await.unwrap();
    });
    done.expect("no cut");
}

#[test]
fn single_sectors_far_apart_can_be_written_endlessly_within_the_memory_limit() {
    for (seed, users, slowest) in [(1, 1, 0), (2, 64, 0), (3, 64, 1)] {
        endlessly(
            seed,
            users,
            Duration::from_millis(slowest),
            |volume, n| async move {
                // Each write is in a block of its own. A block is reused only after all others.
                let at = n * 7919 % LINES * LINE + n % 8 * 512;
                write(&volume, n, at, 512).await;
            },
        );
    }
}

#[test]
fn small_ranges_can_be_discarded_endlessly_within_the_memory_limit() {
    endlessly(4, 16, Duration::ZERO, |volume, n| async move {
        let at = n * 7919 % LINES * LINE;
        checked(&volume).discard(at..at + 2048).await.unwrap();
    });
}

#[test]
fn long_writes_and_discards_among_single_sectors_stay_within_the_memory_limit() {
    endlessly(5, 32, Duration::ZERO, |volume, n| async move {
        let rng = Rng::new(n);
        let line = rng.below(LINES - 256);
        match n % 1000 {
            0 => write(&volume, n, line * LINE + 512, 1 << 20).await,
            1 => {
                let range = line * LINE..(line + 256) * LINE;
                checked(&volume).discard(range).await.unwrap();
            }
            _ => {
                let at = n * 7919 % LINES * LINE + rng.below(8) * 512;
                write(&volume, n, at, 512).await;
            }
        }
    });
}

#[test]
fn a_map_larger_than_the_limit_is_recovered_and_destaged_until_writes_fit() {
    const SECTORS: u64 = 30_000;
    let before = scenario(6, medium());
    // The data device is too slow for destaging, so that the map grows beyond the later limit.
    before.data.slowest.set(Duration::from_secs(1000));
    before.with_volume(AttachOptions::default(), |volume| async move {
        for n in 0..SECTORS {
            write(&volume, 1, n * LINE, 512).await;
        }
        volume.flush().await.unwrap();
        assert!(volume.status().map_bytes > BOUND.0);
    });
    let after = scenario(7, before.cut(WriteFate::Keep));
    after.with_volume(bounded(), |volume| async move {
        assert!(volume.status().map_bytes > BOUND.0);
        // This write waits for free space.
        write(&volume, 2, SECTORS * LINE, 512).await;
        let status = volume.status();
        assert!(
            status.destaged_bytes > 0,
            "it waited for what is oldest to go home"
        );
        assert_within_bound(&status);
        for n in 0..=SECTORS {
            let id = 1 + n / SECTORS;
            let read = volume.read(n * LINE, BufMut::zeroed(512)).await.unwrap();
            assert!(*read == *stamp(id, n * LINE, 512), "sector {n}");
        }
        volume.close().await.unwrap();
    });
}
