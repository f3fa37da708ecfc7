//! A device that fails at any single request, once or permanently, followed by a power cut.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use forebay_dcd::{AttachOptions, CacheMode, DcdAttachError, DcdVolume};
use forebay_device::{BufMut, Device, DeviceError, DeviceOp};
use forebay_rng::Rng;
use forebay_sim::disk::{SimDisk, WriteFate};
use forebay_sim::history::{History, ScriptAction, SharedHistory, perform, random_action};
use forebay_sim_targets::cache::testbed::{CacheTestbed, DiskBytes, checked};

const DATA_BYTES: u64 = 1 << 20;
const WHOLE: Range<u64> = 0..DATA_BYTES;

/// Manner in which a device fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CacheFailureMode {
    /// Fails one write or flush, then works again.
    Once,
    /// Like `Once`, but a failing flush also loses the unflushed data.
    Forgetting,
    /// Fails every write and flush from then on; reads still succeed.
    Writes,
    /// Fails every request from then on.
    Dead,
    /// Fails every request until the script has ended.
    ForAWhile,
}

fn script(seed: u64, len: usize) -> Vec<ScriptAction> {
    let rng = Rng::new(seed);
    (0..len)
        .map(|_| random_action(&rng, &WHOLE, 96 << 10))
        .collect()
}

/// Makes the disk's n-th write or flush fail, and later requests as `failing` defines. Returns a switch that heals the
/// disk.
fn fail_at(disk: &SimDisk, n: u64, failing: CacheFailureMode) -> Rc<Cell<bool>> {
    let (healed, seen) = (Rc::new(Cell::new(false)), Cell::new(0));
    let heal = Rc::clone(&healed);
    disk.forgetful.set(matches!(
        failing,
        CacheFailureMode::Forgetting | CacheFailureMode::Dead
    ));
    disk.fail(move |op, _| {
        let now = seen.get();
        if op != DeviceOp::Read {
            seen.set(now + 1);
        }
        match failing {
            CacheFailureMode::Once | CacheFailureMode::Forgetting => {
                op != DeviceOp::Read && now == n
            }
            CacheFailureMode::Writes => op != DeviceOp::Read && now >= n,
            CacheFailureMode::Dead => now > n || op != DeviceOp::Read && now == n,
            CacheFailureMode::ForAWhile => {
                !heal.get() && (now > n || op != DeviceOp::Read && now == n)
            }
        }
    });
    healed
}

/// Reads sector by sector. Returns the content, and which sectors cannot be read.
async fn read_sectors(volume: &DcdVolume) -> (Vec<u8>, Vec<bool>) {
    let device = checked(volume);
    let (mut bytes, mut unreadable) = (Vec::new(), Vec::new());
    for line in WHOLE.step_by(4096) {
        if let Ok(read) = device.read(line, BufMut::zeroed(4096)).await {
            bytes.extend_from_slice(&read);
            unreadable.extend([false; 8]);
            continue;
        }
        for at in (line..line + 4096).step_by(512) {
            let read = device.read(at, BufMut::zeroed(512)).await;
            unreadable.push(read.is_err());
            bytes.extend_from_slice(&read.unwrap_or_else(|_| BufMut::zeroed(512)));
        }
    }
    (bytes, unreadable)
}

/// Asserts the state of the disks after a power cut during the failure of the log.
fn judge_after_cut(images: &DiskBytes, history: &History, what: &str) {
    let scenario = images.scenario(9, None);
    let seen = match scenario.attach(AttachOptions::default()).expect("no cut") {
        Ok((volume, _)) => {
            let read = async move { read_sectors(&volume).await };
            let (seen, unreadable) = scenario.run(read).expect("no cut");
            assert!(!unreadable.contains(&true), "{what}: unreadable");
            seen
        }
        Err(DcdAttachError::Abandoned { .. }) => images.data.clone(),
        // The rescue had begun to change the ends of the data device. The log is valid, but an administrator must
        // confirm this.
        Err(DcdAttachError::Changed { .. }) => {
            let options = AttachOptions {
                accept_changed: true,
                ..AttachOptions::default()
            };
            let accepted = scenario.attach(options).expect("no cut").expect("accepted");
            let read = async move { read_sectors(&accepted.0).await };
            scenario.run(read).expect("no cut").0
        }
        Err(other) => panic!("{what}: {other}"),
    };
    if let Err(wrong) = history.each_sector(&seen, &|_| false) {
        panic!("{what}: {wrong}");
    }
}

