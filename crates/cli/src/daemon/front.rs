//! The front end, which makes a block device or a mounted filesystem of the volume.

use std::pin::Pin;
use std::rc::Rc;

use forebay_device::{Device, Geometry};
use forebay_os::isolated;
use forebay_serve::blockdev::{
    AttachError, CleanupError, DetachError, Held, InUse, LoopOptions, LoopVolume, NbdDevice,
    NbdError, NbdOptions, UblkDevice, UblkError, UblkOptions, attach_loop, attach_nbd, attach_ublk,
    cleanup_stale, clear_nbd_leftover, clear_ublk_leftover, no_nbd_leftover, ublk_usable,
};
use forebay_serve::nbd::Server;
use forebay_stack::Via;

use super::Place;
use super::mount::{MountFront, MountPlan};
use super::via::best_available;
use crate::waiting;
use forebay_program::failure::{Code, Failure, Outcome};

/// The front end of the volume, besides the NBD server.
pub(super) enum Front {
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
pub(super) enum How {
    /// As a block device, by this front end.
    Block(Via),
    /// As a filesystem.
    Mount(MountPlan),
}

impl Front {
    /// Makes the block device, or takes over the device that the previous daemon left.
    pub(super) async fn start(
        place: Place<'_>,
        via: Via,
        device: &Rc<dyn Device>,
        server: &Server,
    ) -> Outcome<Front> {
        let id = place.volume.id();
        let volume = waiting::number_of(&id);
        if via != Via::Ublk {
            let cleared = clear_ublk_leftover(place.rt, volume).await;
            cleared.map_err(ublk_failed)?;
        }
        if via != Via::Nbd {
            let cleared = clear_nbd_leftover(&id).await;
            cleared.map_err(|error| nbd_failed(&error))?;
        }
        match via {
            Via::None | Via::Auto => Ok(Front::None),
            Via::Ublk => {
                clear_other_leftovers(place).await?;
                let options = UblkOptions {
                    volume,
                    recoverable: place.volume.survives_kill(),
                };
                let device = Rc::clone(device);
                let attached = attach_ublk(place.rt, place.ring, device, place.memory, options);
                attached.await.map(Front::Ublk).map_err(ublk_failed)
            }
            Via::Nbd => {
                clear_other_leftovers(place).await?;
                let options = NbdOptions {
                    volume: &id,
                    name: place.name.as_str(),
                    runtime_dir: place.dirs.make_runtime()?,
                    recoverable: place.volume.survives_kill(),
                };
                let attached = attach_nbd(place.rt, place.ring, server, options).await;
                attached.map(Front::Nbd).map_err(|error| nbd_failed(&error))
            }
            Via::Loop => {
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
                    .map(|volume| Front::Loop(Box::new(volume)))
                    .map_err(|error| loop_failed(&error))
            }
        }
    }

    /// Returns the name of the front end.
    pub(super) fn via(&self) -> &'static str {
        match self {
            Front::None => "none",
            Front::Loop(_) => "loop",
            Front::Nbd(_) => "nbd",
            Front::Ublk(_) => "ublk",
            Front::Mount(..) => "mount",
        }
    }

    /// Returns a handle that shows if the block device still exists.
    pub(super) fn held(&self) -> Option<Held> {
        match self {
            Front::None | Front::Mount(..) => None,
            Front::Loop(volume) => volume.held(),
            Front::Nbd(device) => Some(device.held()),
            Front::Ublk(device) => Some(device.held()),
        }
    }

    /// Returns the directory where a filesystem is mounted.
    pub(super) fn mounted(&self) -> Option<String> {
        match self {
            Front::Mount(mount, _) => Some(mount.dir()),
            _ => None,
        }
    }

    /// Returns true if the requests of a filesystem come through io_uring. `None` for a block device.
    pub(super) fn is_by_ring(&self) -> Option<bool> {
        match self {
            Front::Mount(mount, _) => Some(mount.is_by_ring()),
            _ => None,
        }
    }

    /// Returns a handle that waits until another program has unmounted the filesystem. `None` for a block device.
    pub(super) fn over(&self) -> Option<forebay_serve::fuse::Over> {
        match self {
            Front::Mount(mount, _) => Some(mount.over()),
            _ => None,
        }
    }

