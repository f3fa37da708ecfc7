//! Users that write until the device fails under them, and record their synced files.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_rng::Rng;

use crate::tree::digest;

/// Files whose fsync returned, with the digests of their contents.
#[derive(Default)]
pub(crate) struct SyncedFiles(Mutex<BTreeMap<PathBuf, u64>>);

impl SyncedFiles {
    pub(crate) fn len(&self) -> usize {
        self.files().len()
    }

    fn files(&self) -> std::sync::MutexGuard<'_, BTreeMap<PathBuf, u64>> {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Returns the synced files below `dir` that are missing or changed.
    pub(crate) fn broken(&self, dir: &Path) -> Vec<PathBuf> {
        let files = self.files();
        let is_broken = |(path, expected): &(&PathBuf, &u64)| {
            fs::read(dir.join(path))
                .map(|content| digest(&content))
                .ok()
                != Some(**expected)
        };
        let broken = files.iter().filter(is_broken);
        broken.map(|(path, _)| path.clone()).collect()
    }
}

/// Writes files below `dir`, each followed by an fsync of the file and of its directory, until a call fails or `stop`
/// is set.
pub(crate) fn write_and_fsync(dir: &Path, user: u32, promised: &SyncedFiles, stop: &AtomicBool) {
    let numbers = Rng::new(u64::from(user) + 1000);
    let mut count = 0;
    while !stop.load(Ordering::Relaxed) {
        let path = PathBuf::from(format!("user{user}")).join(format!("mail{count:05}"));
        let len = 512 + numbers.below(32 << 10) as usize;
        let content = numbers.bytes(len);
        if write_durably(&dir.join(&path), &content).is_err() {
            return;
        }
        promised.files().insert(path, digest(&content));
        count += 1;
    }
}

/// Writes one file so that it survives a crash.
///
/// # Errors
/// If the file cannot be written or made durable.
pub fn write_durably(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(content)?;
    file.sync_all()?;
    match path.parent() {
        Some(dir) => File::open(dir)?.sync_all(),
        None => Ok(()),
    }
}
