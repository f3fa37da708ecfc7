//! A cache on two simulated disks: making and attaching.

use std::cell::RefCell;
use std::rc::Rc;

use forebay_dcd::{
    AttachOptions, AttachReport, CreateOptions, DataIdentity, DcdAttachError, DcdVolume,
    FailedLogRegistry, SuperblockPayload, VolumeId,
};
use forebay_device::{Device, OneDisk};
use forebay_ring_log::{HEADER_BYTES, RingSuperblock, SUPERBLOCK_A_AT, SUPERBLOCK_B_AT};
use forebay_rt::VirtualTime;
use forebay_sim::disk::{DiskImage, SimDisk, WriteFate};
use forebay_sim::machine::Machine;
use forebay_sim::role::PerDisk;
use forebay_sim::stamp::{BEFORE, stamp};
use forebay_units::ByteLen;

use super::settings::{CacheDisk, CacheTarget};
use super::spare;

/// Bytes of the smallest log with segments of 128 KiB.
pub const LOG_BYTES: u64 = (1 << 20) + 32 * (128 << 10);
/// Size of a segment of the log.
pub(super) const SEGMENT: ByteLen = ByteLen::kib(128);
/// Content of a log device that had another use before.
const FILLER: u8 = 0xa5;
/// The identity of the volume in all scenarios.
pub const VOLUME: VolumeId = VolumeId([7; 16]);

/// The content of the two disks, cheap to copy.
pub type CacheImages = forebay_sim::machine::DiskContents<CacheDisk>;

/// Returns the identity of a data device of `len` bytes.
pub fn identity(len: u64) -> DataIdentity {
    DataIdentity {
        len,
        path: "data".into(),
        names: vec!["serial-1".into()],
    }
}

/// Returns the contents of a log device and a data device, without a spare log.
pub fn medium(log: &DiskImage, data: &DiskImage) -> CacheImages {
    PerDisk::of(|role| match role {
        CacheDisk::Log => log.clone(),
        CacheDisk::Data => data.clone(),
        CacheDisk::Spare => spare::disk(0, 0),
    })
}

/// Returns a data device of `len` bytes with initial content, and a fresh log for it, both with blocks of `block`
/// bytes.
///
/// # Panics
/// If no log can be made for such a device.
pub fn fresh(len: u64, block: u32) -> CacheImages {
    with_log(LOG_BYTES, &DiskImage::of(&stamp(BEFORE, 0, len)), block)
}

/// Returns disks like [`fresh`], on a log device that had another use before. Making a log leaves the old data in its
/// segments.
///
/// # Panics
/// If no log can be made for such a device.
pub fn on_used_log(len: u64, block: u32) -> CacheImages {
    let before = DiskImage::of(&vec![FILLER; LOG_BYTES as usize]);
    with_log_on(&before, &DiskImage::of(&stamp(BEFORE, 0, len)), block)
}

/// Returns a data device of `len` bytes with a log that `of` made for half its length: the data device grew after the
/// log was made.
fn on_grown_device(len: u64, of: impl Fn(u64) -> CacheImages) -> CacheImages {
    let made = of(len / 2);
    medium(
        &made[CacheDisk::Log],
        &DiskImage::of(&stamp(BEFORE, 0, len)),
    )
}

/// Makes a log of `log_len` bytes for a data device that holds `data`.
///
/// # Panics
/// If no log can be made for such a device.
pub fn with_log(log_len: u64, data: &DiskImage, block: u32) -> CacheImages {
    with_log_on(&DiskImage::new(log_len), data, block)
}

/// Returns the newer valid copy of a log's superblock, or `None` if both copies are invalid.
pub fn superblock(log: &DiskImage) -> Option<RingSuperblock> {
    let copies = [SUPERBLOCK_A_AT, SUPERBLOCK_B_AT].map(|at| {
        let bytes = log.bytes(at..at + HEADER_BYTES as u64);
        RingSuperblock::decode(&bytes).ok()
    });
    let sound = copies.into_iter().flatten();
    sound.max_by_key(|copy| copy.generation)
}

