//! The places of a volume's bytes, for NBD block status and for clients of the control socket.

use std::ops::Range;
use std::rc::Rc;

use forebay_control::{BackingDevice, PARTS_MAX, PlacedExtent};
use forebay_mount::FilesystemBacking;
use forebay_nbd::{BlockStatus, StatusExtent};
use forebay_units::SECTOR_BYTES;
use forebay_volume::{DataLocation, DeviceOrLayer, DeviceSpec, Layer, LayerTree};

use super::Daemon;

/// Maximum range of a volume that is looked up at once, in bytes. In the worst case every sector is an extent of its
/// own, and all extents are in memory before they are cut to the request.
const RANGE_BYTES_MAX: u64 = 64 << 20;
/// Maximum number of look-ups for one block status request. An NBD request is shorter than 4 GiB.
const RANGES_MAX: usize = 64;

/// Looks up places in the volume's uppermost layer.
pub(super) struct LayerPlaces {
    volume: Rc<dyn Layer>,
}

impl LayerPlaces {
    pub(super) fn new(volume: Rc<dyn Layer>) -> LayerPlaces {
        LayerPlaces { volume }
    }
}

/// Returns the value of a place in the context `forebay:place`: 0 on the data device, 1 in the log on the log device, 2
/// in memory, 3 nowhere (known to be zeroes).
fn value(place: DataLocation) -> u32 {
    match place {
        DataLocation::Home => 0,
        // Damaged data is in the log, too; reading it returns an error.
        DataLocation::Log | DataLocation::Damaged => 1,
        DataLocation::Ram => 2,
        DataLocation::Zero => 3,
    }
}

impl BlockStatus for LayerPlaces {
    fn context(&self) -> Option<&str> {
        Some("forebay:place")
    }

    fn status(&self, range: Range<u64>, max: usize) -> Vec<StatusExtent> {
        // A thin volume allocates space as data is written, so a trimmed range occupies no space.
        let thin = self.volume.room().is_some();
        joined(range, max.max(1), |part| {
            let extents = self.volume.place(part).into_iter();
            let extents = extents.map(|extent| StatusExtent {
                len: extent.range.end - extent.range.start,
                hole: thin && extent.place == DataLocation::Zero,
                zero: extent.place == DataLocation::Zero,
                value: value(extent.place),
            });
            extents.collect()
        })
    }
}

/// Looks up a range step by step until more than `max` extents are found. Joins adjacent extents in the same state.
fn joined(
    range: Range<u64>,
    max: usize,
    mut look_up: impl FnMut(Range<u64>) -> Vec<StatusExtent>,
) -> Vec<StatusExtent> {
    let mut all: Vec<StatusExtent> = Vec::new();
    let parts = range.clone().step_by(RANGE_BYTES_MAX as usize);
    for start in parts.take(RANGES_MAX) {
        let end = range.end.min(start + RANGE_BYTES_MAX);
        for extent in look_up(start..end) {
            let is_full = all.len() == max;
            match all.last_mut() {
                Some(last) if is_alike(last, &extent) => last.len += extent.len,
                // The last extent of an answer may be shorter than its range. The answer contains nothing of the next
                // extent.
                _ if is_full => return all,
                _ => all.push(extent),
            }
        }
    }
    all
}

fn is_alike(one: &StatusExtent, other: &StatusExtent) -> bool {
    (one.hole, one.zero, one.value) == (other.hole, other.zero, other.value)
}

/// The devices or files that hold the volume, unless they are emulated.
#[derive(Clone, Default)]
pub(super) struct BackingDevices {
    home: Option<BackingDevice>,
    log: Option<BackingDevice>,
}

impl BackingDevices {
    pub(super) fn of(tree: &LayerTree) -> BackingDevices {
        let log = tree.log().and_then(medium);
        BackingDevices {
            log: log.map(|log| named(&log, false)),
            home: home(tree).map(|(home, in_order)| named(&home, in_order)),
        }
    }
}

