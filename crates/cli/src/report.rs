//! The report of a volume with the layers of this workspace; docs/status.md describes it.

use forebay_control::{RemainingWork, VolumeActivity};
use forebay_volume::{DestageActivity, LayerStatus};

/// The report that `status --json` prints.
pub(crate) type StatusReport = forebay_control::VolumeReport<LayerStatus>;
/// A reply of a daemon.
pub(crate) type DaemonReply = forebay_control::ControlReply<LayerStatus>;

/// Returns the activity of a volume that destages like this.
fn activity_of(destaging: DestageActivity) -> VolumeActivity {
    match destaging {
        DestageActivity::Resting => VolumeActivity::Resting,
        DestageActivity::Reading => VolumeActivity::Reading,
        DestageActivity::Zeroing => VolumeActivity::Zeroing,
        DestageActivity::Discarding => VolumeActivity::Discarding,
        DestageActivity::Writing => VolumeActivity::Writing,
        DestageActivity::Flushing => VolumeActivity::Flushing,
    }
}

/// Returns the remaining work of a volume in this state.
pub(crate) fn left(status: &LayerStatus) -> RemainingWork {
    let status = status.summary();
    let doing = if status.drain_fails {
        VolumeActivity::Retrying
    } else {
        activity_of(status.activity)
    };
    RemainingWork {
        dirty_bytes: status.dirty_bytes,
        destage_unflushed_bytes: status.destage_unflushed_bytes,
        pending_discard_bytes: status.pending_discard_bytes,
        doing,
    }
}
