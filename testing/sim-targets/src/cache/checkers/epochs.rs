//! I4 from the outside: a log that was taken up is in a new epoch, durably, whatever happens next.

use forebay_sim::Violation;
use forebay_sim::disk::DiskImage;

use crate::cache::volume::superblock;

/// The epoch a log is in; none if it has no sound superblock.
fn epoch(log: &DiskImage) -> Option<u64> {
    superblock(log).map(|newest| newest.epoch.0)
}

/// Compares the log as it was before an attach that succeeded with what the life after it left.
///
/// # Errors
/// If no new epoch was begun.
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
