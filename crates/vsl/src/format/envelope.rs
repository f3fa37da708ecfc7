//! What a block begins with: magic, version, checksum, volume; and reading on from there.
//!
//! The same as the log's envelope, of which this is a part: both are to use one.

/// The format's version. Another version is refused, not guessed at.
pub const VERSION: u32 = 1;
/// Length of a block, in bytes.
pub(super) const BLOCK_BYTES: usize = 4096;

/// Identifies a volume: 16 random bytes, chosen when it is created.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct VolumeId(pub [u8; 16]);

/// Why bytes are not the structure they were read as.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FormatError {
    /// Too short, or another magic.
    #[error("no {0} here (wrong magic)")]
    Magic(&'static str),
    /// Written by another version of the format.
    #[error("a {what} of format version {found}; this program reads version {VERSION}")]
    Version {
        /// Which structure.
        what: &'static str,
        /// The version it carries.
        found: u32,
    },
    /// The bytes do not match their checksum.
    #[error("the {0} does not match its checksum")]
    Checksum(&'static str),
    /// The checksum is right and the content impossible.
    #[error("the {0} contradicts itself")]
    Content(&'static str),
}

const VERSION_AT: usize = 8;
const CRC_AT: usize = 12;
const VOLUME_AT: usize = 16;

pub(super) fn begin(magic: &[u8; 8], volume: VolumeId) -> Vec<u8> {
    let mut out = Vec::with_capacity(BLOCK_BYTES);
    out.extend_from_slice(magic);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&volume.0);
    out
}

pub(super) fn finish(mut out: Vec<u8>) -> [u8; BLOCK_BYTES] {
    out.resize(out.len().max(BLOCK_BYTES), 0);
    let mut block: [u8; BLOCK_BYTES] = out.try_into().expect("more entries than a block holds");
    let crc = crc32c::crc32c(&block);
    block[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
    block
}

/// The checksum that a block of [`BLOCK_BYTES`] carries.
pub(super) fn stored_crc(block: &[u8]) -> u32 {
    u32::from_le_bytes(block[CRC_AT..CRC_AT + 4].try_into().expect("four bytes"))
}

fn crc_without_field(block: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&block[..CRC_AT]);
    crc32c::crc32c_append(crc32c::crc32c_append(crc, &[0; 4]), &block[CRC_AT + 4..])
}

/// Checks length and magic, then the version, since a later one may check itself another way, then the
/// checksum.
pub(super) fn open<'a>(
    bytes: &'a [u8],
    magic: &[u8; 8],
    what: &'static str,
) -> Result<Reader<'a>, FormatError> {
    if bytes.len() != BLOCK_BYTES || &bytes[..8] != magic {
        return Err(FormatError::Magic(what));
    }
    let field: [u8; 4] = bytes[VERSION_AT..VERSION_AT + 4]
        .try_into()
        .expect("four bytes");
    let found = u32::from_le_bytes(field);
    if found != VERSION {
        // A flipped bit in the version is damage, not another version.
        let mut as_ours = bytes.to_vec();
        as_ours[VERSION_AT..VERSION_AT + 4].copy_from_slice(&VERSION.to_le_bytes());
        let damaged = crc_without_field(&as_ours) == stored_crc(bytes);
        return Err(match damaged {
            true => FormatError::Checksum(what),
            false => FormatError::Version { what, found },
        });
    }
    if crc_without_field(bytes) != stored_crc(bytes) {
        return Err(FormatError::Checksum(what));
    }
    Ok(Reader(&bytes[VOLUME_AT..]))
}

/// What is left to decode.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn uint(&mut self, bytes: usize) -> Option<u64> {
        let mut wide = [0; 8];
        wide[..bytes].copy_from_slice(self.take(bytes)?);
        Some(u64::from_le_bytes(wide))
    }

    pub(super) fn volume(&mut self) -> Option<VolumeId> {
        Some(VolumeId(self.take(16)?.try_into().ok()?))
    }
}
