//! What Forebay, below a file, says of where its bytes are: a filesystem of its own by an ioctl, a volume beneath another
//! filesystem on its control socket.
//!
//! Only mounts of its type and block devices of the kinds that it makes are asked about. What it does not say is not known.

pub mod answers;
mod ioctls;
mod refine;
mod socket;
mod volume;

use std::fs::File;
use std::os::unix::fs::FileTypeExt as _;
use std::time::Instant;

use crate::device::Place;
use crate::extents::{self, Extent, Under};
use crate::table::Spread;

pub(crate) use volume::Volume;

/// The type that its filesystems are mounted as.
const FSTYPE: &str = "fuse.forebay";
/// Block devices that a volume may be.
const DEVICES: [&str; 3] = ["loop", "ublkb", "nbd"];
/// How often it is asked to see how long an answer takes.
const TRIPS: usize = 7;

/// Whom to ask where bytes are.
#[derive(Clone, Debug)]
pub(crate) enum Whom {
    /// The filesystem that the file is on, by the file itself.
    Filesystem,
    /// The volume that the file's filesystem is on.
    Volume(Volume),
}

/// A filesystem or volume of Forebay's.
#[derive(Clone, Debug)]
pub(crate) struct Below {
    /// What it is called.
    pub(crate) name: String,
    pub(crate) whom: Whom,
    /// What data is on that is at home, if that is known, and where on its first device byte 0 of what is told lies.
    pub(crate) home: Option<(Place, Option<u64>)>,
    /// What the log is on.
    pub(crate) log: Option<Place>,
    /// How long an answer takes, in seconds: a request is on the way for about as long.
    pub(crate) trip_s: Spread,
}

impl Below {
    /// What is below the file that lies there, if it is Forebay's and answers.
    pub(crate) fn of(file: &File, place: &Place) -> Option<Below> {
        let top = place.top();
        if let Some(point) = top.name.strip_prefix(FSTYPE) {
            // It is mounted as from its name.
            let mount = top.identity.strip_suffix(point)?;
            let (_, name) = mount.strip_prefix("mount:")?.split_once(':')?;
            return filesystem(file, name);
        }
        let is_one = DEVICES.iter().any(|prefix| {
            let number = top.name.strip_prefix(prefix);
            number.is_some_and(|number| number.starts_with(|c: char| c.is_ascii_digit()))
        });
        let found = is_one.then(|| Volume::find(&top.name)).flatten()?;
        let trip_s = trips(|| found.volume.is_there().then_some(()))?;
        // Where bytes of the volume are at home is told from its first byte on.
        let start = found.home.as_ref().and_then(|home| home.start);
        let home = found.home.and_then(|home| home.place());
        Some(Below {
            name: found.volume.name().to_owned(),
            whom: Whom::Volume(found.volume),
            home: home.map(|home| {
                let device = home.start.zip(start);
                let start = device.map(|(device, start)| device.saturating_add(start));
                (home, start)
            }),
            log: found.log.and_then(|log| log.place()),
            trip_s,
        })
    }

    /// What is under bytes `from` to `to` of a file, in order and without gaps.
    pub(crate) fn extents(
        &self,
        file: &File,
        (from, to): (u64, u64),
        partition: Option<u64>,
    ) -> Vec<Extent> {
        match &self.whom {
            Whom::Filesystem => ioctls::extents(file, from, to),
            Whom::Volume(volume) => {
                let extents = match is_block_device(file) {
                    true => vec![Extent {
                        offset: from,
                        end: to,
                        under: Under::Data(Some(from)),
                    }],
                    false => extents::extents(file, from, to),
                };
                refine::refine(&extents, partition, volume.ask())
            }
        }
    }
}

/// A mounted filesystem.
fn filesystem(file: &File, name: &str) -> Option<Below> {
    let medium = ioctls::medium(file)?;
    let trip_s = trips(|| ioctls::medium(file).map(drop))?;
    let start = medium.start;
    let home = medium.place();
    Some(Below {
        name: name.to_owned(),
        whom: Whom::Filesystem,
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

/// How long it takes to ask and be answered.
fn trips(mut ask: impl FnMut() -> Option<()>) -> Option<Spread> {
    let mut trips = Vec::with_capacity(TRIPS);
    for _ in 0..TRIPS {
        let begun = Instant::now();
        ask()?;
        trips.push(begun.elapsed().as_secs_f64().max(1e-9));
    }
    Spread::of(&trips)
}

/// A device or file that it is on, as it says.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Medium {
    path: std::path::PathBuf,
    /// Major and minor number: of the block device, or of the filesystem that the file is on.
    device: (u32, u32),
    /// The file's; none of a block device.
    inode: Option<u64>,
    /// Where on it what is told of begins, if addresses follow each other.
    start: Option<u64>,
}

impl Medium {
    fn place(&self) -> Option<Place> {
        Place::of_medium(&self.path, self.device, self.inode)
    }
}
