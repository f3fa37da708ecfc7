//! FUSE over io_uring, which is off unless an administrator switches it on, for the whole system.

use std::fs;

const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// It is on until this is dropped; then it is as it was. Others that mount something meanwhile get it too, which they can bear.
pub(crate) struct SwitchedOn {
    before: String,
}

impl SwitchedOn {
    /// `None` where there is no such thing, or who asks is not allowed to.
    pub(crate) fn new() -> Option<SwitchedOn> {
        let before = fs::read_to_string(SWITCH).ok()?;
        fs::write(SWITCH, "Y").ok()?;
        Some(SwitchedOn { before })
    }
}

impl Drop for SwitchedOn {
    fn drop(&mut self) {
        let _ = fs::write(SWITCH, self.before.trim());
    }
}
