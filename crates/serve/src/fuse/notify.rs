//! What is told to the kernel unasked: that what it keeps of a file is not right any more.
//!
//! The kernel does it at once, and waits for pages that are being read or written: for replies of ours. So a thread of its
//! own tells it, which may wait, and is made when it is first needed. What nobody but the kernel knows of a file, its attributes,
//! is told by another, since that waits for no page: a write may be answered only when it is done.
//!
//! What is to be forgotten of a file while something of it is being told becomes one with what waits already. So memory
//! is bounded by the numbers of files and of requests, however long the kernel takes.
//!
//! If the process is killed while a thread waits there for a reply that never comes, the thread keeps the connection open
//! (`channel.rs`), and what it waits for is kept by a page that somebody else uses at that moment. Databases that change pages by
//! updates and through the page cache met that once in some dozens of kills. So whoever mounts or unmounts the filesystem next
//! cuts the connection of a daemon that was killed and is not gone (`cli/src/lock.rs`).

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use forebay_fuse::invalidation;
use forebay_os::{Outcome, Report, promise};
use rustix::io::Errno;

use super::channel::Channel;

/// More ranges of a file than this are told as one.
const RANGES_MAX: usize = 64;

/// With so many who wait, those who do so no longer are looked for.
const DONE_MIN: usize = 64;

/// What the kernel is to forget: of a file, bytes, or, with none, only what it knows of the file's attributes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stale {
    /// The inode.
    pub node: u64,
    /// Which bytes: the pages they are in.
    pub bytes: Option<Range<u64>>,
}

/// The ways to the threads that tell.
#[derive(Default)]
pub(super) struct Notifier {
    of_pages: RefCell<Option<Teller>>,
    of_attributes: RefCell<Option<Teller>>,
}

impl Notifier {
    /// Has the kernel forget all this. Each of what is returned resolves when it has forgotten something of it.
    ///
    /// # Errors
    /// If there is no thread to be had.
    pub(super) fn forget(
        &self,
        channel: &Channel,
        stale: &[Stale],
    ) -> io::Result<Vec<Outcome<()>>> {
        let mut told = Vec::new();
        for one in stale {
            let (done, outcome) = promise();
            self.give(channel, one, Some(done))?;
            told.push(outcome);
        }
        Ok(told)
    }

    /// The same, for one who does not wait.
    pub(super) fn forget_later(&self, channel: &Channel, stale: &[Stale]) -> io::Result<()> {
        stale
            .iter()
            .try_for_each(|one| self.give(channel, one, None))
    }

    fn give(&self, to: &Channel, stale: &Stale, done: Option<Report<()>>) -> io::Result<()> {
        let bytes = stale.bytes.clone().filter(|bytes| bytes.start < bytes.end);
        let teller = match bytes {
            Some(_) => &self.of_pages,
            None => &self.of_attributes,
        };
        let mut teller = teller.borrow_mut();
        let teller = match &mut *teller {
            Some(teller) => teller,
            none => none.insert(Teller::new(to)?),
        };
        teller.tell(stale.node, bytes, done);
        Ok(())
    }
}

/// A thread that tells, and ends when this is dropped.
struct Teller(Arc<Shared>);

#[derive(Default)]
struct Shared {
    jobs: Mutex<Jobs>,
    more: Condvar,
}

/// What is to be told.
#[derive(Default)]
struct Jobs {
    /// The files, in the order in which they came.
    order: VecDeque<u64>,
    of: BTreeMap<u64, Job>,
    has_ended: bool,
}

/// What is to be told of a file.
#[derive(Default)]
struct Job {
    ranges: Vec<Range<u64>>,
    done: Vec<Report<()>>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for something to be told.
    fn next(&self) -> Option<(u64, Job)> {
        let mut jobs = self.lock();
        loop {
            if let Some(node) = jobs.order.pop_front() {
                let job = jobs.of.remove(&node).unwrap_or_default();
                return Some((node, job));
            }
            if jobs.has_ended {
                return None;
            }
            jobs = self.more.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Teller {
    fn new(to: &Channel) -> io::Result<Teller> {
        let fd = to.fd().try_clone_to_owned()?;
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("forebay-notify".into());
        thread.spawn(move || {
            while let Some((node, job)) = of_thread.next() {
                let told = tell(&fd, node, &job.ranges);
                for done in job.done {
                    done.fill(again(&told));
                }
            }
        })?;
        Ok(Teller(shared))
    }

    fn tell(&self, node: u64, bytes: Option<Range<u64>>, done: Option<Report<()>>) {
        let mut jobs = self.0.lock();
        let jobs = &mut *jobs;
        let job = jobs.of.entry(node).or_insert_with(|| {
            jobs.order.push_back(node);
            Job::default()
        });
        job.ranges.extend(bytes);
        simplify(&mut job.ranges);
        if job.done.len() >= DONE_MIN && job.done.len().is_power_of_two() {
            job.done.retain(Report::is_awaited);
        }
        job.done.extend(done);
        self.0.more.notify_one();
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.0.lock().has_ended = true;
        self.0.more.notify_one();
    }
}

/// Leaves no range that the one before it covers, and few.
fn simplify(ranges: &mut Vec<Range<u64>>) {
    if let [.., before, last] = &ranges[..]
        && before.start <= last.start
        && last.end <= before.end
    {
        ranges.pop();
    }
    if ranges.len() > RANGES_MAX {
        let start = ranges.iter().map(|range| range.start).min();
        let end = ranges.iter().map(|range| range.end).max();
        *ranges = start
            .zip(end)
            .map(|(start, end)| start..end)
            .into_iter()
            .collect();
    }
}

/// Tells of these bytes of a file; of its attributes, if there are none.
fn tell(fd: &OwnedFd, node: u64, ranges: &[Range<u64>]) -> io::Result<()> {
    if ranges.is_empty() {
        return say(fd, &invalidation(node, None));
    }
    for range in ranges {
        let bytes = (range.start, range.end - range.start);
        say(fd, &invalidation(node, Some(bytes)))?;
    }
    Ok(())
}

fn say(fd: &OwnedFd, message: &[u8]) -> io::Result<()> {
    match rustix::io::write(fd, message) {
        // It knows no such file, or there is nobody to be told any more.
        Ok(_) | Err(Errno::NOENT | Errno::NODEV | Errno::CONNABORTED) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The same once more.
fn again(told: &io::Result<()>) -> io::Result<()> {
    match told {
        Ok(()) => Ok(()),
        Err(error) => Err(error
            .raw_os_error()
            .map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_of_a_file_stays_small() {
        let mut ranges = Vec::new();
        for n in 0..1000u64 {
            ranges.push(n * 10..n * 10 + 5);
            simplify(&mut ranges);
            assert!(ranges.len() <= RANGES_MAX);
            let hull = ranges.iter().map(|range| range.end).max();
            assert_eq!((ranges[0].start, hull), (0, Some(n * 10 + 5)));
        }
        let mut twice = vec![0..4096, 0..4096];
        simplify(&mut twice);
        assert!(twice.len() == 1 && twice[0] == (0..4096));
    }
}