/// Returns the device that finally holds the data, and whether the data has the volume's own addresses there.
fn home(tree: &LayerTree) -> Option<(FilesystemBacking, bool)> {
    match tree.data() {
        DeviceOrLayer::Layer(below) => home(below).map(|(home, _)| (home, false)),
        DeviceOrLayer::Device(spec) => Some((medium(spec)?, tree.kind().keeps_addresses)),
    }
}

/// Returns the device or file of a spec. `None` for an emulated disk: its timing has nothing to do with the file below.
pub(super) fn medium(spec: &DeviceSpec) -> Option<FilesystemBacking> {
    if spec.model().is_some() {
        return None;
    }
    FilesystemBacking::at(spec.path(), spec.part().map_or(0, |part| part.start)).ok()
}

fn named(medium: &FilesystemBacking, in_order: bool) -> BackingDevice {
    BackingDevice {
        path: medium.path.display().to_string(),
        major: medium.device.0,
        minor: medium.device.1,
        inode: medium.inode,
        start: in_order.then_some(medium.start),
    }
}

/// Returns the places of bytes of the block device from `start` on, as many as an answer can contain.
pub(super) async fn places(daemon: &Daemon, start: u64, end: u64) -> forebay_control::PlaceReply {
    let len = daemon
        .volume
        .device()
        .map_or(0, |device| device.geometry().len);
    let end = end.min(len).min(start.saturating_add(RANGE_BYTES_MAX));
    let start = start.min(end);
    let devices = daemon.devices.now();
    let media = &devices.media;
    let mut answer = forebay_control::PlaceReply {
        device: daemon.block_device.kernel_name(),
        end,
        parts: Vec::new(),
        home: media.home.clone(),
        log: media.log.clone(),
    };
    if start == end {
        return answer;
    }
    // Layers work in sectors.
    let whole = start / SECTOR_BYTES * SECTOR_BYTES..end.next_multiple_of(SECTOR_BYTES).min(len);
    for extent in daemon.volume.look_up_places(whole).await {
        if answer.parts.len() == PARTS_MAX {
            answer.end = answer.parts[PARTS_MAX - 1].end;
            break;
        }
        let (from, to) = (extent.range.start.max(start), extent.range.end.min(end));
        if from < to {
            answer.parts.push(PlacedExtent {
                start: from,
                end: to,
                place: extent.place,
            });
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn extent(len: u64, zero: bool) -> StatusExtent {
        StatusExtent {
            len,
            hole: zero,
            zero,
            value: u32::from(zero) * 3,
        }
    }

    #[test]
    fn adjacent_extents_in_one_state_are_merged_across_lookups() {
        let mut asked = Vec::new();
        let found = joined(MIB..4000 * MIB, 4096, |part| {
            asked.push(part.end - part.start);
            vec![extent(part.end - part.start, true)]
        });
        assert_eq!(found, [extent(3999 * MIB, true)]);
        assert_eq!(asked.len(), 63);
        assert!(asked.iter().all(|bytes| *bytes <= RANGE_BYTES_MAX));
    }

    #[test]
    fn extent_lookups_stop_at_the_extent_limit_of_an_answer() {
        let mut asked = 0;
        let found = joined(0..4000 * MIB, 5, |part| {
            asked += 1;
            let half = (part.end - part.start) / 2;
            vec![extent(half, false), extent(half, true)]
        });
        assert_eq!((found.len(), asked), (5, 3));
        let covered: u64 = found.iter().map(|extent| extent.len).sum();
        assert_eq!(covered, 5 * 32 * MIB);
        // Adjacent ranges in different states are joined across look-ups, too.
        let found = joined(0..128 * MIB, 5, |part| {
            let first = part.start > 0;
            vec![extent(32 * MIB, first), extent(32 * MIB, !first)]
        });
        assert_eq!(
            found,
            [
                extent(32 * MIB, false),
                extent(64 * MIB, true),
                extent(32 * MIB, false)
            ]
        );
    }
}
