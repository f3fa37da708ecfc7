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
    needed: u64,
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
                needed: spec.part().map_or(len, |part| part.end).min(len),
                least: Cell::new(len),
            })
        });
        Lengths(lengths.collect())
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
    fn look(&self) -> Option<String> {
        let now = fs::metadata(&self.path).ok();
        let now = now.filter(|now| (now.dev(), now.ino()) == self.file);
        if let Some(now) = now
            .as_ref()
            .and_then(len)
            .filter(|now| *now < self.least.get())
        {
            self.least.set(now);
            if let Some(what) = self.what_is_lost() {
                tracing::error!("{what}");
            }
        }
        self.what_is_lost()
    }

    fn what_is_lost(&self) -> Option<String> {
        let least = self.least.get();
        (least < self.needed).then(|| {
            format!(
                "the {} device {} was cut to {} while attached, and had {}: what lay beyond is lost",
                self.role,
                self.path.display(),
                ByteLen(least),
                ByteLen(self.needed)
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
