//! The envelope of every structure: magic, version, checksum and volume; and a reader for the fields behind it.

/// The version of the format. Other versions are refused.
pub const VERSION: u32 = 1;
/// Length of a superblock, of a record's header and of a summary's last block, in bytes.
pub const HEADER_BYTES: usize = 4096;

/// Identifies a volume: 16 random bytes, chosen when it is created.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct VolumeId(pub [u8; 16]);

impl VolumeId {
    /// Returns the id with this text form, if the text is such a form.
    pub fn parse(text: &str) -> Option<VolumeId> {
        let digits: String = text.chars().filter(|c| *c != '-').collect();
        if digits.len() != 32 || !digits.is_ascii() {
            return None;
        }
        let bytes = u128::from_str_radix(&digits, 16).ok()?.to_be_bytes();
        Some(VolumeId(bytes)).filter(|id| id.to_string() == text)
    }
}

impl std::fmt::Display for VolumeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// An error when decoding a structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FormatError {
    /// The bytes are too short, or have another magic.
    #[error("the {0} is missing (wrong magic)")]
    Magic(&'static str),
    /// Written by another version of the format.
    #[error("a {what} of format version {found}; this program reads versions up to {newest}")]
    Version {
        /// The structure.
        what: &'static str,
        /// The version found.
        found: u32,
        /// The newest supported version of this structure.
        newest: u32,
    },
    /// Written by an older version of the format, which is no longer read.
    #[error(
        "a {what} of format version {found}; this program reads versions from {oldest} on (copy the data with the \
         program that wrote it, and create the volume again)"
    )]
    Old {
        /// The structure.
        what: &'static str,
        /// The version found.
        found: u32,
        /// The oldest supported version.
        oldest: u32,
    },
    /// The bytes do not match their checksum.
    #[error("the {0} does not match its checksum")]
    Checksum(&'static str),
    /// The device failed to read the structure, so its content is unknown.
    #[error("the {0} cannot be read (a device error; it may be readable later)")]
    Unreadable(&'static str),
    /// The checksum is correct, but the content is impossible.
    #[error("the {0} contradicts itself")]
    Content(&'static str),
}

/// No counter reaches this value in the lifetime of a log, so arithmetic on decoded counters does not overflow.
const COUNTER_END: u64 = 1 << 60;
const VERSION_AT: usize = 8;
pub(super) const CRC_AT: usize = 12;
pub(super) const VOLUME_AT: usize = 16;

/// Returns the beginning of a structure. The caller appends the fields, and then calls [`finish`].
pub fn begin(magic: &[u8; 8], version: u32, volume: VolumeId) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES);
    out.extend_from_slice(magic);
    out.extend_from_slice(&version.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&volume.0);
    out
}

/// Pads a structure to one block with zeroes, and sets its checksum.
///
/// # Panics
/// If the structure is longer than a block.
pub fn finish(mut out: Vec<u8>) -> [u8; HEADER_BYTES] {
    out.resize(out.len().max(HEADER_BYTES), 0);
    let mut block: [u8; HEADER_BYTES] = out.try_into().expect("more entries than a header holds");
    let crc = crc32c::crc32c(&block);
    block[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
    block
}

/// Returns the checksum stored in a structure of one block.
pub fn stored_crc(block: &[u8]) -> u32 {
    u32::from_le_bytes(block[CRC_AT..CRC_AT + 4].try_into().expect("four bytes"))
}

pub(super) fn crc_without_field(block: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&block[..CRC_AT]);
    crc32c::crc32c_append(crc32c::crc32c_append(crc, &[0; 4]), &block[CRC_AT + 4..])
}

/// Checks the magic, then the version, since another version may have another checksum.
pub(super) fn preamble<'a>(
    bytes: &'a [u8],
    magic: &[u8; 8],
    what: &'static str,
) -> Result<ByteReader<'a>, FormatError> {
    version(bytes, magic, what, VERSION)?;
    Ok(ByteReader(&bytes[VOLUME_AT..]))
}

/// Returns the version, if it is known: 1 to `newest`.
fn version(
    bytes: &[u8],
    magic: &[u8; 8],
    what: &'static str,
    newest: u32,
) -> Result<u32, FormatError> {
    if bytes.len() != HEADER_BYTES || &bytes[..8] != magic {
        return Err(FormatError::Magic(what));
    }
    let field: [u8; 4] = bytes[VERSION_AT..VERSION_AT + 4]
        .try_into()
        .expect("four bytes");
    let found = u32::from_le_bytes(field);
    if (VERSION..=newest).contains(&found) {
        return Ok(found);
    }
    // A flipped bit in the version is damage, not another version.
    let mut as_ours = bytes.to_vec();
    for ours in VERSION..=newest {
        as_ours[VERSION_AT..VERSION_AT + 4].copy_from_slice(&ours.to_le_bytes());
        if crc_without_field(&as_ours) == stored_crc(bytes) {
            return Err(FormatError::Checksum(what));
        }
    }
    Err(FormatError::Version {
        what,
        found,
        newest,
    })
}

/// Checks magic, version and checksum of a structure of one block, and returns a reader of its fields.
///
/// # Errors
/// If one of them is wrong.
pub fn open<'a>(
    bytes: &'a [u8],
    magic: &[u8; 8],
    what: &'static str,
) -> Result<ByteReader<'a>, FormatError> {
    Ok(open_version(bytes, magic, what, VERSION)?.1)
}

/// Like [`open`], for a structure with versions up to `newest`. Also returns the version.
///
/// # Errors
/// As [`open`].
pub fn open_version<'a>(
    bytes: &'a [u8],
    magic: &[u8; 8],
    what: &'static str,
    newest: u32,
) -> Result<(u32, ByteReader<'a>), FormatError> {
    let version = version(bytes, magic, what, newest)?;
    if crc_without_field(bytes) != stored_crc(bytes) {
        return Err(FormatError::Checksum(what));
    }
    Ok((version, ByteReader(&bytes[VOLUME_AT..])))
}

/// The bytes that are not decoded yet.
pub struct ByteReader<'a>(pub &'a [u8]);

impl<'a> ByteReader<'a> {
    /// Takes the next `n` bytes.
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    /// Decodes an integer of up to eight bytes.
    pub fn uint(&mut self, bytes: usize) -> Option<u64> {
        let mut wide = [0; 8];
        wide[..bytes].copy_from_slice(self.take(bytes)?);
        Some(u64::from_le_bytes(wide))
    }

    /// Decodes the number of a segment, record, epoch or generation.
    pub fn counter(&mut self) -> Option<u64> {
        self.uint(8).filter(|n| *n < COUNTER_END)
    }

    /// Decodes a volume's identity.
    pub fn volume(&mut self) -> Option<VolumeId> {
        Some(VolumeId(self.take(16)?.try_into().ok()?))
    }
}
