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

use super::settings::CacheDisk;

/// Bytes of the smallest log with segments of 128 KiB.
pub const LOG_BYTES: u64 = (1 << 20) + 32 * (128 << 10);
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

/// Returns the contents of a log device and a data device.
pub fn medium(log: &DiskImage, data: &DiskImage) -> CacheImages {
    PerDisk::of(|role| match role {
        CacheDisk::Log => log.clone(),
        CacheDisk::Data => data.clone(),
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
    let before = DiskImage::of(&vec![0xa5; LOG_BYTES as usize]);
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
        segment: ByteLen::kib(128),
        data: identity(data.len()),
    };
    let create = async move { forebay_dcd::create(log, home, options).await };
    machine.run(create).expect("no cut").expect("create");
    machine.cut(WriteFate::Keep)
}

/// Length of the data device, block size of both devices, earlier use of the log device, and growth of the data device
/// after the log was made.
type FreshCacheKey = (u64, u32, bool, bool);

thread_local! {
    /// Fresh disks, made once for all scenarios of a thread.
    static FRESH: RefCell<Vec<(FreshCacheKey, CacheImages)>> = const { RefCell::new(Vec::new()) };
}

/// Returns disks like [`fresh`] or [`on_used_log`], whose data device grew if `grown` is true. A thread makes them
/// once.
pub(super) fn kept(len: u64, block: u32, used_log: bool, grown: bool) -> CacheImages {
    let key = (len, block, used_log, grown);
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
        let medium = if grown {
            on_grown_device(len, made)
        } else {
            made(len)
        };
        FRESH.with_borrow_mut(|all| all.push((key, medium.clone())));
        medium
    })
}

/// Returns the two disks as devices, which are parts of one disk if `one_disk` is true.
fn devices(disks: [Rc<SimDisk>; 2], one_disk: bool) -> [Rc<dyn Device>; 2] {
    if one_disk {
        SimDisk::share_cache(&disks.each_ref());
        let parts = OneDisk::over(disks.map(|disk| disk as Rc<dyn Device>));
        return parts.map(|part| part as Rc<dyn Device>);
    }
    disks.map(|disk| disk as Rc<dyn Device>)
}

/// Returns the future of an attach on a machine. All attaches of a scenario use this function, in service and for
/// checks, so additional arguments beside the two disks belong here.
pub fn attaching(
    machine: &Machine<CacheDisk>,
    one_disk: bool,
    options: AttachOptions,
    witness: Option<Rc<dyn FailedLogRegistry>>,
) -> impl Future<Output = Result<(DcdVolume, AttachReport), DcdAttachError>> + use<> {
    let rt = machine.rt.clone();
    let [log, data] = [CacheDisk::Log, CacheDisk::Data].map(|role| Rc::clone(&machine.disks[role]));
    let identity = identity(data.geometry().len);
    let [log, data] = devices([log, data], one_disk);
    DcdVolume::attach_witnessed(rt, log, data, identity, options, witness)
}
