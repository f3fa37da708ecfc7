//! A whole log, changed by an attacker with correct checksums.
//!
//! The input is a list of changes to a log that a volume left behind in a crash. After each change of a structure its
//! checksum is corrected. Then all readers of logs read this log. Guarantees:
//! - `inspect`, `check`, `dump` and `attach` return a result or an error.
//! - A refused attach has changed neither device.
//! - A successful attach gives a volume that can be read (or reports the damaged ranges), written,
//!   drained and closed, and afterwards the log is clean.
//! - A crash right after the attach loses nothing: the next attach finds equal data (I4).

use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::time::Duration;

use forebay_dcd::{
    AttachOptions, AttachReport, CreateOptions, DataIdentity, DcdAttachError, DcdVolume,
    OffsetPolicy, VolumeId,
};
use forebay_device::{
    AckMode, BufMut, CheckVerdict, Device, DeviceError, Durability, RamDevice, Tap, TapHooks,
    TapRequest, ZeroedSpace, is_zero,
};
use forebay_ring_log::{HEADER_BYTES, LogOpenError, SUPERBLOCK_A_AT, SUPERBLOCK_B_AT};
use forebay_rt::{Executor, Rt, VirtualTime};
use forebay_units::ByteLen;

use crate::cap;
use crate::seal::seal_at;

const SEGMENT: ByteLen = ByteLen::kib(128);
const LOG_BYTES: u64 = (1 << 20) + 32 * SEGMENT.0;
const DATA_BYTES: u64 = 640 << 10;
/// Memory for the two devices, a copy of one, and the segments that recovery reads.
const MEMORY: usize = 48 << 20;
/// Longer than any drain of such a small log takes, retries of a failing device included.
const DRAIN_TIME: Duration = Duration::from_secs(3600);
const STEP: u64 = 4096;

thread_local! {
    static BASE: OnceCell<CrashImages> = const { OnceCell::new() };
}

/// Content of the devices after a crash.
struct CrashImages {
    log: Vec<u8>,
    data: Vec<u8>,
    /// Places of the structures in the log.
    places: Vec<usize>,
}

/// Counter of changes of a device.
#[derive(Default)]
struct ChangeCounter {
    changes: Cell<u64>,
}

impl TapHooks for ChangeCounter {
    async fn before(&self, asked: &TapRequest) -> forebay_device::Result<()> {
        self.changes
            .set(self.changes.get() + u64::from(asked.changes()));
        Ok(())
    }
}

type CountedRam = Tap<RamDevice, ChangeCounter>;

fn watched(len: u64, bytes: &[u8]) -> Rc<CountedRam> {
    let ram = RamDevice::new(len, 512);
    for (n, page) in bytes.chunks(4096).enumerate() {
        if !is_zero(page) {
            ram.poke(n as u64 * 4096, page);
        }
    }
    Rc::new(Tap::new(ram, ChangeCounter::default()))
}

fn bytes_of(device: &CountedRam) -> Vec<u8> {
    let mut bytes = vec![0; device.geometry().len as usize];
    device.below.peek(0, &mut bytes);
    bytes
}

fn identity() -> DataIdentity {
    DataIdentity {
        len: DATA_BYTES,
        path: "data".into(),
        names: Vec::new(),
    }
}

async fn attach(
    rt: &Rt,
    log: &Rc<CountedRam>,
    data: &Rc<CountedRam>,
    options: AttachOptions,
) -> Result<(DcdVolume, AttachReport), DcdAttachError> {
    let (log, data) = (Rc::clone(log), Rc::clone(data));
    DcdVolume::attach(rt.clone(), log, data, identity(), options).await
}

/// Makes a volume with two incarnations, the second ended by a crash, and with every kind of content of a log.
fn make_base() -> CrashImages {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let rt = executor.rt();
    executor.block_on(async move {
        let log = watched(LOG_BYTES, &[]);
        let data = watched(DATA_BYTES, &[0x11; DATA_BYTES as usize]);
        let options = CreateOptions {
            name: "fuzz".into(),
            volume: VolumeId([7; 16]),
            segment: SEGMENT,
            data: identity(),
        };
        let made = forebay_dcd::create(log.clone(), data.clone(), options).await;
        made.expect("a new volume");
        for life in 0..2u8 {
            let volume = attach(&rt, &log, &data, AttachOptions::default()).await;
            use_volume(&volume.expect("it was left in order").0, life).await;
        }
        let (mut log, data) = (bytes_of(&log), bytes_of(&data));
        // Unwritten space reads as zeroes anyway.
        let used = log.iter().rposition(|byte| *byte != 0).unwrap_or(0);
        log.truncate((used + 1).next_multiple_of(SEGMENT.0 as usize));
        let magics: [&[u8]; 2] = [b"FOREREC\x01", b"FORESUM\x01"];
        let found = (1 << 20..log.len()).step_by(512);
        let found = found.filter(|at| magics.iter().any(|magic| log[*at..].starts_with(magic)));
        let mut places = vec![SUPERBLOCK_A_AT as usize, SUPERBLOCK_B_AT as usize];
        places.extend(found);
        CrashImages { log, data, places }
    })
}

