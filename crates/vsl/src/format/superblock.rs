//! The superblock: the properties of a volume, and the place of its newest checkpoint.

use forebay_extent_map::LogPlace;
use forebay_placement::cost::DiskParameters;
use forebay_placement::placement::PlacementKind;
use forebay_segment_log::format::envelope::{
    FormatError, HEADER_BYTES, VolumeId, begin, finish, open_version,
};
use forebay_units::{Epoch, RecordSeq, SECTOR_BYTES, SegmentSeq};

/// Version of the format of volumes. Differences of earlier versions: version 1 named places by slots. In version 2,
/// openings reserved no numbers, and entries of moved data were longer. In version 3, superblocks named no durable
/// record. In version 4, the numbers of streams depended on the placement. Version 5 has no `alias`, and a volume without
/// an alias is still written in version 5.
pub const VERSION: u32 = 6;
/// The oldest readable version.
pub(crate) const OLDEST_VERSION: u32 = 5;
const MAGIC: &[u8; 8] = b"FOREVSL\x01";
/// Offset of segment 0, in bytes.
pub(crate) const SEGMENTS_AT: u64 = 1 << 20;
/// Minimum number of segments of a volume: each stream has one open segment, and the cleaner and a checkpoint need
/// some.
pub(crate) const SEGMENTS_MIN: u32 = 32;
/// Maximum number of segments of a volume. Each segment takes about 80 bytes of memory.
pub const SEGMENTS_MAX: u32 = 1 << 22;
/// The smallest segment, in bytes.
pub(crate) const SEGMENT_BYTES_MIN: u64 = 128 << 10;
/// The largest segment, in bytes.
pub(crate) const SEGMENT_BYTES_MAX: u64 = 64 << 20;

/// The properties of a volume. Of the two copies A and B, the copy with the higher generation is valid.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpaceSuperblock {
    /// The volume that this superblock belongs to.
    pub volume: VolumeId,
    /// Number of the superblock: one more for each superblock written.
    pub generation: u64,
    /// Epoch of the records behind the checkpoint.
    pub epoch: Epoch,
    /// The newest epoch that an opening of the volume has reserved, even if that opening did not reach a checkpoint.
    pub reserved_epoch: Epoch,
    /// Segment numbers below this number are reserved by an opening of the volume. No later opening uses them.
    pub reserved_segments: SegmentSeq,
    /// A record of `epoch`, or a record before the checkpoint's cut. Every record up to this record was durable when
    /// the superblock was written.
    pub stable: RecordSeq,
    /// Bytes of the device in use.
    pub len: u64,
    /// Sectors of the space that may be mapped. A volume of fixed length shows this size.
    pub space_sectors: u64,
    /// Bytes in a segment.
    pub segment_bytes: u32,
    /// Segments on the device.
    pub segment_count: u32,
    /// Alignment of records, in bytes: the device's atomic block.
    pub block: u32,
    /// Sectors of the newest checkpoint's index.
    pub checkpoint_sectors: u32,
    /// Sector of the newest checkpoint's index, counted from the start of the first segment's slot.
    pub checkpoint: u64,
    /// Number of the segment that contains the index.
    pub checkpoint_segment: SegmentSeq,
    /// CRC32C of the index.
    pub checkpoint_crc: u32,
    /// Placement of data.
    pub placement: PlacementKind,
    /// Sectors of a page, for placements that use pages.
    pub page_sectors: u32,
    /// Time that the device takes to reach a random position, in nanoseconds; 0 if unknown.
    pub positioning: u32,
    /// Sequential bandwidth of the device, in KiB/s; 0 if unknown.
    pub bandwidth: u32,
    /// Number of requests that the device positions at the same time, in hundredths; 0 if unknown, which counts as one
    /// request.
    pub arms: u32,
    /// True if the volume changes its placement when another placement is expected to cost less.
    pub auto: bool,
    /// Id of a copy of a volume, which has an id of its own for users. The structures on the device repeat `volume`.
    pub alias: Option<VolumeId>,
}

impl SpaceSuperblock {
    /// Returns the id of the volume for users.
    pub fn id(&self) -> VolumeId {
        self.alias.unwrap_or(self.volume)
    }

    /// Returns the version of the format in which the superblock is written.
    pub fn version(&self) -> u32 {
        match self.alias {
            Some(_) => VERSION,
            None => OLDEST_VERSION,
        }
    }

