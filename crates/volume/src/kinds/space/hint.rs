//! Hints about a partly damaged volume, and about a volume that is refused.

use forebay_segment_log::SuperblockPair;
use forebay_vsl::{SpaceOpenError, SpaceSuperblock};

/// Returns advice for a volume that cannot be attached.
pub(crate) fn hint(error: &SpaceOpenError) -> &'static str {
    match error {
        SpaceOpenError::Truncated { .. } => {
            "; give the device its length back, or attach a copy of it on a longer one"
        }
        SpaceOpenError::Block { .. } => "; copy it to a device with smaller blocks",
        SpaceOpenError::Checkpoint(..) | SpaceOpenError::Node(..) => {
            "; try again, since the device may read it later; if it does not, restore the volume from a backup"
        }
        SpaceOpenError::Superblocks(_) => "; is it the right device?",
        _ => "",
    }
}

/// Returns a note if one copy of the superblock is damaged.
pub(super) fn damaged_copy(copies: &SuperblockPair<SpaceSuperblock>) -> Option<String> {
    let (copy, why) = match (&copies.a, &copies.b) {
        (Err(why), Ok(_)) => ('A', why),
        (Ok(_), Err(why)) => ('B', why),
        _ => return None,
    };
    Some(format!(
        "copy {copy} of the superblock is damaged ({why}); the other copy is valid, and an attach rewrites both"
    ))
}
