//! When the log device fails: taking home what only it or its buffer holds, and going on without it.
//!
//! The log may still hold older copies of what is written from now on, and a later attach would
//! bring them back. So until all it holds is home and its superblock says *abandoned*, nothing that
//! overlaps with it is written past it, and no flush is acknowledged (I7). Requests for other ranges
//! go on meanwhile.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use forebay_device::{Buf, Device, DeviceError, Durability, Op, Result};
use forebay_log::RangeKind;

use crate::engine::{Engine, Rescue, sectors};
use crate::home::{Haste, Loaded, home_parts};
use crate::map::Piece;
use crate::policy;
use crate::ranges::Mark;

/// Pieces taken home between two flushes of the data device.
const BATCH: usize = 8192;

/// Waits for the log to fail, then does what is left to do.
pub(crate) async fn rescuer(engine: Rc<Engine>) {
    let failure = engine.log.failed().await;
    tracing::error!(%failure, "going on without the log");
    engine.rescue.set(Rescue::UnderWay);
    engine.rescue_marks().await;
    engine.rescue_pieces().await;
    let mut marked = engine.abandon_log().await;
    engine.rescue.set(Rescue::Done);
    engine.settled.notify_all();
    // A device that comes back must not be believed at the next attach.
    let mut failures = 0;
    while marked.is_err() {
        engine.rt.sleep(policy::retry_after(failures)).await;
        failures += 1;
        marked = engine.abandon_log().await;
    }
}

impl Engine {
    /// Tries until it succeeds: what is not home yet exists nowhere else. An attempt is writes and
    /// their flush: a flush that fails may have lost what it was for.
    async fn persist<T, F: Future<Output = Result<T>>>(&self, mut attempt: impl FnMut() -> F) -> T {
        let mut failures = 0;
        loop {
            match attempt().await {
                Ok(done) => {
                    self.trouble.replace(None);
                    return done;
                }
                Err(error) => {
                    tracing::warn!(%error, "the data device fails, too; will retry");
                    self.counters.borrow_mut().data_errors += 1;
                    self.trouble.replace(Some(error.to_string().into()));
                    self.settled.notify_all();
                    self.rt.sleep(policy::retry_after(failures)).await;
                    failures += 1;
                }
            }
        }
    }

    async fn rescue_marks(&self) {
        let marks: Vec<(Range<u64>, Mark)> = self.map.borrow().ranges().iter().collect();
        self.persist(|| async {
            for (range, mark) in &marks {
                for part in home_parts(range.clone()) {
                    self.mark_at_home(*mark, part).await?;
                }
            }
            self.flush_data().await
        })
        .await;
    }

    async fn rescue_pieces(&self) {
        loop {
            let batch: Vec<Piece> = self.map.borrow().all_pieces().take(BATCH).collect();
            if batch.is_empty() {
                break;
            }
            let (mut ready, mut on_device) = (Vec::new(), Vec::new());
            for piece in batch {
                let in_ram = self
                    .log
                    .with_ram(piece.addr, piece.sectors.into(), |bytes| Loaded {
                        piece,
                        bytes: forebay_device::BufMut::copy_of(bytes).freeze(),
                    });
                match in_ram {
                    Some(loaded) => ready.push(loaded),
                    None => on_device.push(piece),
                }
            }
            let loaded = self.load(on_device, Haste::Rescue).await;
            ready.extend(loaded.sound);
            self.persist(|| async {
                self.write_pieces_home(ready.clone(), Haste::Rescue).await?;
                self.flush_data().await
            })
            .await;
            self.give_up(&loaded.damaged);
            let mut map = self.map.borrow_mut();
            for Loaded { piece, .. } in &ready {
                map.forget(piece.line, piece.addr);
            }
        }
        // Zeroes and discards are home since the start of the rescue, and beneath the data.
        let mut map = self.map.borrow_mut();
        let home: Vec<Range<u64>> = {
            let marks = map
                .ranges()
                .iter()
                .filter(|(_, mark)| mark.kind != RangeKind::Lost);
            marks.map(|(range, _)| range).collect()
        };
        for range in home {
            map.mark(range, None);
        }
    }

