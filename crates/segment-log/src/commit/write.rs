//! Writes to the device.

use forebay_device::{Buf, BufMut};
use forebay_units::{RecordSeq, SegmentSeq};

use crate::ram::WriteJob;

/// A write to the device: one job, or two adjacent jobs.
pub struct DeviceWrite {
    jobs: [Option<(u64, SegmentSeq)>; 2],
    /// The position on the device, in bytes.
    pub at: u64,
    /// The data.
    pub(super) buf: Buf,
    /// The newest record in the write.
    pub(super) last: RecordSeq,
}

impl DeviceWrite {
    /// Returns the write of a job whose segment begins at byte `segment_at` of the device, joined with the adjacent job
    /// `next`, if given.
    pub(super) fn of(
        id: u64,
        job: WriteJob,
        segment_at: u64,
        next: Option<(u64, WriteJob)>,
    ) -> DeviceWrite {
        let at = segment_at + u64::from(job.offset);
        let first = Some((id, job.segment));
        let Some((id, next)) = next else {
            return DeviceWrite {
                jobs: [first, None],
                at,
                buf: job.buf,
                last: job.last,
            };
        };
        let mut both = BufMut::zeroed(job.buf.len() + next.buf.len());
        both[..job.buf.len()].copy_from_slice(&job.buf);
        both[job.buf.len()..].copy_from_slice(&next.buf);
        DeviceWrite {
            jobs: [first, Some((id, next.segment))],
            at,
            buf: both.freeze(),
            last: next.last,
        }
    }

    /// Returns the length in bytes, which is never 0.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.buf.len()
    }

    /// Returns the jobs in the write, with their segments.
    pub fn jobs(&self) -> impl Iterator<Item = (u64, SegmentSeq)> + use<> {
        self.jobs.into_iter().flatten()
    }
}