async fn use_volume(volume: &DcdVolume, life: u8) {
    let write = async |at: u64, len: usize, fill: u8| {
        let buf = BufMut::copy_of(&vec![fill + life; len]).freeze();
        volume
            .write(at, buf, Durability::Flush)
            .await
            .expect("written");
    };
    write(0, 4096, 0x20).await;
    write(4096 + 512, 1024, 0x30).await;
    volume.flush().await.expect("flushed");
    volume
        .write_zeroes(8192..65536, ZeroedSpace::Release)
        .await
        .expect("zeroed");
    write(16384, 8192, 0x40).await;
    volume.discard(0..2048).await.expect("discarded");
    volume.flush().await.expect("flushed");
    // More than a segment, in one group.
    write(256 << 10, 300 << 10, 0x50).await;
    volume.flush().await.expect("flushed");
    write(70 << 10, 512, 0x60).await;
    write(71 << 10, 512, 0x70).await;
    volume.flush().await.expect("flushed");
}

/// The input, which is consumed byte by byte.
struct ImageScript<'a>(&'a [u8]);

impl ImageScript<'_> {
    fn byte(&mut self) -> Option<usize> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(usize::from(*first))
    }

    /// Makes the next change; `None` at the end.
    fn change(&mut self, image: &mut [u8], places: &[usize]) -> Option<()> {
        let (kind, place) = (self.byte()? & 7, self.byte()? % places.len());
        let at = places[place];
        match kind {
            // Fields at the front.
            0..=3 => self.edit(image, at, 0, true)?,
            // Any bytes in the block.
            4 => {
                let page = self.byte()? & 15;
                self.edit(image, at, page * 256, true)?;
            }
            // One structure in place of another.
            5 => {
                let from = places[self.byte()? % places.len()];
                image.copy_within(from..from + HEADER_BYTES, at);
            }
            6 => image[at..at + HEADER_BYTES].fill(0),
            // Bit rot, of the structure or of the data behind it.
            _ => {
                let page = self.byte()?;
                let skip = (page * 256).min(image.len() - at - 512);
                self.edit(image, at, skip, false)?;
            }
        }
        Some(())
    }

    fn edit(&mut self, image: &mut [u8], place: usize, skip: usize, sealed: bool) -> Option<()> {
        let (at, len) = (self.byte()?, 1 + (self.byte()? & 15));
        for n in 0..len {
            let value = self.byte()? as u8;
            if let Some(byte) = image.get_mut(place + skip + at + n) {
                *byte = value;
            }
        }
        if sealed {
            seal_at(image, place);
        }
        Some(())
    }
}

/// Returns the first byte, which selects options, the log that the input makes, and the data device.
fn tampered(bytes: &[u8]) -> (usize, Rc<CountedRam>, Rc<CountedRam>) {
    BASE.with(|base| {
        let base = base.get_or_init(make_base);
        let mut script = ImageScript(bytes);
        let flags = script.byte().unwrap_or(0);
        let mut log = base.log.clone();
        while script.change(&mut log, &base.places).is_some() {}
        let log = watched(LOG_BYTES, &log);
        (flags, log, watched(DATA_BYTES, &base.data))
    })
}

/// Changes a log as the input describes, and reads the log.
pub fn image(bytes: &[u8]) {
    let (flags, log, data) = tampered(bytes);
    let options = AttachOptions {
        acknowledge: if flags & 1 == 0 {
            AckMode::Memory
        } else {
            AckMode::Durable
        },
        bypass: (flags & 2 != 0).then_some(ByteLen::kib(64)),
        accept_loss: flags & 4 != 0,
        accept_changed: flags & 8 != 0,
        gaps: match flags & 16 {
            0 => OffsetPolicy::default(),
            _ => OffsetPolicy::Scattered(flags as u64),
        },
        ..AttachOptions::default()
    };
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let rt = executor.rt();
    cap::within(MEMORY, || {
        executor.block_on(judge(rt, log, data, options));
    });
}

/// Returns the error that refuses a log changed as the input describes; `None` if the log is attached.
pub fn refusal(bytes: &[u8]) -> Option<String> {
    let (_, log, data) = tampered(bytes);
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let rt = executor.rt();
    executor.block_on(async move {
        let attached = attach(&rt, &log, &data, AttachOptions::default()).await;
        assert!(attached.is_ok() || log.changes.get() + data.changes.get() == 0);
        attached.err().map(|error| error.to_string())
    })
}

/// Returns a change of the structure at `place`: `bytes`, at most 16, replace the content `at` bytes into the
/// structure, and the checksum is corrected.
pub fn edit(place: u8, at: u8, bytes: &[u8]) -> Vec<u8> {
    [&[1, place, at, bytes.len() as u8 - 1], bytes].concat()
}

