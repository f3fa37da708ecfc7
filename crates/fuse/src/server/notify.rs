//! Unsolicited notifications to the kernel: its cached data or attributes of a file are no longer valid.
//!
//! The kernel processes a notification at once, and waits for pages that are being read or written, so possibly for our
//! own replies. Hence a separate thread, created on first use, sends the notifications and may wait. A second thread
//! sends notifications about attributes, which wait for no page: the answer to a write may depend on such a
//! notification.
//!
//! Notifications about a file that come during a notification about this file are merged with those already queued. So
//! the numbers of files and of requests bound the memory, however slow the kernel is.
//!
//! If the process is killed while a thread waits in the kernel for a reply that never comes, the thread keeps the
//! connection open (`channel.rs`). It waits for a page that another program uses at that moment. Databases that change
//! pages by updates through the page cache ran into this once in some dozens of kills. So before the next mount or
//! unmount of the filesystem, the connection of a killed daemon whose process still exists is cut (`cli/src/lock.rs`).

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use forebay_linux::{IsolatedFuture, ResultSender, promise};
use rustix::io::Errno;

use super::channel::FuseChannel;
use crate::codec::invalidation;

/// If a file has more ranges than this, they are merged into one.
const RANGES_MAX: usize = 64;

/// From this number of waiting requests on, those that no longer wait are removed.
const DONE_MIN: usize = 64;

/// Invalid cached data of a file: a range of bytes, or, without a range, only the attributes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StaleCache {
    /// The inode.
    pub node: u64,
    /// The bytes; the pages that contain them are invalid.
    pub bytes: Option<Range<u64>>,
}

/// The queues of the notification threads.
#[derive(Default)]
pub(super) struct KernelNotifier {
    of_pages: RefCell<Option<NotifyThread>>,
    of_attributes: RefCell<Option<NotifyThread>>,
}

impl KernelNotifier {
    /// Invalidates the kernel's caches. Each returned future resolves when one of the notifications is done.
    ///
    /// # Errors
    /// If a thread cannot be created.
    pub(super) fn forget(
        &self,
        channel: &FuseChannel,
        stale: &[StaleCache],
    ) -> io::Result<Vec<IsolatedFuture<()>>> {
        let mut told = Vec::new();
        for one in stale {
            let (done, outcome) = promise();
            self.give(channel, one, Some(done))?;
            told.push(outcome);
        }
        Ok(told)
    }

    /// Like [`KernelNotifier::forget`], for a caller that does not wait.
    pub(super) fn forget_later(
        &self,
        channel: &FuseChannel,
        stale: &[StaleCache],
    ) -> io::Result<()> {
        stale
            .iter()
            .try_for_each(|one| self.give(channel, one, None))
    }

    fn give(
        &self,
        to: &FuseChannel,
        stale: &StaleCache,
        done: Option<ResultSender<()>>,
    ) -> io::Result<()> {
        let bytes = stale.bytes.clone().filter(|bytes| bytes.start < bytes.end);
        let teller = match bytes {
            Some(_) => &self.of_pages,
            None => &self.of_attributes,
        };
        let mut teller = teller.borrow_mut();
        let teller = match &mut *teller {
            Some(teller) => teller,
            none => none.insert(NotifyThread::new(to)?),
        };
        teller.tell(stale.node, bytes, done);
        Ok(())
    }
}

/// A notification thread, which ends when this handle is dropped.
struct NotifyThread(Arc<NotifyShared>);

#[derive(Default)]
struct NotifyShared {
    jobs: Mutex<NotifyQueue>,
    more: Condvar,
}

/// The queued notifications.
#[derive(Default)]
struct NotifyQueue {
    /// The files in order of their arrival.
    order: VecDeque<u64>,
    of: BTreeMap<u64, FileNotifications>,
    has_ended: bool,
}

/// The queued notifications about a file.
#[derive(Default)]
struct FileNotifications {
    ranges: Vec<Range<u64>>,
    done: Vec<ResultSender<()>>,
}

impl NotifyShared {
    fn lock(&self) -> MutexGuard<'_, NotifyQueue> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next notification. `None` if the thread must end.
    fn next(&self) -> Option<(u64, FileNotifications)> {
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

impl NotifyThread {
    fn new(to: &FuseChannel) -> io::Result<NotifyThread> {
        let fd = to.fd().try_clone_to_owned()?;
        let shared = Arc::new(NotifyShared::default());
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
        Ok(NotifyThread(shared))
    }

    fn tell(&self, node: u64, bytes: Option<Range<u64>>, done: Option<ResultSender<()>>) {
        let mut jobs = self.0.lock();
        let jobs = &mut *jobs;
        let job = jobs.of.entry(node).or_insert_with(|| {
            jobs.order.push_back(node);
            FileNotifications::default()
        });
        job.ranges.extend(bytes);
        simplify(&mut job.ranges);
        if job.done.len() >= DONE_MIN && job.done.len().is_power_of_two() {
            job.done.retain(ResultSender::is_awaited);
        }
        job.done.extend(done);
        self.0.more.notify_one();
    }
}

impl Drop for NotifyThread {
    fn drop(&mut self) {
        self.0.lock().has_ended = true;
        self.0.more.notify_one();
    }
}

/// Removes the last range if the range before covers it, and limits the number of ranges.
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

/// Invalidates these byte ranges of a file, or its attributes if `ranges` is empty.
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
        // The kernel does not cache this file, or the connection has ended.
        Ok(_) | Err(Errno::NOENT | Errno::NODEV | Errno::CONNABORTED) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Copies a result.
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
    fn pending_ranges_of_a_file_are_merged_to_a_bounded_number() {
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
