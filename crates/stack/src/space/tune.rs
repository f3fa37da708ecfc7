//! Reads or changes the placement of an attached volume.

use forebay_vsl::{Space, TuneError};

use super::Placing;
use crate::Cause;
use crate::layer::Tuned;
use crate::not_done::NotDone;

/// Changes the placement, if a placement is given.
///
/// # Errors
/// If the volume is too full for it, or its device fails.
pub(crate) async fn tune(space: &Space, placement: Option<Placing>) -> Result<Tuned, NotDone> {
    let before = space.placement();
    if let Some(placement) = placement {
        let kind = match placement {
            Placing::Auto => None,
            Placing::As(kind) => Some(kind),
        };
        let changed = space.set_placement(kind).await;
        changed.map_err(|error| {
            let cause = match &error {
                TuneError::Full { .. } => Cause::Refused,
                TuneError::Space(_) => Cause::Device,
            };
            NotDone::new(cause, error)
        })?;
    }
    let tuning = space.tuning();
    Ok(Tuned {
        before,
        placement: space.placement(),
        auto: space.is_auto(),
        reason: tuning.why,
        looks: tuning.looks,
        leaning: tuning.leaning.map(|(kind, _)| kind),
    })
}