    /// Returns a note for the user about the start, if any.
    pub(super) fn note(&self) -> Option<String> {
        let (path, resumed) = match self {
            Front::Ublk(device) => (device.path(), device.is_resumed()),
            Front::Nbd(device) => (device.path(), device.is_resumed()),
            Front::Mount(mount, true) => {
                let dir = mount.dir();
                return Some(format!(
                    "a daemon that was killed had left {dir} mounted and dead; that is let go of"
                ));
            }
            Front::None | Front::Loop(_) | Front::Mount(..) => return None,
        };
        let path = path.display();
        match (resumed, self.is_outlived()) {
            (true, _) => Some(format!("took up {path} as the daemon before left it")),
            (false, true) => None,
            (false, false) => Some(format!(
                "durability is \"flush\": if this daemon is killed, {path} gives errors and cannot be taken \
                 up again"
            )),
        }
    }

    /// Returns true if the block device outlives this process and waits for the next daemon.
    pub(super) fn is_outlived(&self) -> bool {
        match self {
            Front::Ublk(device) => device.is_recoverable(),
            Front::Nbd(device) => device.is_recoverable(),
            Front::None | Front::Loop(_) | Front::Mount(..) => false,
        }
    }

    /// Leaves the block device to the next daemon of the volume, without errors for its users. Returns when no request
    /// is in progress.
    pub(super) async fn hand_over(&self) -> Outcome {
        match self {
            Front::Ublk(device) => device.hand_over().await.map_err(ublk_failed),
            Front::Nbd(device) => device.hand_over().map_err(|error| nbd_failed(&error)),
            Front::None | Front::Loop(_) | Front::Mount(..) => Err(Failure::refused(format!(
                "only a ublk or nbd device can be handed over, and this volume is served via {}",
                self.via()
            ))),
        }
    }

    /// Makes requests that can wait for the next daemon wait, instead of failing them.
    pub(super) fn let_wait(&self) {
        match self {
            Front::Ublk(device) => device.let_wait(),
            Front::Nbd(device) => device.let_wait(),
            Front::None | Front::Loop(_) | Front::Mount(..) => {}
        }
    }

    /// Checks that the block device is not in use, without changing anything.
    pub(super) async fn check_unused(&self) -> Outcome {
        match self {
            Front::None | Front::Mount(..) => Ok(()),
            Front::Loop(volume) => volume.check_unused().await.map_err(loop_used),
            Front::Nbd(device) => device.check_unused().await.map_err(nbd_used),
            Front::Ublk(device) => device.check_unused().await.map_err(ublk_used),
        }
    }

    /// Tells the kernel that the volume became longer. `None` for a volume without a block device.
    pub(super) fn resize(
        &self,
        volume: &str,
        geometry: &Geometry,
    ) -> Option<Pin<Box<dyn Future<Output = Outcome>>>> {
        Some(match self {
            Front::None | Front::Mount(..) => return None,
            Front::Loop(volume) => {
                let resized = volume.resize();
                Box::pin(async { resized.await.map_err(Failure::io) })
            }
            Front::Nbd(device) => {
                let resized = device.resize(volume, geometry);
                Box::pin(async { resized.await.map_err(|error| nbd_failed(&error)) })
            }
            Front::Ublk(device) => {
                let resized = device.resize(geometry.len);
                Box::pin(async { resized.await.map_err(ublk_failed) })
            }
        })
    }

    /// Removes the block device. If the device is in use, changes nothing and returns a failure that names the user.
    /// Afterwards this is [`Front::None`].
    pub(super) async fn stop(&mut self) -> Outcome {
        match self {
            Front::None => return Ok(()),
            Front::Mount(mount, _) => mount.stop().await?,
            Front::Loop(volume) => volume.detach().await.map_err(loop_used)?,
            Front::Nbd(device) => device.detach().await.map_err(nbd_used)?,
            Front::Ublk(device) => device.detach().await.map_err(ublk_used)?,
        }
        *self = Front::None;
        Ok(())
    }
}