/// A volume whose log or data device fails, and its clients.
struct FaultyCache {
    scenario: CacheTestbed,
    volume: DcdVolume,
    history: SharedHistory,
}

impl FaultyCache {
    fn new(images: &DiskBytes, seed: u64) -> FaultyCache {
        let scenario = images.scenario(seed, None).witnessed(&Rc::default());
        let attached = scenario.attach(AttachOptions::default()).expect("no cut");
        FaultyCache {
            volume: attached.expect("attach").0,
            scenario,
            history: Rc::new(RefCell::new(History::whole(images.data.clone(), 1))),
        }
    }

    /// Runs the script. Returns the errors.
    fn go(&self, script: &[ScriptAction]) -> Vec<DeviceError> {
        let (rt, history) = (self.scenario.rt.clone(), Rc::clone(&self.history));
        let (volume, script) = (self.volume.clone(), script.to_vec());
        let run = async move {
            let mut errors = Vec::new();
            for action in &script {
                let done = perform(&checked(&volume), &rt, &history, action).await;
                errors.extend(done.err());
            }
            errors
        };
        self.scenario.run(run).expect("no cut")
    }

    fn run<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        ask: impl FnOnce(DcdVolume) -> F,
    ) -> T {
        self.scenario.run(ask(self.volume.clone())).expect("no cut")
    }

    fn is_degraded(&self) -> bool {
        self.volume.status().mode == CacheMode::Degraded
    }

    /// Cuts the power a few times while the volume is degraded.
    fn cut_while_degraded(&self, seed: u64) -> Rc<RefCell<Vec<(DiskBytes, History)>>> {
        let cuts: Rc<RefCell<Vec<(DiskBytes, History)>>> = Rc::default();
        let (log, data) = (
            Rc::clone(&self.scenario.log),
            Rc::clone(&self.scenario.data),
        );
        let (noted, kept) = (Rc::clone(&self.history), Rc::clone(&cuts));
        let (rng, volume) = (Rng::new(seed), self.volume.clone());
        let watch = move |request| {
            let degraded = volume.status().mode == CacheMode::Degraded;
            if degraded && kept.borrow().len() < 4 && rng.below(5) == 0 {
                let coin = [WriteFate::Drop, WriteFate::Blocks(request), WriteFate::Keep]
                    [rng.below(3) as usize];
                let images = DiskBytes {
                    log: log.after_cut(coin),
                    data: data.after_cut(coin),
                };
                kept.borrow_mut().push((images, noted.borrow().clone()));
            }
        };
        self.scenario.power.watch.replace(Some(Box::new(watch)));
        cuts
    }

    /// Asserts that all acknowledged data is present, except for unreadable sectors.
    fn all_is_there(&self, seen: &[u8], unreadable: &[bool]) {
        let mut history = self.history.borrow().clone();
        history.set_durable(history.acknowledged());
        let unreadable = |sector: u64| unreadable[sector as usize];
        history.prefixes(seen, &unreadable).expect("the last state");
    }
}

