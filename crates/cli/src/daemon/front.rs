//! The front end, which makes a block device or a mounted filesystem of the volume.

use std::pin::Pin;
use std::rc::Rc;

use forebay_device::{Device, DeviceGeometry};
use forebay_frontend::block_device::OwnBlockDevice;
use forebay_linux::isolated;
use forebay_loopdev::{
    CleanupError, LeftoverPolicy, LoopAttachError, LoopDetachError, LoopOptions, LoopVolume,
    attach_loop, cleanup_stale,
};
use forebay_nbd::{
    NbdDevice, NbdError, NbdOptions, NbdServer, attach_nbd, clear_nbd_leftover, no_nbd_leftover,
};
use forebay_ublk::{
    UblkDevice, UblkError, UblkOptions, attach_ublk, clear_ublk_leftover, ublk_usable,
};
use forebay_volume::FrontEndKind;

use super::FrontEndContext;
use super::mount::{MountFront, MountPlan};
use super::via::best_available;
use crate::waiting;
use forebay_command_output::failure::{CommandFailure, CommandResult, FailureCode};

/// The front end of the volume, besides the NBD server.
pub(super) enum FrontEnd {
    /// No front end.
    None,
    /// A loop device over a FUSE file.
    Loop(Box<LoopVolume>),
    /// The kernel's NBD client.
    Nbd(NbdDevice),
    /// A device of the kernel's userspace block driver.
    Ublk(UblkDevice),
    /// A mounted filesystem instead of a block device. The flag is true if a stale mount was in its place.
    Mount(Box<MountFront>, bool),
}

/// The way a volume is served.
pub(super) enum ServingMode {
    /// As a block device, by this front end.
    Block(FrontEndKind),
    /// As a filesystem.
    Mount(MountPlan),
}

impl FrontEnd {
    /// Makes the block device, or takes over the device that the previous daemon left.
    pub(super) async fn start(
        place: FrontEndContext<'_>,
        via: FrontEndKind,
        device: &Rc<dyn Device>,
        server: &NbdServer,
    ) -> CommandResult<FrontEnd> {
        let id = place.volume.id();
        let volume = waiting::number_of(&id);
        if via != FrontEndKind::Ublk {
            let cleared = clear_ublk_leftover(place.rt, volume).await;
            cleared.map_err(ublk_failed)?;
        }
        if via != FrontEndKind::Nbd {
            let cleared = clear_nbd_leftover(&id).await;
            cleared.map_err(|error| nbd_failed(&error))?;
        }
        match via {
            FrontEndKind::None | FrontEndKind::Auto => Ok(FrontEnd::None),
            FrontEndKind::Ublk => {
                clear_other_leftovers(place).await?;
                let options = UblkOptions {
                    volume,
                    recoverable: place.volume.survives_kill(),
                };
                let device = Rc::clone(device);
                let attached = attach_ublk(place.rt, place.ring, device, place.memory, options);
                attached.await.map(FrontEnd::Ublk).map_err(ublk_failed)
            }
            FrontEndKind::Nbd => {
                clear_other_leftovers(place).await?;
                let options = NbdOptions {
                    volume: &id,
                    name: place.name.as_str(),
                    runtime_dir: place.dirs.make_runtime()?,
                    recoverable: place.volume.survives_kill(),
                };
                let attached = attach_nbd(place.rt, place.ring, server, options).await;
                attached
                    .map(FrontEnd::Nbd)
                    .map_err(|error| nbd_failed(&error))
            }
            FrontEndKind::Loop => {
                let attached = attach_loop(
                    place.rt,
                    place.ring,
                    Rc::clone(device),
                    place.memory,
                    place.dirs.make_runtime()?,
                    place.name.as_str(),
                    LoopOptions::default(),
                )
                .await;
                attached
                    .map(|volume| FrontEnd::Loop(Box::new(volume)))
                    .map_err(|error| loop_failed(&error))
            }
        }
    }