/// Removes the leftover loop or nbd device of a killed daemon, or fails if it is in use. Attaching through the same
/// front end does this by itself.
async fn clear_other_leftovers(place: Place<'_>) -> Outcome {
    let (dir, name) = (
        place.dirs.make_runtime()?.to_owned(),
        place.name.to_string(),
    );
    no_nbd_leftover(&dir, &name).map_err(|error| nbd_failed(&error))?;
    let cleaned = isolated(move || cleanup_stale(&dir, &name, InUse::Refuse)).await;
    let cleaned = cleaned.map_err(Failure::io)?;
    let failed = |error| loop_failed(&AttachError::Leftovers(error));
    cleaned.map(drop).map_err(failed)
}

fn loop_used(error: DetachError) -> Failure {
    match error {
        DetachError::Busy { .. } | DetachError::FileBusy { .. } => still_used(&error),
        error => Failure::io(error),
    }
}

fn nbd_used(error: NbdError) -> Failure {
    match error {
        NbdError::Busy { .. } => still_used(&error),
        error => Failure::io(error),
    }
}

fn ublk_used(error: UblkError) -> Failure {
    match error {
        UblkError::Busy { .. } => still_used(&error),
        error => Failure::io(error),
    }
}

fn still_used(error: &dyn std::fmt::Display) -> Failure {
    Failure::refused(format!("{error}; unmount or close it first"))
}

/// Returns the best available front end for [`Via::Auto`], otherwise the given one; and a note for the user.
///
/// # Errors
/// If the front end that the user chose is known to be unavailable.
pub(super) fn choose(via: Via) -> Outcome<(Via, Option<String>)> {
    match via {
        Via::Auto => {
            let choice = best_available();
            Ok((choice.via, Some(format!("front end: {choice}"))))
        }
        Via::Ublk => {
            ublk_usable().map_err(ublk_failed)?;
            Ok((via, None))
        }
        Via::Nbd | Via::Loop | Via::None => Ok((via, None)),
    }
}

/// Advice for a stale block device that is still in use.
const LEFT: &str = " (left by a daemon that was killed); unmount it, then attach again";

fn loop_failed(error: &AttachError) -> Failure {
    let code = match error {
        AttachError::Leftovers(CleanupError::Io { .. }) => Code::Io,
        AttachError::Leftovers(_) => Code::Refused,
        _ => Code::Io,
    };
    let advice = match error {
        AttachError::Leftovers(CleanupError::InUse { .. }) => LEFT,
        AttachError::Leftovers(_) => "",
        _ => "; serve NBD clients only with --via none",
    };
    Failure::new(code, format!("{error}{advice}"))
}

fn nbd_failed(error: &NbdError) -> Failure {
    let code = match error {
        NbdError::NoDriver => Code::NotFound,
        NbdError::TooOld
        | NbdError::NoneFree { .. }
        | NbdError::Leftover { .. }
        | NbdError::Unlike { .. }
        | NbdError::Waiting { .. }
        | NbdError::Busy { .. }
        | NbdError::NotRecoverable { .. } => Code::Refused,
        NbdError::WriteBack { .. } | NbdError::Io { .. } => Code::Io,
    };
    let advice = match error {
        NbdError::Leftover { .. } => LEFT,
        NbdError::TooOld => "; use --durability flush, or another --via",
        NbdError::Unlike { .. } | NbdError::Waiting { .. } | NbdError::NotRecoverable { .. } => "",
        _ => "; or use another --via",
    };
    Failure::new(code, format!("{error}{advice}"))
}

fn ublk_failed(error: UblkError) -> Failure {
    use UblkError as E;
    match &error {
        E::NoDriver | E::TooOld => Failure::not_found(format!("{error}; or use another --via")),
        E::Forbidden => Failure::io(format!("{error}; or use another --via")),
        E::Dead { .. } => Failure::refused(format!("{error}{LEFT}")),
        E::Served { .. } | E::Unlike { .. } | E::Waiting { .. } | E::Busy { .. } => {
            Failure::refused(error)
        }
        E::NotRecoverable { .. } | E::FixedLength { .. } => Failure::refused(error),
        E::NoMemory | E::WriteBack { .. } | E::Io { .. } => Failure::io(error),
    }
}
