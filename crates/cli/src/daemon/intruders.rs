//! Detection of other programs that write to the devices of a volume.
//!
//! Locks and exclusive opens keep out programs that ask for them. A loop device does not ask. `losetup` or `mount -o
//! loop` of the data image while it is attached puts a second writer beneath the cache, and the kernel cannot refuse
//! this for us. The daemon therefore looks for loop devices every few seconds and for each `status`, and reports them
//! prominently.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use forebay_volume::LayerTree;

use super::Daemon;

/// Interval between two checks. A check reads a small file of `/sys` for each loop device.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The known loop devices over the volume's devices.
pub(super) struct IntruderWatch {
    /// The role of each device of the volume, and its path.
    devices: Vec<(String, PathBuf)>,
    seen: RefCell<Vec<String>>,
}

impl IntruderWatch {
    pub(super) fn new(tree: &LayerTree) -> IntruderWatch {
        let devices = tree.devices().into_iter();
        IntruderWatch {
            devices: devices
                .map(|(role, spec)| (format!("{role} device"), spec.path().to_owned()))
                .collect(),
            seen: RefCell::default(),
        }
    }

    /// Returns the present loop devices over the volume's devices, as one sentence each. Logs new ones.
    pub(super) fn look(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (what, path) in &self.devices {
            for device in forebay_linux::loop_devices_over(path) {
                found.push(format!("{device} is over the {what} {}", path.display()));
            }
        }
        for new in found.iter().filter(|now| !self.seen.borrow().contains(now)) {
            tracing::error!(
                "{new}: mounting or writing it damages this volume; unmount it and detach it with losetup -d"
            );
        }
        self.seen.replace(found.clone());
        found
    }
}

/// Checks at intervals as long as the daemon runs.
pub(super) async fn watch(daemon: Rc<Daemon>) {
    loop {
        let devices = daemon.devices.now();
        devices.intruders.look();
        devices.lengths.look();
        daemon.rt.sleep(LOOK_EVERY).await;
    }
}