    /// Returns the name of the front end.
    pub(super) fn via(&self) -> &'static str {
        match self {
            FrontEnd::None => "none",
            FrontEnd::Loop(_) => "loop",
            FrontEnd::Nbd(_) => "nbd",
            FrontEnd::Ublk(_) => "ublk",
            FrontEnd::Mount(..) => "mount",
        }
    }

    /// Returns a handle that shows if the block device still exists.
    pub(super) fn held(&self) -> Option<OwnBlockDevice> {
        match self {
            FrontEnd::None | FrontEnd::Mount(..) => None,
            FrontEnd::Loop(volume) => volume.held(),
            FrontEnd::Nbd(device) => Some(device.held()),
            FrontEnd::Ublk(device) => Some(device.held()),
        }
    }

    /// Returns the directory where a filesystem is mounted.
    pub(super) fn mounted(&self) -> Option<String> {
        match self {
            FrontEnd::Mount(mount, _) => Some(mount.dir()),
            _ => None,
        }
    }

    /// Returns true if the requests of a filesystem come through io_uring. `None` for a block device.
    pub(super) fn is_by_ring(&self) -> Option<bool> {
        match self {
            FrontEnd::Mount(mount, _) => Some(mount.is_by_ring()),
            _ => None,
        }
    }

    /// Returns a handle that waits until another program has unmounted the filesystem. `None` for a block device.
    pub(super) fn over(&self) -> Option<forebay_fuse::SessionEndEvent> {
        match self {
            FrontEnd::Mount(mount, _) => Some(mount.over()),
            _ => None,
        }
    }

    /// Returns a note for the user about the start, if any.
    pub(super) fn note(&self) -> Option<String> {
        let (path, resumed) = match self {
            FrontEnd::Ublk(device) => (device.path(), device.is_resumed()),
            FrontEnd::Nbd(device) => (device.path(), device.is_resumed()),
            FrontEnd::Mount(mount, true) => {
                let dir = mount.dir();
                return Some(format!(
                    "a killed daemon left a stale mount at {dir}, which was removed"
                ));
            }
            FrontEnd::None | FrontEnd::Loop(_) | FrontEnd::Mount(..) => return None,
        };
        let path = path.display();
        match (resumed, self.is_outlived()) {
            (true, _) => Some(format!("recovered {path}, which the previous daemon left")),
            (false, true) => None,
            (false, false) => Some(format!(
                "with --ack memory: if this daemon is killed, {path} returns errors and cannot be recovered"
            )),
        }
    }

    /// Returns true if the block device outlives this process and waits for the next daemon.
    pub(super) fn is_outlived(&self) -> bool {
        match self {
            FrontEnd::Ublk(device) => device.is_recoverable(),
            FrontEnd::Nbd(device) => device.is_recoverable(),
            FrontEnd::None | FrontEnd::Loop(_) | FrontEnd::Mount(..) => false,
        }
    }

    /// Leaves the block device to the next daemon of the volume, without errors for its users. Returns when no request
    /// is in progress.
    pub(super) async fn hand_over(&self) -> CommandResult {
        match self {
            FrontEnd::Ublk(device) => device.hand_over().await.map_err(ublk_failed),
            FrontEnd::Nbd(device) => device.hand_over().map_err(|error| nbd_failed(&error)),
            FrontEnd::None | FrontEnd::Loop(_) | FrontEnd::Mount(..) => {
                Err(CommandFailure::refused(format!(
                    "only a ublk or nbd device can be handed over, and this volume is served via {}",
                    self.via()
                )))
            }
        }
    }

    /// Makes requests that can wait for the next daemon wait, instead of failing them.
    pub(super) fn let_wait(&self) {
        match self {
            FrontEnd::Ublk(device) => device.let_wait(),
            FrontEnd::Nbd(device) => device.let_wait(),
            FrontEnd::None | FrontEnd::Loop(_) | FrontEnd::Mount(..) => {}
        }
    }

    /// Checks that the block device is not in use, without changing anything.
    pub(super) async fn check_unused(&self) -> CommandResult {
        match self {
            FrontEnd::None | FrontEnd::Mount(..) => Ok(()),
            FrontEnd::Loop(volume) => volume.check_unused().await.map_err(loop_used),
            FrontEnd::Nbd(device) => device.check_unused().await.map_err(nbd_used),
            FrontEnd::Ublk(device) => device.check_unused().await.map_err(ublk_used),
        }
    }

    /// Tells the kernel that the volume became longer. `None` for a volume without a block device.
    pub(super) fn resize(
        &self,
        volume: &str,
        geometry: &DeviceGeometry,
    ) -> Option<Pin<Box<dyn Future<Output = CommandResult>>>> {
        Some(match self {
            FrontEnd::None | FrontEnd::Mount(..) => return None,
            FrontEnd::Loop(volume) => {
                let resized = volume.resize();
                Box::pin(async { resized.await.map_err(CommandFailure::io) })
            }
            FrontEnd::Nbd(device) => {
                let resized = device.resize(volume, geometry);
                Box::pin(async { resized.await.map_err(|error| nbd_failed(&error)) })
            }
            FrontEnd::Ublk(device) => {
                let resized = device.resize(geometry.len);
                Box::pin(async { resized.await.map_err(ublk_failed) })
            }
        })
    }

    /// Removes the block device. If the device is in use, changes nothing and returns a failure that names the user.
    /// Afterwards this is [`FrontEnd::None`].
    pub(super) async fn stop(&mut self) -> CommandResult {
        match self {
            FrontEnd::None => return Ok(()),
            FrontEnd::Mount(mount, _) => mount.stop().await?,
            FrontEnd::Loop(volume) => volume.detach().await.map_err(loop_used)?,
            FrontEnd::Nbd(device) => device.detach().await.map_err(nbd_used)?,
            FrontEnd::Ublk(device) => device.detach().await.map_err(ublk_used)?,
        }
        *self = FrontEnd::None;
        Ok(())
    }
}

