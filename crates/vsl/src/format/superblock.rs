//! What a volume says of itself, and where its newest checkpoint lies.

use forebay_extents::Place;
use forebay_placement::cost::Disk;
use forebay_placement::placement::Kind;
use forebay_segments::format::envelope::{
    FormatError, HEADER_BYTES, VolumeId, begin, finish, open_version,
};
use forebay_units::{Epoch, RecordSeq, SECTOR_BYTES, SegmentSeq};

/// The version of the format of volumes. Version 1 named places by slots; in version 2, openings reserved
/// nothing, and entries of moved data were longer; in version 3, superblocks named no durable record; in version 4, the numbers of
/// streams depended on the placement.
pub const VERSION: u32 = 5;
const MAGIC: &[u8; 8] = b"FOREVSL\x01";
/// Where segment 0 begins.
pub(crate) const SEGMENTS_AT: u64 = 1 << 20;
/// The fewest segments of a volume: each stream has one open, and the cleaner and a checkpoint need some.
pub(crate) const SEGMENTS_MIN: u32 = 32;
/// The most segments of a volume: in memory, each takes about 80 bytes.
pub const SEGMENTS_MAX: u32 = 1 << 22;
/// The smallest segment, in bytes.
pub(crate) const SEGMENT_BYTES_MIN: u64 = 128 << 10;
/// The largest segment, in bytes.
pub(crate) const SEGMENT_BYTES_MAX: u64 = 64 << 20;

/// What a volume says of itself. Two copies, A and B; the one of the higher generation counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Whose superblock this is.
    pub volume: VolumeId,
    /// Grows by one with every superblock written.
    pub generation: u64,
    /// The epoch in which records behind the checkpoint are written.
    pub epoch: Epoch,
    /// The newest epoch that an opening of the volume has reserved, whether or not it got as far as a checkpoint.
    pub reserved_epoch: Epoch,
    /// Numbers of segments below this one are reserved by an opening of the volume: no later opening gives them.
    pub reserved_segments: SegmentSeq,
    /// A record of `epoch`, or one before the checkpoint's cut: every record up to this one was durable when the superblock was
    /// written.
    pub stable: RecordSeq,
    /// Bytes of the device in use.
    pub len: u64,
    /// Sectors of the space that may be mapped: what a volume of fixed length shows.
    pub space_sectors: u64,
    /// Bytes in a segment.
    pub segment_bytes: u32,
    /// Segments on the medium.
    pub segment_count: u32,
    /// What records are padded to, in bytes: the device's atomic block.
    pub block: u32,
    /// Sectors of that index.
    pub checkpoint_sectors: u32,
    /// Where the newest checkpoint's index lies, in sectors from where the first segment's slot begins.
    pub checkpoint: u64,
    /// The number of the segment that the index lies in.
    pub checkpoint_segment: SegmentSeq,
    /// CRC32C of that index.
    pub checkpoint_crc: u32,
    /// How data is placed.
    pub placement: Kind,
    /// Sectors of a page, for the placements that go by pages.
    pub page_sectors: u32,
    /// How long the medium takes to get to a random place, in nanoseconds; 0 if that is not known.
    pub positioning: u32,
    /// What it moves in a second in sequence, in KiB; 0 if that is not known.
    pub bandwidth: u32,
    /// The number of requests that it positions at the same time, in hundredths; 0 if that is not known, which counts as one.
    pub arms: u32,
    /// True if the volume changes its placement where another is expected to cost less.
    pub auto: bool,
}

impl Superblock {
    /// The medium, for what it costs to write in place; if nothing is known, a disk of 2003.
    pub fn disk(&self) -> Disk {
        match self.bandwidth {
            0 => Disk::OF_2003,
            bandwidth => Disk {
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
            && self.reserved_segments.0 <= Place::END / segment_sectors
            && self.checkpoint_segment.0 < Place::END / segment_sectors
            && self.checkpoint / segment_sectors < u64::from(self.segment_count)
            && self.checkpoint % segment_sectors + sectors <= segment_sectors
    }
}

impl forebay_segments::Superblock for Superblock {
    fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = begin(MAGIC, VERSION, self.volume);
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
        finish(out)
    }

    fn decode(bytes: &[u8]) -> Result<Superblock, FormatError> {
        const WHAT: &str = "superblock";
        let (version, mut from) = open_version(bytes, MAGIC, WHAT, VERSION)?;
        if version < VERSION {
            return Err(FormatError::Old {
                what: WHAT,
                found: version,
                oldest: VERSION,
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
            let superblock = Superblock {
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
                placement: Kind::from_code(u8::try_from(next()?).ok()?)?,
                page_sectors: next()?,
                positioning: next()?,
                bandwidth: next()?,
                arms: next()?,
                auto: match next()? {
                    0 => false,
                    1 => true,
                    _ => return None,
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
