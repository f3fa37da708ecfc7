//! Memory that a burst leaves behind.

use std::rc::Rc;
use std::time::Duration;

use super::Daemon;

/// How often is looked. A look asks the allocator for its accounts.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// So much free memory is kept for what comes next, in bytes.
const KEPT: usize = 16 << 20;

/// Gives back what is free whenever nothing is on its way to the data device. While something is, its
/// buffers would only be asked for again.
pub(super) async fn give_back(daemon: Rc<Daemon>) {
    loop {
        daemon.rt.sleep(LOOK_EVERY).await;
        if daemon.volume.status().is_resting() {
            forebay_os::trim_memory(KEPT);
        }
    }
}
