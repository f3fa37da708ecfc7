//! The placement that a superblock names.

use forebay_placement::placement::{self, DeviceProperties, Placement};
use forebay_units::SECTOR_BYTES;

use crate::format::SpaceSuperblock;
use crate::streams::StreamCounts;

/// Creates the policy that a superblock names. Also returns its numbers of streams.
pub(crate) fn placement_of(superblock: &SpaceSuperblock) -> (Box<dyn Placement>, StreamCounts) {
    let options = placement::PlacementOptions {
        page_sectors: superblock.page_sectors,
        segment_bytes: superblock.segment_bytes.into(),
        disk: superblock.disk(),
        ..placement::PlacementOptions::default()
    };
    let placement = superblock.placement.build(&options);
    let needs = placement.needs();
    let counts = StreamCounts::of(needs, options.page().into());
    (placement, counts)
}

/// Returns the properties of a volume's device that its placement depends on.
pub(crate) fn medium_of(superblock: &SpaceSuperblock) -> DeviceProperties {
    DeviceProperties {
        disk: superblock.disk(),
        in_place: true,
        page_bytes: u64::from(superblock.page_sectors.clamp(8, 128)) * SECTOR_BYTES,
        segment_bytes: superblock.segment_bytes.into(),
    }
}