    /// Data that cannot be read any more: its sectors fail from now on, and if it had not been
    /// durable, so does every flush.
    fn give_up(&self, damaged: &[Piece]) {
        if damaged.is_empty() {
            return;
        }
        tracing::error!(pieces = damaged.len(), "data was lost with the log");
        let stable = self.log.destage_limit();
        let layout = self.log.layout();
        let unflushed = |piece: &Piece| layout.segment_of(piece.addr, self.log.tail()) >= stable;
        if damaged.iter().any(unflushed) {
            self.lost_unflushed.set(true);
        }
        let record = self.log.next_record();
        let mut map = self.map.borrow_mut();
        for range in damaged.iter().flat_map(|piece| piece.live_runs()) {
            map.mark(
                range,
                Some(Mark {
                    kind: RangeKind::Lost,
                    record,
                }),
            );
        }
    }

    /// Says in the log that it must not be taken up again, if it still takes that.
    pub(crate) async fn abandon_log(&self) -> Result<()> {
        let lost_sectors = self.lost_sectors();
        self.payload.borrow_mut().lost_sectors = lost_sectors;
        let layer = self.payload.borrow().encode();
        let marked = self.log.update_superblock_of_failed(|superblock| {
            superblock.abandoned = true;
            superblock.layer = layer;
        });
        let marked = marked.await.inspect_err(|error| {
            tracing::error!(%error, "the failed log could not be marked; do not attach it again");
        });
        self.stale_log.set(marked.is_err());
        marked
    }

    /// Waits until what overlaps with the failed log is home and the log is out of the game.
    ///
    /// # Errors
    /// While the data device does not take it: how long that lasts nobody knows.
    async fn until_rescued(&self, op: Op, range: Option<&Range<u64>>) -> Result<()> {
        let stuck = |cause: Arc<str>| DeviceError::Failed {
            op,
            cause: format!("the log failed, and what it held cannot be taken home: {cause}").into(),
        };
        self.settled
            .until(|| {
                let free = range.is_some_and(|range| !self.map.borrow().overlaps(range.clone()));
                if free || self.rescue.get() == Rescue::Done {
                    return Some(Ok(()));
                }
                self.trouble.borrow().clone().map(|cause| Err(stuck(cause)))
            })
            .await
    }

    /// A write without a log.
    pub(crate) async fn write_home(&self, at: u64, buf: Buf, durable: bool) -> Result<()> {
        let range = sectors(&(at..at + buf.len() as u64));
        self.until_rescued(Op::Write, Some(&range)).await?;
        let _turn = self.home.lock(range.clone()).await;
        let durability = if durable {
            Durability::Fua
        } else {
            Durability::Flush
        };
        self.data.write(at, buf, durability).await?;
        if !durable {
            self.note_bypassed();
        }
        // What was lost there has been written anew.
        self.map.borrow_mut().mark(range, None);
        Ok(())
    }

    /// A discard or write-zeroes without a log.
    pub(crate) async fn mark_home(&self, op: Op, kind: RangeKind, range: Range<u64>) -> Result<()> {
        self.until_rescued(op, Some(&range)).await?;
        for part in home_parts(range) {
            let turn = self.home.lock(part.clone()).await;
            self.change_home(kind, part.clone()).await?;
            self.note_bypassed();
            if op == Op::WriteZeroes {
                self.map.borrow_mut().mark(part, None);
            }
            drop(turn);
            self.rt.yield_now().await;
        }
        Ok(())
    }

    /// A flush without a log: the data device's, once everything is there.
    pub(crate) async fn flush_home(&self, op: Op) -> Result<()> {
        self.until_rescued(op, None).await?;
        if self.lost_unflushed.get() {
            let cause = "data that was not yet durable was lost with the log device".into();
            return Err(DeviceError::Failed { op, cause });
        }
        self.make_bypassed_durable(op).await
    }
}
