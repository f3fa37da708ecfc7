//! Accounting of the time that a disk spends on requests.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

use forebay_disk_model::TimingModel;
use forebay_disk_model::disk::{DiskCompletion, DiskOp};
use forebay_rt::Instant;
use forebay_units::SECTOR_BYTES;

/// Totals of the requests of one kind.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct RequestTotals {
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    /// Time that the disk worked on the requests, without the time that they waited for earlier requests.
    pub(crate) seconds: f64,
}

/// Activity of one disk, in the log (the beginning of the disk) and in the data behind it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct DiskActivity {
    pub(crate) reads: RequestTotals,
    pub(crate) writes: RequestTotals,
    pub(crate) log_reads: RequestTotals,
    pub(crate) log_writes: RequestTotals,
}

impl RequestTotals {
    fn since(&self, before: &RequestTotals) -> RequestTotals {
        RequestTotals {
            requests: self.requests - before.requests,
            bytes: self.bytes - before.bytes,
            seconds: self.seconds - before.seconds,
        }
    }
}

impl DiskActivity {
    /// Returns the activity since `before`.
    pub(crate) fn since(&self, before: &DiskActivity) -> DiskActivity {
        DiskActivity {
            reads: self.reads.since(&before.reads),
            writes: self.writes.since(&before.writes),
            log_reads: self.log_reads.since(&before.log_reads),
            log_writes: self.log_writes.since(&before.log_writes),
        }
    }
}

/// A disk model with a meter.
pub(crate) struct MeteredDisk<T> {
    disk: T,
    log_bytes: u64,
    under_way: HashMap<u64, MeteredRequest>,
    spent: Rc<Cell<DiskActivity>>,
}

#[derive(Clone, Copy)]
struct MeteredRequest {
    at: Instant,
    op: DiskOp,
    in_log: bool,
    bytes: u64,
}

impl<T: TimingModel> MeteredDisk<T> {
    /// Creates a disk that adds its activity to `spent`. The first `log_bytes` are the log.
    pub(crate) fn new(disk: T, log_bytes: u64, spent: &Rc<Cell<DiskActivity>>) -> MeteredDisk<T> {
        MeteredDisk {
            disk,
            log_bytes,
            under_way: HashMap::new(),
            spent: Rc::clone(spent),
        }
    }

    fn note(&mut self, done: &DiskCompletion) {
        // Flushes are not recorded: they take no time on a disk that does not acknowledge writes early.
        let Some(asked) = self.under_way.remove(&done.id) else {
            return;
        };
        let mut spent = self.spent.get();
        let part = match (asked.op, asked.in_log) {
            (DiskOp::Read, false) => &mut spent.reads,
            (DiskOp::Write, false) => &mut spent.writes,
            (DiskOp::Read, true) => &mut spent.log_reads,
            (DiskOp::Write, true) => &mut spent.log_writes,
        };
        let took = done.at.since(asked.at).saturating_sub(done.service.queue);
        part.requests += 1;
        part.bytes += asked.bytes;
        part.seconds += took.as_secs_f64();
        self.spent.set(spent);
    }
}

impl<T: TimingModel> TimingModel for MeteredDisk<T> {
    fn blocks(&self) -> u64 {
        self.disk.blocks()
    }

    fn has_write_cache(&self) -> bool {
        self.disk.has_write_cache()
    }

    fn submit(&mut self, now: Instant, id: u64, op: DiskOp, first: u64, blocks: u32) {
        let asked = MeteredRequest {
            at: now,
            op,
            in_log: first * SECTOR_BYTES < self.log_bytes,
            bytes: u64::from(blocks) * SECTOR_BYTES,
        };
        self.under_way.insert(id, asked);
        self.disk.submit(now, id, op, first, blocks);
    }

    fn flush(&mut self, now: Instant, id: u64) {
        self.disk.flush(now, id);
    }

    fn next_event(&self) -> Option<Instant> {
        self.disk.next_event()
    }

    fn advance(&mut self, now: Instant, done: &mut Vec<DiskCompletion>) {
        let before = done.len();
        self.disk.advance(now, done);
        for completion in &done[before..] {
            self.note(completion);
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_device::{BufMut, Device, Durability};

    use super::*;
    use crate::disks::{CacheSetup, CacheShape, virtually};

    #[test]
    fn time_waiting_for_another_request_counts_only_for_that_request() {
        virtually(|rt| async move {
            let disks = CacheSetup::of(CacheShape::Logical).disks(&rt).unwrap();
            let began = rt.now();
            let write = |device: &Rc<dyn Device>, at| {
                let (device, content) = (Rc::clone(device), BufMut::zeroed(8192).freeze());
                rt.spawn(async move { device.write(at, content, Durability::Flush).await })
            };
            let both = [write(&disks.log, 0), write(&disks.data, 1 << 30)];
            for one in both {
                one.await.unwrap();
            }
            disks.data.read(0, BufMut::zeroed(1024)).await.unwrap();
            let all = rt.now().since(began).as_secs_f64();
            let spent = disks.spent.get();
            assert_eq!(
                (spent.log_writes.requests, spent.log_writes.bytes),
                (1, 8192)
            );
            assert_eq!((spent.writes.requests, spent.reads.bytes), (1, 1024));
            assert_eq!(spent.log_reads, RequestTotals::default());
            let sum = spent.log_writes.seconds + spent.writes.seconds + spent.reads.seconds;
            assert!((0.95 * all..1.05 * all).contains(&sum), "{sum} of {all}");
            assert_eq!(spent.since(&spent), DiskActivity::default());
        });
    }
}
