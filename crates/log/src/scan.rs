//! Finding the records again: the chain from the tail to where it ends.
//!
//! Read-only, so that `check` and recovery are the same code. What is trusted and why:
//! - A summary is trusted for which records its segment holds and what they do. For the records up
//!   to the highest `stable` seen anywhere, nothing else is read: they were durable.
//! - A record past that is verified on the device, header and payload, and the first that fails ends
//!   the chain: a torn tail, which is normal.
//! - If the record at which the chain ends is not past the highest `stable`, something durable is
//!   missing: that is damage, and the caller decides.
//! - Nor is it a torn tail if the device cannot read what stands there: it may be a whole record,
//!   flushed, and readable at the next try. To go on would make that an end for good. The same holds
//!   for the places further on that may say that the record was durable: what cannot be read there
//!   is no proof of the contrary.
//!
//! `stable` may stand in a later place than the record it covers, but not far: the writer keeps at
//! most [`UNSTABLE_SEGMENTS_MAX`] segments not known durable, so that far ahead is looked, at
//! summaries and first headers, and block by block in the end's segment, the next one, and each further one that shows something
//! and has no summary: the proof may stand in the middle of the last that was written to.

mod chain;
mod end;
mod found;
mod peek;

use std::collections::VecDeque;

use forebay_device::{Device, DeviceError};
use forebay_units::SegmentSeq;
use futures_util::StreamExt;
use futures_util::stream;

use crate::format::Superblock;
use crate::ring::RingGeometry;
use crate::state::UNSTABLE_SEGMENTS_MAX;

use chain::{End, Scanner};
pub use found::{Damage, RecoveredRecord, Scan};
use peek::{Peek, peek};

/// Peeks at segments under way at once.
const PEEKS: usize = 32;

/// Walks the chain that `superblock` begins, giving each record to `apply` once it is certain that
/// it counts. Changes nothing.
///
/// # Errors
/// The device's, where a part of the log cannot be read that is needed to tell where it ends.
pub async fn scan(
    device: &dyn Device,
    superblock: &Superblock,
    apply: &mut dyn FnMut(&RecoveredRecord),
) -> Result<Scan, DeviceError> {
    let ring = RingGeometry::of(superblock);
    let segments = superblock.tail.0..superblock.tail.0 + ring.segment_count;
    let peeks = stream::iter(segments.map(SegmentSeq))
        .map(|segment| peek(device, superblock, ring, segment))
        .buffered(PEEKS);
    let mut scanner = Scanner::new(device, superblock, apply);
    let mut peeks = std::pin::pin!(peeks);
    let mut ahead: VecDeque<Peek> = VecDeque::new();
    let mut segment = superblock.tail;
    let end = loop {
        while ahead.len() as u64 <= UNSTABLE_SEGMENTS_MAX
            && let Some(peeked) = peeks.next().await
        {
            scanner.take_evidence(&peeked);
            ahead.push_back(peeked);
        }
        let Some(mut peeked) = ahead.pop_front() else {
            break End::nowhere(segment);
        };
        if let Some(end) = scanner.segment(&mut peeked).await? {
            ahead.push_front(peeked);
            break end;
        }
        segment = segment.next();
    };
    scanner.finish(end, ahead).await
}
