//! What makes a block device of the volume.

use std::rc::Rc;

use forebay_device::Device;
use forebay_os::Ring;
use forebay_rt::Rt;
use forebay_serve::Memory;
use forebay_serve::blockdev::{
    AttachError, CleanupError, DetachError, LoopOptions, LoopVolume, NbdDevice, NbdError,
    attach_loop, attach_nbd,
};
use forebay_serve::nbd::Server;
use forebay_stack::{Name, Via};

use super::via::best_available;
use crate::dirs::Dirs;
use crate::failure::{Code, Failure, Outcome};

/// What is in front of the volume besides the NBD server.
pub(super) enum Front {
    /// Nothing.
    None,
    /// A loop device over a FUSE file.
    Loop(Box<LoopVolume>),
    /// The kernel's NBD client.
    Nbd(NbdDevice),
}

/// Where a front end works.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) rt: &'a Rt,
    pub(super) ring: &'a Rc<Ring>,
    pub(super) dirs: &'a Dirs,
    pub(super) memory: &'a Memory,
    pub(super) name: &'a Name,
}

impl Front {
    /// Makes the block device.
    pub(super) async fn start(
        place: Place<'_>,
        via: Via,
        device: &Rc<dyn Device>,
        server: &Server,
    ) -> Outcome<Front> {
        match via {
            Via::None | Via::Auto => Ok(Front::None),
            Via::Ublk => Err(Failure::refused(
                "there is no ublk front end yet; use --via loop, nbd or none",
            )),
            Via::Nbd => {
                let attached = attach_nbd(
                    place.rt,
                    place.ring,
                    server,
                    place.dirs.make_runtime()?,
                    place.name.as_str(),
                )
                .await;
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

    /// The choice by its name.
    pub(super) fn via(&self) -> &'static str {
        match self {
            Front::None => "none",
            Front::Loop(_) => "loop",
            Front::Nbd(_) => "nbd",
        }
    }

    /// The block device's path.
    pub(super) fn block_device(&self) -> Option<String> {
        let path = match self {
            Front::None => return None,
            Front::Loop(volume) => volume.path(),
            Front::Nbd(device) => device.path(),
        };
        Some(path.display().to_string())
    }

    /// Takes the block device away. If somebody uses it, nothing happens but the failure that says
    /// who. Afterwards this is [`Front::None`].
    pub(super) async fn stop(&mut self) -> Outcome {
        match self {
            Front::None => return Ok(()),
            Front::Loop(volume) => volume.detach().await.map_err(|error| match error {
                DetachError::Busy { .. } | DetachError::FileBusy { .. } => still_used(&error),
                error => Failure::io(error),
            })?,
            Front::Nbd(device) => device.detach().await.map_err(|error| match error {
                NbdError::Busy { .. } => still_used(&error),
                error => Failure::io(error),
            })?,
        }
        *self = Front::None;
        Ok(())
    }
}

fn still_used(error: &dyn std::fmt::Display) -> Failure {
    Failure::refused(format!("{error}; unmount or close it first"))
}

/// The best there is on this system, if the choice is ours; what the user should know of it goes to
/// `notes`.
pub(super) fn choose(via: Via, notes: &mut Vec<String>) -> Via {
    if via != Via::Auto {
        return via;
    }
    let choice = best_available();
    notes.push(format!("front end: {choice}"));
    choice.via
}

/// What to do about a dead block device that is still in use.
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
        NbdError::NoneFree { .. } | NbdError::Busy { .. } | NbdError::Leftover { .. } => {
            Code::Refused
        }
        NbdError::Io { .. } => Code::Io,
    };
    let advice = match error {
        NbdError::Leftover { .. } => LEFT,
        _ => "; or use another --via",
    };
    Failure::new(code, format!("{error}{advice}"))
}
