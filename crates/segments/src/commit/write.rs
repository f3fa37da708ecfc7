//! One write of the device.

use forebay_device::{Buf, BufMut};
use forebay_units::{RecordSeq, SegmentSeq};

use crate::ram::Job;

/// One write of the device: a job, or two that lie side by side.
pub struct Write {
    jobs: [Option<(u64, SegmentSeq)>; 2],
    /// Where on the device, in bytes.
    pub at: u64,
    /// What is written.
    pub(super) buf: Buf,
    /// The newest record in it.
    pub(super) last: RecordSeq,
}

impl Write {
    /// The write of a job whose segment begins at byte `segment_at` of the device, and of the one behind it, if
    /// that lies side by side with it.
    pub(super) fn of((id, job): (u64, Job), segment_at: u64, next: Option<(u64, Job)>) -> Write {
        let at = segment_at + u64::from(job.offset);
        let first = Some((id, job.segment));
        let Some((id, next)) = next else {
            return Write {
                jobs: [first, None],
                at,
                buf: job.buf,
                last: job.last,
            };
        };
        let mut both = BufMut::zeroed(job.buf.len() + next.buf.len());
        both[..job.buf.len()].copy_from_slice(&job.buf);
        both[job.buf.len()..].copy_from_slice(&next.buf);
        Write {
            jobs: [first, Some((id, next.segment))],
            at,
            buf: both.freeze(),
            last: next.last,
        }
    }

    /// Its length in bytes; never none.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.buf.len()
    }

    /// The jobs it does, with the segments they are of.
    pub fn jobs(&self) -> impl Iterator<Item = (u64, SegmentSeq)> + use<> {
        self.jobs.into_iter().flatten()
    }
}