/// Runs the script with the log failing at its n-th request. Returns false if the script makes fewer requests.
fn log_fails(
    images: &DiskBytes,
    script: &[ScriptAction],
    n: u64,
    failing: CacheFailureMode,
) -> bool {
    let run = FaultyCache::new(images, n);
    fail_at(&run.scenario.log, n, failing);
    let cuts = run.cut_while_degraded(n);
    let mut errors = run.go(script);
    let failed = run.is_degraded();
    errors.extend(run.run(|volume| async move { volume.flush().await }).err());
    let (seen, unreadable) = run.run(|volume| async move { read_sectors(&volume).await });
    let status = run.volume.status();
    assert_eq!(status.damaged_bytes, 0, "what cannot be read is not lost");
    if failing == CacheFailureMode::Dead {
        // Data that exists only in the log cannot be read, and the status reports this. All of it was durable.
        let lines = status.unreadable_bytes.div_ceil(512);
        let seen = unreadable.iter().filter(|lost| **lost).count() as u64;
        assert!(lines >= seen && (lines > 0) == (seen > 0), "{lines} {seen}");
        let told = |error: &DeviceError| {
            matches!(
                error,
                DeviceError::Failed {
                    op: DeviceOp::Flush,
                    ..
                }
            )
        };
        assert!(errors.iter().all(told), "{errors:?}");
    } else {
        assert!(
            errors.is_empty() && !unreadable.contains(&true),
            "{errors:?}"
        );
    }
    run.all_is_there(&seen, &unreadable);
    if errors.is_empty() && failed {
        run.all_is_there(&run.scenario.data.after_cut(WriteFate::Drop), &unreadable);
    }
    // The volume can also be closed, with an error if data was lost.
    let closed = run.run(|volume| async move { volume.close().await });
    assert_eq!(closed.is_ok(), errors.is_empty(), "{closed:?} {errors:?}");
    run.scenario.power.watch.replace(None);
    // A log that takes no writes cannot be attached, but a log that failed once can.
    if failing == CacheFailureMode::Once {
        for (images, history) in cuts.take() {
            judge_after_cut(&images, &history, &format!("log failed at {n}"));
        }
    }
    failed
}

fn log_fails_everywhere(failing: CacheFailureMode, seed: u64) {
    let images = DiskBytes::fresh(DATA_BYTES);
    let script = script(seed, 100);
    let mut n = 0;
    while log_fails(&images, &script, n, failing) {
        n += 1;
    }
    println!("{n} requests of the log, each failing: {failing:?}");
    assert!(n > 60, "only {n} requests");
}

#[test]
fn a_single_failed_request_at_any_point_costs_only_the_log() {
    log_fails_everywhere(CacheFailureMode::Once, 21);
}

#[test]
fn a_log_that_fails_once_and_loses_unflushed_data_reports_the_loss() {
    log_fails_everywhere(CacheFailureMode::Forgetting, 25);
}

#[test]
fn a_log_that_fails_all_writes_from_any_point_costs_only_the_log() {
    log_fails_everywhere(CacheFailureMode::Writes, 22);
}

#[test]
fn a_log_that_fails_for_good_at_any_point_loses_nothing_silently() {
    log_fails_everywhere(CacheFailureMode::Dead, 23);
}

/// Runs the script with the data device failing at its n-th request. Returns false if the script makes fewer requests.
fn data_fails(
    images: &DiskBytes,
    script: &[ScriptAction],
    n: u64,
    failing: CacheFailureMode,
) -> bool {
    let run = FaultyCache::new(images, n);
    let healed = fail_at(&run.scenario.data, n, failing);
    let errors = run.go(script);
    assert!(errors.is_empty(), "{errors:?}");
    let cut = run.scenario.after_cut(WriteFate::Blocks(n));
    judge_after_cut(&cut, &run.history.borrow(), &format!("data failed at {n}"));
    healed.set(true);
    let rt = run.scenario.rt.clone();
    let errors = run.run(|volume| async move {
        rt.sleep(Duration::from_secs(60)).await;
        volume.drain().await.expect("drain");
        volume.close().await.expect("close");
        volume.status().data_errors
    });
    run.all_is_there(
        &run.scenario.data.after_cut(WriteFate::Drop),
        &vec![false; 4096],
    );
    errors > 0
}

#[test]
fn failures_of_the_data_device_at_any_point_are_retried_and_lose_nothing() {
    let images = DiskBytes::fresh(DATA_BYTES);
    for failing in [CacheFailureMode::Forgetting, CacheFailureMode::ForAWhile] {
        let script = script(24, 100);
        let mut n = 0;
        while data_fails(&images, &script, n, failing) {
            n += 1;
        }
        println!("{n} requests of the data device, each failing: {failing:?}");
        assert!(n > 20, "only {n} requests");
    }
}
