//! The orphan record of a file that has no name and is still in use.

use forebay_device::is_zero;
use forebay_segment_log::FormatError;

use super::{SectorBytes, finish, open};

const MAGIC: &[u8; 4] = b"FBOR";
const WHAT: &str = "orphan record";

/// A file without a name. It is removed when it is no longer in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Orphan {
    /// The i-number.
    pub(crate) file: u64,
    /// The generation.
    pub(crate) generation: u64,
}

impl Orphan {
    /// Encodes the record.
    pub(crate) fn encode(&self) -> SectorBytes {
        let mut out = Vec::from(*MAGIC);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.file.to_le_bytes());
        out.extend_from_slice(&self.generation.to_le_bytes());
        finish(out)
    }

    /// Decodes the record in a sector. Returns `None` for an unmapped sector, which reads as zeroes.
    ///
    /// # Errors
    ///
    /// If the record is damaged.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Option<Orphan>, FormatError> {
        if is_zero(bytes) {
            return Ok(None);
        }
        let mut from = open(bytes, MAGIC, WHAT)?;
        let decoded = (|| {
            let mark = Orphan {
                file: from.uint(8)?,
                generation: from.uint(8)?,
            };
            let rest_is_empty = is_zero(from.0);
            (mark.file > 0 && rest_is_empty).then_some(mark)
        })();
        decoded.map(Some).ok_or(FormatError::Content(WHAT))
    }
}
