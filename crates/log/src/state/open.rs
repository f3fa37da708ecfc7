//! What is being filled: a segment, and the newest record in it.

use forebay_units::{RecordSeq, SegmentSeq};

use crate::format::{Entry, SummaryRecord};

/// The segment records are being appended to.
pub(super) struct Open {
    pub(super) seq: SegmentSeq,
    pub(super) first: RecordSeq,
    /// Closed records, as the summary will list them.
    pub(super) records: Vec<SummaryRecord>,
    /// Bytes those take in the summary's body.
    pub(super) body: usize,
    /// Where the next record's header goes.
    pub(super) at: u32,
    pub(super) record: Option<OpenRecord>,
}

/// The record that is being filled.
pub(super) struct OpenRecord {
    pub(super) seq: RecordSeq,
    pub(super) offset: u32,
    pub(super) entries: Vec<Entry>,
    /// Where in the segment each data entry's bytes begin; 0 for ranges. Parallel to `entries`.
    pub(super) places: Vec<u32>,
    pub(super) entry_bytes: usize,
    /// Where the next piece's bytes go.
    pub(super) end: u32,
}
