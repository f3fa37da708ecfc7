//! Writes in a disk's volatile cache.

use std::ops::Range;

use forebay_device::Buf;

use super::{DiskImage, SimDisk, WriteFate};

/// A write that is not durable.
#[derive(Clone)]
pub(super) struct VolatileWrite {
    pub(super) id: u64,
    /// Order of completion. `None` for a write in flight.
    pub(super) done: Option<u64>,
    pub(super) at: u64,
    pub(super) len: u64,
    /// Data of the write. `None` means zeroes.
    pub(super) bytes: Option<Buf>,
}

impl VolatileWrite {
    pub(super) fn range(&self) -> Range<u64> {
        self.at..self.at + self.len
    }

    pub(super) fn part(&self, range: Range<u64>) -> VolatileWrite {
        let within = (range.start - self.at) as usize..(range.end - self.at) as usize;
        VolatileWrite {
            id: self.id,
            done: self.done,
            at: range.start,
            len: range.end - range.start,
            bytes: self.bytes.as_ref().map(|bytes| bytes.slice(within)),
        }
    }

    pub(super) fn apply(&self, image: &mut DiskImage) {
        match &self.bytes {
            Some(bytes) => image.write(self.at, bytes),
            None => image.clear(self.range()),
        }
    }

    /// Returns true if this write completed before `newer`, which is identical. Every result of a cut with both writes
    /// is also possible without this one, unless a flush in flight covers only this one. Without this rule, writes
    /// retried for hours would accumulate.
    pub(super) fn is_repeated_by(&self, newer: &VolatileWrite) -> bool {
        let same = self.at == newer.at && self.len == newer.len;
        let before = self.done.is_some() && self.id != newer.id;
        same && before && self.bytes.as_deref() == newer.bytes.as_deref()
    }

    pub(super) fn blocks(&self, block: u64) -> impl Iterator<Item = Range<u64>> + use<> {
        let end = self.at + self.len;
        (self.at..end)
            .step_by(block as usize)
            .map(move |at| at..(at + block).min(end))
    }
}

/// Removes the part in `range` from older completed writes: a newer write of the range is durable.
pub(super) fn supersede(pending: &mut Vec<VolatileWrite>, range: &Range<u64>) {
    let touches = |write: &VolatileWrite| {
        write.done.is_some() && write.at < range.end && range.start < write.at + write.len
    };
    if !pending.iter().any(touches) {
        return;
    }
    let mut rest = Vec::with_capacity(pending.len() + 1);
    for write in pending.drain(..) {
        if !touches(&write) {
            rest.push(write);
            continue;
        }
        let whole = write.range();
        for part in [
            whole.start..range.start.min(whole.end),
            range.end.max(whole.start)..whole.end,
        ] {
            if part.start < part.end {
                rest.push(write.part(part));
            }
        }
    }
    *pending = rest;
}

/// Applies to `medium` those blocks of writes that `coin` keeps.
pub(super) fn leave(
    medium: &mut DiskImage,
    pending: &[VolatileWrite],
    block: u64,
    coin: WriteFate,
) {
    let mut pending: Vec<&VolatileWrite> = pending.iter().collect();
    pending.sort_by_key(|write| write.done.unwrap_or(u64::MAX));
    let mut toss = coin.toss();
    for write in pending {
        if coin == WriteFate::Keep {
            write.apply(medium);
            continue;
        }
        for (n, part) in write.blocks(block).enumerate() {
            if toss.kept(n == 0) {
                write.part(part).apply(medium);
            }
        }
    }
}

/// State of a disk at one moment, for later power cuts at this moment.
#[derive(Clone)]
pub struct DiskFork {
    stable: DiskImage,
    pending: Vec<VolatileWrite>,
    block: u64,
}

impl DiskFork {
    /// Returns the content of the disk after a power cut at that moment.
    pub fn cut(&self, coin: WriteFate) -> DiskImage {
        let mut medium = self.stable.clone();
        leave(&mut medium, &self.pending, self.block, coin);
        medium
    }
}

/// State of a disk that keeps its power while the process that used it dies.
#[derive(Clone)]
pub struct RunningDisk {
    /// Content as visible to reads.
    pub current: DiskImage,
    stable: DiskImage,
    pending: Vec<VolatileWrite>,
    order: u64,
}

impl SimDisk {
    /// Returns the state of the disk at this moment, for later cuts.
    pub fn fork(&self) -> DiskFork {
        DiskFork {
            stable: self.stable.borrow().clone(),
            pending: self.pending.borrow().clone(),
            block: self.geometry.get().block_size.into(),
        }
    }

    /// Returns the state of the disk after the death of the process now: some of the writes in flight have arrived.
    pub fn running(&self, coin: WriteFate) -> RunningDisk {
        let (mut current, mut order) = (self.current.borrow().clone(), self.order.get());
        let mut toss = coin.toss();
        let mut pending = self.pending.borrow().clone();
        pending.retain_mut(|write| {
            if write.done.is_some() {
                return true;
            }
            let came = coin == WriteFate::Keep || toss.kept(true);
            if came {
                write.apply(&mut current);
                write.done = Some(order);
                order += 1;
            }
            came
        });
        RunningDisk {
            current,
            stable: self.stable.borrow().clone(),
            pending,
            order,
        }
    }

    /// Restores the state of `running`.
    pub fn resume(&self, running: RunningDisk) {
        self.current.replace(running.current);
        self.stable.replace(running.stable);
        self.pending.replace(running.pending);
        self.order.set(running.order);
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;
    use std::time::Duration;

    use forebay_device::{BufMut, Device, Durability};
    use forebay_rng::Rng;
    use forebay_rt::{Executor, VirtualTime};

    use crate::disk::{DiskImage, SharedPower, SimDisk, WriteFate};

    /// A flush in flight during an identical second write made neither of the two writes durable.
    #[test]
    fn a_flush_covers_earlier_writes_even_if_they_are_rewritten_meanwhile() {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let (rt, power, rng) = (executor.rt(), SharedPower::new(None), Rc::new(Rng::new(1)));
        let disk = SimDisk::new(&rt, &power, &rng, DiskImage::new(1 << 20), 512);
        disk.flush_takes.set(Some(Duration::from_secs(1)));
        let kept = executor.block_on(async move {
            let ones = || BufMut::copy_of(&[1; 512]).freeze();
            disk.write(0, ones(), Durability::Flush).await.unwrap();
            let (flushing, again) = futures_util::future::join(disk.flush(), async {
                rt.sleep(Duration::from_millis(10)).await;
                disk.write(0, ones(), Durability::Flush).await
            })
            .await;
            flushing.unwrap();
            again.unwrap();
            disk.cut(WriteFate::Drop).bytes(0..512)
        });
        assert_eq!(kept, [1; 512]);
    }
}
