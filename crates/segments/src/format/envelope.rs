//! What every structure begins with: magic, version, checksum, volume; and reading on from there.

/// The format's version. Another version is refused, not guessed at.
pub const VERSION: u32 = 1;
/// Length of a superblock, of a record's header and of a summary's last block, in bytes.
pub const HEADER_BYTES: usize = 4096;

/// Identifies a volume: 16 random bytes, chosen when it is created.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct VolumeId(pub [u8; 16]);

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

/// Why bytes are not the structure they were read as.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FormatError {
    /// Too short, or another magic.
    #[error("no {0} here (wrong magic)")]
    Magic(&'static str),
    /// Written by another version of the format.
    #[error("a {what} of format version {found}; this program reads versions up to {newest}")]
    Version {
        /// Which structure.
        what: &'static str,
        /// The version it carries.
        found: u32,
        /// The newest that is known of this structure.
        newest: u32,
    },
    /// Written by an older version of the format, which is no longer read.
    #[error(
        "a {what} of format version {found}; this program reads versions from {oldest} on (copy the data with the \
         program that wrote it, and make the volume anew)"
    )]
    Old {
        /// Which structure.
        what: &'static str,
        /// The version it carries.
        found: u32,
        /// The oldest that is read.
        oldest: u32,
    },
    /// The bytes do not match their checksum.
    #[error("the {0} does not match its checksum")]
    Checksum(&'static str),
    /// The device gave an error where it should be: that says nothing of what stands there.
    #[error("the {0} cannot be read (a device error; it may be readable later)")]
    Unreadable(&'static str),
    /// The checksum is right and the content impossible.
    #[error("the {0} contradicts itself")]
    Content(&'static str),
}

/// No counter gets this far in the life of a log; so no arithmetic on one from a device overflows.
const COUNTER_END: u64 = 1 << 60;
const VERSION_AT: usize = 8;
pub(super) const CRC_AT: usize = 12;
pub(super) const VOLUME_AT: usize = 16;

/// The beginning of a structure; its fields come next, then [`finish`].
pub fn begin(magic: &[u8; 8], version: u32, volume: VolumeId) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER_BYTES);
    out.extend_from_slice(magic);
    out.extend_from_slice(&version.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&volume.0);
    out
}

/// Fills a structure of one block up with zeroes, and sets its checksum.
///
/// # Panics
/// If it is longer than a block.
pub fn finish(mut out: Vec<u8>) -> [u8; HEADER_BYTES] {
    out.resize(out.len().max(HEADER_BYTES), 0);
    let mut block: [u8; HEADER_BYTES] = out.try_into().expect("more entries than a header holds");
    let crc = crc32c::crc32c(&block);
    block[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
    block
}

/// The checksum that a structure of one block carries.
pub fn stored_crc(block: &[u8]) -> u32 {
    u32::from_le_bytes(block[CRC_AT..CRC_AT + 4].try_into().expect("four bytes"))
}

pub(super) fn crc_without_field(block: &[u8]) -> u32 {
    let crc = crc32c::crc32c(&block[..CRC_AT]);
    crc32c::crc32c_append(crc32c::crc32c_append(crc, &[0; 4]), &block[CRC_AT + 4..])
}

/// Checks magic, then version: a later version may check itself another way.
pub(super) fn preamble<'a>(
    bytes: &'a [u8],
    magic: &[u8; 8],
    what: &'static str,
) -> Result<Reader<'a>, FormatError> {
    version(bytes, magic, what, VERSION)?;
    Ok(Reader(&bytes[VOLUME_AT..]))
}

/// The version, if it is known: 1 to `newest`.
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

/// What is behind the preamble of a structure of one block, whose magic, version and checksum are right.
///
/// # Errors
/// If they are not.
pub fn open<'a>(
    bytes: &'a [u8],
    magic: &[u8; 8],
    what: &'static str,
) -> Result<Reader<'a>, FormatError> {
    Ok(open_version(bytes, magic, what, VERSION)?.1)
}

/// As [`open`], of a structure that has versions up to `newest`. Says which this is.
///
/// # Errors
/// As there.
pub fn open_version<'a>(
    bytes: &'a [u8],
    magic: &[u8; 8],
    what: &'static str,
    newest: u32,
) -> Result<(u32, Reader<'a>), FormatError> {
    let version = version(bytes, magic, what, newest)?;
    if crc_without_field(bytes) != stored_crc(bytes) {
        return Err(FormatError::Checksum(what));
    }
    Ok((version, Reader(&bytes[VOLUME_AT..])))
}

/// What is left to decode.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next `n` bytes.
    pub fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    /// An integer of that many bytes, at most eight.
    pub fn uint(&mut self, bytes: usize) -> Option<u64> {
        let mut wide = [0; 8];
        wide[..bytes].copy_from_slice(self.take(bytes)?);
        Some(u64::from_le_bytes(wide))
    }

    /// A number of a segment, record, epoch or generation.
    pub fn counter(&mut self) -> Option<u64> {
        self.uint(8).filter(|n| *n < COUNTER_END)
    }

    /// A volume's id.
    pub fn volume(&mut self) -> Option<VolumeId> {
        Some(VolumeId(self.take(16)?.try_into().ok()?))
    }
}
