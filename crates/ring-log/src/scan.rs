//! Scan of the records: follows the chain from the tail to its end.
//!
//! Scans are read-only, so `check` and recovery use the same code. The rules of trust are:
//! - A summary is trusted for the records of its segment and their changes. For records up to the highest `stable`
//!   value
//!   found anywhere, the scan reads nothing else: they were durable.
//! - A later record is verified on the device, header and payload. The first record that fails ends the chain: a torn
//!   tail, which is normal.
//! - If the record at the end of the chain is not after the highest `stable` value, durable data is missing. This is
//!   damage, and the caller decides.
//! - If the device cannot read the place at the end of the chain, the tail is not torn either. The place may hold a
//!   whole
//!   flushed record, readable at the next attempt. Continuing would make this end permanent. The same rule applies to
//!   later places that may prove the record durable: an unreadable place is no proof to the contrary.
//!
//! The `stable` value that covers a record may stand further on, but not far. The writer keeps at most
//! [`UNSTABLE_SEGMENTS_MAX`] segments that are not known to be durable, and the scan looks that far ahead. It reads
//! summaries and first headers. It searches block by block in the segment of the end, in the next one, and in each
//! later segment that has content and no summary. The proof may stand in the middle of the segment written last.

mod chain;
mod end;
mod found;
mod peek;

use std::collections::VecDeque;

use forebay_device::{Device, DeviceError};
use forebay_units::SegmentSeq;
use futures_util::StreamExt;
use futures_util::stream;

use crate::format::RingSuperblock;
use crate::ring::RingGeometry;
use crate::state::UNSTABLE_SEGMENTS_MAX;

use chain::{ChainEnd, ChainScanner};
pub use found::{ChainDamage, RecoveredRecord, ScanReport};
use peek::{SegmentPeek, peek};

/// Segments whose ends are read concurrently.
const PEEKS: usize = 32;

/// Follows the chain that `superblock` begins. Passes each record to `apply` as soon as the record is known to be
/// valid. Changes nothing.
///
/// # Errors
/// If the device cannot read a part of the log that is needed to find the end of the chain.
pub async fn scan(
    device: &dyn Device,
    superblock: &RingSuperblock,
    apply: &mut dyn FnMut(&RecoveredRecord),
) -> Result<ScanReport, DeviceError> {
    let ring = RingGeometry::of(superblock);
    let segments = superblock.tail.0..superblock.tail.0 + ring.segment_count;
    let peeks = stream::iter(segments.map(SegmentSeq))
        .map(|segment| peek(device, superblock, ring, segment))
        .buffered(PEEKS);
    let mut scanner = ChainScanner::new(device, superblock, apply);
    let mut peeks = std::pin::pin!(peeks);
    let mut ahead: VecDeque<SegmentPeek> = VecDeque::new();
    let mut segment = superblock.tail;
    let end = loop {
        while ahead.len() as u64 <= UNSTABLE_SEGMENTS_MAX
            && let Some(peeked) = peeks.next().await
        {
            scanner.take_evidence(&peeked);
            ahead.push_back(peeked);
        }
        let Some(mut peeked) = ahead.pop_front() else {
            break ChainEnd::nowhere(segment);
        };
        if let Some(end) = scanner.segment(&mut peeked).await? {
            ahead.push_front(peeked);
            break end;
        }
        segment = segment.next();
    };
    scanner.finish(end, ahead).await
}
