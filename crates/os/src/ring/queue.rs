//! The two queues shared with the kernel, with entries of one of two lengths.
#![allow(
    unsafe_code,
    reason = "pushes entries; whoever asks for it sees to the memory that they name"
)]

use std::io;

use io_uring::{IoUring, Submitter, cqueue, squeue};

/// The queues of a ring.
pub(super) enum Queue {
    Short(IoUring),
    /// Twice as long, with space for the commands of some drivers.
    Long(IoUring<squeue::Entry128>),
}

/// An entry for submission.
pub(super) enum Entry {
    Short(squeue::Entry),
    /// Only for long queues.
    Long(squeue::Entry128),
}

impl From<squeue::Entry> for Entry {
    fn from(entry: squeue::Entry) -> Entry {
        Entry::Short(entry)
    }
}

impl Queue {
    pub(super) fn is_long(&self) -> bool {
        matches!(self, Queue::Long(_))
    }

    /// Pushes an entry. Returns false if the queue is full.
    ///
    /// # Safety
    /// The memory that the entry points to must stay valid until its completion is seen.
    pub(super) unsafe fn push(&mut self, entry: &Entry) -> bool {
        // SAFETY: the caller's guarantee, in all of these.
        let pushed = unsafe {
            match (self, entry) {
                (Queue::Short(ring), Entry::Short(entry)) => ring.submission().push(entry),
                (Queue::Long(ring), Entry::Short(entry)) => {
                    ring.submission().push(&entry.clone().into())
                }
                (Queue::Long(ring), Entry::Long(entry)) => ring.submission().push(entry),
                (Queue::Short(_), Entry::Long(_)) => unreachable!("asked for by `is_long`"),
            }
        };
        pushed.is_ok()
    }

    /// Returns the number of entries that are not submitted yet.
    pub(super) fn queued(&mut self) -> usize {
        match self {
            Queue::Short(ring) => ring.submission().len(),
            Queue::Long(ring) => ring.submission().len(),
        }
    }

    /// Returns true if entries must be submitted, or deferred completions must be posted.
    pub(super) fn wants_the_kernel(&mut self) -> bool {
        fn wants<S: squeue::EntryMarker>(queue: &squeue::SubmissionQueue<'_, S>) -> bool {
            !queue.is_empty() || queue.taskrun() || queue.cq_overflow()
        }
        match self {
            Queue::Short(ring) => wants(&ring.submission()),
            Queue::Long(ring) => wants(&ring.submission()),
        }
    }

    pub(super) fn submitter(&self) -> Submitter<'_> {
        match self {
            Queue::Short(ring) => ring.submitter(),
            Queue::Long(ring) => ring.submitter(),
        }
    }

    pub(super) fn next_completion(&mut self) -> Option<cqueue::Entry> {
        match self {
            Queue::Short(ring) => ring.completion().next(),
            Queue::Long(ring) => ring.completion().next(),
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
