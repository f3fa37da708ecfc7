//! Blocks of 512 bytes on a device that accepts direct I/O in larger blocks only.
//!
//! Data stored in 512-byte blocks must stay accessible when the blocks beneath grow. For example, a newer kernel
//! requires larger units for direct I/O, an image is copied to a filesystem on a disk with 4096-byte sectors, or a disk
//! is moved to another enclosure. A write of a part of a large block reads the whole block, replaces the part, and
//! writes the block back.
//!
//! The assumption about devices still holds: a write of one small block is atomic. The large block around it is written
//! by one request. If the device writes the large block atomically, the small block is atomic, too. If the device tears
//! the write at smaller blocks, old and new bytes differ only in the small block, which is no smaller than the device's
//! blocks. The neighbours' bytes are the same before and after the write, so their durable data stays intact, whatever
//! a power cut leaves of the write. (A write that fails may leave the whole large block unreadable. The same can happen
//! on a disk that has such blocks internally and hides them, as most disks do.)
//!
//! Invariant: changes of one large block are serialized, including writes of the whole block. Otherwise two changes
//! that read it at the same time would undo each other.
//!
//! A file may end within a large block. Direct I/O cannot write that rest without extending the file. So only the rest
//! goes through the page cache, and the same flush makes it durable.

use std::ops::Range;
use std::rc::Rc;

use forebay_device::{
    Buf, BufMut, Device, DeviceGeometry, DeviceOp, Durability, IoFuture, Result, ZeroedSpace,
};
use forebay_rt::RangeLock;
use forebay_units::{SECTOR_BYTES, round_down, round_up};

use super::disk::as_op;

/// See the module documentation.
pub(super) struct SmallBlocks {
    /// The whole large blocks.
    large: Rc<dyn Device>,
    /// The same file through the page cache, if it ends within a large block.
    rest: Option<Rc<dyn Device>>,
    turns: Rc<RangeLock>,
}

impl SmallBlocks {
    /// Creates the device over `large`; bytes after the end of `large` are in `rest`.
    pub(super) fn new(large: Rc<dyn Device>, rest: Option<Rc<dyn Device>>) -> SmallBlocks {
        SmallBlocks {
            large,
            rest,
            turns: Rc::default(),
        }
    }

    /// Returns the whole large blocks that `range` touches. The range must not pass the end of the last whole large
    /// block.
    fn around(&self, range: &Range<u64>) -> Range<u64> {
        let block = u64::from(self.large.geometry().block_size);
        round_down(range.start, block)..round_up(range.end, block)
    }

    /// Returns the position at which `range` passes the end of the last whole large block.
    fn split(&self, range: &Range<u64>) -> u64 {
        self.large.geometry().len.clamp(range.start, range.end)
    }

    async fn read(&self, at: u64, mut buf: BufMut) -> Result<BufMut> {
        let range = at..at + buf.len() as u64;
        let split = self.split(&range);
        if split == range.end && self.around(&range) == range {
            return self.large.read(at, buf).await;
        }
        let (front, back) = buf.split_at_mut((split - at) as usize);
        if !front.is_empty() {
            let around = self.around(&(at..split));
            let len = (around.end - around.start) as usize;
            let whole = self.large.read(around.start, BufMut::zeroed(len)).await?;
            let from = (at - around.start) as usize;
            front.copy_from_slice(&whole[from..from + front.len()]);
        }
        if let Some(rest) = self.rest.as_ref().filter(|_| !back.is_empty()) {
            let read = rest.read(split, BufMut::zeroed(back.len())).await?;
            back.copy_from_slice(&read);
        }
        Ok(buf)
    }

    async fn write(&self, at: u64, buf: Buf, durability: Durability) -> Result<()> {
        let range = at..at + buf.len() as u64;
        let split = self.split(&range);
        let front = (split - at) as usize;
        if front > 0 {
            let part = buf.slice(..front);
            self.write_large(at, part, durability).await?;
        }
        match &self.rest {
            Some(rest) if front < buf.len() => {
                rest.write(split, buf.slice(front..), durability).await
            }
            _ => Ok(()),
        }
    }

