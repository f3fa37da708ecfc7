//! FUSE over io_uring. It is off unless an administrator enables it, for the whole system.

use std::fs;

const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";

/// Enables FUSE over io_uring, and restores the former setting when dropped. Filesystems that other tests mount
/// meanwhile use it too, which does no harm.
pub(crate) struct FuseUringGuard {
    before: String,
}

impl FuseUringGuard {
    /// Enables FUSE over io_uring. `None` if the kernel has no such setting, or the process has no permission.
    pub(crate) fn new() -> Option<FuseUringGuard> {
        let before = fs::read_to_string(SWITCH).ok()?;
        fs::write(SWITCH, "Y").ok()?;
        Some(FuseUringGuard { before })
    }
}

impl Drop for FuseUringGuard {
    fn drop(&mut self) {
        let _ = fs::write(SWITCH, self.before.trim());
    }
}
