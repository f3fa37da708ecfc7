//! Changes of a configuration file by the daemon of its volume.
//!
//! The file may be on the volume itself, or on a disk that does not answer. So a process of its own does the work
//! ([`crate::own_file`]), and the daemon waits for it with a time limit.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_linux::isolated;
use forebay_rt::Rt;
use forebay_volume::{DeviceSpec, VolumeName};

use crate::dirs::ProgramDirs;
use crate::own_file::{LogName, OwnFileWork, apart_blocking};

/// Time limit for writing the configuration file.
const PATIENCE: Duration = Duration::from_secs(30);

/// Number of the newest change of a configuration file that began in this process.
static NEWEST_CHANGE: AtomicU64 = AtomicU64::new(0);
/// Held during a change.
static CHANGING: Mutex<()> = Mutex::new(());

/// The turn of a change of a configuration file. A change may hang until long after its caller has given up. Then it
/// must not undo a later one.
#[derive(Clone, Copy)]
struct ConfigChange(u64);

impl ConfigChange {
    /// Begins a change. Earlier changes that are not done yet do nothing.
    fn begin() -> ConfigChange {
        ConfigChange(NEWEST_CHANGE.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// Makes the change, unless a later one has begun.
    fn make(self, change: impl FnOnce() -> CommandResult) -> CommandResult {
        let _turn = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
        if self.0 != NEWEST_CHANGE.load(Ordering::SeqCst) {
            return Err(CommandFailure::general("a later change took its place"));
        }
        change()
    }
}

/// The configuration file of a volume, as its daemon changes it.
pub(crate) struct OwnDescription {
    rt: Rt,
    dirs: ProgramDirs,
    name: VolumeName,
    log: DeviceSpec,
}

impl OwnDescription {
    /// Prepares the file to name `log`.
    pub(crate) fn with_log(
        rt: &Rt,
        dirs: &ProgramDirs,
        name: &VolumeName,
        log: &DeviceSpec,
    ) -> OwnDescription {
        OwnDescription {
            rt: rt.clone(),
            dirs: dirs.clone(),
            name: name.clone(),
            log: log.clone(),
        }
    }

    /// Checks that the file can name the log. Changes nothing.
    pub(crate) async fn check(&self) -> CommandResult {
        self.change(OwnFileWork::CheckLog).await
    }

    /// Names the log in the file. The change is durable on return. A change that hung, and that a later change of this
    /// process follows, does nothing.
    pub(crate) async fn put(&self) -> CommandResult {
        self.change(OwnFileWork::NameLog).await
    }

    async fn change(&self, work: fn(LogName) -> OwnFileWork) -> CommandResult {
        let work = work(LogName {
            file: self.dirs.description_file(&self.name),
            volume: self.name.to_string(),
            log: self.log.to_string(),
        });
        let turn = ConfigChange::begin();
        let change = move || turn.make(|| apart_blocking(work).map(drop));
        match self.rt.timeout(PATIENCE, Box::pin(isolated(change))).await {
            Ok(Ok(done)) => done,
            Ok(Err(error)) => Err(CommandFailure::io(error)),
            Err(_) => {
                let file = self.dirs.description_file(&self.name);
                let text = format!("{} does not answer", file.display());
                Err(CommandFailure::io(text))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::dirs::name_log;

    #[test]
    fn a_change_that_hung_does_not_undo_a_later_one() {
        let dir = tempfile::tempdir().unwrap();
        let name: VolumeName = "v".parse().unwrap();
        let file = dir.path().join("v.toml");
        let text = "name = \"v\"\nlog = \"/dev/a\"\ndata = \"/dev/d\"\n";
        fs::write(&file, text).unwrap();
        let [b, c] = ["/dev/b", "/dev/c"].map(DeviceSpec::whole);
        let (hung, later) = (ConfigChange::begin(), ConfigChange::begin());
        later.make(|| name_log(&file, &name, &c)).unwrap();
        assert!(hung.make(|| name_log(&file, &name, &b)).is_err());
        let changed = fs::read_to_string(&file).unwrap();
        assert_eq!(changed, text.replace("/dev/a", "/dev/c"));
    }
}
