//! Addresses on a log device.

use forebay_device::DeviceGeometry;
use forebay_segment_log::SegmentShape;
use forebay_units::{ByteLen, RecordSeq, SECTOR_BYTES, SegmentSeq, round_down, round_up};

use crate::format::{
    HEADER_BYTES, RingEntry, RingSuperblock, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SEGMENTS_AT,
    SEGMENTS_MIN,
};

/// Address on the log device, in sectors from its start. Data has the same address in the segment buffer and on the
/// device (the paper's section on segment buffers).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LogAddr(pub u64);

impl LogAddr {
    /// Returns the first byte.
    pub fn bytes(self) -> u64 {
        self.0 * SECTOR_BYTES
    }

    /// Returns the address `sectors` further on.
    #[must_use]
    pub fn plus(self, sectors: u64) -> LogAddr {
        LogAddr(self.0 + sectors)
    }
}

/// Reason why a device cannot hold a log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// The device holds too few segments.
    #[error(
        "the log device has {have}; {SEGMENTS_MIN} segments of {segment} and the superblocks need {need} \
         (use a larger log, or a smaller --segment)"
    )]
    TooSmall {
        /// The device's length.
        have: ByteLen,
        /// The requested segment size.
        segment: ByteLen,
        /// The minimum length of the device.
        need: ByteLen,
    },
    /// The segment size is out of bounds or not a power of two.
    #[error("a segment of {0} is not a power of two between 128KiB and 64MiB")]
    Segment(ByteLen),
    /// The device's atomic block is larger than a header.
    #[error("the log device's block of {0} bytes is larger than the 4096 a log can use")]
    Block(u32),
}

/// The ring of segments on a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingGeometry {
    /// Bytes in a segment.
    pub segment_bytes: u32,
    /// Segments in the ring.
    pub segment_count: u64,
    /// Unit to which records are padded, in bytes.
    pub block: u32,
    /// Bytes of the device in use.
    pub len: u64,
}

/// Addressable bytes of a log device: 2^40 sectors.
const ADDRESSED: u64 = 1 << 49;

/// Returns the maximum number of segments of this size in a ring.
pub fn segments_max(segment: ByteLen) -> u64 {
    (ADDRESSED - SEGMENTS_AT) / segment.0
}

impl RingGeometry {
    /// Returns the ring that fits a device, in segments of `segment`.
    ///
    /// # Errors
    /// If the device is too small, its blocks are too large, or the segment size is invalid.
    pub fn for_device(
        geometry: &DeviceGeometry,
        segment: ByteLen,
    ) -> Result<RingGeometry, RingError> {
        let bytes = segment.0;
        if !bytes.is_power_of_two() || !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&bytes) {
            return Err(RingError::Segment(segment));
        }
        if geometry.block_size as usize > HEADER_BYTES {
            return Err(RingError::Block(geometry.block_size));
        }
        let need = SEGMENTS_AT + SEGMENTS_MIN * bytes;
        if geometry.len < need {
            let (have, need) = (ByteLen(geometry.len), ByteLen(need));
            return Err(RingError::TooSmall {
                have,
                segment,
                need,
            });
        }
        let segment_count = (geometry.len - SEGMENTS_AT) / bytes;
        let segment_count = segment_count.min(segments_max(segment));
        Ok(RingGeometry {
            segment_bytes: bytes as u32,
            segment_count,
            block: geometry
                .physical_block_size
                .clamp(geometry.block_size, HEADER_BYTES as u32),
            len: SEGMENTS_AT + segment_count * bytes,
        })
    }

    /// Returns the ring that a superblock describes.
    pub fn of(superblock: &RingSuperblock) -> RingGeometry {
        RingGeometry {
            segment_bytes: superblock.segment_bytes,
            segment_count: superblock.segment_count,
            block: superblock.block,
            len: superblock.len,
        }
    }

    /// Returns the shape of the ring's segments.
    pub fn shape(&self) -> SegmentShape {
        SegmentShape {
            segment_bytes: self.segment_bytes,
            block: self.block,
        }
    }

    /// Returns the slot of a segment in the ring.
    pub fn slot(&self, segment: SegmentSeq) -> u64 {
        segment.0 % self.segment_count
    }

    /// Returns the byte at which the segment begins.
    pub fn segment_at(&self, segment: SegmentSeq) -> u64 {
        SEGMENTS_AT + self.slot(segment) * u64::from(self.segment_bytes)
    }

    /// Returns the address `offset` bytes into a segment.
    pub fn addr(&self, segment: SegmentSeq, offset: u32) -> LogAddr {
        LogAddr((self.segment_at(segment) + u64::from(offset)) / SECTOR_BYTES)
    }

    /// Returns the slot that contains an address.
    pub fn slot_of(&self, addr: LogAddr) -> u64 {
        (addr.bytes() - SEGMENTS_AT) / u64::from(self.segment_bytes)
    }

    /// Returns the start of the segment that contains an address.
    pub fn addr_of_segment(&self, addr: LogAddr) -> LogAddr {
        let at = SEGMENTS_AT + self.slot_of(addr) * u64::from(self.segment_bytes);
        LogAddr(at / SECTOR_BYTES)
    }

    /// Returns the distance of an address from the start of its segment, in bytes.
    pub fn offset_of(&self, addr: LogAddr) -> u32 {
        ((addr.bytes() - SEGMENTS_AT) % u64::from(self.segment_bytes)) as u32
    }

    /// Returns the segment in `[oldest, oldest + count)` that contains an address.
    pub fn segment_of(&self, addr: LogAddr, oldest: SegmentSeq) -> SegmentSeq {
        let ahead =
            (self.slot_of(addr) + self.segment_count - self.slot(oldest)) % self.segment_count;
        oldest.plus(ahead)
    }

    /// Returns the whole blocks around a range of the log, as a byte range.
    pub fn blocks_around(&self, addr: LogAddr, sectors: u64) -> std::ops::Range<u64> {
        let block = u64::from(self.block);
        round_down(addr.bytes(), block)..round_up(addr.plus(sectors).bytes(), block)
    }
}

/// An entry with its address in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddressedEntry {
    /// The entry.
    pub entry: RingEntry,
    /// Address of its data. For a range, the address that data would have.
    pub addr: LogAddr,
    /// The record that contains the entry.
    pub record: RecordSeq,
}

/// Adds a record's entries with the addresses of their data.
pub(crate) fn place(
    ring: &RingGeometry,
    segment: SegmentSeq,
    record: RecordSeq,
    offset: u32,
    entries: &[RingEntry],
    out: &mut Vec<AddressedEntry>,
) {
    let mut addr = ring.addr(segment, offset + HEADER_BYTES as u32);
    for entry in entries {
        out.push(AddressedEntry {
            entry: *entry,
            addr,
            record,
        });
        addr = addr.plus(entry.payload_sectors());
    }
}
