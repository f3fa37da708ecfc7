//! The share of segments that is kept free of mapped data.

use forebay_placement::placement::PlacementKind;

use crate::changed::ChangedBounds;
use crate::geometry::SegmentLayout;
use crate::options::SpaceSettings;

/// Default of [`SpaceSettings::spare_part`] for a log.
pub const SPARE_PART: u64 = 16;
/// Default for a placement that writes in place.
const SPARE_PART_IN_PLACE: u64 = 512;
const SPARE_PART_MIN: u64 = 2;
/// Moving all live data of a log once also writes nodes of the map, of a 256th of the data's size. So at least twice
/// this amount must be spare.
const SPARE_PART_MAX: u64 = 128;
/// A checkpoint ends the open record. If it is made after few records, a record of fragments of one sector has about
/// 166 fragments. It then has half a block of padding that no weight includes: a 40th. A log with a smaller spare share
/// may gain nothing by cleaning.
const SPARE_PART_MAX_SHORT: u64 = 32;
const SPARE_PART_IN_PLACE_MAX: u64 = 1024;

/// Returns the number of segments for each segment that is kept free of mapped data.
pub(crate) fn spare_part(
    options: &SpaceSettings,
    layout: &SegmentLayout,
    placement: PlacementKind,
) -> u64 {
    let ends_records = ChangedBounds::of(layout, options, placement).ends_records();
    let (usual, most) = if placement.in_place() {
        (SPARE_PART_IN_PLACE, SPARE_PART_IN_PLACE_MAX)
    } else if ends_records {
        (SPARE_PART, SPARE_PART_MAX_SHORT)
    } else {
        (SPARE_PART, SPARE_PART_MAX)
    };
    let asked = options.spare_part.unwrap_or(usual);
    asked.clamp(SPARE_PART_MIN, most)
}

#[cfg(test)]
mod tests {
    use forebay_device::{Device, RamDevice};
    use forebay_units::ByteLen;

    use super::*;

    fn part(bytes: u64, asked: u64, placement: PlacementKind, map_bytes: u64) -> u64 {
        let device = RamDevice::new(bytes, 4096);
        let layout =
            SegmentLayout::for_device(&device.geometry(), Some(ByteLen::mib(1))).expect("fits");
        let options = SpaceSettings {
            spare_part: Some(asked),
            map_bytes,
            ..SpaceSettings::default()
        };
        spare_part(&options, &layout, placement)
    }

    #[test]
    fn logs_with_frequent_checkpoints_keep_at_least_a_32nd_spare() {
        let (large, small, memory) = (512 << 20, 256 << 20, 256 << 20);
        assert_eq!(part(large, 1000, PlacementKind::Lfs, memory), 128);
        assert_eq!(part(small, 1000, PlacementKind::Lfs, memory), 32);
        assert_eq!(part(large, 1000, PlacementKind::SepBit, 0), 32);
        assert_eq!(part(small, 1000, PlacementKind::HyLog, memory), 1000);
        assert_eq!(part(small, 1, PlacementKind::Lfs, memory), 2);
        assert_eq!(part(small, 20, PlacementKind::Lfs, memory), 20);
    }
}