/// Removes the leftover loop or nbd device of a killed daemon, or fails if it is in use. Attaching through the same
/// front end does this by itself.
async fn clear_other_leftovers(place: FrontEndContext<'_>) -> CommandResult {
    let (dir, name) = (
        place.dirs.make_runtime()?.to_owned(),
        place.name.to_string(),
    );
    no_nbd_leftover(&dir, &name).map_err(|error| nbd_failed(&error))?;
    let cleaned = isolated(move || cleanup_stale(&dir, &name, LeftoverPolicy::Refuse)).await;
    let cleaned = cleaned.map_err(CommandFailure::io)?;
    let failed = |error| loop_failed(&LoopAttachError::Leftovers(error));
    cleaned.map(drop).map_err(failed)
}

fn loop_used(error: LoopDetachError) -> CommandFailure {
    match error {
        LoopDetachError::Busy { .. } | LoopDetachError::FileBusy { .. } => still_used(&error),
        error => CommandFailure::io(error),
    }
}

fn nbd_used(error: NbdError) -> CommandFailure {
    match error {
        NbdError::Busy { .. } => still_used(&error),
        error => CommandFailure::io(error),
    }
}

fn ublk_used(error: UblkError) -> CommandFailure {
    match error {
        UblkError::Busy { .. } => still_used(&error),
        error => CommandFailure::io(error),
    }
}

fn still_used(error: &dyn std::fmt::Display) -> CommandFailure {
    CommandFailure::refused(format!("{error}; unmount or close it first"))
}

/// Returns the best available front end for [`FrontEndKind::Auto`], otherwise the given one; and a note for the user.
///
/// # Errors
/// If the front end that the user chose is known to be unavailable.
pub(super) fn choose(via: FrontEndKind) -> CommandResult<(FrontEndKind, Option<String>)> {
    match via {
        FrontEndKind::Auto => {
            let choice = best_available();
            Ok((choice.via, Some(format!("front end: {choice}"))))
        }
        FrontEndKind::Ublk => {
            ublk_usable().map_err(ublk_failed)?;
            Ok((via, None))
        }
        FrontEndKind::Nbd | FrontEndKind::Loop | FrontEndKind::None => Ok((via, None)),
    }
}

/// Advice for a stale block device that is still in use.
const LEFT: &str = " (left by a daemon that was killed); unmount it, then attach again";

fn loop_failed(error: &LoopAttachError) -> CommandFailure {
    let code = match error {
        LoopAttachError::Leftovers(CleanupError::Io { .. }) => FailureCode::Io,
        LoopAttachError::Leftovers(_) => FailureCode::Refused,
        _ => FailureCode::Io,
    };
    let advice = match error {
        LoopAttachError::Leftovers(CleanupError::InUse { .. }) => LEFT,
        LoopAttachError::Leftovers(_) => "",
        _ => "; serve NBD clients only with --via none",
    };
    CommandFailure::new(code, format!("{error}{advice}"))
}

fn nbd_failed(error: &NbdError) -> CommandFailure {
    let code = match error {
        NbdError::NoDriver => FailureCode::NotFound,
        NbdError::TooOld
        | NbdError::NoneFree { .. }
        | NbdError::Leftover { .. }
        | NbdError::Unlike { .. }
        | NbdError::Waiting { .. }
        | NbdError::Busy { .. }
        | NbdError::NotRecoverable { .. } => FailureCode::Refused,
        NbdError::WriteBack { .. } | NbdError::Io { .. } => FailureCode::Io,
    };
    let advice = match error {
        NbdError::Leftover { .. } => LEFT,
        NbdError::TooOld => "; use --ack memory, or another --via",
        NbdError::Unlike { .. } | NbdError::Waiting { .. } | NbdError::NotRecoverable { .. } => "",
        _ => "; or use another --via",
    };
    CommandFailure::new(code, format!("{error}{advice}"))
}

fn ublk_failed(error: UblkError) -> CommandFailure {
    use UblkError as E;
    match &error {
        E::NoDriver | E::TooOld => {
            CommandFailure::not_found(format!("{error}; or use another --via"))
        }
        E::Forbidden => CommandFailure::io(format!("{error}; or use another --via")),
        E::Dead { .. } => CommandFailure::refused(format!("{error}{LEFT}")),
        E::Served { .. } | E::Unlike { .. } | E::Waiting { .. } | E::Busy { .. } => {
            CommandFailure::refused(error)
        }
        E::NotRecoverable { .. } | E::FixedLength { .. } => CommandFailure::refused(error),
        E::NoMemory | E::WriteBack { .. } | E::Io { .. } => CommandFailure::io(error),
    }
}
