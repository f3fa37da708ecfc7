//! Extends a log-structured volume, or the space of a filesystem.

use forebay_rt::Rt;
use forebay_units::{ByteLen, SECTOR_BYTES, round_down};
use forebay_vsl::{GrowError, SegmentLayout, Space};

use super::create::usual_len_on;
use crate::error_cause::ErrorCause;
use crate::layer::ResizeReport;
use crate::operation_error::OperationError;

fn failed(error: GrowError) -> OperationError {
    let cause = match &error {
        GrowError::Shrunk { .. } => ErrorCause::Refused,
        GrowError::Device(_) | GrowError::Space(_) => ErrorCause::Device,
    };
    OperationError::new(cause, error)
}

/// Makes a volume use all of its device, and makes it `size` bytes long. Without a size, a volume whose device grew
/// gets the default length for the longer device, if that is longer. Otherwise the volume keeps its length.
///
/// # Errors
/// If the device became shorter, the volume cannot have that size, or the device fails.
pub(super) async fn resize(
    rt: &Rt,
    space: &Space,
    size: Option<ByteLen>,
) -> Result<ResizeReport, OperationError> {
    let before = space.sectors() * SECTOR_BYTES;
    let (now, wanted) = space.layouts().map_err(failed)?;
    let len = match size {
        Some(size) => possible(size, before)?,
        None if wanted == now => before,
        None => {
            let usual = usual_len_on(rt, space, wanted).await;
            usual.map_err(|error| OperationError::new(ErrorCause::Device, error))?
        }
    };
    space.grow(len / SECTOR_BYTES).await.map_err(failed)?;
    Ok(ResizeReport {
        before,
        len: space.sectors() * SECTOR_BYTES,
        notes: took(&now, &wanted).into_iter().collect(),
    })
}

/// Makes the space of a filesystem use all of its device. The space keeps its length, which is already the largest
/// possible, and gets more capacity.
///
/// # Errors
/// If the device became shorter or fails.
pub(crate) async fn resize_room(space: &Space) -> Result<ResizeReport, OperationError> {
    // As `status` and `df`: files consist of whole blocks.
    let mappable = || space.capacity().mappable_in_blocks;
    let before = mappable();
    let (now, wanted) = space.layouts().map_err(failed)?;
    space.grow(0).await.map_err(failed)?;
    Ok(ResizeReport {
        before,
        len: mappable().max(before),
        notes: took(&now, &wanted).into_iter().collect(),
    })
}

/// Returns the length of a volume for a requested `size`.
fn possible(size: ByteLen, before: u64) -> Result<u64, OperationError> {
    let refuse = |why: String| Err(OperationError::new(ErrorCause::Usage, why));
    if size.0 < before {
        return refuse(format!(
            "it has {} ({before} bytes), and a volume cannot be made shorter: give a --size of that or more",
            ByteLen(before)
        ));
    }
    if size.0 > i64::MAX as u64 {
        return refuse(format!(
            "a volume of --size {size} is too large: give less than 8EiB"
        ));
    }
    Ok(round_down(size.0, 1 << 20).max(before))
}

/// Describes the segments that a volume added on its device.
fn took(now: &SegmentLayout, wanted: &SegmentLayout) -> Option<String> {
    let more = wanted.segment_count - now.segment_count;
    (more > 0).then(|| {
        let bytes = u64::from(more) * u64::from(now.segment_bytes);
        format!(
            "added {} of the device: {} segments instead of {}",
            ByteLen(bytes),
            wanted.segment_count,
            now.segment_count
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_can_be_extended_to_the_requested_length_and_never_shortened() {
        assert_eq!(possible(ByteLen::gib(2), 1 << 30), Ok(2 << 30));
        assert_eq!(possible(ByteLen((2 << 30) + 5), 1 << 30), Ok(2 << 30));
        // A length that is not a whole number of MiB is kept.
        assert_eq!(
            possible(ByteLen((1 << 20) + 4096), (1 << 20) + 4096),
            Ok((1 << 20) + 4096)
        );
        let error = possible(ByteLen::mib(512), 1 << 30).unwrap_err();
        assert!(error.cause == ErrorCause::Usage && error.to_string().contains("shorter"));
        assert!(possible(ByteLen(1 << 63), 1 << 30).is_err());
    }
}
