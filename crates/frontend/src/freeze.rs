//! A freeze: writes are held back for a limited time, so that the devices below can be copied.
//!
//! The freeze stands between all front ends and the volume, whatever its kind. Reads and flushes pass. Writes, discards
//! and zeroes wait; they do not fail. The time limit releases them even if the administrator forgets the freeze, or if a
//! device hangs. `procedure.rs` has the steps of a freeze.

mod device;
mod procedure;
mod state;

use std::cell::RefCell;
use std::rc::Rc;

use forebay_rt::{Event, Instant, Lock, Rt};

pub use device::FreezableDevice;
pub use procedure::{FreezeFailure, StillVolume};
pub use state::{FreezePhase, WriteClass};

use state::FreezeState;

/// The freeze of a volume. Clones belong to the same volume.
#[derive(Clone)]
pub struct VolumeFreeze {
    rt: Rt,
    shared: Rc<FreezeShared>,
}

#[derive(Default)]
struct FreezeShared {
    state: RefCell<FreezeState>,
    changed: Event,
    /// Held while a freeze is prepared.
    turn: Rc<Lock>,
}

/// A write that was let through and is in progress, until it is dropped.
pub struct PassedWrite(Rc<FreezeShared>);

impl Drop for PassedWrite {
    fn drop(&mut self) {
        if self.0.state.borrow_mut().end_write() {
            self.0.changed.notify_all();
        }
    }
}

/// A request that waits for the end of a freeze.
struct HeldWrite<'a>(&'a FreezeShared);

impl Drop for HeldWrite<'_> {
    fn drop(&mut self) {
        self.0.state.borrow_mut().end_wait();
    }
}

impl VolumeFreeze {
    /// Returns a freeze that holds nothing back.
    pub fn new(rt: &Rt) -> VolumeFreeze {
        VolumeFreeze {
            rt: rt.clone(),
            shared: Rc::default(),
        }
    }

    /// Waits until a request that changes data may continue. It is in progress until the result is dropped.
    pub async fn pass(&self, class: WriteClass) -> PassedWrite {
        let shared = &*self.shared;
        if !shared.state.borrow_mut().try_begin(class) {
            shared.state.borrow_mut().begin_wait();
            let _held = HeldWrite(shared);
            let begun = || shared.state.borrow_mut().try_begin(class).then_some(());
            shared.changed.until(begun).await;
        }
        PassedWrite(Rc::clone(&self.shared))
    }

    /// Holds back new writes until `until` at the latest. Returns false if writes are held back already.
    fn begin(&self, until: Instant) -> bool {
        self.shared.state.borrow_mut().begin(until)
    }

    /// Waits until the writes in progress have ended. Returns false if the freeze ends before.
    async fn quiet(&self) -> bool {
        let shared = &*self.shared;
        let quiet = || shared.state.borrow_mut().quiet();
        shared.changed.until(quiet).await
    }

    /// Returns a future that waits until the present freeze ends by its time limit or by [`VolumeFreeze::thaw`]. Its
    /// result is true at the time limit; the freeze has not ended then.
    fn expired(&self) -> impl Future<Output = bool> + use<> {
        let (generation, until) = {
            let state = self.shared.state.borrow();
            (state.generation(), state.until())
        };
        let gate = self.clone();
        async move {
            let Some(until) = until else { return false };
            let shared = &*gate.shared;
            let ended = || (shared.state.borrow().generation() != generation).then_some(());
            let left = until.since(gate.rt.now());
            let ended = gate.rt.timeout(left, shared.changed.until(ended));
            ended.await.is_err()
        }
    }

    /// Lets all writes continue. Returns false if none were held back.
    fn thaw(&self) -> bool {
        let thawed = self.shared.state.borrow_mut().thaw();
        self.shared.changed.notify_all();
        thawed
    }

    /// Returns the present phase.
    pub fn phase(&self) -> FreezePhase {
        self.shared.state.borrow().phase()
    }

    /// Returns the number of requests that wait for the end of the freeze.
    pub fn held_writes(&self) -> u64 {
        self.shared.state.borrow().held_writes()
    }