/// Returns the sectors that were lost with an abandoned log, in order. The superblock has space for a limited number of
/// sectors. Small volumes do not exceed this number.
pub(super) fn lost_with(log: &DiskImage) -> Vec<u64> {
    let payload = superblock(log).and_then(|newest| SuperblockPayload::decode(&newest.layer));
    let ranges = payload.map(|payload| payload.lost).unwrap_or_default();
    let sectors = ranges
        .iter()
        .flat_map(|(first, count)| *first..first + count);
    sectors.collect()
}

fn with_log_on(log: &DiskImage, data: &DiskImage, block: u32) -> CacheImages {
    let clock = Rc::new(VirtualTime::new());
    let blocks = PerDisk::of(|_| block);
    let machine = Machine::new(0, None, &medium(log, data), &blocks, clock);
    let [log, home] = [CacheDisk::Log, CacheDisk::Data].map(|role| Rc::clone(&machine.disks[role]));
    let options = CreateOptions {
        name: "test".into(),
        volume: VOLUME,
        segment: SEGMENT,
        data: identity(data.len()),
    };
    let create = async move { forebay_dcd::create(log, home, options).await };
    machine.run(create).expect("no cut").expect("create");
    machine.cut(WriteFate::Keep)
}

/// Length of the data device, block size of all devices, earlier use of the log devices, growth of the data device
/// after the log was made, and a spare log.
type FreshCacheKey = (u64, u32, bool, bool, bool);

thread_local! {
    /// Fresh disks, made once for all scenarios of a thread.
    static FRESH: RefCell<Vec<(FreshCacheKey, CacheImages)>> = const { RefCell::new(Vec::new()) };
}

/// Returns the disks at the start of a scenario, with a data device of `len` bytes and blocks of `block` bytes: like
/// [`fresh`] or [`on_used_log`], with a data device that grew, or with a spare log. A thread makes them once.
pub(super) fn kept(len: u64, block: u32, volume: &CacheTarget) -> CacheImages {
    let CacheTarget {
        used_log,
        grown,
        spare_log,
        ..
    } = *volume;
    let key = (len, block, used_log, grown, spare_log);
    let known = FRESH.with_borrow(|all| {
        let known = all.iter().find(|(known, _)| *known == key);
        known.map(|(_, medium)| medium.clone())
    });
    known.unwrap_or_else(|| {
        let made = |len| {
            if used_log {
                on_used_log(len, block)
            } else {
                fresh(len, block)
            }
        };
        let mut medium = if grown {
            on_grown_device(len, made)
        } else {
            made(len)
        };
        let spare_bytes = if spare_log { LOG_BYTES } else { 0 };
        medium[CacheDisk::Spare] = spare::disk(spare_bytes, if used_log { FILLER } else { 0 });
        FRESH.with_borrow_mut(|all| all.push((key, medium.clone())));
        medium
    })
}

/// Returns the log device on the disk `log`, and the data device. If `one_disk` is true, the data device and the first
/// log device are parts of one disk.
pub(super) fn devices(
    disks: &PerDisk<CacheDisk, Rc<SimDisk>>,
    log: CacheDisk,
    one_disk: bool,
) -> [Rc<dyn Device>; 2] {
    let data = Rc::clone(&disks[CacheDisk::Data]) as Rc<dyn Device>;
    let parts = [spare::log_on(disks, log), data];
    if !one_disk {
        return parts;
    }
    SimDisk::share_cache(&[&disks[CacheDisk::Log], &disks[CacheDisk::Data]]);
    if log == CacheDisk::Log {
        OneDisk::over(parts).map(|part| part as Rc<dyn Device>)
    } else {
        parts
    }
}

/// Returns the future of an attach on a machine, with the log in use. All attaches of a scenario use this function, in service and for
/// checks, so additional arguments beside the two disks belong here.
pub fn attaching(
    machine: &Machine<CacheDisk>,
    one_disk: bool,
    options: AttachOptions,
    witness: Option<Rc<dyn FailedLogRegistry>>,
) -> impl Future<Output = Result<(DcdVolume, AttachReport), DcdAttachError>> + use<> {
    let rt = machine.rt.clone();
    let disks = &machine.disks;
    let [log, data] = devices(disks, spare::in_use_on(disks), one_disk);
    let identity = identity(data.geometry().len);
    DcdVolume::attach_witnessed(rt, log, data, identity, options, witness)
}
