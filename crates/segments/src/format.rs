//! The bytes that logs of segments have in common: the envelope around every structure, the header of a
//! record and the summary of a segment. What a record says is the layer's: an [`Entry`] of its own.
//!
//! All integers are little-endian. Every structure carries a magic, the version, the volume's id and
//! a CRC32C over its whole length with the CRC field taken as zero. Decoding never panics and
//! allocates no more than the bytes it was given justify.

pub mod entry;
pub mod envelope;
pub mod record;
pub mod summary;

pub use entry::{Entry, Layout};
pub use envelope::{FormatError, HEADER_BYTES, VERSION, VolumeId};
pub use record::{RECORD_ENTRY_BYTES_MAX, Record};
pub use summary::{Summary, SummaryRecord, summary_len};