    /// Returns the seconds until writes continue by themselves; 0 without a freeze.
    pub fn seconds_left(&self) -> f64 {
        let until = self.shared.state.borrow().until();
        until.map_or(0.0, |until| until.since(self.rt.now()).as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use forebay_device::{BufMut, Device, Durability, RamDevice, ZeroedSpace};
    use forebay_rt::{Executor, VirtualTime};

    use super::*;

    const LEN: u64 = 1 << 20;

    fn run<F: Future<Output = ()> + 'static>(test: impl FnOnce(Rt) -> F) {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let rt = executor.rt();
        executor.block_on(test(rt));
    }

    fn frozen(rt: &Rt) -> (VolumeFreeze, Rc<RamDevice>, Rc<FreezableDevice>) {
        let freeze = VolumeFreeze::new(rt);
        let ram = Rc::new(RamDevice::new(LEN, 4096));
        let device = FreezableDevice::new(Rc::clone(&ram) as Rc<dyn Device>, freeze.clone());
        (freeze, ram, Rc::new(device))
    }

    fn first_byte(ram: &RamDevice) -> u8 {
        let mut byte = [0];
        ram.peek(0, &mut byte);
        byte[0]
    }

    #[test]
    fn changes_wait_for_the_thaw_while_reads_and_flushes_pass() {
        run(|rt| async move {
            let (freeze, ram, device) = frozen(&rt);
            ram.poke(0, &[7; 4096]);
            assert!(freeze.begin(rt.now().plus(Duration::from_secs(60))));
            assert!(!freeze.begin(rt.now()), "one freeze at a time");
            assert!(freeze.quiet().await);
            let changes = [0, 1, 2].map(|change| {
                let device = Rc::clone(&device);
                rt.spawn(async move {
                    match change {
                        0 => {
                            let bytes = BufMut::copy_of(&[1; 4096]).freeze();
                            device.write(0, bytes, Durability::Fua).await
                        }
                        1 => device.discard(4096..8192).await,
                        _ => device.write_zeroes(0..4096, ZeroedSpace::Keep).await,
                    }
                })
            });
            rt.sleep(Duration::from_secs(30)).await;
            assert_eq!((first_byte(&ram), freeze.held_writes()), (7, 3));
            let read = device.read(0, BufMut::zeroed(4096)).await.expect("read");
            assert_eq!(read[0], 7);
            device.flush().await.expect("nothing is pending");
            assert!((freeze.seconds_left() - 30.0).abs() < 0.1);
            assert!(freeze.thaw());
            for change in changes {
                change.await.expect("held back, not failed");
            }
            assert_eq!((first_byte(&ram), freeze.held_writes()), (0, 0));
            assert!(!freeze.thaw(), "thawed already");
        });
    }

    /// A volume that needs a minute to be held still.
    #[derive(Default)]
    struct SlowVolume {
        rt: Option<Rt>,
        fails: bool,
        resumed: Cell<u32>,
    }

    impl StillVolume for SlowVolume {
        type Failure = &'static str;

        async fn drain(&self) -> Result<(), &'static str> {
            Ok(())
        }

        async fn hold_still(&self) -> Result<(), &'static str> {
            if let Some(rt) = &self.rt {
                rt.sleep(Duration::from_secs(60)).await;
            }
            if self.fails { Err("broken") } else { Ok(()) }
        }

        fn resume(&self) {
            self.resumed.set(self.resumed.get() + 1);
        }
    }

    #[test]
    fn writes_are_released_at_the_time_limit_although_the_volume_hangs() {
        run(|rt| async move {
            let (freeze, ram, device) = frozen(&rt);
            let volume = Rc::new(SlowVolume {
                rt: Some(rt.clone()),
                ..SlowVolume::default()
            });
            let (gate, slow) = (freeze.clone(), Rc::clone(&volume));
            let freezing = rt.spawn(async move {
                let limit = Duration::from_secs(5);
                gate.freeze(&slow, limit, || true).await
            });
            rt.sleep(Duration::from_secs(1)).await;
            assert!(freeze.is_preparing());
            let began = rt.now();
            let bytes = BufMut::copy_of(&[1; 4096]).freeze();
            let written = device.write(0, bytes, Durability::Flush).await;
            written.expect("released");
            assert_eq!(rt.now().since(began), Duration::from_secs(4));
            assert_eq!((first_byte(&ram), volume.resumed.get()), (1, 1));
            assert_eq!(freezing.await, Err(FreezeFailure::Released));
            // Its last step may have let background work rest once more.
            assert_eq!(
                (volume.resumed.get(), freeze.phase()),
                (2, FreezePhase::Thawed)
            );
        });
    }

    #[test]
    fn a_volume_that_fails_or_whose_freeze_is_withdrawn_is_not_frozen() {
        run(|rt| async move {
            let (freeze, _, device) = frozen(&rt);
            let broken = Rc::new(SlowVolume {
                fails: true,
                ..SlowVolume::default()
            });
            let limit = Duration::from_secs(5);
            let failed = freeze.freeze(&broken, limit, || true).await;
            assert_eq!(failed, Err(FreezeFailure::Volume("broken")));
            let withdrawn = freeze.freeze(&broken, limit, || false).await;
            assert_eq!(withdrawn, Err(FreezeFailure::Withdrawn));
            let bytes = BufMut::copy_of(&[1; 4096]).freeze();
            let written = device.write(0, bytes, Durability::Flush).await;
            written.expect("not held back");
            let sound = Rc::new(SlowVolume::default());
            assert_eq!(freeze.freeze(&sound, limit, || true).await, Ok(()));
            assert_eq!(sound.resumed.get(), 0);
            rt.sleep(limit).await;
            rt.yield_now().await;
            assert_eq!(
                (sound.resumed.get(), freeze.phase()),
                (1, FreezePhase::Thawed)
            );
            assert!(!freeze.release(&*sound), "released already");
        });
    }

    #[test]
    fn a_freeze_waits_for_writes_in_progress() {
        run(|rt| async move {
            let (freeze, _, _) = frozen(&rt);
            let passed = freeze.pass(WriteClass::Client).await;
            freeze.begin(rt.now().plus(Duration::from_secs(60)));
            let waiting = freeze.clone();
            let quiet = rt.spawn(async move { waiting.quiet().await });
            rt.sleep(Duration::from_secs(1)).await;
            assert_eq!(freeze.phase(), FreezePhase::Closing);
            // The write in progress may depend on pages that the kernel writes back.
            drop(freeze.pass(WriteClass::Kernel).await);
            drop(passed);
            assert!(quiet.await);
            assert_eq!(freeze.phase(), FreezePhase::Frozen);
        });
    }

    #[test]
    fn the_time_limit_of_an_earlier_freeze_does_not_end_a_later_one() {
        run(|rt| async move {
            let (freeze, _, _) = frozen(&rt);
            freeze.begin(rt.now().plus(Duration::from_secs(10)));
            let expired = rt.spawn(freeze.expired());
            rt.sleep(Duration::from_secs(5)).await;
            freeze.thaw();
            freeze.begin(rt.now().plus(Duration::from_secs(10)));
            assert!(!expired.await);
            assert!(freeze.expired().await);
            assert!(freeze.thaw());
        });
    }
}
