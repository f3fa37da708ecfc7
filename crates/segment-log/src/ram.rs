//! The bytes of segments that are not known to be durable on the device.

use std::collections::VecDeque;
use std::ops::Range;

use forebay_device::{Buf, BufMut};
use forebay_units::{RecordSeq, SegmentSeq};

/// A stretch of a segment that is composed and may be written.
#[derive(Clone, Debug)]
struct ComposedRange {
    bytes: Range<u32>,
    first: RecordSeq,
    last: RecordSeq,
    /// True if the stretch contains only the end of a segment, a summary or zeroes. Its records are all in earlier
    /// stretches.
    end: bool,
}

/// A write for the device.
#[derive(Clone)]
pub struct WriteJob {
    /// The segment.
    pub segment: SegmentSeq,
    /// The offset in the segment, in bytes.
    pub offset: u32,
    /// The data.
    pub buf: Buf,
    /// The first record in the write, possibly only a part of it.
    pub first: RecordSeq,
    /// The last record in the write.
    pub last: RecordSeq,
}

/// A segment in memory. The front part is frozen and on its way to the device, and the rest is still being filled.
pub struct RamSegment {
    seq: SegmentSeq,
    frozen: Vec<(u32, Buf)>,
    rest: BufMut,
    rest_at: u32,
    closed: VecDeque<ComposedRange>,
    in_flight: u32,
    /// Stretches taken that may have to be written again; 0 in a log that latches its failures.
    unstable: u32,
    /// The last record, once the segment is sealed.
    sealed: Option<RecordSeq>,
}

impl RamSegment {
    /// Creates an empty segment. `memory` has the length of a segment.
    pub(crate) fn new(seq: SegmentSeq, memory: BufMut) -> RamSegment {
        RamSegment {
            seq,
            frozen: Vec::new(),
            rest: memory,
            rest_at: 0,
            closed: VecDeque::new(),
            in_flight: 0,
            unstable: 0,
            sealed: None,
        }
    }

    /// Returns the number of the segment.
    #[inline]
    pub fn seq(&self) -> SegmentSeq {
        self.seq
    }

    /// Returns bytes that are not frozen yet, for changes.
    #[inline]
    pub fn unfrozen(&mut self, range: Range<u32>) -> &mut [u8] {
        let at = self.rest_at;
        &mut self.rest[(range.start - at) as usize..(range.end - at) as usize]
    }

    /// Returns bytes appended earlier, or `None` if the range does not lie within one frozen stretch or within the part
    /// that is not frozen.
    #[inline]
    pub fn bytes(&self, range: Range<u32>) -> Option<&[u8]> {
        let within = |at: u32| {
            let (start, end) = (range.start.checked_sub(at)?, range.end.checked_sub(at)?);
            Some(start as usize..end as usize)
        };
        if range.start >= self.rest_at {
            return self.rest.get(within(self.rest_at)?);
        }
        let i = self.frozen.partition_point(|(at, _)| *at <= range.start);
        let (at, buf) = &self.frozen[i.checked_sub(1)?];
        buf.get(within(*at)?)
    }

    /// Records that these bytes are composed and contain this record.
    pub(crate) fn close(&mut self, bytes: Range<u32>, record: RecordSeq) {
        match self.closed.back_mut() {
            Some(back) if back.bytes.end == bytes.start => {
                back.bytes.end = bytes.end;
                back.last = record;
            }
            _ => self.closed.push_back(ComposedRange {
                bytes,
                first: record,
                last: record,
                end: false,
            }),
        }
    }

    /// Seals the segment: these bytes are its end, with its summary if it has one, and no record follows `last`.
    /// Without bytes, the segment is complete when the device has its last record.
    pub(crate) fn seal(&mut self, bytes: Range<u32>, last: RecordSeq) {
        self.sealed = Some(last);
        if bytes.is_empty() {
            return;
        }
        match self.closed.back_mut() {
            Some(back) if back.bytes.end == bytes.start => back.bytes.end = bytes.end,
            _ => self.closed.push_back(ComposedRange {
                bytes,
                first: last,
                last,
                end: true,
            }),
        }
    }

