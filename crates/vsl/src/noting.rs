//! Notes of durable records in the superblock, for records that no later record confirms.
//!
//! Recovery treats a broken record as a torn end, unless the record is proven to have been durable. Each record
//! confirms the records that were flushed before it was composed. A checkpoint confirms all records before its cut. On
//! an idle volume, only the superblock can confirm the last record.

use std::rc::Rc;
use std::time::Duration;

use forebay_device::DeviceError;
use forebay_units::RecordSeq;

use crate::space::SpaceInner;
use crate::superblocks::RETRY;

/// Age of the newest durable record before it is noted. A volume that is flushed more often is thus not slowed down,
/// and no volume writes more than one note in this time.
const NOTE_AFTER: Duration = Duration::from_secs(1);

/// Notes the newest durable record until the volume is closed. When that record is noted, the task sleeps until a flush
/// makes a newer record durable.
pub(crate) async fn noter(inner: Rc<SpaceInner>) {
    let mut pause = RETRY.0;
    while !inner.closing.get() {
        inner.still.until_free().await;
        let durable = inner.commit.durable();
        let (stable, since) = inner.commit.newest_stable();
        if inner.superblock.borrow().stable >= stable {
            durable.await;
            continue;
        }
        drop(durable);
        let due = since.plus(NOTE_AFTER);
        if inner.rt.now() < due {
            inner.rt.sleep_until(due).await;
            continue;
        }
        pause = if inner.note_stable(stable).await.is_ok() {
            RETRY.0
        } else {
            // The commit has logged the failure. No task waits for the note.
            inner.rt.sleep(pause).await;
            (2 * pause).min(RETRY.1)
        };
    }
}

impl SpaceInner {
    /// Writes both copies of the superblock once, unless they already name this record as durable.
    ///
    /// # Errors
    /// The device's. One copy or both copies may name the record nevertheless.
    async fn note_stable(self: &Rc<Self>, stable: RecordSeq) -> Result<(), DeviceError> {
        let _turn = self.superblock_turn.lock().await;
        if self.superblock.borrow().stable >= stable || self.closing.get() || self.still.is_held() {
            return Ok(());
        }
        let last = self.superblock.borrow().clone();
        let next = self.next_superblock(last);
        self.write_copies(&next).await?;
        *self.superblock.borrow_mut() = next;
        Ok(())
    }
}
