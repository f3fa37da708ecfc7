//! Records of logs that failed and were abandoned, as files in the state directory.
//!
//! A log device that accepts no writes cannot record its own failure. The state directory records the failure durably
//! instead, and an attach refuses a recorded log. Each failed log has one file, named after the volume's id, which
//! contains the epoch in which the log was abandoned. A new log has a new id.
//!
//! The directory may be on a slow disk, or even on a filesystem of the very volume. Then the write of the record waits
//! for a flush that waits for the record. So a process of its own writes the record ([`crate::own_file`]). The wait for
//! it has a time limit; the caller retries.

use std::cell::RefCell;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::time::Duration;

use forebay_linux::isolated;
use forebay_rt::Rt;
use forebay_volume::{ConfigFile, FailedLogFuture, FailedLogRegistry, VolumeId, VolumeIdentity};

use crate::dirs::ProgramDirs;
use crate::own_file::{OwnFileReply, OwnFileWork, apart};
use forebay_command_output::failure::{CommandFailure, CommandResult};

/// Time limit for reading or writing a record.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longer than any record.
const NOTE_BYTES_MAX: u64 = 4096;

/// A record whose write has begun, and that no caller waits for at the moment.
struct RecordWrite {
    volume: VolumeId,
    epoch: u64,
    done: Pin<Box<dyn Future<Output = io::Result<()>>>>,
}

/// The records in one directory, which may not exist yet.
pub(crate) struct FailedLogDir {
    rt: Rt,
    dir: PathBuf,
    /// The write in progress. At most one process blocks on a directory that does not answer.
    writing: RefCell<Option<RecordWrite>>,
}

impl fmt::Debug for FailedLogDir {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StateDir").field(&self.dir).finish()
    }
}

impl FailedLogDir {
    pub(crate) fn new(rt: &Rt, dir: &Path) -> FailedLogDir {
        FailedLogDir {
            rt: rt.clone(),
            dir: dir.into(),
            writing: RefCell::new(None),
        }
    }

    /// Returns the records of the present user, for a command that also works without them: `None` if the environment
    /// does not determine the state directory.
    pub(crate) fn if_known(rt: &Rt) -> Option<FailedLogDir> {
        let dirs = ProgramDirs::new().ok()?;
        Some(FailedLogDir::new(rt, dirs.state().ok()?))
    }

    /// Returns true if the log was abandoned, according to its own mark or to a record.
    ///
    /// # Errors
    /// If the record cannot be read.
    pub(crate) async fn is_abandoned(&self, log: &VolumeIdentity) -> CommandResult<bool> {
        let abandoned = log.is_abandoned(Some(self)).await;
        abandoned.map_err(|error| {
            CommandFailure::refused(format!(
                "the failed-log record cannot be read, so the log of {} may have been abandoned after a failure: {error}",
                log.name
            ))
        })
    }

    /// Removes the record of a volume whose log no longer exists.
    pub(crate) async fn forget(&self, volume: &str) {
        let file = file_of(&self.dir, volume);
        let removed = isolated(move || match fs::remove_file(&file) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(with_path(&file, &error)),
            _ => Ok(()),
        });
        if let Ok(Ok(Err(error))) = self.rt.timeout(PATIENCE, removed).await {
            tracing::warn!(%error, "cannot remove the record of a failed log that no longer exists");
        }
    }

    fn slow(&self) -> io::Error {
        let text = format!("{} does not answer", self.dir.display());
        io::Error::new(ErrorKind::TimedOut, text)
    }

    async fn write(&self, volume: VolumeId, epoch: u64) -> io::Result<()> {
        let before = self.writing.take();
        let before = before.filter(|w| (w.volume, w.epoch) == (volume, epoch));
        let mut writing = before.unwrap_or_else(|| {
            let work = apart(OwnFileWork::RecordFailedLog {
                dir: self.dir.clone(),
                volume: volume.to_string(),
                epoch,
            });
            RecordWrite {
                volume,
                epoch,
                done: Box::pin(async move { work.await.map(drop) }),
            }
        });
        if let Ok(done) = self.rt.timeout(PATIENCE, &mut writing.done).await {
            done
        } else {
            self.writing.replace(Some(writing));
            Err(self.slow())
        }
    }
}

impl FailedLogRegistry for FailedLogDir {
    fn abandoned(&self, volume: VolumeId) -> FailedLogFuture<'_, Option<u64>> {
        let work = apart(OwnFileWork::ReadFailedLog {
            dir: self.dir.clone(),
            volume: volume.to_string(),
        });
        Box::pin(async move {
            match self.rt.timeout(PATIENCE, Box::pin(work)).await {
                Ok(Ok(OwnFileReply::Epoch(epoch))) => Ok(epoch),
                Ok(Ok(_)) => Err(io::Error::other("a reply to another request")),
                Ok(Err(error)) => Err(error),
                Err(_) => Err(self.slow()),
            }
        })
    }

    fn abandon(&self, volume: VolumeId, epoch: u64) -> FailedLogFuture<'_, ()> {
        Box::pin(self.write(volume, epoch))
    }
}

/// Returns true if a record names a log of the volume, in any epoch.
pub(crate) fn has_record(dirs: &ProgramDirs, description: &ConfigFile) -> bool {
    let volume = description.volume.as_deref();
    let files = volume.and_then(|volume| Some(file_of(dirs.state().ok()?, volume)));
    files.is_some_and(|file| file.exists())
}

