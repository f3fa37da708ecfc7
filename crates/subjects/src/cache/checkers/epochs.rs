//! I4 from the outside: a log that was taken up is in a new epoch, durably, whatever happens next.

use forebay_log::{HEADER_BYTES, SUPERBLOCK_A_AT, SUPERBLOCK_B_AT, Superblock};

use forebay_sim::Violation;
use forebay_sim::disk::Image;

/// The epoch a log is in, by the newer copy of its superblock; none if there is no sound one.
fn epoch(log: &Image) -> Option<u64> {
    let copies = [SUPERBLOCK_A_AT, SUPERBLOCK_B_AT].map(|at| {
        let bytes = log.bytes(at..at + HEADER_BYTES as u64);
        Superblock::decode(&bytes).ok()
    });
    let newest = copies
        .into_iter()
        .flatten()
        .max_by_key(|copy| copy.generation);
    newest.map(|copy| copy.epoch.0)
}

/// Compares the log as it was before an attach that succeeded with what the life after it left.
///
/// # Errors
/// If no new epoch was begun.
pub fn begun(before: &Image, after: &Image) -> Result<(), Violation> {
    let (before, after) = (epoch(before), epoch(after));
    match after > before {
        true => Ok(()),
        false => Err(Violation::new(
            "epochs (I4)",
            format!("the log was in epoch {before:?}, was taken up, and is in epoch {after:?}"),
        )),
    }
}
