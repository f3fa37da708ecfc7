//! Others who write to what a volume is made of.
//!
//! Locks and exclusive opens keep out whoever asks for them. A loop device does not ask: `losetup` or
//! `mount -o loop` of the data image while it is attached puts a second writer beneath the cache, and
//! the kernel has no way to refuse that on our behalf. So it is looked for, every few seconds and for
//! each `status`, and said as loudly as can be.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use super::Daemon;
use crate::target::Target;

/// How often is looked. A look reads a small file of `/sys` for each loop device there is.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// What is known of them.
pub(super) struct Intruders {
    /// What they are of the volume, and their paths.
    devices: Vec<(String, PathBuf)>,
    seen: RefCell<Vec<String>>,
}

impl Intruders {
    pub(super) fn new(target: &Target) -> Intruders {
        let devices = target.tree.devices().into_iter();
        Intruders {
            devices: devices
                .map(|(role, spec)| (format!("{role} device"), spec.path().to_owned()))
                .collect(),
            seen: RefCell::default(),
        }
    }

    /// Those there are now, one sentence each; new ones are logged.
    pub(super) fn look(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (what, path) in &self.devices {
            for device in forebay_os::loop_devices_over(path) {
                found.push(format!("{device} is over the {what} {}", path.display()));
            }
        }
        for new in found.iter().filter(|now| !self.seen.borrow().contains(now)) {
            tracing::error!(
                "{new}: whoever mounts or writes it damages this volume; unmount it and detach it \
                 with losetup -d"
            );
        }
        self.seen.replace(found.clone());
        found
    }
}

/// Looks as long as the daemon lives.
pub(super) async fn watch(daemon: Rc<Daemon>) {
    loop {
        daemon.intruders.look();
        daemon.lengths.look();
        daemon.rt.sleep(LOOK_EVERY).await;
    }
}
