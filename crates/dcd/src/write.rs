//! Writes, flushes and discards, and the conditions for their acknowledgement.

use std::ops::Range;

use forebay_device::{AckMode, Buf, DeviceOp, Durability, Result};
use forebay_ring_log::{GroupAppender, RangeKind};
use forebay_units::{LINE_BYTES, RecordSeq, SECTOR_BYTES, Sector};

use crate::admission::{ATOMIC_BYTES, SpaceDemand, WriteDestination};
use crate::engine::{DcdEngine, sectors};
use crate::fingerprint::Fingerprint;
use crate::map::CacheMap;
use crate::policy;
use crate::ranges::RangeState;

impl DcdEngine {
    pub(crate) async fn write(&self, at: u64, buf: Buf, durability: Durability) -> Result<()> {
        let request = self.request(DeviceOp::Write)?;
        let len = buf.len() as u64;
        let when = match durability {
            Durability::Fua => AckMode::Durable,
            Durability::Flush => self.options.acknowledge,
        };
        // Rare futures are boxed, here and below: a request's future is allocated as a whole, and should be no larger
        // than the common path needs.
        if self.clean_mark.is_marked() {
            Box::pin(self.until_in_use(DeviceOp::Write)).await?;
        }
        let bypass = self.options.bypass.is_some();
        if !bypass || !Box::pin(self.try_bypass(at, &buf, when)).await? {
            self.write_to_log(at, buf, when).await?;
        }
        let mut counters = self.counters.borrow_mut();
        counters.writes += 1;
        counters.write_bytes += len;
        counters.write_latency.record(request.done());
        Ok(())
    }

    async fn write_to_log(&self, at: u64, buf: Buf, when: AckMode) -> Result<()> {
        let mut done = 0;
        while done < buf.len() {
            let n = (buf.len() - done).min(ATOMIC_BYTES as usize);
            let (at, part) = (at + done as u64, done..done + n);
            done += n;
            let wanted = SpaceDemand::of_data(n as u64);
            match self.admit(DeviceOp::Write, wanted).await? {
                WriteDestination::Log => {
                    self.append(at, &buf[part], when);
                    if when == AckMode::Memory {
                        self.portions.consume(&self.rt, n as u64).await;
                    }
                }
                WriteDestination::DataDevice => {
                    Box::pin(self.write_home(at, buf.slice(part), when)).await?;
                }
            }
        }
        self.settle(DeviceOp::Write, when).await
    }

    /// Waits until the appended records may be acknowledged.
    async fn settle(&self, op: DeviceOp, when: AckMode) -> Result<()> {
        let target = self.log.last_record();
        match when {
            AckMode::Memory => Ok(()),
            AckMode::Device => Box::pin(self.hand_over(op, target)).await,
            AckMode::Durable => Box::pin(self.make_durable(target)).await,
        }
    }

    /// Waits until the log device has every record up to `target`. If the log has failed, a later process could find
    /// anything in it, so all data is made durable instead.
    async fn hand_over(&self, op: DeviceOp, target: RecordSeq) -> Result<()> {
        if self.log.failure().is_some() || self.log.hand_over(target).await.is_err() {
            return self.flush_home(op).await;
        }
        Ok(())
    }

