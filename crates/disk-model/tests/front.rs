//! The front of flash with two rewritable blocks: their content after a power cut at any moment.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{
    Buf, BufMut, CheckedDevice, Device, DeviceError, DeviceOp, Durability, RamDevice, Result, Tap,
    TapHooks, TapRequest, ZeroedSpace,
};
use forebay_disk_model::flash::{
    ChipArrangement, FlashPart, FrontedError, FrontedFlash, PlainFlash, named,
};
use forebay_rng::Rng;
use forebay_rt::{Executor, Rt, VirtualTime};

const MIB: u64 = 1 << 20;
const A: u64 = 0;
const B: u64 = 512 << 10;
/// Small blocks, so that units fill up quickly: four entries each.
const PAGES: u64 = 8;
const UNIT: u64 = PAGES * 4096;

fn run<T: 'static, F: Future<Output = T> + 'static>(test: impl FnOnce(Rt) -> F) -> T {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    executor.block_on(test(executor.rt()))
}

/// Effect of the power cut on the request in progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CutEffect {
    Nothing,
    /// Only the first page.
    First,
    /// Only the second page.
    Second,
    /// Both pages; the first one contains garbage. `SecondTorn` is the reverse.
    FirstTorn,
    SecondTorn,
    All,
}

const LEAVES: [CutEffect; 6] = [
    CutEffect::Nothing,
    CutEffect::First,
    CutEffect::Second,
    CutEffect::FirstTorn,
    CutEffect::SecondTorn,
    CutEffect::All,
];

/// Power that fails at a future program or erase, counted from now.
struct FlashPower {
    below: Rc<PlainFlash>,
    cut_in: Cell<Option<(u32, CutEffect)>>,
    gone: Cell<bool>,
    changes: Cell<u32>,
}

type PoweredFlash = Tap<Rc<PlainFlash>, FlashPower>;

fn no_power(asked: &TapRequest) -> DeviceError {
    DeviceError::io(asked.op(), asked.range(), std::io::Error::other("no power"))
}

fn garbage(len: usize) -> Buf {
    BufMut::copy_of(&vec![0xa7; len]).freeze()
}

impl FlashPower {
    async fn program(&self, at: u64, data: Buf) {
        let written = self.below.write(at, data, Durability::Flush);
        written.await.unwrap();
    }

    async fn leave(&self, asked: &TapRequest, leaves: CutEffect) {
        match asked {
            TapRequest::Write(at, data, _) => {
                let (first, second) = (data.slice(..4096), data.slice(4096..));
                let (at, behind) = (*at, *at + 4096);
                match leaves {
                    CutEffect::Nothing => {}
                    CutEffect::First => self.program(at, first).await,
                    CutEffect::Second => self.program(behind, second).await,
                    CutEffect::FirstTorn => {
                        self.program(at, garbage(4096)).await;
                        self.program(behind, second).await;
                    }
                    CutEffect::SecondTorn => {
                        self.program(at, first).await;
                        self.program(behind, garbage(4096)).await;
                    }
                    CutEffect::All => self.program(at, data.clone()).await,
                }
            }
            TapRequest::Discard(range) if leaves != CutEffect::Nothing => {
                self.below.discard(range.clone()).await.unwrap();
                // An interrupted erase leaves random content, and pages that cannot be programmed.
                if leaves != CutEffect::All {
                    let len = (range.end - range.start) as usize;
                    self.program(range.start, garbage(len)).await;
                }
            }
            _ => {}
        }
    }
}

impl TapHooks for FlashPower {
    async fn before(&self, asked: &TapRequest) -> Result<()> {
        if self.gone.get() {
            return Err(no_power(asked));
        }
        if !asked.changes() {
            return Ok(());
        }
        self.changes.set(self.changes.get() + 1);
        match self.cut_in.get() {
            Some((0, leaves)) => {
                self.gone.set(true);
                self.leave(asked, leaves).await;
                Err(no_power(asked))
            }
            Some((n, leaves)) => {
                self.cut_in.set(Some((n - 1, leaves)));
                Ok(())
            }
            None => Ok(()),
        }
    }
}

fn flash(rt: &Rt, units: u64) -> Rc<PoweredFlash> {
    let part = FlashPart {
        pages_per_block: PAGES as u32,
        ..named("k9xxg08uxm").unwrap()
    };
    let arrangement = ChipArrangement {
        channels: 1,
        dies_per_channel: 1,
    };
    let data = Rc::new(RamDevice::new(units * UNIT, 4096));
    let below = Rc::new(PlainFlash::new(rt, part, arrangement, 1, data).unwrap());
    let power = FlashPower {
        below: Rc::clone(&below),
        cut_in: Cell::new(None),
        gone: Cell::new(false),
        changes: Cell::new(0),
    };
    Rc::new(Tap::new(below, power))
}

async fn open(flash: &Rc<PoweredFlash>) -> CheckedDevice<FrontedFlash> {
    let fronted = FrontedFlash::open(Rc::clone(flash) as Rc<dyn Device>, UNIT).await;
    CheckedDevice::new(fronted.unwrap(), "fronted")
}

