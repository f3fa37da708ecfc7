//! The two queues shared with the kernel, with entries of one of two lengths.
#![allow(
    unsafe_code,
    reason = "pushes entries; whoever asks for it sees to the memory that they name"
)]

use std::io;

use io_uring::{IoUring, Submitter, cqueue, squeue};

/// The queues of a ring.
pub(super) enum UringQueue {
    Short(IoUring),
    /// Twice as long, with space for the commands of some drivers.
    Long(IoUring<squeue::Entry128>),
}

/// An entry for submission.
pub(super) enum UringEntry {
    Short(squeue::Entry),
    /// Only for long queues.
    Long(squeue::Entry128),
}

impl From<squeue::Entry> for UringEntry {
    fn from(entry: squeue::Entry) -> UringEntry {
        UringEntry::Short(entry)
    }
}

impl UringQueue {
    pub(super) fn is_long(&self) -> bool {
        matches!(self, UringQueue::Long(_))
    }

    /// Pushes an entry. Returns false if the queue is full.
    ///
    /// # Safety
    /// The memory that the entry points to must stay valid until its completion is seen.
    pub(super) unsafe fn push(&mut self, entry: &UringEntry) -> bool {
        // SAFETY: the caller's guarantee, in all of these.
        let pushed = unsafe {
            match (self, entry) {
                (UringQueue::Short(ring), UringEntry::Short(entry)) => {
                    ring.submission().push(entry)
                }
                (UringQueue::Long(ring), UringEntry::Short(entry)) => {
                    ring.submission().push(&entry.clone().into())
                }
                (UringQueue::Long(ring), UringEntry::Long(entry)) => ring.submission().push(entry),
                (UringQueue::Short(_), UringEntry::Long(_)) => {
                    unreachable!("asked for by `is_long`")
                }
            }
        };
        pushed.is_ok()
    }

    /// Returns the number of entries that are not submitted yet.
    pub(super) fn queued(&mut self) -> usize {
        match self {
            UringQueue::Short(ring) => ring.submission().len(),
            UringQueue::Long(ring) => ring.submission().len(),
        }
    }

    /// Returns true if entries must be submitted, or deferred completions must be posted.
    pub(super) fn wants_the_kernel(&mut self) -> bool {
        fn wants<S: squeue::EntryMarker>(queue: &squeue::SubmissionQueue<'_, S>) -> bool {
            !queue.is_empty() || queue.taskrun() || queue.cq_overflow()
        }
        match self {
            UringQueue::Short(ring) => wants(&ring.submission()),
            UringQueue::Long(ring) => wants(&ring.submission()),
        }
    }

    pub(super) fn submitter(&self) -> Submitter<'_> {
        match self {
            UringQueue::Short(ring) => ring.submitter(),
            UringQueue::Long(ring) => ring.submitter(),
        }
    }

    pub(super) fn next_completion(&mut self) -> Option<cqueue::Entry> {
        match self {
            UringQueue::Short(ring) => ring.completion().next(),
            UringQueue::Long(ring) => ring.completion().next(),
        }
    }
}

/// Returns the error for operations that need long entries.
pub(super) fn too_short() -> io::Error {
    io::Error::new(
        io::ErrorKind::Unsupported,
        "this kernel's io_uring has no long entries: Linux 5.19 or later is needed",
    )
}
