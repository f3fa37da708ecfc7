//! Many random runs: all data acknowledged as durable is found after a power failure at that moment.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use forebay_segment_log::{OnFailure, RecordComposer};
use forebay_units::RecordSeq;

use crate::rig::{CommitRig, run};

/// A pseudo-random generator.
#[derive(Clone)]
struct SoakRng(Rc<Cell<u64>>);

impl SoakRng {
    fn new(seed: u64) -> SoakRng {
        SoakRng(Rc::new(Cell::new(
            seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        )))
    }

    fn below(&self, bound: u64) -> u64 {
        let mut x = self.0.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.0.set(x);
        (x >> 11) % bound
    }
}

/// Appends and flushes, and asserts the guarantee of each acknowledgement.
async fn write(rig: CommitRig, chance: SoakRng, acknowledged: Rc<Cell<u64>>) {
    for _ in 0..25 {
        let mut last = RecordSeq(0);
        for _ in 0..1 + chance.below(4) {
            let sectors = [1, 8, 40, 120][chance.below(4) as usize];
            last = match chance.below(3) {
                0 => rig.append_closed(sectors),
                _ => rig.append(sectors),
            };
            rig.rt.sleep(Duration::from_micros(chance.below(800))).await;
        }
        match chance.below(4) {
            0 => rig.commit.hand_over(last).await.expect("never latched"),
            1 => {
                let patience = Some(Duration::from_millis(chance.below(50)));
                if rig.commit.flush_within(last, patience).await.is_ok() {
                    assert!(rig.recovered() >= last);
                    acknowledged.set(acknowledged.get() + 1);
                }
            }
            2 => {
                rig.commit.flush(last).await.expect("never latched");
                assert!(rig.recovered() >= last, "{last} lost");
                acknowledged.set(acknowledged.get() + 1);
            }
            _ => {
                let _ = rig.commit.flush_device().await;
            }
        }
        assert!(rig.recovered() >= rig.stable());
        rig.assert_released_are_durable();
        if chance.below(5) == 0 && rig.commit.composer().flight().segments().count() < 20 {
            rig.commit.composer_mut().seal();
            rig.commit.has_work();
        }
    }
}

/// Makes the disk fail from time to time.
async fn spoil(rig: CommitRig, chance: SoakRng) {
    loop {
        let span = Duration::from_micros(100 + chance.below(40_000));
        rig.rt.sleep(span).await;
        rig.disk.fails_writes.set(chance.below(4) == 0);
        rig.disk.fails_flushes.set(chance.below(3) == 0);
        let bad = 512 * chance.below(4096);
        let bad = (chance.below(3) == 0).then_some(bad..bad + 512);
        rig.disk.bad.replace(bad);
        let latency = Duration::from_micros(50 + chance.below(3000));
        rig.disk.latency.set(latency);
    }
}

#[test]
fn acknowledged_records_are_recovered_with_random_disk_failures() {
    let (acknowledged, failures) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
    for seed in 1..=40 {
        let (acknowledged, failures) = (Rc::clone(&acknowledged), Rc::clone(&failures));
        run(OnFailure::RETRY, async move |rig| {
            let chance = SoakRng::new(seed);
            let spoiling = rig.rt.spawn(spoil(rig.clone(), chance.clone()));
            let writers: Vec<_> = (0..3)
                .map(|_| write(rig.clone(), chance.clone(), Rc::clone(&acknowledged)))
                .map(|writer| rig.rt.spawn(writer))
                .collect();
            for writer in writers {
                writer.await;
            }
            drop(spoiling);
            rig.disk.fails_writes.set(false);
            rig.disk.fails_flushes.set(false);
            rig.disk.bad.take();
            let last = rig.append(8);
            rig.commit.flush(last).await.expect("never latched");
            rig.trust_nothing();
            assert_eq!(rig.recovered(), last);
            rig.assert_released_are_durable();
            rig.rt.sleep(Duration::from_secs(3)).await;
            assert_eq!(rig.commit.fault(), None);
            assert_eq!(rig.commit.failure(), None);
            assert_eq!(rig.commit.composer().flight().jobs_in_flight(), 0);
            failures.set(failures.get() + rig.commit.flush_failures());
        });
    }
    let (acknowledged, failures) = (acknowledged.get(), failures.get());
    assert!(acknowledged > 400, "{acknowledged} flushes");
    assert!(failures > 120, "{failures} failed");
}
