//! Results of a scan.

use std::collections::VecDeque;
use std::fmt;

use forebay_units::{Epoch, RecordSeq, SECTOR_BYTES, Sector, SegmentSeq};

use crate::format::RingSummary;
use crate::ring::AddressedEntry;

/// Maximum number of ranges listed in an error text. Further ranges are only counted.
const NAMED: usize = 8;

/// A record of the chain, as passed to the layer above.
#[derive(Clone, Debug)]
pub struct RecoveredRecord {
    /// Its number.
    pub seq: RecordSeq,
    /// The segment it lies in.
    pub segment: SegmentSeq,
    /// Its entries, with addresses.
    pub entries: Vec<AddressedEntry>,
}

/// Durable data that was not found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChainDamage {
    /// The first missing record.
    pub record: RecordSeq,
    /// The segment in which the record should be.
    pub segment: SegmentSeq,
    /// Offset in that segment, in bytes.
    pub offset: u32,
    /// The newest record known to have been durable.
    pub stable: RecordSeq,
    /// True if the place cannot be read. The record's durability is unknown in this case.
    pub unreadable: bool,
    /// Segment with an unreadable place that may prove that the record was durable. Set only if no readable place
    /// proves this.
    pub evidence_unread: Option<SegmentSeq>,
    /// Ranges (first sector, sectors) written by later records. These records are readable, but cannot be applied
    /// without the missing one. The ranges of the missing record itself are unknown.
    pub later: Vec<(Sector, u64)>,
}

/// Result of a scan.
#[derive(Clone, Debug)]
pub struct ScanReport {
    /// The highest epoch in the chain or the superblock.
    pub epoch: Epoch,
    /// The next segment to be written.
    pub next_segment: SegmentSeq,
    /// The record after the last one of the chain.
    pub next_record: RecordSeq,
    /// Records in the chain.
    pub records: u64,
    /// The newest record known to have been durable.
    pub stable: RecordSeq,
    /// Damage, if the chain ends too early.
    pub damage: Option<ChainDamage>,
    /// Bytes read by the scan.
    pub bytes_read: u64,
    /// Full segments whose summaries could not be read.
    pub summaries_lost: u64,
    /// First record of each segment from the tail on.
    pub(crate) firsts: VecDeque<RecordSeq>,
    /// Summary with which the last segment must be sealed. `None` if the segment has exactly this summary.
    pub(crate) seal: Option<RingSummary>,
    /// Places to wipe in that segment after its last record, since a scan could take their content for the next record.
    pub(crate) behind: Vec<u32>,
    /// Segments beyond the end that contain leftovers.
    pub(crate) leftovers: Vec<SegmentSeq>,
}

impl fmt::Display for ChainDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ChainDamage {
            record,
            segment,
            offset,
            stable,
            unreadable,
            evidence_unread,
            later,
        } = self;
        if let Some(unread) = evidence_unread {
            return write!(
                f,
                "the log seems to end before {record}, at byte {offset} of {segment}, but an unreadable \
                 place in {unread} may prove that later records were flushed (it may be readable later)"
            );
        }
        let what = match (unreadable, record <= stable) {
            (false, _) => "is missing or damaged, although it was flushed",
            (true, true) => "cannot be read, although it was flushed",
            (true, false) => "cannot be read (it may be readable later), and may have been flushed",
        };
        write!(
            f,
            "{record} at byte {offset} of {segment} {what} (all up to {stable} were); the affected data \
             is unknown"
        )?;
        if later.is_empty() {
            Ok(())
        } else {
            write_later(f, later)
        }
    }
}

/// Writes the ranges of later records into an error text.
fn write_later(f: &mut fmt::Formatter<'_>, later: &[(Sector, u64)]) -> fmt::Result {
    write!(f, ", and later writes cannot be applied without it: bytes ")?;
    for (n, (start, sectors)) in later.iter().take(NAMED).enumerate() {
        let comma = if n > 0 { ", " } else { "" };
        let end = start
            .0
            .saturating_add(*sectors)
            .saturating_mul(SECTOR_BYTES);
        write!(f, "{comma}{}..{end}", start.0.saturating_mul(SECTOR_BYTES))?;
    }
    if later.len() > NAMED {
        write!(f, " and {} more ranges", later.len() - NAMED)?;
    }
    Ok(())
}
