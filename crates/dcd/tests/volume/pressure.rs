//! A full log, a slow data device, and closes with requests in flight.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use forebay_dcd::{AttachOptions, DrainError};
use forebay_device::{DeviceError, DeviceOp};
use forebay_rng::Rng;
use forebay_sim::disk::WriteFate;
use forebay_sim::history::{History, ScriptAction, SharedHistory, perform, random_action};
use forebay_sim_targets::cache::testbed::{CacheTestbed, DiskBytes, checked, read_all};
use futures_util::future::{join, join_all};

use crate::stamped::write;

const DATA_BYTES: u64 = 2 << 20;
const LINE: u64 = 4096;

fn scenario(seed: u64) -> CacheTestbed {
    DiskBytes::fresh(DATA_BYTES).scenario(seed, None)
}

#[test]
fn writers_to_a_full_log_over_a_slow_device_are_slowed_and_served_equally() {
    let scenario = scenario(1);
    scenario.data.slowest.set(Duration::from_millis(30));
    let rt = scenario.rt.clone();
    let written = scenario.with_volume(AttachOptions::default(), |volume| async move {
        let counts: Vec<Cell<u64>> = (0..8).map(|_| Cell::new(0)).collect();
        let until = Cell::new(false);
        let writers = counts.iter().enumerate().map(|(n, count)| {
            let (volume, until, rt) = (&volume, &until, &rt);
            async move {
                // Some clients write much at a time, some little.
                let len = LINE << (n as u64 % 4 * 2);
                while !until.get() {
                    let at = (n as u64 * 17 + count.get()) * LINE % (DATA_BYTES - len);
                    write(volume, n as u64, at / LINE * LINE, len).await;
                    count.set(count.get() + 1);
                    rt.yield_now().await;
                    until.set(volume.status().log_written_bytes > 40 << 20);
                }
            }
        });
        join_all(writers).await;
        let status = volume.status();
        assert!(status.throttled_s > 0.0, "the log was never full");
        // The limit is 16 MiB of buffers and the segments around them.
        assert!(
            status.buffer_bytes <= 17 << 20,
            "{} buffered",
            status.buffer_bytes
        );
        let counts: Vec<u64> = counts.iter().map(Cell::get).collect();
        (counts, status.log_written_bytes)
    });
    let (counts, bytes) = written.expect("no cut");
    let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    assert!(
        *least * 4 > *most,
        "served unevenly: {counts:?} of {bytes} bytes"
    );
}

#[test]
fn buffers_stay_bounded_when_the_log_device_is_slow() {
    let scenario = scenario(2);
    scenario.log.slowest.set(Duration::from_millis(200));
    scenario.with_volume(AttachOptions::default(), |volume| async move {
        let highest = Cell::new(0);
        let writers = (0..16u64).map(|n| {
            let (volume, highest) = (&volume, &highest);
            async move {
                for k in 0..40 {
                    let at = (n * 40 + k) * 8 * LINE % DATA_BYTES;
                    write(volume, n, at, 8 * LINE).await;
                    highest.set(highest.get().max(volume.status().buffer_bytes));
                }
            }
        });
        join_all(writers).await;
        assert!(highest.get() <= 17 << 20, "{} buffered", highest.get());
    });
}

#[test]
fn a_drain_ends_while_clients_never_stop_writing() {
    let scenario = scenario(3);
    let rt = scenario.rt.clone();
    scenario.with_volume(AttachOptions::default(), |volume| async move {
        let drained = Cell::new(false);
        let users = join_all((0..4u64).map(|n| {
            let (volume, drained, rt) = (&volume, &drained, &rt);
            async move {
                for k in 0u64.. {
                    if drained.get() {
                        break;
                    }
                    let at = (n * 100 + k % 100) * LINE;
                    write(volume, n, at, LINE).await;
                    rt.sleep(Duration::from_micros(200)).await;
                }
            }
        }));
        let drain = async {
            for _ in 0..3 {
                volume.drain().await.unwrap();
            }
            drained.set(true);
        };
        join(users, drain).await;
    });
}