async fn judge(rt: Rt, log: Rc<CountedRam>, data: Rc<CountedRam>, options: AttachOptions) {
    let _ = forebay_dcd::inspect(log.clone()).await;
    let with_data: (Rc<dyn Device>, DataIdentity) = (data.clone(), identity());
    let _ = forebay_dcd::check(log.clone(), Some(with_data), &mut |_, _| {}).await;
    let _ = forebay_dcd::dump(log.clone(), &mut |_| {}).await;
    assert_eq!(
        log.changes.get() + data.changes.get(),
        0,
        "looking changes nothing"
    );
    let Ok((volume, _)) = attach(&rt, &log, &data, options).await else {
        assert_eq!(
            log.changes.get() + data.changes.get(),
            0,
            "a refusal changes nothing"
        );
        return;
    };
    let first = read_all(&volume).await;
    drop(volume);
    let changed = log.changes.get() + data.changes.get();
    // A valid summary that cannot be correct (of an epoch before its segment's) is skipped among the newest segments,
    // and ends the chain later. The report records such a summary; only then may the results differ.
    let (volume, report) = match attach(&rt, &log, &data, options).await {
        Ok(attached) => attached,
        Err(DcdAttachError::Log(LogOpenError::Damaged(_))) => {
            assert_eq!(
                log.changes.get() + data.changes.get(),
                changed,
                "a refusal changes nothing"
            );
            return;
        }
        Err(error) => panic!("taken up once, and then refused: {error}"),
    };
    let loss = |note: &String| note.starts_with("attached without");
    if !report.notes.iter().any(loss) {
        let second = read_all(&volume).await;
        for (n, (a, b)) in first.iter().zip(&second).enumerate() {
            assert!(a == b, "block {n} is another after a second recovery");
        }
    }
    let new = BufMut::copy_of(&[0xee; 8192]).freeze();
    volume
        .write(12288, new.clone(), Durability::Fua)
        .await
        .expect("it can be written");
    volume.flush().await.expect("it can be flushed");
    let seen = volume
        .read(12288, BufMut::zeroed(8192))
        .await
        .expect("what was written is read");
    assert!(*seen == *new);
    let drained = rt.timeout(DRAIN_TIME, volume.drain()).await;
    let drained =
        drained.unwrap_or_else(|_| panic!("it cannot be drained: {:?}", volume.what_is_left()));
    let closed = volume.close().await;
    if drained.is_ok() && closed.is_ok() {
        let report = forebay_dcd::check(log, None, &mut |_, _| {})
            .await
            .expect("a log");
        assert_eq!(report.verdict, CheckVerdict::Clean, "{:?}", report.problems);
    }
}

/// Reads every block; `None` for an unreadable block.
async fn read_all(volume: &DcdVolume) -> Vec<Option<Vec<u8>>> {
    let mut blocks = Vec::new();
    for at in (0..DATA_BYTES).step_by(STEP as usize) {
        let block: Result<BufMut, DeviceError> =
            volume.read(at, BufMut::zeroed(STEP as usize)).await;
        blocks.push(block.ok().map(|block| block.to_vec()));
    }
    blocks
}

pub(super) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let changes = |flags: u8, all: &[Vec<u8>]| {
        let mut script = vec![flags];
        for one in all {
            script.extend_from_slice(one);
        }
        script
    };
    vec![
        ("as_it_is", vec![0]),
        ("with_write", vec![1]),
        ("with_bypass", vec![2]),
        // Fields of a superblock: tail, ring, epoch.
        (
            "tail",
            changes(
                4,
                &[edit(0, 56, &[1, 0, 0, 0, 0, 0, 0, 0]), edit(1, 56, &[1])],
            ),
        ),
        (
            "ring",
            changes(
                0,
                &[
                    edit(0, 88, &[1, 0, 0, 0, 0, 0, 0, 0]),
                    edit(0, 96, &[0, 64, 0, 0]),
                ],
            ),
        ),
        ("epoch", changes(0, &[edit(0, 40, &[0xff; 7])])),
        // Fields of a record: payload length, count of entries, an entry's block.
        ("payload", changes(4, &[edit(2, 68, &[0, 0x10, 0, 0])])),
        ("entries", changes(4, &[edit(3, 72, &[2, 0])])),
        ("line", changes(0, &[edit(5, 90, &[1])])),
        (
            "epoch_of_a_summary",
            changes(4, &[edit(14, 32, &[0xff; 8])]),
        ),
        ("epoch_of_a_record", changes(0, &[edit(18, 32, &[0xff; 8])])),
        // A missing summary, a structure in the place of another, bit rot behind a header.
        ("gone", vec![4, 6, 9]),
        ("misplaced", vec![4, 5, 4, 3]),
        ("rot", vec![4, 7, 2, 16, 0, 0, 0x55]),
    ]
}