fn block(number: u64) -> Buf {
    BufMut::copy_of(&number.to_le_bytes().repeat(512)).freeze()
}

async fn read(device: &dyn Device, at: u64) -> u64 {
    let found = device.read(at, BufMut::zeroed(4096)).await.unwrap();
    let (words, _) = found.as_chunks::<8>();
    assert!(words.iter().all(|word| *word == words[0]));
    u64::from_le_bytes(words[0])
}

/// Last acknowledged contents of the two blocks, and the contents that they may have instead.
#[derive(Default)]
struct FrontUser {
    acknowledged: [u64; 2],
    under_way: [Option<u64>; 2],
    writes: u64,
}

impl FrontUser {
    /// Rewrites both blocks alternately, A twice as often, until the power fails or `count` writes are done.
    async fn rewrite(&mut self, device: &dyn Device, count: u64) {
        for _ in 0..count {
            self.writes += 1;
            let place = usize::from(self.writes.is_multiple_of(3));
            self.under_way[place] = Some(self.writes);
            let write = device.write([A, B][place], block(self.writes), Durability::Fua);
            if write.await.is_err() {
                return;
            }
            self.under_way[place] = None;
            self.acknowledged[place] = self.writes;
        }
    }

    async fn look(&mut self, device: &dyn Device, what: &str) {
        for (place, at) in [A, B].into_iter().enumerate() {
            let found = read(device, at).await;
            let (old, new) = (self.acknowledged[place], self.under_way[place].take());
            assert!(
                found == old || Some(found) == new,
                "{what}: {found}, not {old} or {new:?}"
            );
            // A content that was found once must stay.
            self.acknowledged[place] = found;
        }
    }
}

#[test]
fn the_two_front_blocks_can_be_rewritten_repeatedly_and_are_found_on_open() {
    run(|rt| async move {
        let flash = flash(&rt, 8);
        let device = open(&flash).await;
        assert_eq!((read(&device, A).await, read(&device, B).await), (0, 0));
        let mut user = FrontUser::default();
        for _ in 0..20 {
            user.rewrite(&device, 7).await;
            user.look(&device, "as written").await;
            let device = open(&flash).await;
            user.look(&device, "as found again").await;
        }
        // A unit has four entries, one of which repeats the other block. The three units wear evenly.
        let wear = flash.below.wear();
        let erases: Vec<u32> = wear[..3].iter().map(|wear| wear.erases).collect();
        assert!(
            erases.iter().all(|n| n.abs_diff(erases[0]) <= 1),
            "{erases:?}"
        );
        assert!(wear[3..].iter().all(|wear| wear.programs == 0));
        let usage = flash.below.usage();
        let programs = 2 * (140 + usage.erases + 3 - 1);
        assert_eq!(usage.programs, programs);
    });
}

#[test]
fn a_power_cut_at_any_program_or_erase_leaves_the_old_or_the_new_block() {
    let mut cuts = 0;
    for leaves in LEAVES {
        for at in 0.. {
            let went = run(move |rt| async move {
                let flash = flash(&rt, 8);
                let device = open(&flash).await;
                let mut user = FrontUser::default();
                flash.cut_in.set(Some((at, leaves)));
                user.rewrite(&device, 20).await;
                let went = flash.gone.get();
                live_on(&flash, &mut user, &format!("{leaves:?} at {at}")).await;
                went
            });
            if !went {
                break;
            }
            cuts += 1;
        }
    }
    // Twenty rewrites and the additional operations of rotating them, each interrupted in six ways.
    assert!(cuts > 6 * 28, "{cuts}");
}

/// Restores power after a first cut and cuts it again after a few programs and erases, repeatedly.
async fn live_on(flash: &Rc<PoweredFlash>, user: &mut FrontUser, what: &str) {
    let rng = Rng::new(user.writes * 6 + u64::from(flash.changes.get()));
    for _ in 0..20 {
        let (cut_in, leaves) = (rng.below(5) as u32, rng.pick(&LEAVES));
        let what = format!("{what}, then {leaves:?} at {cut_in}");
        flash.gone.set(false);
        flash.cut_in.set(None);
        let device = open(flash).await;
        user.look(&device, &what).await;
        flash.cut_in.set(Some((cut_in, leaves)));
        user.rewrite(&device, 5).await;
    }
    flash.gone.set(false);
    flash.cut_in.set(None);
    let device = open(flash).await;
    user.look(&device, what).await;
    user.rewrite(&device, 20).await;
    user.look(&device, what).await;
}

#[test]
fn a_device_error_without_a_power_cut_fails_only_its_request() {
    run(|rt| async move {
        let flash = flash(&rt, 8);
        let device = open(&flash).await;
        let mut user = FrontUser::default();
        for n in 0..60 {
            flash.cut_in.set(Some((n % 5, LEAVES[n as usize % 6])));
            user.rewrite(&device, 7).await;
            flash.gone.set(false);
            flash.cut_in.set(None);
            // The content is unchanged, and after a restart may be that of the interrupted write.
            for (place, at) in [A, B].into_iter().enumerate() {
                assert_eq!(read(&device, at).await, user.acknowledged[place]);
            }
            user.rewrite(&device, 1).await;
        }
        let device = open(&flash).await;
        user.under_way = [Some(user.writes), Some(user.writes)];
        for (place, at) in [A, B].into_iter().enumerate() {
            assert!(read(&device, at).await >= user.acknowledged[place]);
        }
    });
}

