//! Cache of recent recoveries: many cuts leave the same content on the disks.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::disk::{DiskFork, DiskImage};
use crate::machine::DiskContents;
use crate::role::PerDisk;
use crate::system::{AttachPurpose, TestedSystem};

/// Maximum number of cached recoveries.
const REMEMBERED: usize = 8;

/// Content of the volume, and its unreadable sectors.
#[derive(PartialEq, Eq)]
pub(super) struct ReadContent {
    pub(super) seen: Vec<u8>,
    pub(super) unreadable: Vec<u64>,
    /// Checksum of `seen`.
    pub(super) crc: u32,
}

impl ReadContent {
    pub(super) fn of(seen: Vec<u8>, unreadable: Vec<u64>) -> ReadContent {
        let crc = crc32c::crc32c(&seen);
        ReadContent {
            seen,
            unreadable,
            crc,
        }
    }
}

/// A recovery on healthy disks: the content of the volume, and the disks at each request that changed them.
pub(super) struct RecordedRecovery<S: TestedSystem> {
    pub(super) read: Result<Rc<ReadContent>, S::Refusal>,
    /// The report of the attach, unless it was refused.
    pub(super) report: Option<S::Report>,
    pub(super) forks: Vec<PerDisk<S::Role, DiskFork>>,
}

/// Recent recoveries.
pub(crate) struct RecoveryCache<S: TestedSystem>(VecDeque<CachedRecovery<S>>);

/// Content of the disks, and its recovery.
pub(super) struct CachedRecovery<S: TestedSystem> {
    pub(super) incarnation: usize,
    pub(super) why: AttachPurpose,
    pub(super) medium: DiskContents<S::Role>,
    pub(super) taken: Rc<RecordedRecovery<S>>,
}

impl<S: TestedSystem> Default for RecoveryCache<S> {
    fn default() -> RecoveryCache<S> {
        RecoveryCache(VecDeque::new())
    }
}

impl<S: TestedSystem> RecoveryCache<S> {
    pub(super) fn find(
        &self,
        incarnation: usize,
        why: AttachPurpose,
        medium: &DiskContents<S::Role>,
    ) -> Option<Rc<RecordedRecovery<S>>> {
        let is_it = |known: &&CachedRecovery<S>| {
            let same = |(role, image): (S::Role, &DiskImage)| known.medium[role].is_same(image);
            (known.incarnation, known.why) == (incarnation, why) && medium.iter().all(same)
        };
        self.0
            .iter()
            .rev()
            .find(is_it)
            .map(|known| Rc::clone(&known.taken))
    }

    pub(super) fn keep(&mut self, known: CachedRecovery<S>) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(known);
    }
}
