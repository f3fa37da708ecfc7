//! Plain flash as a device: refused requests, durations according to the chips' data sheet, and wear.

use std::rc::Rc;

use forebay_device::{
    Buf, BufMut, CheckedDevice, Device, DeviceError, Durability, RamDevice, StampStore, ZeroedSpace,
};
use forebay_disk_model::flash::{
    ChipArrangement, FlashError, FlashPart, FlashUsage, PlainFlash, PlainFlashError, named,
};
use forebay_rng::Rng;
use forebay_rt::{Executor, Rt, VirtualTime};
use futures_util::future::{join, join_all};

const PAGE: u64 = 4096;
/// Part under test: read 25, program 200, erase 1500, transfer 102.4, in microseconds; 64 pages in a block.
const PART: &str = "k9xxg08uxm";
const BLOCK: u64 = 64 * PAGE;

fn run<T: 'static, F: Future<Output = T> + 'static>(test: impl FnOnce(Rt) -> F) -> T {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    executor.block_on(test(executor.rt()))
}

/// Creates `units` erase units of flash.
fn flash(rt: &Rt, channels: u32, dies_per_channel: u32, gang: u32, units: u64) -> PlainFlash {
    let data = Rc::new(RamDevice::new(units * u64::from(gang) * BLOCK, 4096));
    let arrangement = ChipArrangement {
        channels,
        dies_per_channel,
    };
    PlainFlash::new(rt, named(PART).unwrap(), arrangement, gang, data).unwrap()
}

fn filled(pages: u64, byte: u8) -> Buf {
    BufMut::copy_of(&vec![byte; (pages * PAGE) as usize]).freeze()
}

async fn write(flash: &PlainFlash, page: u64, pages: u64, byte: u8) {
    let written = flash.write(page * PAGE, filled(pages, byte), Durability::Flush);
    written.await.unwrap();
}

async fn read(flash: &PlainFlash, page: u64, pages: u64) -> Vec<u8> {
    let buf = BufMut::zeroed((pages * PAGE) as usize);
    flash.read(page * PAGE, buf).await.unwrap().to_vec()
}

/// Returns the reason for which a write of one page is refused.
async fn refusal(flash: &PlainFlash, page: u64) -> FlashError {
    let refused = flash.write(page * PAGE, filled(1, 0), Durability::Flush);
    let Err(DeviceError::Io { source, .. }) = refused.await else {
        panic!("page {page} was written");
    };
    let error = source.get_ref().and_then(|error| error.downcast_ref());
    *error.expect("a rule of flash")
}

/// Returns the microseconds since the start.
fn us(rt: &Rt) -> u64 {
    rt.now().as_nanos() / 1000
}

#[test]
fn a_page_is_written_once_in_ascending_order_until_its_unit_is_discarded() {
    run(|rt| async move {
        let flash = flash(&rt, 1, 1, 1, 4);
        write(&flash, 0, 2, 1).await;
        write(&flash, 5, 1, 2).await;
        assert!(matches!(
            refusal(&flash, 1).await,
            FlashError::Programmed { page: 1, .. }
        ));
        let left_out = refusal(&flash, 3).await;
        assert!(matches!(
            left_out,
            FlashError::LeftOut {
                page: 3,
                next: 6,
                ..
            }
        ));
        let text = left_out.to_string();
        assert!(
            text.contains("page 3") && text.contains("skipped"),
            "{text}"
        );
        // An overlapping write is refused as a whole.
        let both = flash.write(5 * PAGE, filled(2, 3), Durability::Flush).await;
        assert!(both.is_err());
        assert_eq!(
            read(&flash, 4, 3).await,
            [vec![0xff; 4096], vec![2; 4096], vec![0xff; 4096]].concat()
        );
        write(&flash, 6, 1, 3).await;
        flash.discard(0..BLOCK).await.unwrap();
        assert_eq!(read(&flash, 0, 64).await, vec![0xff; BLOCK as usize]);
        write(&flash, 0, 1, 4).await;
        assert_eq!(read(&flash, 0, 1).await, vec![4; 4096]);
    });
}

#[test]
fn a_discard_erases_only_whole_units_that_contain_data() {
    run(|rt| async move {
        let flash = flash(&rt, 1, 1, 1, 4);
        write(&flash, 0, 1, 1).await;
        write(&flash, 64, 1, 1).await;
        let before = us(&rt);
        flash.discard(0..BLOCK - PAGE).await.unwrap();
        flash.discard(PAGE..BLOCK).await.unwrap();
        flash.discard(2 * BLOCK..4 * BLOCK).await.unwrap();
        assert_eq!(us(&rt), before);
        assert_eq!(flash.usage().erases, 0);
        flash.discard(PAGE..3 * BLOCK).await.unwrap();
        let erases: Vec<u32> = flash.wear().iter().map(|wear| wear.erases).collect();
        assert_eq!(erases, [0, 1, 0, 0]);
        assert_eq!(us(&rt), before + 1500);
        assert_eq!(read(&flash, 0, 1).await, vec![1; 4096]);
        assert_eq!(read(&flash, 64, 1).await, vec![0xff; 4096]);
    });
}

#[test]
fn pages_of_one_block_are_programmed_one_after_another() {
    run(|rt| async move {
        let flash = flash(&rt, 1, 1, 1, 4);
        write(&flash, 0, 3, 1).await;
        assert_eq!(us(&rt), 3 * 3024 / 10);
        read(&flash, 0, 1).await;
        assert_eq!(us(&rt), (9072 + 1274) / 10);
    });
}

