//! The report of a volume with the layers of this workspace; docs/status.md describes it.

use forebay_control::Left;
use forebay_stack::Status;

/// The report that `status --json` prints.
pub type Report = forebay_control::Report<Status>;
/// A reply of a daemon.
pub type Reply = forebay_control::Reply<Status>;

/// Returns the remaining work of a volume in this state.
pub fn left(status: &Status) -> Left {
    let doing = if status.drain_fails() {
        "retrying"
    } else {
        status.doing()
    };
    Left {
        dirty_bytes: status.dirty_bytes(),
        homeward_bytes: status.homeward_bytes(),
        marked_bytes: status.marked_bytes(),
        doing: doing.into(),
    }
}