    async fn write_large(&self, at: u64, buf: Buf, durability: Durability) -> Result<()> {
        let range = at..at + buf.len() as u64;
        let around = self.around(&range);
        let _turn = self.turns.lock(around.clone()).await;
        if around == range {
            return self.large.write(at, buf, durability).await;
        }
        let block = u64::from(self.large.geometry().block_size);
        let mut whole = BufMut::zeroed((around.end - around.start) as usize);
        let mut edges = vec![around.start, around.end - block];
        edges.dedup();
        for edge in edges {
            // A block that is replaced completely need not be read.
            if range.start <= edge && edge + block <= range.end {
                continue;
            }
            let old = self.large.read(edge, BufMut::zeroed(block as usize)).await;
            let old = old.map_err(|error| as_op(error, DeviceOp::Write))?;
            let to = (edge - around.start) as usize;
            whole[to..to + old.len()].copy_from_slice(&old);
        }
        let from = (at - around.start) as usize;
        whole[from..from + buf.len()].copy_from_slice(&buf);
        self.large
            .write(around.start, whole.freeze(), durability)
            .await
    }

    /// Returns the whole large blocks within `range`, and the edges before and after them.
    fn inner(&self, range: &Range<u64>) -> (Range<u64>, [Range<u64>; 2]) {
        let block = u64::from(self.large.geometry().block_size);
        let start = round_up(range.start, block).min(range.end);
        let end = round_down(self.split(range), block).max(start);
        (start..end, [range.start..start, end..range.end])
    }

    /// Discards whole large blocks only. The content of a discarded range is undefined, so partial blocks may be left.
    async fn discard(&self, range: Range<u64>) -> Result<()> {
        let (whole, _) = self.inner(&range);
        if whole.is_empty() {
            return Ok(());
        }
        let _turn = self.turns.lock(whole.clone()).await;
        self.large.discard(whole).await
    }

    async fn write_zeroes(&self, range: Range<u64>, room: ZeroedSpace) -> Result<()> {
        let (whole, edges) = self.inner(&range);
        for edge in edges.into_iter().filter(|edge| !edge.is_empty()) {
            let zeroes = BufMut::zeroed((edge.end - edge.start) as usize).freeze();
            let written = self.write(edge.start, zeroes, Durability::Flush).await;
            written.map_err(|error| as_op(error, DeviceOp::WriteZeroes))?;
        }
        if whole.is_empty() {
            return Ok(());
        }
        let _turn = self.turns.lock(whole.clone()).await;
        self.large.write_zeroes(whole, room).await
    }
}

impl Device for SmallBlocks {
    /// A file that ends within a large block keeps its length while it is open. After growing, its last bytes would
    /// have to move from the page cache to direct I/O.
    fn refresh_len(&self) -> Result<u64> {
        match self.rest {
            Some(_) => Ok(self.geometry().len),
            None => self.large.refresh_len(),
        }
    }

    fn geometry(&self) -> DeviceGeometry {
        let large = self.large.geometry();
        DeviceGeometry {
            len: self.rest.as_ref().map_or(large.len, |d| d.geometry().len),
            block_size: SECTOR_BYTES as u32,
            ..large
        }
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        Box::pin(self.read(at, buf))
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        Box::pin(self.write(at, buf, durability))
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        // Both paths write to one file, so one flush covers direct writes and the page cache.
        self.large.flush()
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        Box::pin(self.discard(range))
    }

    fn write_zeroes(&self, range: Range<u64>, room: ZeroedSpace) -> IoFuture<'_, ()> {
        Box::pin(self.write_zeroes(range, room))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::time::Duration;

    use forebay_device::{RamDevice, Result, Tap, TapHooks, TapRequest};
    use forebay_rng::Rng;
    use forebay_rt::{Executor, Rt, VirtualTime};

    use super::*;

    /// Delays each request, and records writes.
    struct SlowHooks {
        rt: Rt,
        writes: RefCell<Vec<Range<u64>>>,
    }

    impl TapHooks for SlowHooks {
        async fn before(&self, asked: &TapRequest) -> Result<()> {
            if asked.changes() {
                self.rt.sleep(Duration::from_millis(1)).await;
            }
            if let TapRequest::Write(..) = asked {
                self.writes.borrow_mut().push(asked.range());
            }
            Ok(())
        }

        async fn after(&self, asked: &TapRequest) -> Result<()> {
            if let TapRequest::Read(_) = asked {
                self.rt.sleep(Duration::from_millis(1)).await;
            }
            Ok(())
        }
    }

