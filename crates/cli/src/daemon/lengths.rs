//! The lengths of the devices that a volume is made of.
//!
//! A file can be cut short while it is in use, and nothing keeps that away. What lay beyond its new end is lost, and the
//! next write makes the file as long as before, with zeroes in between. So the lengths are looked at every few seconds,
//! and at the end of a drain, before the data device is called complete.

use std::cell::Cell;
use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;

use forebay_units::{ByteLen, SECTOR_BYTES};

use crate::target::Target;

/// The lengths of all devices of a volume.
pub(super) struct Lengths(Vec<Length>);

struct Length {
    /// `data`, `log`.
    role: String,
    path: PathBuf,
    /// Which file it is: another may come to be at the path.
    file: (u64, u64),
    /// The bytes that are the volume's end here.
    needed: Cell<u64>,
    /// The volume has a part of it, which does not grow.
    is_part: bool,
    /// The least length that was seen, in bytes.
    least: Cell<u64>,
}

impl Lengths {
    /// As they are at attach.
    pub(super) fn new(target: &Target) -> Lengths {
        let devices = target.tree.devices().into_iter();
        let lengths = devices.filter_map(|(role, spec)| {
            let metadata = fs::metadata(spec.path()).ok()?;
            let len = len(&metadata)?;
            Some(Length {
                role,
                path: spec.path().to_owned(),
                file: (metadata.dev(), metadata.ino()),
                needed: Cell::new(spec.part().map_or(len, |part| part.end).min(len)),
                is_part: spec.part().is_some(),
                least: Cell::new(len),
            })
        });
        Lengths(lengths.collect())
    }

    /// The volume took the lengths that its devices have now: what lies there is the volume's, too.
    pub(super) fn grown(&self) {
        self.0.iter().for_each(Length::grown);
    }

    /// The devices that were cut short since, one sentence each; new ones are logged.
    pub(super) fn look(&self) -> Vec<String> {
        self.0.iter().filter_map(Length::look).collect()
    }

    /// Those of them that hold the volume when all is drained. A log that was cut short fails, which is said otherwise.
    pub(super) fn of_data(&self) -> Vec<String> {
        let of_data = self.0.iter().filter(|length| length.role != "log");
        of_data.filter_map(Length::look).collect()
    }
}

impl Length {
    /// The length of the file or device, if it is still the same.
    fn now(&self) -> Option<u64> {
        let now = fs::metadata(&self.path).ok();
        let now = now.filter(|now| (now.dev(), now.ino()) == self.file);
        now.as_ref().and_then(len)
    }

    fn grown(&self) {
        if self.is_part || self.what_is_lost().is_some() {
            return;
        }
        if let Some(now) = self.now().filter(|now| *now > self.needed.get()) {
            self.needed.set(now);
            self.least.set(now);
        }
    }

    fn look(&self) -> Option<String> {
        if let Some(now) = self.now().filter(|now| *now < self.least.get()) {
            self.least.set(now);
            if let Some(what) = self.what_is_lost() {
                tracing::error!("{what}");
            }
        }
        self.what_is_lost()
    }

    fn what_is_lost(&self) -> Option<String> {
        let (least, needed) = (self.least.get(), self.needed.get());
        (least < needed).then(|| {
            format!(
                "the {} device {} was cut to {} while attached, and had {}: what lay beyond is lost",
                self.role,
                self.path.display(),
                ByteLen(least),
                ByteLen(needed)
            )
        })
    }
}

/// The length of a file or block device. Reads `/sys` only, so it may be asked while serving.
fn len(metadata: &Metadata) -> Option<u64> {
    if !metadata.file_type().is_block_device() {
        return Some(metadata.len());
    }
    let number = metadata.rdev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let sectors = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/size")).ok()?;
    Some(sectors.trim().parse::<u64>().ok()? * SECTOR_BYTES)
}
