//! Damage to a volume's device: changes of single bytes.
//!
//! The allowed results are the right data, an error for the affected sectors, or a refusal with a reason and without
//! changes. Wrong data and panics are failures. The volume was idle for a while, so flushed data must not disappear
//! without an error.
//!
//! `FOREBAY_CASES` sets the number of bytes that are changed in each volume; `all` changes each byte that recovery
//! reads.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{
    BufMut, Device, DeviceError, Durability, MemoryOverlay, RamDevice, Tap, TapHooks, TapRequest,
};
use forebay_rng::Rng;
use forebay_rt::{Executor, Rt, VirtualTime};
use forebay_units::{ByteLen, SECTOR_BYTES};
use forebay_vsl::{
    PlacementKind, SegmentLayout, SpaceDevice, SpaceSettings, SpaceSpec, VolumeId, create, open,
};

const SEGMENT: u64 = 128 << 10;
/// Sectors of the space.
const SECTORS: u64 = 2048;
const BLOCK: u64 = 4096;
/// Number of bytes that are changed in each volume.
const CASES: u64 = 1500;
/// Idle time of a volume before it is killed.
const IDLE: Duration = Duration::from_secs(2);

/// Contents of each sector: the number of the write that wrote it, or 0 if it is not mapped.
type SectorWrites = Vec<u64>;

/// A volume as a kill left it.
struct KilledVolume {
    device: Rc<RamDevice>,
    /// Contents of the space after each action that recovery may find as the last action.
    states: Vec<SectorWrites>,
    /// Index of the first state that may be found without an error.
    flushed: usize,
}

fn run<T: 'static, F: Future<Output = T> + 'static>(test: impl FnOnce(Rt) -> F) -> T {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    executor.block_on(test(executor.rt()))
}

fn content(number: u64, sectors: u64) -> BufMut {
    BufMut::copy_of(
        &number
            .to_le_bytes()
            .repeat((sectors * SECTOR_BYTES / 8) as usize),
    )
}

/// Overwrites, trims and flushes until the log has wrapped around a few times, makes a checkpoint, continues for a
/// while, and stays idle.
fn used(kind: PlacementKind) -> KilledVolume {
    let segments = if kind == PlacementKind::Lfs { 32 } else { 40 };
    let device = Rc::new(RamDevice::new((1 << 20) + segments * SEGMENT, 4096));
    let medium = Rc::clone(&device);
    let states = run(move |rt| async move {
        let layout = SegmentLayout::for_device(&medium.geometry(), Some(ByteLen(SEGMENT)));
        let making = SpaceSpec {
            volume: VolumeId([3; 16]),
            layout: layout.unwrap(),
            space_sectors: SECTORS,
            placement: kind,
            auto: false,
            page_sectors: 16,
            disk: None,
        };
        let medium: Rc<dyn Device> = medium;
        create(rt.clone(), Rc::clone(&medium), &making)
            .await
            .unwrap();
        let opened = open(rt.clone(), medium, SpaceSettings::default(), false);
        let opened = opened.await.unwrap();
        let volume = SpaceDevice::new(opened.0);
        let rng = Rng::new(11);
        let mut now = vec![0; SECTORS as usize];
        let act = async |number: u64, now: &mut SectorWrites| {
            let at = rng.below(SECTORS);
            let sectors = (1 + rng.below(24)).min(SECTORS - at);
            let range = at as usize..(at + sectors) as usize;
            if number.is_multiple_of(9) {
                let bytes = at * SECTOR_BYTES..(at + sectors) * SECTOR_BYTES;
                volume.discard(bytes).await.unwrap();
                now[range].fill(0);
                return;
            }
            let data = content(number, sectors).freeze();
            let how = [Durability::Flush, Durability::Fua][usize::from(number.is_multiple_of(31))];
            volume.write(at * SECTOR_BYTES, data, how).await.unwrap();
            now[range].fill(number);
        };
        for number in 1..2500 {
            act(number, &mut now).await;
        }
        assert!(volume.space().stats().segments_cleaned > 0);
        volume.space().checkpoint().await.unwrap();
        let mut states = vec![now.clone()];
        for number in 2500..2580 {
            act(number, &mut now).await;
            states.push(now.clone());
            if number.is_multiple_of(20) {
                volume.flush().await.unwrap();
            }
        }
        volume.flush().await.unwrap();
        rt.sleep(IDLE).await;
        states
    });
    KilledVolume {
        device,
        flushed: states.len() - 1,
        states,
    }
}

