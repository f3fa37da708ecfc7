//! The report of a volume with the layers of this workspace; docs/status.md describes it.

use forebay_control::RemainingWork;
use forebay_volume::LayerStatus;

/// The report that `status --json` prints.
pub type StatusReport = forebay_control::VolumeReport<LayerStatus>;
/// A reply of a daemon.
pub type DaemonReply = forebay_control::ControlReply<LayerStatus>;

/// Returns the remaining work of a volume in this state.
pub fn left(status: &LayerStatus) -> RemainingWork {
    let doing = if status.drain_fails() {
        "retrying"
    } else {
        status.doing()
    };
    RemainingWork {
        dirty_bytes: status.dirty_bytes(),
        homeward_bytes: status.homeward_bytes(),
        marked_bytes: status.marked_bytes(),
        doing: doing.into(),
    }
}
