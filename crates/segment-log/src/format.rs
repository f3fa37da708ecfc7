//! The encoding that all logs of segments share: the envelope of every structure, the header of a record and the
//! summary of a segment. The content of records belongs to the layer above, as an [`RecordEntry`] type.
//!
//! All integers are little-endian. Every structure contains a magic, the version, the volume's identity and a CRC32C
//! over its whole length, in which the CRC field is zero. Decoding never panics, and limits its allocations by the
//! length of its input.

pub mod entry;
pub mod envelope;
pub mod record;
pub mod summary;

pub use entry::{LogLayout, RecordEntry};
pub use envelope::{FormatError, HEADER_BYTES, VERSION, VolumeId};
pub use record::{RECORD_ENTRY_BYTES_MAX, RecordHeader};
pub use summary::{SegmentSummary, SummaryRecord, summary_len};