/// Records the ranges of reads.
#[derive(Clone, Default)]
struct ReadRanges(Rc<RefCell<Vec<Range<u64>>>>);

impl TapHooks for ReadRanges {
    async fn before(&self, asked: &TapRequest) -> Result<(), DeviceError> {
        if let TapRequest::Read(range) = asked {
            self.0.borrow_mut().push(range.clone());
        }
        Ok(())
    }
}

/// Returns the blocks that opening the volume reads.
fn read_by_recovery(case: &KilledVolume) -> Vec<u64> {
    let noted = ReadRanges::default();
    let below: Rc<dyn Device> =
        Rc::new(MemoryOverlay::new(Rc::clone(&case.device) as Rc<dyn Device>));
    let device: Rc<dyn Device> = Rc::new(Tap::new(below, noted.clone()));
    run(|rt| async move {
        open(rt, device, SpaceSettings::default(), false)
            .await
            .unwrap();
    });
    let ranges = noted.0.take();
    let blocks = ranges
        .iter()
        .flat_map(|range| range.start / BLOCK..range.end.div_ceil(BLOCK));
    blocks.collect::<BTreeSet<u64>>().into_iter().collect()
}

/// Result of a changed byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum DamageOutcome {
    Right,
    Errors,
    Refused,
}

/// Returns the contents of each sector, as far as it can be read.
async fn read(volume: &SpaceDevice) -> Vec<Option<u64>> {
    let mut found = Vec::new();
    for line in (0..SECTORS).step_by(8) {
        let at = line * SECTOR_BYTES;
        let parts = if let Ok(read) = volume.read(at, BufMut::zeroed(BLOCK as usize)).await {
            vec![(Ok(read), 8)]
        } else {
            let mut parts = Vec::new();
            for n in 0..8 {
                let buf = BufMut::zeroed(SECTOR_BYTES as usize);
                parts.push((volume.read(at + n * SECTOR_BYTES, buf).await, 1));
            }
            parts
        };
        for (read, sectors) in parts {
            match read {
                Ok(read) => found.extend(read.chunks_exact(512).map(|sector| {
                    let number = u64::from_le_bytes(sector[..8].try_into().unwrap());
                    assert!(sector == &content(number, 1)[..], "a sector of two writes");
                    Some(number)
                })),
                Err(DeviceError::Damaged { .. }) => found.extend(vec![None; sectors]),
                Err(error) => panic!("{error}"),
            }
        }
    }
    found
}

/// Opens the volume with one byte changed, and compares the contents with the allowed states.
fn try_with(case: &KilledVolume, at: u64, with: u8) -> DamageOutcome {
    let mut byte = [0];
    case.device.peek(at, &mut byte);
    case.device.poke(at, &[byte[0] ^ with]);
    let overlay = Rc::new(MemoryOverlay::new(Rc::clone(&case.device) as Rc<dyn Device>));
    let device = Rc::clone(&overlay) as Rc<dyn Device>;
    let found = run(|rt| async move {
        let opened = open(rt, device, SpaceSettings::default(), false).await;
        match opened {
            Ok((space, _workers, _)) => Ok(read(&SpaceDevice::new(space)).await),
            Err(error) => Err(error.to_string()),
        }
    });
    case.device.poke(at, &byte);
    let found = match found {
        Ok(found) => found,
        Err(why) => {
            assert!(!why.is_empty() && !overlay.is_changed(), "byte {at}: {why}");
            return DamageOutcome::Refused;
        }
    };
    let fits = |state: &SectorWrites| {
        let mut pairs = found.iter().zip(state);
        pairs.all(|(found, there)| found.is_none_or(|found| found == *there))
    };
    let newest = case.states.iter().rposition(fits);
    let Some(newest) = newest else {
        panic!("byte {at} ^ {with:#x}: what is found was never there");
    };
    assert!(
        newest >= case.flushed,
        "byte {at} ^ {with:#x}: {newest} of {}",
        case.states.len()
    );
    if found.iter().any(Option::is_none) {
        DamageOutcome::Errors
    } else {
        DamageOutcome::Right
    }
}

