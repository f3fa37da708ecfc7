//! Users that work on a mounted filesystem at the same time.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// Mount option for synchronous changes of directories, as in the paper's filesystem.
pub const SYNCHRONOUS: &str = "dirsync";
/// Mount option for ext4's default.
pub const USUAL: &str = "defaults";

/// Runs all users at once, then a sync. Returns the time of both.
///
/// # Errors
/// If the work of a user, or the sync, fails.
pub fn together(
    dir: &Path,
    users: u32,
    each: &(dyn Fn(u32) -> io::Result<()> + Sync),
) -> io::Result<Duration> {
    let started = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..users)
            .map(|user| scope.spawn(move || each(user)))
            .collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, io::Result<()>>| {
            thread
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("a user panicked")))
        };
        threads
            .into_iter()
            .map(join)
            .collect::<io::Result<Vec<()>>>()
    })?;
    rustix::fs::syncfs(std::fs::File::open(dir)?)?;
    Ok(started.elapsed())
}
