//! Noting in the superblock which records are durable, where no later record does.
//!
//! Recovery takes a broken record for a torn end, unless something proves that the record was durable. Each record proves it
//! of the records that were flushed before the record was composed, and a checkpoint of all before its cut. Of the last
//! record, on a volume that is idle then, only the superblock does.

use std::rc::Rc;
use std::time::Duration;

use forebay_device::DeviceError;
use forebay_units::RecordSeq;

use crate::space::Inner;
use crate::superblocks::RETRY;

/// Once a record has been the newest durable one for so long, it is noted. So a volume that is flushed more often is not
/// slowed down, and no volume writes more than one note in this time.
const NOTE_AFTER: Duration = Duration::from_secs(1);

/// Notes the newest durable record until the volume is closed. While it is noted, the task sleeps until a flush makes a newer
/// record durable.
pub(crate) async fn noter(inner: Rc<Inner>) {
    let mut pause = RETRY.0;
    while !inner.closing.get() {
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
        pause = match inner.note_stable(stable).await {
            Ok(()) => RETRY.0,
            // The commit has logged the failure. Nothing waits for the note.
            Err(_) => {
                inner.rt.sleep(pause).await;
                (2 * pause).min(RETRY.1)
            }
        };
    }
}

impl Inner {
    /// Writes both copies of the superblock once, unless they name this record as durable meanwhile.
    ///
    /// # Errors
    /// The device's. Then one copy or both may name the record.
    async fn note_stable(self: &Rc<Self>, stable: RecordSeq) -> Result<(), DeviceError> {
        let _turn = self.superblock_turn.lock().await;
        if self.superblock.borrow().stable >= stable || self.closing.get() {
            return Ok(());
        }
        let last = self.superblock.borrow().clone();
        let next = self.next_superblock(last);
        self.write_copies(&next).await?;
        *self.superblock.borrow_mut() = next;
        Ok(())
    }
}
