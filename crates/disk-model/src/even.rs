//! A disk with the same service time for every request, one after the other: a quota of I/Os a second.

use std::collections::VecDeque;
use std::time::Duration;

use forebay_rt::Instant;

use crate::TimingModel;
use crate::disk::{DiskCompletion, DiskOp, ServiceTimes};

/// A disk without a cache that serves each command in the same time, regardless of its place and length.
pub struct EvenDisk {
    blocks: u64,
    each: Duration,
    /// Time at which all submitted requests are done.
    busy: Instant,
    /// Requests in progress, in the order of their completion.
    waiting: VecDeque<DiskCompletion>,
}

impl EvenDisk {
    /// Creates a disk of `blocks` sectors of 512 bytes that serves a command in `each`.
    pub fn new(blocks: u64, each: Duration) -> EvenDisk {
        EvenDisk {
            blocks,
            each,
            busy: Instant::default(),
            waiting: VecDeque::new(),
        }
    }

    fn serve(&mut self, now: Instant, id: u64, takes: Duration) {
        let at = self.busy.max(now).plus(takes);
        self.busy = at;
        self.waiting.push_back(DiskCompletion {
            id,
            at,
            service: ServiceTimes::default(),
        });
    }
}

impl TimingModel for EvenDisk {
    fn blocks(&self) -> u64 {
        self.blocks
    }

    fn has_write_cache(&self) -> bool {
        false
    }

    fn submit(&mut self, now: Instant, id: u64, _: DiskOp, _: u64, _: u32) {
        self.serve(now, id, self.each);
    }

    /// Completes without work, after the requests submitted before.
    fn flush(&mut self, now: Instant, id: u64) {
        self.serve(now, id, Duration::ZERO);
    }

    fn next_event(&self) -> Option<Instant> {
        self.waiting.front().map(|first| first.at)
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<DiskCompletion>) {
        let due = |first: &DiskCompletion| first.at <= now;
        while self.waiting.front().is_some_and(due) {
            done.extend(self.waiting.pop_front());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EACH: Duration = Duration::from_millis(10);

    fn ms(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    fn done_by(disk: &mut EvenDisk, now: Instant) -> Vec<(u64, Instant)> {
        let mut done = Vec::new();
        disk.advance(now, &mut done);
        done.iter().map(|done| (done.id, done.at)).collect()
    }

    #[test]
    fn requests_are_served_one_after_another_in_order_of_arrival() {
        let mut disk = EvenDisk::new(1 << 20, EACH);
        disk.submit(ms(5), 1, DiskOp::Write, 0, 8);
        disk.submit(ms(7), 2, DiskOp::Read, 1 << 19, 1024);
        disk.flush(ms(8), 3);
        assert_eq!(disk.next_event(), Some(ms(15)));
        assert_eq!(done_by(&mut disk, ms(14)), []);
        assert_eq!(done_by(&mut disk, ms(24)), [(1, ms(15))]);
        assert_eq!(done_by(&mut disk, ms(25)), [(2, ms(25)), (3, ms(25))]);
        assert_eq!(disk.next_event(), None);
        // Idle time is not saved up.
        disk.submit(ms(100), 4, DiskOp::Write, 0, 8);
        assert_eq!(disk.next_event(), Some(ms(110)));
    }
}
