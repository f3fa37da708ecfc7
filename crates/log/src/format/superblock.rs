//! What a log says of itself, and where to begin reading it.

use forebay_segments::format::envelope::{
    FormatError, HEADER_BYTES, VERSION, VolumeId, begin, finish, open_version,
};
use forebay_units::{Epoch, RecordSeq, SECTOR_BYTES, SegmentSeq};

const MAGIC: &[u8; 8] = b"FORELOG\x01";
/// The version of a superblock whose log may have gaps between records: a program that does not know of
/// them would take the first for the log's end, and so refuses it.
pub const VERSION_GAPS: u32 = 2;
/// Where segment 0 begins.
pub const SEGMENTS_AT: u64 = 1 << 20;
/// The fewest segments a log may have: the largest atomic write must fit beside a tail that is being
/// destaged.
pub const SEGMENTS_MIN: u64 = 32;
/// The smallest segment, in bytes.
pub const SEGMENT_BYTES_MIN: u64 = 128 << 10;
/// The largest segment, in bytes.
pub const SEGMENT_BYTES_MAX: u64 = 64 << 20;

/// Where the layer's payload begins, behind the fixed fields.
const LAYER_AT: usize = 112;
/// The longest layer payload a superblock can carry, in bytes.
pub const LAYER_BYTES_MAX: usize = HEADER_BYTES - LAYER_AT;

const FLAG_CLEAN: u32 = 1;
const FLAG_ABANDONED: u32 = 2;

/// What a log says of itself. Two copies, A and B; the one of the higher generation counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Whose log this is.
    pub volume: VolumeId,
    /// Grows by one with every superblock written.
    pub generation: u64,
    /// The epoch being written.
    pub epoch: Epoch,
    /// Nothing in this segment or a later one counts if it is of an earlier epoch.
    pub epoch_segment: SegmentSeq,
    /// The oldest segment still needed; recovery starts there.
    pub tail: SegmentSeq,
    /// The record that segment begins with.
    pub tail_record: RecordSeq,
    /// Every record up to this one was durable when this was written.
    pub stable: RecordSeq,
    /// Bytes of the log device in use.
    pub len: u64,
    /// Bytes in a segment.
    pub segment_bytes: u32,
    /// Segments in the ring.
    pub segment_count: u64,
    /// What records are padded to, in bytes: the device's atomic block.
    pub block: u32,
    /// True if the log was empty and everything home when this was written.
    pub clean: bool,
    /// True if the log failed while in use and the home device went on without it: what the log
    /// holds must not be applied.
    pub abandoned: bool,
    /// True if a record may begin further on than where the one before it ends. The superblock's version
    /// says so.
    pub gaps: bool,
    /// What the layer above keeps here; opaque to the log.
    pub layer: Vec<u8>,
}

impl Superblock {
    /// The bytes of the superblock.
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

    /// The superblock in `bytes`.
    ///
    /// # Errors
    /// If there is none, of this version, undamaged and consistent in itself.
    pub fn decode(bytes: &[u8]) -> Result<Superblock, FormatError> {
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
            let superblock = Superblock {
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

    fn version(&self) -> u32 {
        match self.gaps {
            true => VERSION_GAPS,
            false => VERSION,
        }
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

impl forebay_segments::Superblock for Superblock {
    fn encode(&self) -> [u8; HEADER_BYTES] {
        Superblock::encode(self)
    }

    fn decode(bytes: &[u8]) -> Result<Superblock, FormatError> {
        Superblock::decode(bytes)
    }

    fn volume(&self) -> VolumeId {
        self.volume
    }

    fn generation(&self) -> u64 {
        self.generation
    }
}
