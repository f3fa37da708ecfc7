//! I4 from the outside: an attached log is durably in a new epoch, regardless of later events.

use forebay_sim::Violation;
use forebay_sim::disk::DiskImage;

use crate::cache::volume::superblock;

/// Returns the epoch of a log, or `None` if the log has no valid superblock.
fn epoch(log: &DiskImage) -> Option<u64> {
    superblock(log).map(|newest| newest.epoch.0)
}

/// Compares the log before a successful attach with the log after the incarnation.
///
/// # Errors
/// If the attach began no new epoch.
pub fn begun(before: &DiskImage, after: &DiskImage) -> Result<(), Violation> {
    let (before, after) = (epoch(before), epoch(after));
    if after > before {
        Ok(())
    } else {
        Err(Violation::new(
            "epochs (I4)",
            format!("the log was in epoch {before:?}, was taken up, and is in epoch {after:?}"),
        ))
    }
}
