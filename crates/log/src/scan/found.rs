//! What a scan finds.

use std::collections::VecDeque;
use std::fmt;

use forebay_units::{Epoch, RecordSeq, SECTOR_BYTES, Sector, SegmentSeq};

use crate::format::Summary;
use crate::ring::Placed;

/// Ranges named in an error's text; the others are counted.
const NAMED: usize = 8;

/// A record of the chain, as given to the layer above.
#[derive(Clone, Debug)]
pub struct RecoveredRecord {
    /// Its number.
    pub seq: RecordSeq,
    /// The segment it lies in.
    pub segment: SegmentSeq,
    /// What it says, with places.
    pub entries: Vec<Placed>,
}

/// Something durable that cannot be found any more.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// The first record missing.
    pub record: RecordSeq,
    /// The segment it should lie in.
    pub segment: SegmentSeq,
    /// How far into that segment, in bytes.
    pub offset: u32,
    /// The newest record known to have been durable.
    pub stable: RecordSeq,
    /// What stands there cannot be read, so whether it was durable is not known.
    pub unreadable: bool,
    /// A segment that cannot be read in a place that may say that the record was durable; given only
    /// if nothing that can be read does.
    pub evidence_unread: Option<SegmentSeq>,
    /// Ranges (first sector, sectors) that later records, which can be read but not be applied
    /// without the missing one, had written. Those of the missing record itself cannot be told.
    pub later: Vec<(Sector, u64)>,
}

/// What a scan found.
#[derive(Clone, Debug)]
pub struct Scan {
    /// The highest epoch in the chain or the superblock.
    pub epoch: Epoch,
    /// Where the next segment goes.
    pub next_segment: SegmentSeq,
    /// The record after the last of the chain.
    pub next_record: RecordSeq,
    /// Records in the chain.
    pub records: u64,
    /// The newest record known to have been durable.
    pub stable: RecordSeq,
    /// What is missing, if the chain ends too early.
    pub damage: Option<Damage>,
    /// Bytes read to find out.
    pub bytes_read: u64,
    /// Summaries that could not be read though their segments are full.
    pub summaries_lost: u64,
    /// First record of each segment from the tail on.
    pub(crate) firsts: VecDeque<RecordSeq>,
    /// What the last segment holds, to be sealed with; none if its summary says just that.
    pub(crate) seal: Option<Summary>,
    /// Where in that segment, behind its last record, what could be taken for the next is to be wiped.
    pub(crate) behind: Vec<u32>,
    /// Segments past the end that hold leftovers.
    pub(crate) leftovers: Vec<SegmentSeq>,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damage {
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
                "the log seems to end before {record}, at byte {offset} of {segment}, but {unread} \
                 cannot be read where it may say that more was flushed (it may be readable later)"
            );
        }
        let what = match (unreadable, record <= stable) {
            (false, _) => "is missing or broken, though it was flushed",
            (true, true) => "cannot be read, and it was flushed",
            (true, false) => "cannot be read (it may be readable later), and may have been flushed",
        };
        write!(
            f,
            "{record} at byte {offset} of {segment} {what} (up to {stable} all were); what it wrote \
             cannot be told"
        )?;
        match later.is_empty() {
            true => Ok(()),
            false => write_later(f, later),
        }
    }
}

/// What later records had written, in an error's text.
fn write_later(f: &mut fmt::Formatter<'_>, later: &[(Sector, u64)]) -> fmt::Result {
    write!(
        f,
        ", and what was written after it cannot be applied without it: bytes "
    )?;
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
