//! An entry of a directory: a sector of its extent, found by the hash of the name.

use forebay_device::is_zero;
use forebay_segments::FormatError;

use super::Kind;
use super::{Block, finish, open};

const MAGIC: &[u8; 4] = b"FBDE";
const WHAT: &str = "entry of a directory";
/// The longest name, in bytes.
pub const NAME_MAX: usize = 255;

/// A name in a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The i-number of what it names.
    pub file: u64,
    /// Its generation: another file of the same number is not meant.
    pub generation: u64,
    /// What kind of file that is, for listings.
    pub kind: Kind,
    /// The name: 1 to 255 bytes, none of them 0 or a slash.
    pub name: Vec<u8>,
}

/// Whether a file may have this name: `.` and `..` are not for entries.
pub(crate) fn is_name(name: &[u8]) -> bool {
    !name.is_empty()
        && name.len() <= NAME_MAX
        && !name.contains(&0)
        && !name.contains(&b'/')
        && name != b"."
        && name != b".."
}

impl Entry {
    /// Its bytes.
    pub fn encode(&self) -> Block {
        let mut out = Vec::from(*MAGIC);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.file.to_le_bytes());
        out.extend_from_slice(&self.generation.to_le_bytes());
        out.push(self.kind.code());
        out.push(self.name.len() as u8);
        out.extend_from_slice(&self.name);
        finish(out)
    }

    /// The entry in a sector; nothing in one that is not mapped, and so reads as zeroes.
    ///
    /// # Errors
    /// If it is neither.
    pub fn decode(bytes: &[u8]) -> Result<Option<Entry>, FormatError> {
        if is_zero(bytes) {
            return Ok(None);
        }
        let mut from = open(bytes, MAGIC, WHAT)?;
        let decoded = (|| {
            let file = from.uint(8)?;
            let generation = from.uint(8)?;
            let kind = Kind::of_code(from.uint(1)? as u8)?;
            let len = from.uint(1)? as usize;
            let name = from.take(len)?.to_vec();
            let rest_is_empty = is_zero(from.0);
            (file > 0 && is_name(&name) && rest_is_empty).then_some(Entry {
                file,
                generation,
                kind,
                name,
            })
        })();
        decoded.map(Some).ok_or(FormatError::Content(WHAT))
    }
}
