//! Log-structured volumes over arrays of emulated disks and over plain flash.

use std::rc::Rc;
use std::time::Duration;

use forebay_device::{BufMut, CheckedDevice, Device, Durability, RamDevice, StampStore};
use forebay_disk_model::flash::{
    ChipArrangement, FlashPart, FrontedFlash, PlainFlash, TranslatedFlash, TranslationOptions,
    named,
};
use forebay_disk_model::{EmulatedDisk, EvenDisk, ZonedDevice};
use forebay_raid::{ParityArray, StripedArray};
use forebay_rng::Rng;
use forebay_rt::{Executor, Rt, VirtualTime};
use forebay_units::{ByteLen, LINE_BYTES, SECTOR_BYTES};
use forebay_vsl::{
    PlacementKind, SegmentLayout, SpaceDevice, SpaceSettings, SpaceSpec, SpaceWorkers, VolumeId,
    create, open,
};
use futures_util::future::join_all;

const MIB: u64 = 1 << 20;
/// Bytes of the volume that clients see.
const LEN: u64 = 6 * MIB;
const LINES: u64 = LEN / LINE_BYTES;

fn run<T: 'static, F: Future<Output = T> + 'static>(test: impl FnOnce(Rt) -> F) -> T {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    executor.block_on(test(executor.rt()))
}

/// Makes a volume with segments of this length.
async fn make(rt: &Rt, device: &Rc<dyn Device>, segment: u64, placement: PlacementKind) {
    let layout = SegmentLayout::for_device(&device.geometry(), Some(ByteLen(segment)));
    let making = SpaceSpec {
        volume: VolumeId([5; 16]),
        layout: layout.unwrap(),
        space_sectors: LEN / SECTOR_BYTES,
        placement,
        auto: false,
        page_sectors: 8,
        disk: None,
    };
    create(rt.clone(), Rc::clone(device), &making)
        .await
        .unwrap();
}

async fn open_volume(rt: &Rt, device: &Rc<dyn Device>) -> (SpaceDevice, SpaceWorkers) {
    let options = SpaceSettings {
        recovery_entries: 1000,
        discard: true,
        ..SpaceSettings::default()
    };
    let opened = open(rt.clone(), Rc::clone(device), options, false).await;
    let (space, workers, _) = opened.unwrap();
    (SpaceDevice::new(space), workers)
}

/// Clients that concurrently write blocks of one repeated word, and remember them.
struct MediaWriters {
    rng: Rng,
    lines: Vec<u64>,
    writes: u64,
}

impl MediaWriters {
    fn new(seed: u64) -> MediaWriters {
        MediaWriters {
            rng: Rng::new(seed),
            lines: vec![0; LINES as usize],
            writes: 0,
        }
    }

    /// Writes up to `count` blocks, eight at a time, most of them among a few blocks, with occasional flushes.
    async fn write(&mut self, volume: &SpaceDevice, count: u64) {
        for _ in 0..count / 8 {
            let mut at_once = Vec::new();
            for _ in 0..8 {
                let hot = !self.rng.one_in(4);
                let line = self.rng.below(if hot { LINES / 8 } else { LINES });
                if at_once.iter().any(|(other, _)| *other == line) {
                    continue;
                }
                self.writes += 1;
                self.lines[line as usize] = self.writes;
                at_once.push((line, self.writes));
            }
            let writes = at_once.into_iter().map(async |(line, word)| {
                let data = BufMut::copy_of(&word.to_le_bytes().repeat(512)).freeze();
                volume
                    .write(line * LINE_BYTES, data, Durability::Flush)
                    .await
            });
            join_all(writes)
                .await
                .into_iter()
                .for_each(|done| done.unwrap());
            if self.rng.one_in(6) {
                volume.flush().await.unwrap();
            }
        }
        volume.flush().await.unwrap();
    }

    /// Writes `count` blocks in one request.
    async fn write_long(&mut self, volume: &SpaceDevice, count: u64) {
        let first = self.rng.below(LINES - count);
        let mut bytes = Vec::new();
        for line in first..first + count {
            self.writes += 1;
            self.lines[line as usize] = self.writes;
            bytes.extend(self.writes.to_le_bytes().repeat(512));
        }
        let data = BufMut::copy_of(&bytes).freeze();
        let written = volume.write(first * LINE_BYTES, data, Durability::Flush);
        written.await.unwrap();
    }