fn file_of(dir: &Path, volume: &str) -> PathBuf {
    dir.join(format!("{volume}.given-up"))
}

fn with_path(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn note(volume: &str, epoch: u64) -> String {
    format!("the log of volume {volume} was given up in epoch {epoch}\n")
}

/// Returns the recorded epoch, if a record exists.
pub(crate) fn look(dir: &Path, volume: &str) -> io::Result<Option<u64>> {
    let file = file_of(dir, volume);
    let read = File::open(&file).and_then(|open| {
        let mut text = String::new();
        io::Read::read_to_string(&mut io::Read::take(open, NOTE_BYTES_MAX), &mut text)?;
        Ok(text)
    });
    let text = match read {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == ErrorKind::InvalidData => String::new(),
        Err(error) => return Err(with_path(&file, &error)),
    };
    let number = text.trim_end().rsplit(' ').next();
    let epoch = number.and_then(|number| number.parse().ok());
    // Compare the whole text, so that a truncated record, or a record of another volume, is not believed.
    match epoch.filter(|epoch| text == note(volume, *epoch)) {
        Some(epoch) => Ok(Some(epoch)),
        None => Err(io::Error::new(
            ErrorKind::InvalidData,
            format!(
                "{} does not contain the expected text, \"{}\"; if this log never failed, remove the file, otherwise \
                 make a new log with `forebay create --force`",
                file.display(),
                note(volume, 1).trim_end()
            ),
        )),
    }
}

/// Records the epoch; it is durable on return. A newer recorded epoch is kept.
pub(crate) fn keep(dir: &Path, volume: &str, epoch: u64) -> io::Result<()> {
    let before = look(dir, volume).ok().flatten();
    let epoch = before.map_or(epoch, |before| before.max(epoch));
    make(dir).map_err(|error| with_path(dir, &error))?;
    let (file, temporary) = (file_of(dir, volume), dir.join(format!(".{volume}.new")));
    let put = || -> io::Result<()> {
        let mut open = File::options();
        let open = open.write(true).create(true).truncate(true).mode(0o600);
        let mut content = open.open(&temporary)?;
        content.write_all(note(volume, epoch).as_bytes())?;
        content.sync_all()?;
        fs::rename(&temporary, &file)?;
        File::open(dir)?.sync_all()
    };
    put().map_err(|error| with_path(&file, &error))
}

/// Makes a directory and its parents, durably.
fn make(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let parent = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    make(parent)?;
    match fs::DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    File::open(parent)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOLUME: &str = "07070707-0707-0707-0707-070707070707";

    #[test]
    fn a_failed_log_record_is_found_only_for_its_volume() {
        let dir = tempfile::tempdir().unwrap();
        // The directory is created on demand.
        let state = dir.path().join("a/b");
        assert_eq!(look(&state, VOLUME).unwrap(), None);
        keep(&state, VOLUME, 12).unwrap();
        assert_eq!(look(&state, VOLUME).unwrap(), Some(12));
        let other = VOLUME.replace('7', "8");
        assert_eq!(look(&state, &other).unwrap(), None);
        let left: Vec<_> = fs::read_dir(&state).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn an_older_failed_log_record_replaces_a_damaged_record_but_not_a_newer_record() {
        let dir = tempfile::tempdir().unwrap();
        keep(dir.path(), VOLUME, 12).unwrap();
        keep(dir.path(), VOLUME, 3).unwrap();
        assert_eq!(look(dir.path(), VOLUME).unwrap(), Some(12));
        fs::write(file_of(dir.path(), VOLUME), "nonsense").unwrap();
        keep(dir.path(), VOLUME, 3).unwrap();
        assert_eq!(look(dir.path(), VOLUME).unwrap(), Some(3));
    }

    #[test]
    fn a_damaged_or_foreign_failed_log_record_is_an_error_with_a_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let whole = note(VOLUME, 12);
        let other = note(&VOLUME.replace('7', "8"), 12);
        let cut = &whole[..whole.len() - 2];
        for broken in ["", "12\n", cut, whole.trim_end(), &other] {
            fs::write(file_of(dir.path(), VOLUME), broken).unwrap();
            let error = look(dir.path(), VOLUME).unwrap_err().to_string();
            assert!(
                error.contains(VOLUME) && error.contains("remove the file"),
                "{error}"
            );
        }
        fs::write(file_of(dir.path(), VOLUME), [0xff; 100]).unwrap();
        assert!(look(dir.path(), VOLUME).is_err());
    }

    #[test]
    fn a_failed_write_of_the_failed_log_record_is_an_error_with_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let error = keep(&file.join("state"), VOLUME, 1)
            .unwrap_err()
            .to_string();
        assert!(error.contains("file/state"), "{error}");
    }

    #[test]
    fn a_full_disk_keeps_the_previous_failed_log_record() {
        let dir = tempfile::tempdir().unwrap();
        keep(dir.path(), VOLUME, 12).unwrap();
        // The next record would be written to a device that is always full.
        let next = dir.path().join(format!(".{VOLUME}.new"));
        std::os::unix::fs::symlink("/dev/full", &next).unwrap();
        let error = keep(dir.path(), VOLUME, 13).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
        assert_eq!(look(dir.path(), VOLUME).unwrap(), Some(12));
    }
}
