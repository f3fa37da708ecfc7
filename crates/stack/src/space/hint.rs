//! Hints about a partly damaged volume, and about a volume that is refused.

use forebay_segments::Copies;
use forebay_vsl::{OpenError, Superblock};

/// Returns advice for a volume that cannot be attached.
pub(crate) fn hint(error: &OpenError) -> &'static str {
    match error {
        OpenError::Truncated { .. } => {
            "; give the device its length back, or attach a copy of it on a longer one"
        }
        OpenError::Block { .. } => "; copy it to a device with smaller blocks",
        OpenError::Checkpoint(..) | OpenError::Node(..) => {
            "; try again in case the device reads it at another time, and else restore the volume from a \
             backup"
        }
        OpenError::Superblocks(_) => "; is it the right device?",
        _ => "",
    }
}

/// Returns a note if one copy of the superblock is damaged.
pub(super) fn damaged_copy(copies: &Copies<Superblock>) -> Option<String> {
    let (copy, why) = match (&copies.a, &copies.b) {
        (Err(why), Ok(_)) => ('A', why),
        (Ok(_), Err(why)) => ('B', why),
        _ => return None,
    };
    Some(format!(
        "copy {copy} of the superblock is damaged ({why}); the other counts, and both are written anew by \
         an attach"
    ))
}
