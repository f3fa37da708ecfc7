//! What to know of a volume that is damaged in part, and to do about one that is refused.

use forebay_segments::Copies;
use forebay_vsl::{OpenError, Superblock};

/// What to do about a volume that cannot be taken up.
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

/// That one copy of the superblock does not count, if so.
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