#[test]
fn a_cancelled_rewrite_causes_no_damage() {
    run(|rt| async move {
        let flash = flash(&rt, 8);
        let device = open(&flash).await;
        for n in 1..40 {
            let write = device.write(A, block(n), Durability::Fua);
            let timed_out = rt.timeout(Duration::from_micros(n * 50), write).await;
            let found = read(&device, A).await;
            assert!(timed_out.is_err() || found == n);
            device.write(B, block(n), Durability::Fua).await.unwrap();
            let again = open(&flash).await;
            assert!(read(&again, A).await >= found);
            assert_eq!(read(&again, B).await, n);
        }
    });
}

#[test]
fn the_flash_beyond_the_first_mib_is_passed_through_unchanged() {
    run(|rt| async move {
        let flash = flash(&rt, 8);
        let device = open(&flash).await;
        assert_eq!(device.geometry().len, MIB + 5 * UNIT);
        assert_eq!(u64::from(device.geometry().discard_granularity), UNIT);
        for unit in 0..5 {
            let written = device.write(MIB + unit * UNIT, block(unit), Durability::Flush);
            written.await.unwrap();
            assert_eq!(read(&*flash, (3 + unit) * UNIT).await, unit);
        }
        let again = device.write(MIB, block(7), Durability::Flush).await;
        assert!(matches!(
            again,
            Err(DeviceError::Io {
                op: DeviceOp::Write,
                ..
            })
        ));
        device.discard(MIB..MIB + UNIT).await.unwrap();
        device
            .write(MIB, block(7), Durability::Flush)
            .await
            .unwrap();
        // Across the boundary: the last page of the first MiB, and the page behind it.
        let both = device.read(MIB - 4096, BufMut::zeroed(8192)).await.unwrap();
        assert_eq!((both[4095], both[4096]), (0, 7));
        let erases: Vec<u32> = flash.below.wear().iter().map(|wear| wear.erases).collect();
        assert_eq!(erases, [0, 0, 0, 1, 0, 0, 0, 0]);
    });
}

#[test]
fn only_two_blocks_of_the_first_mib_are_writable_and_all_of_it_can_be_zeroed() {
    run(|rt| async move {
        let flash = flash(&rt, 8);
        let device = open(&flash).await;
        // Formatting a new volume wipes the first MiB; this needs no write on fresh flash.
        device
            .write_zeroes(0..MIB, ZeroedSpace::Keep)
            .await
            .unwrap();
        assert_eq!(flash.changes.get(), 0);
        device.write(A, block(1), Durability::Fua).await.unwrap();
        device.write(B, block(2), Durability::Fua).await.unwrap();
        for (at, len) in [(4096, 4096), (0, 8192), (MIB - 4096, 8192)] {
            let data = BufMut::zeroed(len).freeze();
            let error = device.write(at, data, Durability::Flush).await.unwrap_err();
            assert!(
                error
                    .to_string()
                    .contains("only the blocks at 0 and 512 KiB"),
                "{error}"
            );
        }
        device.discard(0..MIB).await.unwrap();
        assert_eq!((read(&device, A).await, read(&device, B).await), (1, 2));
        device
            .write_zeroes(4096..MIB, ZeroedSpace::Keep)
            .await
            .unwrap();
        let again = open(&flash).await;
        assert_eq!((read(&again, A).await, read(&again, B).await), (1, 0));
        let front = again.read(0, BufMut::zeroed(MIB as usize)).await.unwrap();
        assert_eq!(front[..8], 1u64.to_le_bytes());
        assert!(front[4096..].iter().all(|byte| *byte == 0));
    });
}

#[test]
fn unsuitable_flash_is_refused() {
    run(|rt| async move {
        let open = async |units, segment| {
            let flash = flash(&rt, units) as Rc<dyn Device>;
            FrontedFlash::open(flash, segment).await.err()
        };
        let found = open(8, UNIT / 2).await;
        assert!(matches!(
            found,
            Some(FrontedError::Segment { unit: UNIT, .. })
        ));
        assert!(matches!(
            open(8, 0).await,
            Some(FrontedError::Segment { .. })
        ));
        assert!(open(8, 4 * UNIT).await.is_none());
        assert!(matches!(
            open(3, UNIT).await,
            Some(FrontedError::TooShort { .. })
        ));
        let ram: Rc<dyn Device> = Rc::new(RamDevice::new(64 << 20, 4096));
        let found = FrontedFlash::open(ram, UNIT).await.err();
        assert!(matches!(found, Some(FrontedError::NoFlash)));
        // Unreadable units may contain the newest copy.
        let dead = flash(&rt, 8);
        dead.gone.set(true);
        let found = FrontedFlash::open(dead as Rc<dyn Device>, UNIT).await.err();
        assert!(matches!(found, Some(FrontedError::Device(_))));
    });
}
