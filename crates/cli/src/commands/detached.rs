//! Work on a volume that no daemon serves: the command recovers the volume, works on it, and closes it.

use std::rc::Rc;

use crate::dirs::ProgramDirs;
use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_linux::IoRing;
use forebay_rt::Rt;
use forebay_volume::{AcceptedFaults, Layer, VolumeName};

use crate::lock::NameLock;
use crate::target::VolumeTarget;
use crate::witness::FailedLogDir;

/// Result of work on a volume.
pub(super) struct OfflineResult<T> {
    /// The volume's name.
    pub(super) name: VolumeName,
    /// Notes of the recovery for the administrator.
    pub(super) notes: Vec<String>,
    /// Result of `work`.
    pub(super) result: T,
}

/// Recovers the volume, runs `work` on it, and closes it. The name is locked in between.
///
/// # Errors
/// The volume is in use or cannot be recovered, `work` fails, or the volume cannot be closed. A failure of `work` takes
/// precedence.
pub(super) async fn on_volume<T>(
    target: VolumeTarget,
    dirs: &ProgramDirs,
    rt: &Rt,
    ring: &Rc<IoRing>,
    work: impl AsyncFnOnce(&dyn Layer) -> CommandResult<T>,
) -> CommandResult<OfflineResult<T>> {
    let lock = NameLock::take(dirs, &target.name)?;
    on_locked_volume(lock, target, dirs, rt, ring, work).await
}

/// Does the same as [`on_volume`] for a caller that has locked the name.
pub(super) async fn on_locked_volume<T>(
    lock: NameLock,
    target: VolumeTarget,
    dirs: &ProgramDirs,
    rt: &Rt,
    ring: &Rc<IoRing>,
    work: impl AsyncFnOnce(&dyn Layer) -> CommandResult<T>,
) -> CommandResult<OfflineResult<T>> {
    let opened = lock.patiently(rt, async || target.open_with_defaults(rt, ring));
    let opened = opened.await?;
    let witness = Rc::new(FailedLogDir::new(rt, dirs.state()?));
    let context = target.attach_context(rt, witness, AcceptedFaults::default());
    let attached = opened.attach(context).await?;
    let name = &target.name;
    let result = work(&*attached.layer).await;
    let closed = attached.layer.close().await;
    let result = result?;
    closed.map_err(|error| CommandFailure::io(format!("cannot close {name}: {error}")))?;
    Ok(OfflineResult {
        name: target.name,
        notes: attached.notes,
        result,
    })
}
