//! Cache of recent recoveries: many cuts leave the same content on the disks.

use std::collections::VecDeque;
use std::rc::Rc;

use crate::disk::{Fork, Image};
use crate::machine::Medium;
use crate::role::Each;
use crate::subject::{Attach, Subject};

/// Maximum number of cached recoveries.
const REMEMBERED: usize = 8;

/// Content of the volume, and its unreadable sectors.
#[derive(PartialEq, Eq)]
pub(super) struct Read {
    pub(super) seen: Vec<u8>,
    pub(super) unreadable: Vec<u64>,
    /// Checksum of `seen`.
    pub(super) crc: u32,
}

impl Read {
    pub(super) fn of(seen: Vec<u8>, unreadable: Vec<u64>) -> Read {
        let crc = crc32c::crc32c(&seen);
        Read {
            seen,
            unreadable,
            crc,
        }
    }
}

/// A recovery on healthy disks: the content of the volume, and the disks at each request that changed them.
pub(super) struct Taken<S: Subject> {
    pub(super) read: Result<Rc<Read>, S::Refusal>,
    pub(super) forks: Vec<Each<S::Role, Fork>>,
}

/// Recent recoveries.
pub(crate) struct Memory<S: Subject>(VecDeque<Known<S>>);

/// Content of the disks, and its recovery.
pub(super) struct Known<S: Subject> {
    pub(super) life: usize,
    pub(super) why: Attach,
    pub(super) medium: Medium<S::Role>,
    pub(super) taken: Rc<Taken<S>>,
}

impl<S: Subject> Default for Memory<S> {
    fn default() -> Memory<S> {
        Memory(VecDeque::new())
    }
}

impl<S: Subject> Memory<S> {
    pub(super) fn find(
        &self,
        life: usize,
        why: Attach,
        medium: &Medium<S::Role>,
    ) -> Option<Rc<Taken<S>>> {
        let is_it = |known: &&Known<S>| {
            let same = |(role, image): (S::Role, &Image)| known.medium[role].is_same(image);
            (known.life, known.why) == (life, why) && medium.iter().all(same)
        };
        self.0
            .iter()
            .rev()
            .find(is_it)
            .map(|known| Rc::clone(&known.taken))
    }

    pub(super) fn keep(&mut self, known: Known<S>) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(known);
    }
}