    /// Returns the model of the device, for the cost of writes in place. If the device is unknown, returns a disk of
    /// 2003.
    pub fn disk(&self) -> DiskParameters {
        match self.bandwidth {
            0 => DiskParameters::OF_2003,
            bandwidth => DiskParameters {
                positioning: f64::from(self.positioning) / 1e9,
                bandwidth: f64::from(bandwidth) * 1024.0,
                arms: f64::from(self.arms.max(100)) / 100.0,
            },
        }
    }

    fn is_consistent(&self) -> bool {
        let segments = u64::from(self.segment_bytes).checked_mul(self.segment_count.into());
        let ends = segments.and_then(|bytes| bytes.checked_add(SEGMENTS_AT));
        let segment_sectors = u64::from(self.segment_bytes) / SECTOR_BYTES;
        let sectors = u64::from(self.checkpoint_sectors);
        (SECTOR_BYTES as u32..=HEADER_BYTES as u32).contains(&self.block)
            && self.block.is_power_of_two()
            && self.segment_bytes.is_power_of_two()
            && (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&self.segment_bytes.into())
            && (SEGMENTS_MIN..=SEGMENTS_MAX).contains(&self.segment_count)
            && ends.is_some_and(|end| end <= self.len)
            && sectors > 0
            && self.epoch <= self.reserved_epoch
            && self.reserved_segments.0 <= LogPlace::END / segment_sectors
            && self.checkpoint_segment.0 < LogPlace::END / segment_sectors
            && self.checkpoint / segment_sectors < u64::from(self.segment_count)
            && self.checkpoint % segment_sectors + sectors <= segment_sectors
    }
}

impl forebay_segment_log::SuperblockFormat for SpaceSuperblock {
    fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = begin(MAGIC, self.version(), self.volume);
        for n in [
            self.generation,
            self.epoch.0,
            self.len,
            self.space_sectors,
            self.checkpoint,
            self.checkpoint_segment.0,
            self.reserved_epoch.0,
            self.reserved_segments.0,
            self.stable.0,
        ] {
            out.extend_from_slice(&n.to_le_bytes());
        }
        for n in [
            self.segment_bytes,
            self.segment_count,
            self.block,
            self.checkpoint_sectors,
            self.checkpoint_crc,
            self.placement.code().into(),
            self.page_sectors,
            self.positioning,
            self.bandwidth,
            self.arms,
            self.auto.into(),
        ] {
            out.extend_from_slice(&n.to_le_bytes());
        }
        if let Some(VolumeId(alias)) = &self.alias {
            out.extend_from_slice(alias);
        }
        finish(out)
    }

    fn decode(bytes: &[u8]) -> Result<SpaceSuperblock, FormatError> {
        const WHAT: &str = "superblock";
        let (version, mut from) = open_version(bytes, MAGIC, WHAT, VERSION)?;
        if version < OLDEST_VERSION {
            return Err(FormatError::Old {
                what: WHAT,
                found: version,
                oldest: OLDEST_VERSION,
            });
        }
        let decoded = (|| {
            let volume = from.volume()?;
            let (generation, epoch) = (from.counter()?, Epoch(from.counter()?));
            let (len, space_sectors) = (from.uint(8)?, from.uint(8)?);
            let checkpoint = from.uint(8)?;
            let checkpoint_segment = SegmentSeq(from.counter()?);
            let reserved_epoch = Epoch(from.counter()?);
            let reserved_segments = SegmentSeq(from.counter()?);
            let stable = RecordSeq(from.counter()?);
            let mut next = || Some(from.uint(4)? as u32);
            let superblock = SpaceSuperblock {
                volume,
                generation,
                epoch,
                reserved_epoch,
                reserved_segments,
                stable,
                len,
                space_sectors,
                segment_bytes: next()?,
                segment_count: next()?,
                block: next()?,
                checkpoint_sectors: next()?,
                checkpoint,
                checkpoint_segment,
                checkpoint_crc: next()?,
                placement: PlacementKind::from_code(u8::try_from(next()?).ok()?)?,
                page_sectors: next()?,
                positioning: next()?,
                bandwidth: next()?,
                arms: next()?,
                auto: match next()? {
                    0 => false,
                    1 => true,
                    _ => return None,
                },
                alias: match version {
                    OLDEST_VERSION => None,
                    _ => Some(from.volume()?),
                },
            };
            superblock.is_consistent().then_some(superblock)
        })();
        decoded.ok_or(FormatError::Content(WHAT))
    }

    fn volume(&self) -> VolumeId {
        self.volume
    }

    fn generation(&self) -> u64 {
        self.generation
    }
}
