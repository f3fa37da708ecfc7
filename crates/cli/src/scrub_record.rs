//! Results of complete scrubs, as files in the state directory: `VOLUME.scrub`, named after the volume's id.
//!
//! Damage stays, and so does the date of the newest scrub, when a volume is attached again. The directory may be on a slow
//! disk, or on a filesystem of the volume itself, so processes of their own read and write the files ([`crate::own_file`]).

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_control::ScrubStatus;
use forebay_linux::isolated;
use forebay_rt::Rt;

use crate::dirs::ProgramDirs;
use crate::own_file::{OwnFileReply, OwnFileWork, apart};

/// Time limit for reading or writing a record.
const PATIENCE: Duration = Duration::from_secs(10);

/// The record of one volume.
#[derive(Clone)]
pub(crate) struct ScrubRecord {
    rt: Rt,
    /// `None` if the environment does not determine the state directory.
    file: Option<PathBuf>,
}

impl ScrubRecord {
    pub(crate) fn of(rt: &Rt, dirs: &ProgramDirs, volume: &str) -> ScrubRecord {
        let state = dirs.state().ok();
        ScrubRecord {
            rt: rt.clone(),
            file: state.map(|state| state.join(format!("{volume}.scrub"))),
        }
    }

    /// Returns the recorded result, if it can be read.
    pub(crate) async fn read(&self) -> Option<ScrubStatus> {
        let file = self.file.clone()?;
        let read = apart(OwnFileWork::ReadScrub { file });
        match self.rt.timeout(PATIENCE, Box::pin(read)).await {
            Ok(Ok(OwnFileReply::Text(text))) => serde_json::from_str(&text).ok(),
            _ => None,
        }
    }

    /// Records a result. It is durable on return.
    pub(crate) async fn write(&self, status: &ScrubStatus) {
        let (Some(file), Ok(text)) = (self.file.clone(), serde_json::to_string(status)) else {
            return;
        };
        let path = file.display().to_string();
        let written = apart(OwnFileWork::RecordScrub { file, text });
        let error = match self.rt.timeout(PATIENCE, Box::pin(written)).await {
            Ok(Ok(_)) => return,
            Ok(Err(error)) => error,
            Err(_) => io::Error::from(ErrorKind::TimedOut),
        };
        tracing::warn!("the result of the scrub is not kept: {path}: {error}");
    }

    /// Removes the record of a volume that no longer exists.
    pub(crate) async fn remove(&self) {
        let Some(file) = self.file.clone() else {
            return;
        };
        let removed = isolated(move || fs::remove_file(file));
        // Without the volume, the record has no use.
        let _ = self.rt.timeout(PATIENCE, Box::pin(removed)).await;
    }
}

/// Writes a record. It is durable on return.
pub(crate) fn keep(file: &Path, text: &[u8]) -> io::Result<()> {
    let dir = file.parent().unwrap_or(Path::new("/"));
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)?;
    let temporary = file.with_extension("scrub.new");
    let mut content = File::create(&temporary)?;
    content.write_all(text)?;
    content.sync_all()?;
    fs::rename(&temporary, file)?;
    File::open(dir)?.sync_all()
}