    fn append(&self, at: u64, data: &[u8], when: AckMode) {
        let mut map = self.map.borrow_mut();
        let compose = |log: &mut GroupAppender<'_>| {
            let mut done = 0;
            while done < data.len() {
                let pos = at + done as u64;
                let n = (LINE_BYTES - pos % LINE_BYTES).min((data.len() - done) as u64) as usize;
                put(
                    &mut map,
                    log,
                    Sector(pos / SECTOR_BYTES),
                    &data[done..done + n],
                );
                done += n;
            }
        };
        match when {
            AckMode::Memory => self.log.append(compose),
            AckMode::Device | AckMode::Durable => self.log.append_to_flush(compose),
        }
        drop(map);
        self.signals.wake.notify_all();
        if !self.service.borrow().destaging && self.used() > policy::HIGH_WATER {
            self.signals.urgent.notify_all();
        }
    }

    pub(crate) async fn flush(&self) -> Result<()> {
        let request = self.request(DeviceOp::Flush)?;
        self.make_durable(self.log.last_record()).await?;
        let mut counters = self.counters.borrow_mut();
        counters.flushes += 1;
        counters.flush_latency.record(request.done());
        Ok(())
    }

    /// Makes every record up to `target`, and every completed write that bypassed the log, durable.
    pub(crate) async fn make_durable(&self, target: RecordSeq) -> Result<()> {
        // After the log has failed, its durable records do not prove that later writes to the data device are durable.
        if self.log.failure().is_some() || self.log.flush(target).await.is_err() {
            return self.flush_home(DeviceOp::Flush).await;
        }
        self.make_bypassed_durable(DeviceOp::Flush).await
    }

    /// Writes a large write directly to the data device, if the options ask for this and the map has no entry in its
    /// range. Returns false if the write must go to the log.
    async fn try_bypass(&self, at: u64, buf: &Buf, when: AckMode) -> Result<bool> {
        let len = buf.len() as u64;
        let range = at..at + len;
        let wished = self.options.bypass.is_some_and(|from| len >= from.0);
        // The ends of the device are fingerprinted, so every change there must go through the log.
        let ends = || Fingerprint::touched(&range, self.geometry().len) != 0;
        let cached = || self.map.borrow().overlaps(sectors(&range));
        if !wished || ends() || cached() || self.log.failure().is_some() {
            return Ok(false);
        }
        let _turn = self.home.lock(sectors(&range)).await;
        // The volume may have become longer meanwhile, which moves its end.
        if ends() || cached() {
            return Ok(false);
        }
        let durability = match when {
            AckMode::Memory | AckMode::Device => Durability::Flush,
            AckMode::Durable => Durability::Fua,
        };
        let written = self.write_past_log(at, buf.clone(), durability);
        if let Err(error) = written.await {
            tracing::warn!(%error, "a large write to the data device failed; its data goes to the log");
            self.counters.borrow_mut().data_errors += 1;
            return Ok(false);
        }
        self.counters.borrow_mut().bypass_bytes += len;
        Ok(true)
    }

    /// Marks a range as zeroed or discarded. If the map has many entries to remove, works in parts and yields to other
    /// tasks between them.
    pub(crate) async fn mark(
        &self,
        op: DeviceOp,
        kind: RangeKind,
        range: Range<u64>,
    ) -> Result<()> {
        let _request = self.request(op)?;
        if kind == RangeKind::Discard && self.geometry().discard_granularity == 0 {
            return Ok(());
        }
        if self.clean_mark.is_marked() {
            Box::pin(self.until_in_use(op)).await?;
        }
        let mut left = sectors(&range);
        while !left.is_empty() {
            let admitted = self.admit(op, SpaceDemand::OF_RANGE).await?;
            let part = self.map.borrow().at_once(&left);
            left.start = part.end;
            match admitted {
                WriteDestination::Log => {
                    let (start, len) = (Sector(part.start), part.end - part.start);
                    let record = self.log.append(|log| log.range(kind, start, len));
                    let mark = Some(RangeState { kind, record });
                    self.map.borrow_mut().mark(part, mark);
                    self.signals.wake.notify_all();
                }
                WriteDestination::DataDevice => Box::pin(self.mark_home(op, kind, part)).await?,
            }
            if !left.is_empty() {
                self.rt.yield_now().await;
            }
        }
        self.settle(op, self.options.acknowledge).await?;
        self.counters.borrow_mut().discards += 1;
        Ok(())
    }
}

/// Puts a fragment of one block into the log and the map.
fn put(map: &mut CacheMap, log: &mut GroupAppender<'_>, sector: Sector, bytes: &[u8]) {
    // The table entry is loaded from memory while the checksum is computed.
    map.look_ahead(std::iter::once(sector.line()));
    let crc = crc32c::crc32c(bytes);
    let count = (bytes.len() as u64 / SECTOR_BYTES) as u8;
    map.write(sector, count, crc, |old| {
        let again = old.filter(|addr| log.overwrite(*addr, sector, bytes, crc));
        again.unwrap_or_else(|| log.data(sector, bytes, crc))
    });
}