/// Returns the bytes to change. Most of them are read by recovery.
fn bytes(case: &KilledVolume, rng: &Rng) -> Vec<u64> {
    let blocks = read_by_recovery(case);
    let asked = std::env::var("FOREBAY_CASES").unwrap_or_default();
    if asked == "all" {
        return blocks
            .iter()
            .flat_map(|block| block * BLOCK..(block + 1) * BLOCK)
            .collect();
    }
    let cases = asked.parse().unwrap_or(CASES);
    let len = case.device.geometry().len;
    let one = |n| match n % 4 {
        0 => rng.below(len),
        1 => rng.pick(&blocks) * BLOCK + rng.below(128),
        _ => rng.pick(&blocks) * BLOCK + rng.below(BLOCK),
    };
    (0..cases).map(one).collect()
}

#[test]
fn a_changed_byte_gives_correct_data_an_error_or_a_rejection() {
    for kind in [PlacementKind::Lfs, PlacementKind::Wolf] {
        let case = used(kind);
        let rng = Rng::new(5);
        let mut outcomes = [0; 3];
        for at in bytes(&case, &rng) {
            let outcome = try_with(&case, at, 1 << rng.below(8));
            outcomes[outcome as usize] += 1;
        }
        let [right, errors, refused] = outcomes;
        println!("{kind}: {right} right, {errors} with errors, {refused} refused");
        assert!(right > 0 && errors > 0 && refused > 0, "{outcomes:?}");
    }
}

/// Found by changing each byte of every structure: if the first record of a segment was damaged, recovery did not
/// search behind it. All flushed data in a segment without a summary was lost without an error.
#[test]
fn a_damaged_first_header_does_not_hide_the_records_after_it() {
    let mut case = used(PlacementKind::Lfs);
    let (medium, before) = (Rc::clone(&case.device), case.states.pop().expect("one"));
    case.states = run(move |rt| async move {
        let opened = open(rt.clone(), medium, SpaceSettings::default(), false);
        let opened = opened.await.unwrap();
        let volume = SpaceDevice::new(opened.0);
        let mut states = vec![before];
        for number in 3000..3005 {
            let at = number % 7 * 16;
            let data = content(number, 8).freeze();
            let written = volume.write(at * SECTOR_BYTES, data, Durability::Fua);
            written.await.unwrap();
            let mut now = states[states.len() - 1].clone();
            now[at as usize..at as usize + 8].fill(number);
            states.push(now);
        }
        rt.sleep(IDLE).await;
        states
    });
    case.flushed = case.states.len() - 1;
    let starts = read_by_recovery(&case).into_iter().filter(|block| {
        let mut magic = [0; 8];
        case.device.peek(block * BLOCK, &mut magic);
        magic == *b"FOREVRC\x02" && (block * BLOCK - (1 << 20)).is_multiple_of(SEGMENT)
    });
    let outcomes: Vec<DamageOutcome> = starts
        .map(|block| try_with(&case, block * BLOCK, 4))
        .collect();
    assert!(outcomes.contains(&DamageOutcome::Refused), "{outcomes:?}");
}

#[test]
fn an_undamaged_volume_is_recovered_unchanged() {
    let case = used(PlacementKind::Lfs);
    assert_eq!(try_with(&case, 0, 0), DamageOutcome::Right);
}

#[test]
#[should_panic(expected = "what is found was never there")]
fn the_damage_test_detects_data_that_was_never_written() {
    let mut case = used(PlacementKind::Lfs);
    case.states.iter_mut().for_each(|state| state[0] += 1);
    try_with(&case, 0, 0);
}
