//! The scratch directory and the images in it.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use forebay_units::ByteLen;

use super::stop::UserStop;
use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_command_output::progress::ByteProgress;
use forebay_command_output::result_line;

/// Numbers of in-memory filesystems from `statfs(2)`: tmpfs and ramfs.
const IN_MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];
/// Free space left beside the images, in bytes.
const SPARE_BYTES: u64 = 64 << 20;

/// A directory that is removed at the end, unless the user wants to keep it.
pub struct ScratchDir {
    dir: PathBuf,
    keep: bool,
}

impl ScratchDir {
    /// Creates a directory in `wish`, or on a real disk with `need` bytes of free space.
    ///
    /// # Errors
    /// If no directory is suitable, or the new directory cannot be created.
    pub fn new(wish: Option<&Path>, keep: bool, need: u64) -> CommandResult<ScratchDir> {
        let parent = match wish {
            Some(dir) => usable(dir, need).map(|()| dir.to_owned()).map_err(|why| {
                CommandFailure::usage(format!(
                    "cannot use {}: {why}; choose another --dir",
                    dir.display()
                ))
            })?,
            None => choose(need)?,
        };
        let parent = std::path::absolute(&parent).unwrap_or(parent);
        let dir = parent.join(format!("forebay-try-{}", std::process::id()));
        fs::create_dir(&dir)
            .map_err(|e| CommandFailure::io(format!("cannot make {}: {e}", dir.display())))?;
        Ok(ScratchDir { dir, keep })
    }

    /// Returns the path of the directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Creates a subdirectory.
    ///
    /// # Errors
    /// If the directory cannot be created.
    pub fn subdir(&self, name: &str) -> CommandResult<PathBuf> {
        let dir = self.dir.join(name);
        fs::create_dir_all(&dir)
            .map_err(|e| CommandFailure::io(format!("cannot make {}: {e}", dir.display())))?;
        Ok(dir)
    }

    /// Makes an image and writes zeroes to all of it, so that no measured write has to allocate space.
    ///
    /// # Errors
    /// If the image exists or cannot be written, or the user stops the program.
    pub fn image(&self, name: &str, len: u64, stop: &UserStop) -> CommandResult<PathBuf> {
        let path = self.dir.join(name);
        let failed =
            |e: std::io::Error| CommandFailure::io(format!("cannot write {}: {e}", path.display()));
        let mut progress = ByteProgress::new(format!("writing {name}, {}", ByteLen(len)));
        let mut file = File::create_new(&path).map_err(failed)?;
        let zeroes = vec![0; 4 << 20];
        let mut done = 0;
        while done < len {
            stop.check()?;
            let now = (len - done).min(zeroes.len() as u64);
            file.write_all(&zeroes[..now as usize]).map_err(failed)?;
            done += now;
            progress.set(done, len);
        }
        file.sync_all().map_err(failed)?;
        progress.finish();
        Ok(path)
    }

    /// Keeps the directory for inspection.
    pub(crate) fn keep(&mut self) {
        self.keep = true;
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.keep
    }

    /// Prints the path of the directory if it is kept.
    pub(crate) fn farewell(&self) {
        if self.keep {
            result_line!("kept: {}", self.dir.display());
        }
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            eprintln!("forebay: cannot remove {}: {error}", self.dir.display());
        }
    }
}

fn choose(need: u64) -> CommandResult<PathBuf> {
    let candidates = [
        Some(PathBuf::from("target")),
        std::env::var_os("TMPDIR").map(PathBuf::from),
        Some("/var/tmp".into()),
        Some("/tmp".into()),
    ];
    let mut reasons = Vec::new();
    for dir in candidates.into_iter().flatten() {
        match usable(&dir, need) {
            Ok(()) => return Ok(dir),
            Err(why) => reasons.push(format!("{}: {why}", dir.display())),
        }
    }
    Err(CommandFailure::general(format!(
        "no directory is suitable for scratch images ({}); give a directory with --dir",
        reasons.join("; ")
    )))
}

fn usable(dir: &Path, need: u64) -> Result<(), String> {
    let stat = rustix::fs::statfs(dir).map_err(|error| error.to_string())?;
    if IN_MEMORY.contains(&(stat.f_type as i64)) {
        return Err("it is in memory, not on a disk".into());
    }
    let free = stat.f_bavail.saturating_mul(stat.f_bsize as u64);
    let need = need + SPARE_BYTES;
    if free < need {
        return Err(format!(
            "{} are free, {} are needed",
            ByteLen(free),
            ByteLen(need)
        ));
    }
    rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).map_err(|error| error.to_string())
}