#[test]
fn ganged_channels_work_concurrently_and_planes_share_their_channel() {
    run(|rt| async move {
        // One plane of each of four channels.
        let wide = flash(&rt, 4, 1, 4, 2);
        assert_eq!(wide.geometry().discard_granularity, 4 << 18);
        assert_eq!(wide.geometry().preferred_io, 4 << 12);
        write(&wide, 0, 8, 1).await;
        assert_eq!(us(&rt), 2 * 3024 / 10);
        let begun = us(&rt);
        wide.discard(0..4 * BLOCK).await.unwrap();
        assert_eq!(us(&rt) - begun, 1500);
        assert_eq!(wide.usage().erases, 4);
    });
    run(|rt| async move {
        // The four planes of one die: consecutive transfers, then a single array time for all.
        let planes = flash(&rt, 1, 1, 4, 2);
        write(&planes, 0, 4, 1).await;
        assert_eq!(us(&rt), (4 * 1024 + 2000) / 10);
    });
}

#[test]
fn adjacent_units_are_on_different_channels() {
    run(|rt| async move {
        let flash = flash(&rt, 2, 1, 1, 8);
        // Units 0 and 1 concurrently. Then units 0, 2 and 4, which are planes of one die: it begins with the first
        // request, and the two others, which wait for it, share their array time.
        join(write(&flash, 0, 1, 1), write(&flash, 64, 1, 1)).await;
        assert_eq!(us(&rt), 302);
        let begun = rt.now().as_nanos();
        join_all([1, 128, 256].map(|page| write(&flash, page, 1, 1))).await;
        assert_eq!(rt.now().as_nanos() - begun, 302_400 + 404_800);
    });
}

#[test]
fn chip_operations_are_counted_for_the_write_amplification() {
    run(|rt| async move {
        let flash = flash(&rt, 1, 1, 2, 2);
        write(&flash, 0, 6, 1).await;
        read(&flash, 0, 2).await;
        flash.discard(0..2 * BLOCK).await.unwrap();
        write(&flash, 0, 1, 1).await;
        // Zeroes are written like other data.
        flash
            .write_zeroes(PAGE..3 * PAGE, ZeroedSpace::Release)
            .await
            .unwrap();
        assert_eq!(read(&flash, 1, 2).await, vec![0; 8192]);
        let usage = FlashUsage {
            programs: 9,
            reads: 4,
            erases: 2,
            erases_min: 0,
            erases_max: 1,
        };
        assert_eq!(flash.usage(), usage);
        let programs: Vec<u64> = flash.wear().iter().map(|wear| wear.programs).collect();
        assert_eq!(programs, [5, 4, 0, 0]);
    });
}

#[test]
fn every_page_of_a_device_has_its_own_chip_address() {
    run(|rt| async move {
        for (channels, dies, gang) in [(1, 1, 1), (2, 3, 4), (3, 2, 8), (4, 1, 16)] {
            let units = 24 / u64::from(gang).min(24) + 3;
            let flash = flash(&rt, channels, dies, gang, units);
            let pages = flash.geometry().len / PAGE;
            // Each page can be programmed once, in any state of the flash, and then reads back correctly.
            let writes = (0..pages).map(|page| write(&flash, page, 1, (page % 251) as u8));
            join_all(writes).await;
            assert_eq!(flash.usage().programs, pages);
            for page in 0..pages {
                assert_eq!(read(&flash, page, 1).await[0], (page % 251) as u8);
            }
        }
    });
}

#[test]
fn impossible_flash_devices_are_refused() {
    run(|rt| async move {
        let refused = |part: FlashPart, gang, bytes| {
            let arrangement = ChipArrangement {
                channels: 2,
                dies_per_channel: 1,
            };
            let data = Rc::new(RamDevice::new(bytes, 4096));
            PlainFlash::new(&rt, part, arrangement, gang, data).err()
        };
        let part = named(PART).unwrap();
        let small = named("mt29f8g08maa").unwrap();
        assert_eq!(
            refused(small, 1, 1 << 24),
            Some(PlainFlashError::Page(2048))
        );
        let gang = |gang| Some(PlainFlashError::Gang { gang, lanes: 8 });
        assert_eq!(refused(part, 3, 1 << 24), gang(3));
        assert_eq!(refused(part, 0, 1 << 24), gang(0));
        assert_eq!(refused(part, u32::MAX, 1 << 24), gang(u32::MAX));
        let (have, need) = (BLOCK - PAGE, BLOCK);
        let short = PlainFlashError::TooShort { have, need };
        assert_eq!(refused(part, 1, have), Some(short));
    });
}

#[test]
fn stamps_on_flash_use_little_memory() {
    run(|rt| async move {
        let data = Rc::new(StampStore::new(16 << 30, 4096));
        let arrangement = ChipArrangement {
            channels: 4,
            dies_per_channel: 2,
        };
        let below = Rc::clone(&data) as Rc<dyn Device>;
        let part = named(PART).unwrap();
        let flash = PlainFlash::new(&rt, part, arrangement, 16, below).unwrap();
        let flash = CheckedDevice::new(flash, "flash");
        // The maximum size: 8 dies of 2 GiB.
        assert_eq!(flash.geometry().len, 16 << 30);
        let rng = Rng::new(1);
        for unit in (0..4096).step_by(64) {
            let at = unit * (4 << 20);
            let stamps: Vec<u8> = (0..16)
                .flat_map(|_| rng.next().to_le_bytes().repeat(512))
                .collect();
            let written = BufMut::copy_of(&stamps).freeze();
            flash.write(at, written, Durability::Flush).await.unwrap();
            let found = flash.read(at, BufMut::zeroed(stamps.len())).await.unwrap();
            assert_eq!(found[..], stamps);
        }
        assert_eq!(data.usage().words, 64 * 16);
        assert_eq!(data.usage().full, 0);
    });
}
