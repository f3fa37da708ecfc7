//! Reads or changes the placement of an attached volume.

use forebay_vsl::{Space, TuneError};

use crate::error_cause::ErrorCause;
use crate::layer::TuneReport;
use crate::operation_error::OperationError;
use crate::placement::RequestedPlacement;

/// Changes the placement, if a placement is given.
///
/// # Errors
/// If the volume is too full for it, or its device fails.
pub(crate) async fn tune(
    space: &Space,
    placement: Option<RequestedPlacement>,
) -> Result<TuneReport, OperationError> {
    let before = space.placement();
    if let Some(placement) = placement {
        let kind = match placement {
            RequestedPlacement::Auto => None,
            RequestedPlacement::As(kind) => Some(kind),
        };
        let changed = space.set_placement(kind).await;
        changed.map_err(|error| {
            let cause = match &error {
                TuneError::Full { .. } => ErrorCause::Refused,
                TuneError::Space(_) => ErrorCause::Device,
            };
            OperationError::new(cause, error)
        })?;
    }
    let tuning = space.tuning();
    Ok(TuneReport {
        before,
        placement: space.placement(),
        auto: space.is_auto(),
        reason: tuning.why,
        looks: tuning.looks,
        leaning: tuning.leaning.map(|(kind, _)| kind),
    })
}
