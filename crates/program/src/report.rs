//! The report of a volume made of the layers there are; docs/status.md describes it.

use forebay_control::Left;
use forebay_stack::Status;

/// What `status --json` prints.
pub type Report = forebay_control::Report<Status>;
/// What a daemon answers.
pub type Reply = forebay_control::Reply<Status>;

/// What is left to do at a volume in this state.
pub fn left(status: &Status) -> Left {
    let doing = match status.drain_fails() {
        true => "retrying",
        false => status.doing(),
    };
    Left {
        dirty_bytes: status.dirty_bytes(),
        homeward_bytes: status.homeward_bytes(),
        marked_bytes: status.marked_bytes(),
        doing: doing.into(),
    }
}
