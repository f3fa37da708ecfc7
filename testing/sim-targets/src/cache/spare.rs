//! The log device in use, if a scenario has two of them.
//!
//! A note in the last block of the spare disk names the log in use, as a configuration file does. Without a spare log,
//! that disk has only the note.

use std::rc::Rc;

use forebay_device::{BufMut, Device, DeviceError, DeviceSlice, Durability};
use forebay_sim::disk::{DiskImage, SimDisk};
use forebay_sim::machine::DiskContents;
use forebay_sim::role::PerDisk;

use super::settings::CacheDisk;

/// Bytes of the note: a block of any disk.
const NOTE_BYTES: u64 = 4096;

/// Returns a spare disk with space for a log of `log_bytes`, which contains `filler`.
pub(super) fn disk(log_bytes: u64, filler: u8) -> DiskImage {
    let mut bytes = vec![filler; log_bytes as usize];
    bytes.resize((log_bytes + NOTE_BYTES) as usize, 0);
    DiskImage::of(&bytes)
}

fn of_note(first: u8) -> CacheDisk {
    if first == 0 {
        CacheDisk::Log
    } else {
        CacheDisk::Spare
    }
}

/// Returns the disk of the log in use.
pub(super) fn in_use(medium: &DiskContents<CacheDisk>) -> CacheDisk {
    let spare = &medium[CacheDisk::Spare];
    let at = spare.len() - NOTE_BYTES;
    of_note(spare.bytes(at..at + 1)[0])
}

/// Returns the disk of the log in use on running disks.
pub(super) fn in_use_on(disks: &PerDisk<CacheDisk, Rc<SimDisk>>) -> CacheDisk {
    let spare = &disks[CacheDisk::Spare];
    let at = spare.geometry().len - NOTE_BYTES;
    of_note(spare.durable(at..at + 1)[0])
}

/// Returns the log device on the disk `which`.
pub(super) fn log_on(disks: &PerDisk<CacheDisk, Rc<SimDisk>>, which: CacheDisk) -> Rc<dyn Device> {
    let disk = Rc::clone(&disks[which]) as Rc<dyn Device>;
    if which == CacheDisk::Log {
        return disk;
    }
    let len = disk.geometry().len - NOTE_BYTES;
    Rc::new(DeviceSlice::new(disk, 0, len).expect("whole blocks"))
}

/// Returns the disk of the log that is not in use, if the scenario has two.
pub(super) fn not_in_use(disks: &PerDisk<CacheDisk, Rc<SimDisk>>) -> Option<CacheDisk> {
    if disks[CacheDisk::Spare].geometry().len == NOTE_BYTES {
        return None;
    }
    Some(match in_use_on(disks) {
        CacheDisk::Log => CacheDisk::Spare,
        _ => CacheDisk::Log,
    })
}

/// Durably notes that the log on the disk `which` is in use.
///
/// # Errors
/// The error of the spare disk.
pub(super) async fn note(spare: Rc<SimDisk>, which: CacheDisk) -> Result<(), DeviceError> {
    let first = u8::from(which == CacheDisk::Spare);
    let mut block = vec![0; NOTE_BYTES as usize];
    block[0] = first;
    let at = spare.geometry().len - NOTE_BYTES;
    let note = BufMut::copy_of(&block).freeze();
    spare.write(at, note, Durability::Fua).await
}