/// Closes a volume at a random moment with requests in flight.
fn close_in_flight(seed: u64) {
    let scenario = scenario(seed);
    scenario.data.slowest.set(Duration::from_millis(20));
    let rng = Rng::new(seed);
    let regions: Vec<Range<u64>> = (0..4).map(|n| n << 19..(n + 1) << 19).collect();
    let base = scenario.data.now();
    let histories: Vec<SharedHistory> = regions
        .iter()
        .zip(1..)
        .map(|(region, id)| Rc::new(RefCell::new(History::new(base.clone(), region.clone(), id))))
        .collect();
    let (rt, noted, data) = (
        scenario.rt.clone(),
        histories.clone(),
        Rc::clone(&scenario.data),
    );
    let log = Rc::clone(&scenario.log);
    scenario.with_volume(AttachOptions::default(), move |volume| async move {
        let users = noted.iter().zip(&regions).map(|(history, region)| {
            let (device, rt, rng) = (checked(&volume), &rt, Rng::new(rng.next()));
            async move {
                loop {
                    let action = random_action(&rng, region, 64 << 10);
                    match perform(&device, rt, history, &action).await {
                        Ok(()) => {}
                        Err(DeviceError::Closed { .. }) => return,
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        });
        let close = async {
            rt.sleep(Duration::from_micros(rng.below(6_000_000))).await;
            volume.close().await.unwrap();
            let under_way = data.writes_under_way() + log.writes_under_way();
            assert_eq!(under_way, 0, "writes left behind");
        };
        join(join_all(users), close).await;
    });
    let again = scenario.after_cut(WriteFate::Drop).scenario(seed, None);
    let seen = again
        .with_volume(AttachOptions::default(), |volume| async move {
            read_all(&checked(&volume)).await.unwrap()
        })
        .expect("no cut");
    for history in histories {
        let mut history = history.borrow().clone();
        history.set_durable(history.acknowledged());
        history.prefixes(&seen, &|_| false).expect("all of it");
    }
}

/// Found by this test: writes to the data device were left in flight, and could conflict with those of the next attach.
#[test]
fn a_close_with_requests_in_flight_ends_them_and_keeps_all_acknowledged_data() {
    (0..40).for_each(close_in_flight);
}

#[test]
fn a_drain_interrupted_by_a_close_reports_the_remaining_data() {
    let scenario = scenario(5);
    scenario.data.fail(|op, _| op == DeviceOp::Write);
    let rt = scenario.rt.clone();
    scenario.with_volume(AttachOptions::default(), |volume| async move {
        write(&volume, 1, 64 * LINE, LINE).await;
        let close = async {
            rt.sleep(Duration::from_secs(5)).await;
            volume.close().await.unwrap();
        };
        let (drained, ()) = join(volume.drain(), close).await;
        assert!(
            matches!(drained, Err(DrainError::Stuck { .. })),
            "{drained:?}"
        );
        assert!(matches!(
            perform(
                &checked(&volume),
                &rt,
                &Rc::new(RefCell::new(History::whole(vec![], 1))),
                &ScriptAction::Flush
            )
            .await,
            Err(DeviceError::Closed { .. })
        ));
    });
}

/// Found by the simulator (seed 183): destaging slept until clients would have been idle long enough, and did not wake
/// when a burst filled the log meanwhile. Writers were blocked until it woke.
#[test]
fn a_burst_into_an_almost_empty_log_wakes_destaging() {
    let scenario = scenario(7);
    let micros = Duration::from_micros(20);
    scenario.log.slowest.set(micros);
    scenario.data.slowest.set(micros);
    let rt = scenario.rt.clone();
    scenario.with_volume(AttachOptions::default(), move |volume| async move {
        write(&volume, 1, 64 * LINE, LINE).await;
        // Now destaging sleeps for as long as a nearly empty log allows.
        rt.sleep(Duration::from_millis(5)).await;
        for n in 0..64 {
            let began = rt.now();
            let at = n % 16 * 32 * LINE;
            write(&volume, n, at, 32 * LINE).await;
            let took = rt.now().since(began);
            assert!(took < 500 * micros, "write {n} took {took:?}");
        }
    });
}