    async fn look(&self, volume: &SpaceDevice) {
        for (line, word) in self.lines.iter().enumerate() {
            let buf = BufMut::zeroed(LINE_BYTES as usize);
            let found = volume.read(line as u64 * LINE_BYTES, buf).await.unwrap();
            assert_eq!(found[..], word.to_le_bytes().repeat(512), "line {line}");
        }
    }
}

/// Returns disks that need 5 ms for a request and store stamps.
fn disks(rt: &Rt, count: u64, len: u64) -> Vec<Rc<dyn Device>> {
    let disk = |_| -> Rc<dyn Device> {
        let data = Rc::new(StampStore::new(len, 4096));
        let timing = EvenDisk::new(len / SECTOR_BYTES, Duration::from_millis(5));
        Rc::new(EmulatedDisk::new(rt, data, timing).unwrap())
    };
    (0..count).map(disk).collect()
}

#[test]
fn a_volume_over_stripes_keeps_its_data_over_restarts() {
    run(|rt| async move {
        let array = StripedArray::new(disks(&rt, 4, 4 * MIB), 64 << 10).unwrap();
        let device: Rc<dyn Device> = Rc::new(CheckedDevice::new(array, "stripes"));
        make(&rt, &device, 256 << 10, PlacementKind::Lfs).await;
        let mut users = MediaWriters::new(1);
        for _ in 0..3 {
            let (volume, workers) = open_volume(&rt, &device).await;
            users.look(&volume).await;
            users.write(&volume, 2000).await;
            users.look(&volume).await;
            drop((volume, workers));
        }
    });
}

#[test]
fn a_volume_over_parity_is_unaffected_by_the_loss_and_replacement_of_a_disk() {
    run(|rt| async move {
        let members = disks(&rt, 5, 4 * MIB).into_iter().map(Some).collect();
        let array = Rc::new(ParityArray::new(&rt, members, 64 << 10).unwrap());
        let device: Rc<dyn Device> = Rc::new(CheckedDevice::new(Rc::clone(&array), "parity"));
        make(&rt, &device, 256 << 10, PlacementKind::Lfs).await;
        let mut users = MediaWriters::new(2);
        let (volume, workers) = open_volume(&rt, &device).await;
        users.write(&volume, 2000).await;
        array.abandon(2).unwrap();
        users.write(&volume, 1000).await;
        users.look(&volume).await;
        drop((volume, workers));
        let (volume, _workers) = open_volume(&rt, &device).await;
        users.look(&volume).await;
        let disk = disks(&rt, 1, 4 * MIB).remove(0);
        array.replace(2, disk).await.unwrap();
        let lost = array.rebuild(2).await.unwrap().lost;
        users.write(&volume, 1000).await;
        let found = array.resync(0..array.geometry().len).await.unwrap();
        assert_eq!((lost, found.parity, found.left), (0, 0, 0));
        array.abandon(0).unwrap();
        users.look(&volume).await;
        // A segment has two and a quarter rows of 256 KiB, so most rows are written in parts.
        assert!(array.stats().row_writes > 0 && array.stats().reconstructions > 0);
    });
}

/// Writes `lines` blocks three times to a volume over flash, with restarts between. Returns the chips.
async fn over_flash(
    rt: Rt,
    placement: PlacementKind,
    segment: u64,
    gang: u32,
    lines: u64,
) -> Rc<PlainFlash> {
    let data = Rc::new(RamDevice::new(u64::from(gang) * 17 * MIB, 4096));
    let arrangement = ChipArrangement {
        channels: 2,
        dies_per_channel: 1,
    };
    let part = named("k9xxg08uxm").unwrap();
    let chips = Rc::new(PlainFlash::new(&rt, part, arrangement, gang, data).unwrap());
    let mut users = MediaWriters::new(3);
    for restart in 0..3 {
        let flash = Rc::clone(&chips) as Rc<dyn Device>;
        let fronted = Rc::new(FrontedFlash::open(flash, segment).await.unwrap());
        let device: Rc<dyn Device> = Rc::new(CheckedDevice::new(fronted, "flash"));
        if restart == 0 {
            make(&rt, &device, segment, placement).await;
        }
        let (volume, _workers) = open_volume(&rt, &device).await;
        users.look(&volume).await;
        users.write(&volume, lines).await;
        users.look(&volume).await;
    }
    chips
}

