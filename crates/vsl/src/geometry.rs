//! Geometry: the layout of a volume on its device.

use forebay_device::DeviceGeometry;
use forebay_segment_log::{HEADER_BYTES, SegmentShape};
use forebay_units::{ByteLen, SECTOR_BYTES, SegmentSeq};

use crate::format::{
    SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SEGMENTS_AT, SEGMENTS_MAX, SEGMENTS_MIN, SpaceSuperblock,
};
use forebay_extent_map::LogPlace;

/// Position of a segment on the device, counted from 0. Slots are reused. The number of the segment in a slot
/// ([`SegmentSeq`]) is never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SegmentSlot(pub u32);

/// Bytes of a segment of moved data that hold neither data nor entries of data: the part of the last header without
/// entries. The rest at the end of the segment, where fragments are not whole blocks, counts as their padding
/// (`weight.rs`).
const LOST_BYTES: u64 = HEADER_BYTES as u64;

/// Bytes of segments that can be open without any byte on the device: the data in memory, and the largest batch.
const AHEAD_BYTES: u64 = 256 << 20;
/// Minimum number of segments of the allocation queue that recovery examines behind the last segment with a record.
pub(crate) const AHEAD_SEGMENTS: usize = 64;

/// The reason that a device cannot become a volume.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// Too few segments fit.
    #[error(
        "the device has {have}; {SEGMENTS_MIN} segments of {segment} and the superblocks need {need} \
         (use a larger device, or a smaller --segment)"
    )]
    TooSmall {
        /// Length of the device.
        have: ByteLen,
        /// The requested segment size.
        segment: ByteLen,
        /// The minimum length.
        need: ByteLen,
    },
    /// The segment size is out of bounds, or not a power of two.
    #[error("a segment of {0} is not a power of two between 128KiB and 64MiB")]
    Segment(ByteLen),
    /// The device's atomic block is larger than a header.
    #[error("the device's block of {0} bytes is larger than the 4096 a volume can use")]
    Block(u32),
}

/// The segments of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentLayout {
    /// Bytes in a segment.
    pub segment_bytes: u32,
    /// Number of segments.
    pub segment_count: u32,
    /// Alignment of records, in bytes.
    pub block: u32,
    /// Bytes of the device in use.
    pub len: u64,
}

impl SegmentLayout {
    /// Returns the segments that fit on a device. The default segment size is 1 MiB, or larger if the device would have
    /// too many segments.
    ///
    /// # Errors
    /// The device is too small, its block is too large, or the segment size is invalid.
    pub fn for_device(
        geometry: &DeviceGeometry,
        segment: Option<ByteLen>,
    ) -> Result<SegmentLayout, GeometryError> {
        let room = geometry.len.saturating_sub(SEGMENTS_AT);
        let few_enough = |bytes: u64| room / bytes <= u64::from(SEGMENTS_MAX);
        let mut usual = 1u64 << 20;
        while !few_enough(usual) && usual < SEGMENT_BYTES_MAX {
            usual *= 2;
        }
        let bytes = segment.map_or(usual, |segment| segment.0);
        if !bytes.is_power_of_two() || !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&bytes) {
            return Err(GeometryError::Segment(ByteLen(bytes)));
        }
        if geometry.block_size as usize > HEADER_BYTES {
            return Err(GeometryError::Block(geometry.block_size));
        }
        let need = SEGMENTS_AT + u64::from(SEGMENTS_MIN) * bytes;
        if geometry.len < need {
            return Err(GeometryError::TooSmall {
                have: ByteLen(geometry.len),
                segment: ByteLen(bytes),
                need: ByteLen(need),
            });
        }
        let segment_count = (room / bytes).min(SEGMENTS_MAX.into());
        Ok(SegmentLayout {
            segment_bytes: bytes as u32,
            segment_count: segment_count as u32,
            block: geometry
                .physical_block_size
                .clamp(geometry.block_size, HEADER_BYTES as u32),
            len: SEGMENTS_AT + segment_count * bytes,
        })
    }

    /// Returns the segments that a superblock describes.
    pub fn of(superblock: &SpaceSuperblock) -> SegmentLayout {
        SegmentLayout {
            segment_bytes: superblock.segment_bytes,
            segment_count: superblock.segment_count,
            block: superblock.block,
            len: superblock.len,
        }
    }

    /// Returns the layout of the same volume on a device of `len` bytes. If the device became longer, the layout has
    /// all segments that fit, up to [`SEGMENTS_MAX`].
    #[must_use]
    pub fn on_longer(&self, len: u64) -> SegmentLayout {
        let bytes = u64::from(self.segment_bytes);
        let fit = len.saturating_sub(SEGMENTS_AT) / bytes;
        self.of_at_least(fit.min(SEGMENTS_MAX.into()) as u32)
    }

    /// Returns the layout with at least `segments` segments.
    pub(crate) fn of_at_least(&self, segments: u32) -> SegmentLayout {
        let segment_count = self.segment_count.max(segments);
        let segments = u64::from(segment_count) * u64::from(self.segment_bytes);
        SegmentLayout {
            segment_count,
            len: SEGMENTS_AT + segments,
            ..*self
        }
    }

    /// Returns the shape of the segments.
    pub fn shape(&self) -> SegmentShape {
        SegmentShape {
            segment_bytes: self.segment_bytes,
            block: self.block,
        }
    }

    /// Returns the maximum number of segments in memory at once. Recovery relies on this bound: other segments are
    /// durable.
    pub(crate) fn in_memory_max(&self) -> usize {
        (AHEAD_BYTES / u64::from(self.segment_bytes)) as usize + AHEAD_SEGMENTS
    }

    /// Returns the sectors in a segment.
    pub fn segment_sectors(&self) -> u64 {
        u64::from(self.segment_bytes) / SECTOR_BYTES
    }

    /// Returns the sectors of a segment that the cleaner can fill with data and its entries (see `weight.rs`). The
    /// other sectors are used by a header and a summary that are not full, and by a fragment that goes to the next
    /// segment.
    pub(crate) fn dense_sectors(&self) -> u64 {
        (u64::from(self.segment_bytes) - LOST_BYTES) / SECTOR_BYTES
    }

    /// Returns the byte of the device at which a slot begins.
    pub fn slot_at(&self, slot: SegmentSlot) -> u64 {
        SEGMENTS_AT + u64::from(slot.0) * u64::from(self.segment_bytes)
    }

    /// Returns the place that is `offset` bytes into a segment.
    pub fn place(&self, segment: SegmentSeq, offset: u32) -> LogPlace {
        LogPlace(segment.0 * self.segment_sectors() + u64::from(offset) / SECTOR_BYTES)
    }

    /// Returns the number of the segment that contains a place.
    pub fn segment_of(&self, place: LogPlace) -> SegmentSeq {
        SegmentSeq(place.0 / self.segment_sectors())
    }

    /// Returns the offset of a place in its segment, in bytes.
    pub fn offset_of(&self, place: LogPlace) -> u32 {
        (place.0 % self.segment_sectors() * SECTOR_BYTES) as u32
    }

    /// Returns true if `sectors` sectors from `place` on lie in one segment.
    pub fn is_in_one(&self, place: LogPlace, sectors: u64) -> bool {
        let segment = self.segment_sectors();
        sectors <= segment && place.0 % segment <= segment - sectors
    }

    /// Returns the number of segments that can ever be opened. Segment numbers from this number on have no places.
    pub fn numbers(&self) -> u64 {
        LogPlace::END / self.segment_sectors()
    }
}
