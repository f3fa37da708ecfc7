//! Writing past the log, and flushing the data device: for whom there is no other copy.

use forebay_device::{Buf, Device, DeviceError, Durability, Op, Result};

use crate::engine::Engine;

impl Engine {
    /// Flushes the data device, whoever needs it. If that fails, what went past the log since the
    /// last flush may be gone, and there is no copy of it.
    ///
    /// Flushes do not overlap: of one that succeeded beside one that failed nobody knows what it made durable, since
    /// the device may have forgotten what both were for. Those that wait meanwhile share the next. A flush that succeeds
    /// beside a write with FUA that fails is not believed either.
    ///
    /// # Errors
    /// The device's.
    pub(crate) async fn flush_data(&self) -> Result<()> {
        let asked = self.past_log.borrow().flushes_begun();
        let _turn = self.flushing.lock().await;
        if self.past_log.borrow().flushed_since(asked) {
            return Ok(());
        }
        let covered = self.past_log.borrow_mut().begin_flush();
        let failures = self.past_log.borrow().flushes_failed();
        let flushed = self.flush_of_data().await;
        let mut past_log = self.past_log.borrow_mut();
        if flushed.is_ok() && past_log.flushes_failed() != failures {
            let cause = "a write with FUA failed beside the flush".into();
            let op = Op::Flush;
            return Err(DeviceError::Failed { op, cause });
        }
        match &flushed {
            Ok(()) => past_log.flushed(covered),
            Err(error) if past_log.flush_failed(error) => {
                tracing::error!(%error, "data that went past the log may be lost");
            }
            Err(_) => {}
        }
        flushed
    }

    /// Flushes the data device. Whether a durable request beside the flush failed is known when this returns.
    async fn flush_of_data(&self) -> Result<()> {
        let request = self.durable.begin();
        self.data.flush().await?;
        drop(request);
        self.durable.end_of_others().await;
        Ok(())
    }

    /// Writes to the data device. Whether a durable request beside a write with FUA failed is known when this returns.
    async fn write_to_data(&self, at: u64, buf: Buf, durability: Durability) -> Result<()> {
        if durability == Durability::Flush {
            return self.data.write(at, buf, durability).await;
        }
        let request = self.durable.begin();
        let written = self.data.write(at, buf, durability).await;
        // A device may carry such a write out by a flush, and it is unknown which of the two failed.
        if let Err(error) = &written
            && self.past_log.borrow_mut().flush_failed(error)
        {
            tracing::error!(%error, "data that went past the log may be lost");
        }
        drop(request);
        written?;
        self.durable.end_of_others().await;
        Ok(())
    }

    /// Makes durable what was written home since so many flushes had failed.
    ///
    /// # Errors
    /// The device's; or that somebody else's flush failed meanwhile, which may have lost what was
    /// written before it.
    pub(crate) async fn flush_written(&self, since: u64) -> Result<()> {
        self.flush_data().await?;
        if self.past_log.borrow().flushes_failed() == since {
            return Ok(());
        }
        let cause =
            "a flush of the data device failed after the writes and before their own".into();
        let op = Op::Flush;
        Err(DeviceError::Failed { op, cause })
    }

    /// Writes to the data device what has no copy in the log: again, if a flush failed meanwhile, which
    /// may have lost it.
    ///
    /// # Errors
    /// The device's.
    pub(crate) async fn write_past_log(
        &self,
        at: u64,
        buf: Buf,
        durability: Durability,
    ) -> Result<()> {
        loop {
            let lost = self.past_log.borrow().flushes_failed();
            self.write_to_data(at, buf.clone(), durability).await?;
            if self.past_log.borrow().flushes_failed() == lost {
                if durability == Durability::Flush {
                    self.past_log.borrow_mut().note();
                }
                return Ok(());
            }
        }
    }

    /// Makes what went past the log durable.
    ///
    /// # Errors
    /// The device's; and for ever, once a flush failed that it needed.
    pub(crate) async fn make_bypassed_durable(&self, op: Op) -> Result<()> {
        if self.past_log.borrow().needs_flush() {
            self.flush_data().await?;
        }
        match self.past_log.borrow().lost() {
            Some(cause) => Err(DeviceError::Failed { op, cause }),
            None => Ok(()),
        }
    }
}
