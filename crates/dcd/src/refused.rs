//! Data that the data device fails to write: places that take no writes, and have no spare place.
//!
//! A bad sector, or a thin image without free space, must not stop the tail. So data that the device fails to write is
//! appended again at the head, and is retried from time to time. Then the segments behind it can be reused. While the
//! log holds only such data and lost ranges, it is not destaged for its own sake, since this would never end.

use forebay_device::{Buf, DeviceError, DeviceOp};
use forebay_ring_log::{RangeKind, SEGMENTS_RESERVED};
use forebay_units::{LINE_BYTES, SECTOR_BYTES, Sector};

use crate::engine::DcdEngine;
use crate::piece::{LoadedFragment, LogFragment};
use crate::ranges::RangeState;

/// Maximum number of ranges that are appended in one group.
const GROUP: usize = 64;

impl DcdEngine {
    /// Returns true if all data in the log is either rejected by the data device or lost.
    pub(crate) fn keeps_all(&self) -> bool {
        let next_record = self.log.next_record();
        self.refused
            .borrow_mut()
            .keeps_all(&self.map.borrow(), next_record)
    }

    /// Returns true if moving the tail would free much more space than appending the live data again takes.
    pub(crate) fn would_gain(&self) -> bool {
        let ring = self.log.ring();
        let log = ring.segment_count * u64::from(ring.segment_bytes);
        self.map.borrow().live_sectors() * SECTOR_BYTES < log / 2
    }

    /// Returns true if the rejected data of `segments` segments can be appended again. All of it must fit, since a part
    /// of it frees nothing. If this needs segments that are reserved, the data must also take clearly less space than
    /// it frees, so that the reserve does not shrink.
    pub(crate) fn can_keep(&self, pieces: &[LoadedFragment], segments: u64) -> bool {
        let segment = u64::from(self.log.ring().segment_bytes);
        let bytes = pieces.iter().map(|l| l.piece.bytes() as u64).sum::<u64>();
        let (need, free) = (
            bytes.div_ceil(segment / 8 * 7) + 1,
            self.log.free_segments(),
        );
        let frees = bytes * 4 <= segments * segment * 3;
        free >= need && (frees || free >= need + SEGMENTS_RESERVED)
    }

    /// Appends fragments again that the data device failed to write, so that the tail can pass them.
    ///
    /// # Errors
    /// If the log has no free space for them.
    pub(crate) fn keep_in_log(&self, pieces: &[LoadedFragment]) -> Result<(), DeviceError> {
        let quarter = u64::from(self.log.ring().segment_bytes) / 4;
        for group in pieces.chunks((quarter / LINE_BYTES) as usize) {
            let parts: Vec<(u64, Buf)> = {
                let map = self.map.borrow();
                let live = group.iter().flat_map(|LoadedFragment { piece, bytes }| {
                    let now = map.piece_at(piece.line, piece.addr);
                    let first = piece.sector().0;
                    now.into_iter()
                        .flat_map(LogFragment::live_runs)
                        .map(move |run| {
                            let at = |sector: u64| ((sector - first) * SECTOR_BYTES) as usize;
                            (run.start, bytes.slice(at(run.start)..at(run.end)))
                        })
                });
                live.collect()
            };
            let bytes = parts.iter().map(|(_, bytes)| bytes.len() as u64).sum();
            self.needs_room(bytes, parts.len() as u64)?;
            let mut map = self.map.borrow_mut();
            let mut refused = self.refused.borrow_mut();
            for LoadedFragment { piece, .. } in group {
                refused.moved(piece.line, piece.addr);
            }
            self.log.append(|log| {
                for (sector, bytes) in &parts {
                    let (crc, sector) = (crc32c::crc32c(bytes), Sector(*sector));
                    let addr = log.data(sector, bytes, crc);
                    let sectors = (bytes.len() as u64 / SECTOR_BYTES) as u8;
                    let copy = LogFragment::new(sector, sectors, addr, crc);
                    map.insert_copy(copy);
                    refused.keep(copy.line, addr);
                }
            });
        }
        Ok(())
    }

    /// Appends marks again that could not be carried out.
    ///
    /// # Errors
    /// If the log has no free space for them.
    pub(crate) fn keep_marks(
        &self,
        kind: RangeKind,
        ranges: &[std::ops::Range<u64>],
    ) -> Result<(), DeviceError> {
        for group in ranges.chunks(GROUP) {
            self.needs_room(0, group.len() as u64)?;
            let mut map = self.map.borrow_mut();
            let mut records = Vec::new();
            self.log.append(|log| {
                for range in group {
                    let len = range.end - range.start;
                    let record = log.range(kind, Sector(range.start), len);
                    map.mark(range.clone(), Some(RangeState { kind, record }));
                    records.push(record);
                }
            });
            if kind != RangeKind::Lost {
                self.refused.borrow_mut().keep_marks(records);
            }
        }
        Ok(())
    }

    fn needs_room(&self, bytes: u64, entries: u64) -> Result<(), DeviceError> {
        // Data appended to a failed log is in memory only, and the rescue does not look for it there.
        if self.log.failure().is_none() && self.log.has_room(bytes, entries, 0) {
            return Ok(());
        }
        let cause = "the log has no free space for data that the data device fails to write".into();
        let op = DeviceOp::Write;
        Err(DeviceError::Failed { op, cause })
    }
}
