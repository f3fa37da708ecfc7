//! Which type of filesystem a file lies on.

use std::collections::HashMap;

use sleds::Mount;

/// Types of filesystems by device number. What is mounted is asked once.
#[derive(Default)]
pub(super) struct Mounts {
    all: Option<Vec<Mount>>,
    types: HashMap<u64, Vec<u8>>,
}

impl Mounts {
    /// The type of the filesystem with this device number; `unknown` if it is not mounted.
    pub(super) fn type_of(&mut self, device: u64) -> &[u8] {
        let all = self.all.get_or_insert_with(sleds::mounts);
        self.types.entry(device).or_insert_with(|| {
            let numbered = |mount: &&Mount| mount.number == device;
            // Some filesystems give files another number than the mount has: ask the mount points.
            let is_at = |mount: &&Mount| {
                rustix::fs::stat(&mount.point).is_ok_and(|stat| stat.st_dev == device)
            };
            let found = all.iter().rfind(numbered);
            let found = found.or_else(|| all.iter().rfind(is_at));
            found.map_or_else(
                || b"unknown".to_vec(),
                |mount| mount.kind.clone().into_bytes(),
            )
        })
    }
}
