//! Asks Forebay below a file where the file's bytes are: its own filesystem by an ioctl, a volume beneath another
//! filesystem on the volume's control socket.
//!
//! Only mounts of Forebay's type, and block devices of the kinds that Forebay makes, are asked. Bytes that Forebay does
//! not report are unknown.

pub mod answers;
mod ioctls;
mod refine;
mod runtime_dir;
mod socket;
mod volume;

use std::fs::File;
use std::os::unix::fs::FileTypeExt as _;
use std::time::Instant;

use crate::device::FilePlace;
use crate::extents::{self, BackingExtent, BackingTier};
use crate::table::EstimateRange;

pub(crate) use volume::VolumeClient;

/// Mount type of Forebay's filesystems.
const FSTYPE: &str = "fuse.forebay";
/// Names of block devices that may be a volume.
const DEVICES: [&str; 3] = ["loop", "ublkb", "nbd"];
/// Number of questions for measuring the round trip.
const TRIPS: usize = 7;

/// The part of Forebay that answers questions about places.
#[derive(Clone, Debug)]
pub(crate) enum PlaceSource {
    /// The filesystem that contains the file, asked through the file itself.
    Filesystem,
    /// The volume below the file's filesystem.
    Volume(VolumeClient),
}

/// A filesystem or volume of Forebay.
#[derive(Clone, Debug)]
pub(crate) struct TieredStore {
    /// Name.
    pub(crate) name: String,
    pub(crate) whom: PlaceSource,
    /// Place of the data device, if known, and the position on the first device of that place that reported addresses
    /// begin at.
    pub(crate) home: Option<(FilePlace, Option<u64>)>,
    /// Place of the log device.
    pub(crate) log: Option<FilePlace>,
    /// Round trip of a question in seconds. A read request takes about the same time on its way.
    pub(crate) trip_s: EstimateRange,
}

impl TieredStore {
    /// Returns the Forebay instance below `file`, if it answers.
    pub(crate) fn of(file: &File, place: &FilePlace) -> Option<TieredStore> {
        let top = place.top();
        if let Some(point) = top.name.strip_prefix(FSTYPE) {
            // The identity of the mount contains the name of the instance.
            let mount = top.identity.strip_suffix(point)?;
            let (_, name) = mount.strip_prefix("mount:")?.split_once(':')?;
            return filesystem(file, name);
        }
        let is_one = DEVICES.iter().any(|prefix| {
            let number = top.name.strip_prefix(prefix);
            number.is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()))
        });
        let found = is_one.then(|| VolumeClient::find(&top.name)).flatten()?;
        let trip_s = trips(|| found.volume.is_there().then_some(()))?;
        // The volume reports places on the data device relative to the first byte of the data device.
        let start = found.home.as_ref().and_then(|home| home.start);
        let home = found.home.and_then(|home| home.place());
        Some(TieredStore {
            name: found.volume.name().to_owned(),
            whom: PlaceSource::Volume(found.volume),
            home: home.map(|home| {
                let device = home.start.zip(start);
                let start = device.map(|(device, start)| device.saturating_add(start));
                (home, start)
            }),
            log: found.log.and_then(|log| log.place()),
            trip_s,
        })
    }

    /// Returns the extents of bytes `from` to `to` of a file, in order and without gaps.
    pub(crate) fn extents(
        &self,
        file: &File,
        (from, to): (u64, u64),
        partition: Option<u64>,
    ) -> Vec<BackingExtent> {
        match &self.whom {
            PlaceSource::Filesystem => ioctls::extents(file, from, to),
            PlaceSource::Volume(volume) => {
                let extents = if is_block_device(file) {
                    vec![BackingExtent {
                        offset: from,
                        end: to,
                        under: BackingTier::Data(Some(from)),
                    }]
                } else {
                    extents::extents(file, from, to)
                };
                refine::refine(&extents, partition, volume.ask())
            }
        }
    }
}

/// Returns the mounted filesystem that contains `file`.
fn filesystem(file: &File, name: &str) -> Option<TieredStore> {
    let medium = ioctls::medium(file)?;
    let trip_s = trips(|| ioctls::medium(file).map(drop))?;
    let start = medium.start;
    let home = medium.place();
    Some(TieredStore {
        name: name.to_owned(),
        whom: PlaceSource::Filesystem,
        home: home.map(|home| {
            let start = home.start.zip(start);
            let start = start.map(|(device, start)| device.saturating_add(start));
            (home, start)
        }),
        log: None,
        trip_s,
    })
}

fn is_block_device(file: &File) -> bool {
    let kind = file.metadata().map(|meta| meta.file_type());
    kind.is_ok_and(|kind| kind.is_block_device())
}

/// Measures the time from a question to its answer.
fn trips(mut ask: impl FnMut() -> Option<()>) -> Option<EstimateRange> {
    let mut trips = Vec::with_capacity(TRIPS);
    for _ in 0..TRIPS {
        let begun = Instant::now();
        ask()?;
        trips.push(begun.elapsed().as_secs_f64().max(1e-9));
    }
    EstimateRange::of(&trips)
}

/// A device or file that Forebay reports as its data device or log.
#[derive(Clone, PartialEq, Eq, Debug)]
struct ReportedDevice {
    path: std::path::PathBuf,
    /// Major and minor number: of the block device, or of the filesystem that contains the file.
    device: (u32, u32),
    /// Inode number of the file; `None` for a block device.
    inode: Option<u64>,
    /// Position on the device or file that reported addresses begin at, if addresses are contiguous.
    start: Option<u64>,
}

impl ReportedDevice {
    fn place(&self) -> Option<FilePlace> {
        FilePlace::of_medium(&self.path, self.device, self.inode)
    }
}