#[test]
fn a_volume_over_flash_programs_no_page_twice_in_its_first_pass() {
    run(|rt| async move {
        let chips = over_flash(rt, PlacementKind::Lfs, 256 << 10, 1, 400).await;
        let usage = chips.usage();
        assert!(usage.programs > 1200 && usage.erases_max <= 1, "{usage:?}");
    });
}

#[test]
fn a_volume_over_flash_erases_and_reuses_every_block() {
    for (placement, gang) in [
        (PlacementKind::Lfs, 1),
        (PlacementKind::SepBit, 1),
        (PlacementKind::Lfs, 2),
    ] {
        run(move |rt| async move {
            // Enough to erase every block of the flash.
            let lines = 8000 * u64::from(gang);
            let segment = u64::from(gang) << 18;
            let chips = over_flash(rt, placement, segment, gang, lines).await;
            let usage = chips.usage();
            println!(
                "{placement:?}, {gang} ganged: {usage:?}, {} lines written",
                3 * lines
            );
            // Even the least erased block was erased.
            assert!(usage.erases_max > 2 && usage.erases_min > 0, "{usage:?}");
        });
    }
}

/// Writes to a volume over zones of the length of its segments, in requests of 4 KiB and of 64 KiB, with restarts
/// between. Returns the zones.
async fn over_zones(rt: Rt, placement: PlacementKind) -> Rc<ZonedDevice> {
    const SEGMENT: u64 = 256 << 10;
    let disk = disks(&rt, 1, 17 * MIB).remove(0);
    let zoned = Rc::new(ZonedDevice::new(disk, MIB, SEGMENT).unwrap());
    let device: Rc<dyn Device> = Rc::new(CheckedDevice::new(Rc::clone(&zoned), "zones"));
    make(&rt, &device, SEGMENT, placement).await;
    let mut users = MediaWriters::new(4);
    for _ in 0..3 {
        let (volume, _workers) = open_volume(&rt, &device).await;
        users.look(&volume).await;
        for _ in 0..200 {
            users.write(&volume, 24).await;
            users.write_long(&volume, 16).await;
        }
        users.look(&volume).await;
    }
    zoned
}

#[test]
fn a_volume_over_zones_writes_only_at_write_pointers() {
    for placement in [
        PlacementKind::Lfs,
        PlacementKind::Wolf,
        PlacementKind::SepBit,
    ] {
        run(move |rt| async move {
            let usage = over_zones(rt, placement).await.usage();
            // The volume would retry refused writes without end, and no request would report an error.
            assert_eq!(usage.refused, 0, "{placement:?}: {usage:?}");
            assert!(usage.resets > 200, "{placement:?}: {usage:?}");
        });
    }
}

#[test]
fn placement_handles_of_segments_reduce_the_data_moved_by_a_drive() {
    let moved = |handles| {
        run(move |rt| async move {
            let part = FlashPart {
                pages_per_block: 32,
                ..named("k9xxg08uxm").unwrap()
            };
            let arrangement = ChipArrangement {
                channels: 1,
                dies_per_channel: 1,
            };
            let options = TranslationOptions {
                reserve_thousandths: 400,
                reclaim_lanes: 4,
                buffer_units: 64,
                handles,
            };
            let data = Rc::new(RamDevice::new(17 * MIB, 4096));
            let drive = TranslatedFlash::new(&rt, part, arrangement, options, data).unwrap();
            let drive = Rc::new(drive);
            let device: Rc<dyn Device> = Rc::new(CheckedDevice::new(Rc::clone(&drive), "drive"));
            // Two segments in each reclaim unit of 512 KiB.
            make(&rt, &device, 256 << 10, PlacementKind::SepBit).await;
            let (volume, _workers) = open_volume(&rt, &device).await;
            let mut users = MediaWriters::new(5);
            users.write(&volume, 20_000).await;
            users.look(&volume).await;
            drive.usage()
        })
    };
    let (without, with) = (moved(1), moved(8));
    // Both runs wrote about the same amount, but the second moved less.
    assert!(2 * with.moved < without.moved, "{with:?}, {without:?}");
}
