//! Writes that bypass the log, and flushes of the data device. Data written here has no other copy.

use forebay_device::{Buf, Device, DeviceError, DeviceOp, Durability, Result};

use crate::engine::DcdEngine;

impl DcdEngine {
    /// Flushes the data device, for any purpose. If the flush fails, data that bypassed the log since the last flush
    /// may be lost, and no copy of it exists.
    ///
    /// Flushes do not overlap. If one flush succeeds while another fails, it is unknown which data the successful flush
    /// made durable, since the device may have dropped the data of both. Callers that arrive meanwhile share the next
    /// flush. A flush that succeeds during a failed FUA write is treated as failed too.
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
            let cause = "a write with FUA failed during the flush".into();
            let op = DeviceOp::Flush;
            return Err(DeviceError::Failed { op, cause });
        }
        match &flushed {
            Ok(()) => past_log.flushed(covered),
            Err(error) if past_log.flush_failed(error) => {
                tracing::error!(%error, "data that bypassed the log may be lost");
            }
            Err(_) => {}
        }
        flushed
    }

    /// Flushes the data device. Returns only after all overlapping durable requests have ended, so that the caller can
    /// check whether any of them failed.
    async fn flush_of_data(&self) -> Result<()> {
        let request = self.durable.begin();
        self.data.flush().await?;
        drop(request);
        self.durable.end_of_others().await;
        Ok(())
    }

    /// Writes to the data device. A write with FUA returns only after all overlapping durable requests have ended, so
    /// that the caller can check whether any of them failed.
    async fn write_to_data(&self, at: u64, buf: Buf, durability: Durability) -> Result<()> {
        if durability == Durability::Flush {
            return self.data.write(at, buf, durability).await;
        }
        let request = self.durable.begin();
        let written = self.data.write(at, buf, durability).await;
        // A device may carry out such a write as a write and a flush, and it is unknown which of the two failed.
        if let Err(error) = &written
            && self.past_log.borrow_mut().flush_failed(error)
        {
            tracing::error!(%error, "data that bypassed the log may be lost");
        }
        drop(request);
        written?;
        self.durable.end_of_others().await;
        Ok(())
    }

    /// Makes the data durable that was written to the data device after `since` flushes had failed.
    ///
    /// # Errors
    /// The device's; or if a flush of another task failed meanwhile, which may have lost the data.
    pub(crate) async fn flush_written(&self, since: u64) -> Result<()> {
        self.flush_data().await?;
        if self.past_log.borrow().flushes_failed() == since {
            return Ok(());
        }
        let cause =
            "another flush of the data device failed between the writes and their flush".into();
        let op = DeviceOp::Flush;
        Err(DeviceError::Failed { op, cause })
    }

    /// Writes data to the data device of which the log holds no copy. Repeats the write if a flush failed meanwhile,
    /// since the failed flush may have lost the data.
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

    /// Makes data durable that bypassed the log.
    ///
    /// # Errors
    /// The device's. Permanently, once a flush failed that this data needed.
    pub(crate) async fn make_bypassed_durable(&self, op: DeviceOp) -> Result<()> {
        if self.past_log.borrow().needs_flush() {
            self.flush_data().await?;
        }
        match self.past_log.borrow().lost() {
            Some(cause) => Err(DeviceError::Failed { op, cause }),
            None => Ok(()),
        }
    }
}
