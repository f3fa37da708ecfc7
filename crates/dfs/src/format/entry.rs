//! A directory entry: one sector of the directory's extent, selected by the hash of the name.

use forebay_device::is_zero;
use forebay_segment_log::FormatError;

use super::FileKind;
use super::{SectorBytes, finish, open};

const MAGIC: &[u8; 4] = b"FBDE";
const WHAT: &str = "directory entry";
/// The longest name, in bytes.
pub const NAME_MAX: usize = 255;

/// A name in a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirectoryEntry {
    /// The i-number of the named file.
    pub file: u64,
    /// The file's generation, which distinguishes it from other files of the same number.
    pub generation: u64,
    /// The kind of file, for listings.
    pub kind: FileKind,
    /// The name: 1 to 255 bytes, without zero bytes and slashes.
    pub name: Vec<u8>,
}

/// Returns true if an entry may have this name. `.` and `..` are not stored as entries.
pub(crate) fn is_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name.len() <= NAME_MAX
        && !name.contains(&0)
        && !name.contains(&b'/')
        && name != b"."
        && name != b".."
}

impl DirectoryEntry {
    /// Encodes the entry.
    pub fn encode(&self) -> SectorBytes {
        let mut out = Vec::from(*MAGIC);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.file.to_le_bytes());
        out.extend_from_slice(&self.generation.to_le_bytes());
        out.push(self.kind.code());
        out.push(self.name.len() as u8);
        out.extend_from_slice(&self.name);
        finish(out)
    }

    /// Decodes the entry in a sector. Returns `None` for an unmapped sector, which reads as zeroes.
    ///
    /// # Errors
    ///
    /// If the entry is damaged.
    pub fn decode(bytes: &[u8]) -> Result<Option<DirectoryEntry>, FormatError> {
        if is_zero(bytes) {
            return Ok(None);
        }
        let mut from = open(bytes, MAGIC, WHAT)?;
        let decoded = (|| {
            let file = from.uint(8)?;
            let generation = from.uint(8)?;
            let kind = FileKind::of_code(from.uint(1)? as u8)?;
            let len = from.uint(1)? as usize;
            let name = from.take(len)?.to_vec();
            let rest_is_empty = is_zero(from.0);
            (file > 0 && is_name(&name) && rest_is_empty).then_some(DirectoryEntry {
                file,
                generation,
                kind,
                name,
            })
        })();
        decoded.map(Some).ok_or(FormatError::Content(WHAT))
    }
}