    /// Memory in large blocks.
    type Large = Tap<RamDevice, SlowHooks>;

    const LARGE: u64 = 64 << 10;
    /// With a rest after the large blocks.
    const LEN: u64 = LARGE + 3 * 512;

    fn run<F: Future<Output = ()> + 'static>(
        test: impl FnOnce(Rt, Rc<Large>, Rc<SmallBlocks>) -> F,
    ) {
        let executor = Executor::new(Rc::new(VirtualTime::new()));
        let hooks = SlowHooks {
            rt: executor.rt(),
            writes: RefCell::default(),
        };
        let large = Rc::new(Tap::new(RamDevice::new(LARGE, 4096), hooks));
        let rest: Rc<dyn Device> = Rc::new(RamDevice::new(LEN, 512));
        let small = SmallBlocks::new(Rc::clone(&large) as Rc<dyn Device>, Some(rest));
        executor.block_on(test(executor.rt(), large, Rc::new(small)));
    }

    fn filled(len: u64, byte: u8) -> Buf {
        let mut buf = BufMut::zeroed(len as usize);
        buf.fill(byte);
        buf.freeze()
    }

    #[test]
    fn concurrent_small_writes_into_one_large_block_are_all_kept() {
        run(|rt, large, small| async move {
            let writes: Vec<_> = (0..16u64)
                .map(|n| {
                    let small = Rc::clone(&small);
                    rt.spawn(async move {
                        let data = filled(512, n as u8 + 1);
                        small.write(n * 512, data, Durability::Flush).await
                    })
                })
                .collect();
            for write in writes {
                write.await.expect("writes");
            }
            let seen = small.read(0, BufMut::zeroed(8192)).await.expect("reads");
            for n in 0..16 {
                let block = &seen[n * 512..][..512];
                assert!(block.iter().all(|b| *b == n as u8 + 1), "block {n}");
            }
            let writes = large.writes.borrow();
            let whole = writes.iter().all(|w| w.end - w.start == 4096);
            assert!(whole, "one request for each large block: {writes:?}");
        });
    }

    #[test]
    fn any_mix_of_requests_has_the_same_result_as_on_small_blocks() {
        run(|_, _, small| async move {
            assert_eq!(small.geometry().len, LEN);
            assert_eq!(small.geometry().block_size, 512);
            let mut model = vec![0u8; LEN as usize];
            let blocks = LEN / 512;
            let rng = Rng::new(12345);
            let random = |below| rng.below(below);
            for n in 0..2000 {
                let start = random(blocks);
                let end = start + 1 + random((blocks - start).min(40));
                let range = start * 512..end * 512;
                let (len, byte) = (range.end - range.start, n as u8);
                let bytes = range.start as usize..range.end as usize;
                match random(4) {
                    0 => {
                        small
                            .write_zeroes(range, ZeroedSpace::Keep)
                            .await
                            .expect("zeroes");
                        model[bytes].fill(0);
                    }
                    1 => {
                        let buf = BufMut::zeroed(len as usize);
                        let seen = small.read(range.start, buf).await.expect("reads");
                        assert!(*seen == model[bytes], "at {n}");
                    }
                    _ => {
                        let data = filled(len, byte);
                        let written = small.write(range.start, data, Durability::Fua).await;
                        written.expect("writes");
                        model[bytes].fill(byte);
                    }
                }
            }
            let seen = small.read(0, BufMut::zeroed(LEN as usize)).await;
            assert!(*seen.expect("reads") == *model);
        });
    }

    #[test]
    fn a_discard_keeps_blocks_that_it_covers_only_partly() {
        run(|_, _, small| async move {
            let all = filled(LEN, 7);
            small
                .write(0, all, Durability::Flush)
                .await
                .expect("writes");
            small.discard(512..LEN - 512).await.expect("discards");
            small.discard(512..1024).await.expect("discards");
            let seen = small.read(0, BufMut::zeroed(4096)).await.expect("reads");
            assert!(seen.iter().all(|b| *b == 7));
            let at = LARGE - 512;
            let seen = small.read(at, BufMut::zeroed(2048)).await.expect("reads");
            assert!(seen[512..].iter().all(|b| *b == 7), "the rest");
        });
    }
}
