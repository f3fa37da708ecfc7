//! The lengths of a volume's devices.
//!
//! A file can be truncated while it is in use, and nothing prevents this. Data beyond the new end is lost, and the next
//! write extends the file again, with zeroes in between. The daemon therefore checks the lengths every few seconds. It
//! also checks them at the end of a drain, before it reports the data device as complete.

use std::cell::Cell;
use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::PathBuf;

use forebay_units::{ByteLen, SECTOR_BYTES};
use forebay_volume::LayerTree;

/// The lengths of all devices of a volume.
pub(super) struct DeviceLengths(Vec<DeviceLength>);

struct DeviceLength {
    /// `data`, `log`.
    role: String,
    path: PathBuf,
    /// Device and inode number of the file: another file may replace it at the path.
    file: (u64, u64),
    /// End of the volume's part of the device, in bytes.
    needed: Cell<u64>,
    /// True if the volume uses a part of the device. Such a part does not grow.
    is_part: bool,
    /// The smallest length seen, in bytes.
    least: Cell<u64>,
}

impl DeviceLengths {
    /// Records the lengths at attach.
    pub(super) fn new(tree: &LayerTree) -> DeviceLengths {
        let devices = tree.devices().into_iter();
        let lengths = devices.filter_map(|(role, spec)| {
            let metadata = fs::metadata(spec.path()).ok()?;
            let len = len(&metadata)?;
            Some(DeviceLength {
                role,
                path: spec.path().to_owned(),
                file: (metadata.dev(), metadata.ino()),
                needed: Cell::new(spec.part().map_or(len, |part| part.end).min(len)),
                is_part: spec.part().is_some(),
                least: Cell::new(len),
            })
        });
        DeviceLengths(lengths.collect())
    }

    /// Adopts what an earlier watch knows of the same devices in the same roles.
    pub(super) fn remember(&self, earlier: &DeviceLengths) {
        for length in &self.0 {
            let same = |known: &&DeviceLength| known.is_same(length);
            if let Some(known) = earlier.0.iter().find(same) {
                length.needed.set(known.needed.get());
                length.least.set(known.least.get());
            }
        }
    }

    /// Records that the volume has adopted the present lengths: the new space belongs to the volume, too.
    pub(super) fn grown(&self) {
        self.0.iter().for_each(DeviceLength::grown);
    }

    /// Returns the devices that were truncated since attach, as one sentence each. Logs new ones.
    pub(super) fn look(&self) -> Vec<String> {
        self.0.iter().filter_map(DeviceLength::look).collect()
    }

    /// Returns the truncated devices among those that hold the volume after a drain. A truncated log fails its reads,
    /// which is reported elsewhere.
    pub(super) fn of_data(&self) -> Vec<String> {
        let of_data = self.0.iter().filter(|length| length.role != "log");
        of_data.filter_map(DeviceLength::look).collect()
    }
}

impl DeviceLength {
    /// Returns the length of the file or device, if the path still leads to it.
    fn now(&self) -> Option<u64> {
        let now = fs::metadata(&self.path).ok();
        let now = now.filter(|now| (now.dev(), now.ino()) == self.file);
        now.as_ref().and_then(len)
    }

    fn is_same(&self, other: &DeviceLength) -> bool {
        (&self.role, self.file, self.is_part) == (&other.role, other.file, other.is_part)
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
                "the {} device {} was truncated to {} while attached, and had {}: data beyond the new end is lost",
                self.role,
                self.path.display(),
                ByteLen(least),
                ByteLen(needed)
            )
        })
    }
}

/// Returns the length of a file or block device. Reads only `/sys` for a device, so it is safe while serving.
fn len(metadata: &Metadata) -> Option<u64> {
    if !metadata.file_type().is_block_device() {
        return Some(metadata.len());
    }
    let number = metadata.rdev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let sectors = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/size")).ok()?;
    Some(sectors.trim().parse::<u64>().ok()? * SECTOR_BYTES)
}
