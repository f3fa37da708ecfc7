//! Returns memory to the system after a burst.

use std::rc::Rc;
use std::time::Duration;

use super::Daemon;

/// Interval between two checks. A check asks the allocator for its statistics.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Free memory kept for the next requests, in bytes.
const KEPT: usize = 16 << 20;

/// Returns free memory to the system whenever no data is being destaged. During a destage, its buffers would only be
/// allocated again.
pub(super) async fn give_back(daemon: Rc<Daemon>) {
    loop {
        daemon.rt.sleep(LOOK_EVERY).await;
        if daemon.volume.status().summary().is_resting {
            forebay_linux::trim_memory(KEPT);
        }
    }
}
