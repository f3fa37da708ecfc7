//! The superblock of each device of a span; docs/format/span.md describes the bytes.

use forebay_segment_log::format::envelope::{begin, finish, open_version};
use forebay_segment_log::{FormatError, HEADER_BYTES, SuperblockFormat, VolumeId};

const MAGIC: &[u8; 8] = b"FBSPAN\0\0";
/// Version of the format.
pub(super) const VERSION: u32 = 1;
/// Position of the first byte of data on each device. The space before it is for the two copies of the superblock.
pub(super) const DATA_AT: u64 = 1 << 20;
/// Maximum length of a text in the superblock, in bytes.
pub(super) const TEXT_MAX: usize = 1024;

/// The superblock of one device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct SpanSuperblock {
    /// Id of the volume.
    pub(super) volume: VolumeId,
    /// Position of the device in the span: 0 or 1.
    pub(super) index: u32,
    /// Block size of the volume in bytes.
    pub(super) block_size: u32,
    /// Bytes of data on each device.
    pub(super) lens: [u64; 2],
    /// Name of the volume.
    pub(super) name: String,
    /// Path of the second device.
    pub(super) second: String,
}

impl SuperblockFormat for SpanSuperblock {
    fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = begin(MAGIC, VERSION, self.volume);
        out.extend_from_slice(&self.index.to_le_bytes());
        out.extend_from_slice(&self.block_size.to_le_bytes());
        for len in self.lens {
            out.extend_from_slice(&len.to_le_bytes());
        }
        for text in [&self.name, &self.second] {
            // A longer path is not recorded: the administrator names the device.
            let text = if text.len() <= TEXT_MAX {
                text.as_str()
            } else {
                ""
            };
            out.extend_from_slice(&(text.len() as u16).to_le_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        finish(out)
    }

    fn decode(bytes: &[u8]) -> Result<SpanSuperblock, FormatError> {
        const WHAT: &str = "span superblock";
        let (_, mut from) = open_version(bytes, MAGIC, WHAT, VERSION)?;
        let decoded = (|| {
            let volume = from.volume()?;
            let (index, block_size) = (from.uint(4)? as u32, from.uint(4)? as u32);
            let lens = [from.uint(8)?, from.uint(8)?];
            let mut text = || {
                let len = usize::try_from(from.uint(2)?).ok()?;
                let bytes = from.take(len).filter(|_| len <= TEXT_MAX)?;
                String::from_utf8(bytes.to_vec()).ok()
            };
            let superblock = SpanSuperblock {
                volume,
                index,
                block_size,
                lens,
                name: text()?,
                second: text()?,
            };
            superblock.is_consistent().then_some(superblock)
        })();
        decoded.ok_or(FormatError::Content(WHAT))
    }

    fn volume(&self) -> VolumeId {
        self.volume
    }

    /// The superblock is written once.
    fn generation(&self) -> u64 {
        0
    }
}

impl SpanSuperblock {
    fn is_consistent(&self) -> bool {
        let block = u64::from(self.block_size);
        let whole =
            |len: &u64| *len > 0 && len.is_multiple_of(block) && *len <= i64::MAX as u64 / 4;
        self.index < 2 && [512, 4096].contains(&self.block_size) && self.lens.iter().all(whole)
    }
}