    /// Returns true if a composed stretch was not taken yet.
    pub(crate) fn has_closed(&self) -> bool {
        !self.closed.is_empty()
    }

    /// Returns the number of stretches that wait to be taken.
    pub(crate) fn closed(&self) -> usize {
        self.closed.len()
    }

    /// Returns the next stretch to write, in bytes from the segment's start.
    pub fn first_closed(&self) -> Option<Range<u32>> {
        self.closed.front().map(|closed| closed.bytes.clone())
    }

    /// Returns the first record of the next stretch to write.
    pub(crate) fn next_record(&self) -> Option<RecordSeq> {
        self.closed.front().map(|closed| closed.first)
    }

    /// Returns the first composed record that waits to be written. Ignores the end of a segment, since records are
    /// found without it.
    pub(crate) fn first_waiting(&self) -> Option<RecordSeq> {
        let waiting = self.closed.iter().find(|closed| !closed.end)?;
        Some(waiting.first)
    }

    /// Records that a write of the segment is done.
    pub(crate) fn job_done(&mut self) {
        self.in_flight -= 1;
    }

    /// Keeps the segment in memory until one more stretch is durable.
    pub(crate) fn add_unstable(&mut self) {
        self.unstable += 1;
    }

    /// Records that a stretch added by [`RamSegment::add_unstable`] is durable.
    pub(crate) fn remove_unstable(&mut self) {
        self.unstable -= 1;
    }

    /// Records that a stretch taken earlier is being written again.
    pub(crate) fn write_again(&mut self) {
        self.in_flight += 1;
    }

    /// Freezes and takes the next stretch to write.
    pub(crate) fn take_job(&mut self) -> Option<WriteJob> {
        let ComposedRange {
            bytes, first, last, ..
        } = self.closed.pop_front()?;
        let skipped = self.rest.split_to((bytes.start - self.rest_at) as usize);
        drop(skipped);
        let buf = self
            .rest
            .split_to((bytes.end - bytes.start) as usize)
            .freeze();
        self.rest_at = bytes.end;
        self.frozen.push((bytes.start, buf.clone()));
        self.in_flight += 1;
        Some(WriteJob {
            segment: self.seq,
            offset: bytes.start,
            buf,
            first,
            last,
        })
    }

    /// Returns true if the device has the whole segment, and all of its records are durable, given that the records up
    /// to `stable` are. Completed writes are not sufficient: if a flush fails, the device may drop their data, and
    /// memory has the only copy. A log that writes again also keeps the segment until the summary is durable.
    pub(crate) fn is_durable(&self, stable: RecordSeq) -> bool {
        let ended = self.sealed.is_some_and(|last| last <= stable);
        ended && self.in_flight == 0 && self.closed.is_empty() && self.unstable == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_returns_none_for_a_range_across_separate_appends() {
        let mut ram = RamSegment::new(SegmentSeq(1), BufMut::zeroed(16384));
        ram.unfrozen(0..4096).fill(1);
        ram.unfrozen(8192..12288).fill(3);
        ram.close(0..4096, RecordSeq(1));
        ram.close(8192..12288, RecordSeq(2));
        assert!(ram.take_job().is_some() && ram.take_job().is_some());
        let first = |range| ram.bytes(range).map(|bytes| (bytes[0], bytes.len()));
        assert_eq!(first(512..4096), Some((1, 3584)));
        assert_eq!(first(8192..12288), Some((3, 4096)));
        assert_eq!(first(12288..16384), Some((0, 4096)), "being filled");
        assert_eq!(first(512..4608), None, "ends in the gap");
        assert_eq!(first(4096..8192), None, "in the gap");
        assert_eq!(first(4096..8704), None, "begins in the gap");
        assert_eq!(first(8192..12800), None, "in two parts");
        assert_eq!(first(12288..20480), None, "beyond the segment");
        #[allow(clippy::reversed_empty_ranges)]
        let backwards = first(1024..512);
        assert_eq!(backwards, None);
    }
}
