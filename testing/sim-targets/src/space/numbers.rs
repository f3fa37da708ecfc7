//! Epochs and numbers of segments from the outside: an open of the volume reuses no epoch or number of an earlier open.
//! This includes earlier opens that reached no checkpoint.

use std::collections::BTreeSet;

use forebay_sim::Violation;
use forebay_sim::disk::DiskImage;

use super::volume::SEGMENT_BYTES;

/// Byte offset of the first segment.
pub(super) const SEGMENTS_AT: u64 = 1 << 20;
/// Offsets of the epoch and of the segment's number in the header of a record.
const EPOCH_AT: usize = 32;
const SEGMENT_AT: usize = 40;
/// Bytes of a header up to the end of these fields.
const HEADER: usize = 48;

/// Returns the epoch and the number of the segment at a byte of the disk, or `None` if no record begins there.
fn segment(disk: &DiskImage, at: u64) -> Option<(u64, u64)> {
    let mut header = [0; HEADER];
    disk.read(at, &mut header);
    let number = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight"));
    header
        .starts_with(b"FOREVRC")
        .then(|| (number(EPOCH_AT), number(SEGMENT_AT)))
}

/// Compares the segments of a disk before a successful attach with the segments after the incarnation.
///
/// # Errors
/// If a segment that was opened in this incarnation has an epoch or a number of an earlier segment.
pub(super) fn are_new(before: &DiskImage, after: &DiskImage) -> Result<(), Violation> {
    let places = || (SEGMENTS_AT..after.len()).step_by(SEGMENT_BYTES as usize);
    let known = places().filter_map(|at| segment(before, at));
    let (epochs, numbers): (BTreeSet<u64>, BTreeSet<u64>) = known.unzip();
    for at in places() {
        let Some((epoch, number)) = segment(after, at) else {
            continue;
        };
        let is_old = segment(before, at) == Some((epoch, number));
        if !is_old && (epochs.contains(&epoch) || numbers.contains(&number)) {
            let text = format!("the segment at {at} has number {number} of epoch {epoch} again");
            return Err(Violation::new("numbers", text));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(disk: &DiskImage, slot: u64, epoch: u64, number: u64) -> DiskImage {
        let mut header = [0; HEADER];
        header[..7].copy_from_slice(b"FOREVRC");
        header[EPOCH_AT..SEGMENT_AT].copy_from_slice(&epoch.to_le_bytes());
        header[SEGMENT_AT..].copy_from_slice(&number.to_le_bytes());
        let mut disk = disk.clone();
        disk.write(SEGMENTS_AT + slot * SEGMENT_BYTES, &header);
        disk
    }

    #[test]
    fn a_repeated_epoch_or_number_is_detected() {
        let empty = DiskImage::new(SEGMENTS_AT + 4 * SEGMENT_BYTES);
        let before = opened(&opened(&empty, 0, 3, 10), 1, 4, 11);
        assert!(are_new(&before, &before).is_ok());
        assert!(are_new(&before, &opened(&before, 1, 5, 12)).is_ok());
        assert!(are_new(&before, &opened(&before, 2, 4, 12)).is_err());
        assert!(are_new(&before, &opened(&before, 2, 5, 11)).is_err());
        assert!(are_new(&before, &opened(&before, 1, 4, 12)).is_err());
    }
}
