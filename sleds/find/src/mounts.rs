//! Finds the filesystem type of a file.

use std::collections::HashMap;

use sleds::MountedFilesystem;

/// Filesystem types by device number. The mount table is read once.
#[derive(Default)]
pub(super) struct FilesystemTypes {
    all: Option<Vec<MountedFilesystem>>,
    types: HashMap<u64, Vec<u8>>,
}

impl FilesystemTypes {
    /// Returns the type of the filesystem with this device number; `unknown` if it is not mounted.
    pub(super) fn type_of(&mut self, device: u64) -> &[u8] {
        let all = self.all.get_or_insert_with(sleds::mounts);
        self.types.entry(device).or_insert_with(|| {
            let numbered = |mount: &&MountedFilesystem| mount.number == device;
            // Some filesystems give files a device number that differs from the mount's: compare the mount points.
            let is_at = |mount: &&MountedFilesystem| {
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
