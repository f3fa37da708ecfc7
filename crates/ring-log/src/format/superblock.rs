//! Superblock: properties of the log, and the place where recovery starts.

use forebay_segment_log::format::envelope::{
    FormatError, HEADER_BYTES, VERSION, VolumeId, begin, finish, open_version,
};
use forebay_units::{Epoch, RecordSeq, SECTOR_BYTES, SegmentSeq};

const MAGIC: &[u8; 8] = b"FORELOG\x01";
/// Version of the superblock of a log that may have rotational offsets between records. A program that does not know
/// offsets would take the first offset for the end of the log; the version makes it refuse the log.
pub const VERSION_GAPS: u32 = 2;
/// Start of segment 0, in bytes.
pub const SEGMENTS_AT: u64 = 1 << 20;
/// Minimum number of segments: the largest atomic write must fit beside a tail that is being destaged.
pub const SEGMENTS_MIN: u64 = 32;
/// Minimum size of a segment, in bytes.
pub const SEGMENT_BYTES_MIN: u64 = 128 << 10;
/// Maximum size of a segment, in bytes.
pub const SEGMENT_BYTES_MAX: u64 = 64 << 20;

/// Start of the layer's payload in the superblock, after the fixed fields.
const LAYER_AT: usize = 112;
/// Maximum length of the layer's payload, in bytes.
pub const LAYER_BYTES_MAX: usize = HEADER_BYTES - LAYER_AT;

const FLAG_CLEAN: u32 = 1;
const FLAG_ABANDONED: u32 = 2;

/// Superblock of a log. The device has two copies, A and B. The copy with the higher generation is the current one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RingSuperblock {
    /// Volume to which the log belongs.
    pub volume: VolumeId,
    /// Number of this superblock; each superblock written has the next higher generation.
    pub generation: u64,
    /// Epoch of the records being written.
    pub epoch: Epoch,
    /// From this segment on, records and summaries of earlier epochs are not valid.
    pub epoch_segment: SegmentSeq,
    /// Oldest segment still needed. Recovery starts there.
    pub tail: SegmentSeq,
    /// First record of the tail segment.
    pub tail_record: RecordSeq,
    /// Newest record known to be durable when the superblock was written; all records before it were durable, too.
    pub stable: RecordSeq,
    /// Bytes of the log device in use.
    pub len: u64,
    /// Bytes in a segment.
    pub segment_bytes: u32,
    /// Segments in the ring.
    pub segment_count: u64,
    /// Unit to which records are padded, in bytes: the device's atomic block.
    pub block: u32,
    /// True if the log was empty and all data was on the data device when the superblock was written.
    pub clean: bool,
    /// True if the log failed in use and the data device continued without it. The log's contents must not be applied.
    pub abandoned: bool,
    /// True if rotational offsets may lie between records. Encoded as the superblock's version.
    pub gaps: bool,
    /// Data of the layer above; opaque to the log.
    pub layer: Vec<u8>,
}

impl RingSuperblock {
    /// Encodes the superblock.
    ///
    /// # Panics
    /// If `layer` is longer than [`LAYER_BYTES_MAX`].
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        assert!(
            self.layer.len() <= LAYER_BYTES_MAX,
            "layer payload of {} bytes",
            self.layer.len()
        );
        let mut out = begin(MAGIC, self.version(), self.volume);
        for n in [
            self.generation,
            self.epoch.0,
            self.epoch_segment.0,
            self.tail.0,
            self.tail_record.0,
            self.stable.0,
            self.len,
            self.segment_count,
        ] {
            out.extend_from_slice(&n.to_le_bytes());
        }
        let flags = if self.clean { FLAG_CLEAN } else { 0 }
            | if self.abandoned { FLAG_ABANDONED } else { 0 };
        for n in [
            self.segment_bytes,
            self.block,
            flags,
            self.layer.len() as u32,
        ] {
            out.extend_from_slice(&n.to_le_bytes());
        }
        debug_assert_eq!(out.len(), LAYER_AT);
        out.extend_from_slice(&self.layer);
        finish(out)
    }

    /// Decodes the superblock.
    ///
    /// # Errors
    /// If `bytes` are not a superblock of a supported version, are damaged, or have inconsistent fields.
    pub fn decode(bytes: &[u8]) -> Result<RingSuperblock, FormatError> {
        const WHAT: &str = "superblock";
        let (version, mut from) = open_version(bytes, MAGIC, WHAT, VERSION_GAPS)?;
        let decoded = (|| {
            let volume = from.volume()?;
            let mut next = || from.counter();
            let (generation, epoch, epoch_segment) = (next()?, next()?, next()?);
            let (tail, tail_record, stable) = (next()?, next()?, next()?);
            let (len, segment_count) = (from.uint(8)?, from.uint(8)?);
            let (segment_bytes, block) = (from.uint(4)? as u32, from.uint(4)? as u32);
            let (flags, layer_len) = (from.uint(4)? as u32, from.uint(4)? as usize);
            if flags & !(FLAG_CLEAN | FLAG_ABANDONED) != 0 {
                return None;
            }
            let superblock = RingSuperblock {
                volume,
                generation,
                epoch: Epoch(epoch),
                epoch_segment: SegmentSeq(epoch_segment),
                tail: SegmentSeq(tail),
                tail_record: RecordSeq(tail_record),
                stable: RecordSeq(stable),
                len,
                segment_bytes,
                segment_count,
                block,
                clean: flags & FLAG_CLEAN != 0,
                abandoned: flags & FLAG_ABANDONED != 0,
                gaps: version == VERSION_GAPS,
                layer: from.take(layer_len)?.to_vec(),
            };
            superblock.is_consistent().then_some(superblock)
        })();
        decoded.ok_or(FormatError::Content(WHAT))
    }

    /// Returns the version of the format, which older programs refuse if they do not know it.
    pub fn version(&self) -> u32 {
        if self.gaps { VERSION_GAPS } else { VERSION }
    }

    fn is_consistent(&self) -> bool {
        let ring = u64::from(self.segment_bytes).checked_mul(self.segment_count);
        let block = self.block;
        (SECTOR_BYTES as u32..=HEADER_BYTES as u32).contains(&block)
            && block.is_power_of_two()
            && self.segment_bytes.is_power_of_two()
            && (SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&self.segment_bytes.into())
            && self.segment_count >= SEGMENTS_MIN
            && ring
                .and_then(|ring| ring.checked_add(SEGMENTS_AT))
                .is_some_and(|end| end <= self.len)
            && self.tail_record.0 > 0
    }
}

impl forebay_segment_log::SuperblockFormat for RingSuperblock {
    fn encode(&self) -> [u8; HEADER_BYTES] {
        RingSuperblock::encode(self)
    }

    fn decode(bytes: &[u8]) -> Result<RingSuperblock, FormatError> {
        RingSuperblock::decode(bytes)
    }

    fn volume(&self) -> VolumeId {
        self.volume
    }

    fn generation(&self) -> u64 {
        self.generation
    }
}
